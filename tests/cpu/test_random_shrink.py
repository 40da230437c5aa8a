"""A random program that fails is made small: on a machine that takes one primitive for another, what is left holds that
primitive."""

import pytest
from cpu.test_random_programs import mistake
from random_program import Program
from random_shrink import shrink
from tile_ops import _C


MANY = [("maximum", "minimum"), ("reduce_sum", "reduce_max")]  # many programs have them


@pytest.mark.parametrize(
    "name, other", [*(pytest.param(*each, marks=pytest.mark.slow) for each in MANY), ("abs", "neg"), ("sub", "add")]
)
def test_a_shrunk_program_still_fails(name, other):
    def run_ir(text, *rest):
        _C.run_ir(text.replace(f" {name} ", f" {other} "), *rest)

    def fails(program):
        expected = program.evaluate()
        return not mistake(program, expected, False, 0, _C.run_ir) and mistake(program, expected, False, 0, run_ir)

    programs = (Program(seed) for seed in range(1000))
    program = next(each for each in programs if f" {name} " in each.text and fails(each))
    before, after = program.text, shrink(program, fails).text
    assert fails(program) and f" {name} " in after
    assert len(after.splitlines()) <= 16, f"{before}\n{after}"
