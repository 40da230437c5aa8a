"""Random programs made for a GPU, with and without passes, run by the emulator, against torch's evaluation of the same
statements."""

import emulate
import pytest
import torch
from cpu.test_random_programs import far_apart, mistake, surrounded
from derive.random_derived import OwnedProgram
from random_program import Program
from random_shrink import shrink

GROUPS = 4


def what_is_wrong(program, passes, placed):
    return mistake(program, program.evaluate(), passes, 255 if passes else 0, emulate.run_ir, placed)


def run(seeds, placed):
    programs = {seed: Program(seed) for seed in seeds}
    arrays = {seed: [placed(array.tensor, 0)[0] for array in program.arrays] for seed, program in programs.items()}
    cases = [emulate.Case(p.text, p.grid, arrays[seed], passes) for seed, p in programs.items() for passes in (False, True)]
    emulate.functions([case.program for case in cases])  # at once
    for seed, program in programs.items():
        for passes in (False, True):
            if what_is_wrong(program, passes, placed):
                program = shrink(program, lambda smaller: what_is_wrong(smaller, passes, placed))
                pytest.fail(f"seed {seed}, made smaller: {what_is_wrong(program, passes, placed)}\n{program.text}")


@pytest.mark.parametrize(
    "group", [0, pytest.param(1, marks=pytest.mark.slow), *(pytest.param(k, marks=pytest.mark.long) for k in range(2, GROUPS))]
)
def test_random_programs(group, long):
    run(range(group, 1000 if long else 100, GROUPS), surrounded)


@pytest.mark.slow
def test_strides_beyond_int32(long):
    run(range(100 if long else 4), far_apart)


def test_programs_whose_loops_carry_permuted_tiles(long):
    """Several layouts meet in one variable where loops carry tiles that are permuted and reshaped."""
    programs = [OwnedProgram(seed) for seed in range(600 if long else 60)]
    arguments, expected = [], []
    for seed, program in enumerate(programs):
        torch.manual_seed(seed)
        inputs = [torch.randn(sizes, dtype=torch.float64) for _, _, sizes in program.inputs]
        expected.append(program.evaluate(inputs))
        arguments.append([*inputs, *(torch.zeros_like(each) for each in expected[-1])])
    cases = [emulate.Case(p.text, p.grid, given, True) for p, given in zip(programs, arguments)]
    emulate.functions([case.program for case in cases])  # at once
    for program, given, results in zip(programs, arguments, expected):
        emulate.run_ir(program.text, program.grid, given, True)
        torch.testing.assert_close(given[-len(results) :], results, rtol=1e-9, atol=1e-9)
