"""Runs the litmus tests of memory order: many launches of many blocks, on one to four CPU threads or on a GPU."""

import litmus
import pytest
import torch
from threads import with_torch_threads
from tile_ops import _C

BLOCKS, SIZE = 48, 1024  # enough work for more than one thread


def launch(name, passes):
    program = litmus.CASES[name](BLOCKS, SIZE)
    _C.run_ir(program.text, program.grid, program.arguments, passes)
    return program.check(program.arguments)


@pytest.mark.parametrize("name", litmus.CASES)
def test_what_may_be_seen(name, long):
    def launches():
        for repeat in range(400 if long else 8):
            if (wrong := launch(name, passes=bool(repeat % 2))) is not None:
                return f"launch {repeat}: {wrong}"

    counts = range(1, 5)
    for threads, wrong in zip(counts, with_torch_threads(counts, launches)):
        assert wrong is None, f"{threads} threads, {wrong}\n{litmus.CASES[name](2, 8).text}"


@pytest.mark.parametrize("name", ["lock", "turns", "look-back"])
def test_tiles_of_other_sizes(name):
    """Tests tiles of one element, and of more elements than one chunk of a fused loop."""
    for size in (1, 20000):
        for passes in (False, True):
            program = litmus.CASES[name](16, size)
            with_torch_threads((2,), lambda p=program, passes=passes: _C.run_ir(p.text, p.grid, p.arguments, passes))
            assert program.check(program.arguments) is None, program.check(program.arguments)


def test_the_programs_tell_what_is_wrong():
    program = litmus.CASES["lock"](4, 8)
    _C.run_ir(program.text.replace("add %p, %n", "sub %p, %n"), program.grid, program.arguments)
    assert program.check(program.arguments).endswith("elements are wrong")
    assert torch.equal(program.arguments[1].cpu(), program.arguments[0].cpu())
