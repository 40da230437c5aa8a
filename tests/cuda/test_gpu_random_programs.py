"""Random programs on a GPU, with and without passes, against torch's evaluation of the same statements; what fails is
made small."""

import functools

import on_device
import pytest
from cpu.test_random_programs import mistake
from random_meaning import DTYPES
from random_program import Program
from random_shrink import shrink
from tile_ops import _C

GROUPS = 20


def run(program, passes, run_ir):
    return mistake(program, program.evaluate(), passes, 255, run_ir)


def report(seed, passes, text, run_ir):
    """Returns the mistake and the program, made small."""
    program = Program(seed)
    ir, failed = program.text, f"seed {seed}, {text}"
    if "bound" not in text and "next to" not in text:  # after some errors nothing runs any more
        return f"{failed}\n{ir}"
    small = shrink(program, lambda each: not run(each, passes, _C.run_ir) and run(each, passes, run_ir))
    return f"{failed}\n{ir}\nsmaller: {run(small, passes, run_ir)}\n{small.text}"


@pytest.mark.parametrize("group", range(GROUPS))
def test_random_programs(group, device, long):
    run_ir = functools.partial(on_device.run_ir, device)
    for seed in range(group, 2000 if long else 60, GROUPS):
        program = Program(seed)
        expected = program.evaluate()
        for passes in (False, True):
            if text := mistake(program, expected, passes, 0 if (seed + passes) % 2 else 255, run_ir):
                pytest.fail(report(seed, passes, text, run_ir))


def test_every_dtype_is_among_them():
    assert {array.dtype for seed in range(60) for array in Program(seed).arrays} == set(DTYPES)


def test_what_fails_is_made_small(device):
    def run_ir(text, grid, arguments, passes):
        on_device.run_ir(device, text.replace(" maximum ", " minimum "), grid, arguments, passes)

    found = ((seed, run(Program(seed), True, run_ir)) for seed in range(1000))
    seed, text = next((seed, text) for seed, text in found if text and "bound" in text)
    small = report(seed, True, text, run_ir).split("\nsmaller: ")[1]
    assert " maximum " in small and len(small.splitlines()) < 20, small
