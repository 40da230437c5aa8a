"""Random programs made for a GPU, with and without passes, run by the emulator, against torch's evaluation of the same statements."""

import pytest
from cpu.test_random_programs import differences, surrounded
from emulate import Case, numbered, run
from random_meaning import widened
from random_program import Program

PART = 25  # programs a test


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part, long):
    programs, cases, beside = [], [], []
    for seed in range(part, 2000 if long else 4 * PART, 4):
        program = Program(seed)
        for passes in (False, True):
            arrays, untouched = zip(*(surrounded(a.tensor, 0 if (seed + passes) % 2 else 255) for a in program.arrays))
            programs.append((seed, program))
            cases.append(Case(program.text, program.grid, list(arrays), passes))
            beside.append(untouched)
    for (seed, program), case, untouched, report in zip(programs, cases, beside, run(cases)):
        what = f"seed {seed}, passes {case.passes}"
        text = f"{numbered(program.text)}\n{case.program['text']}"
        assert report is None, f"{what}: {report}\n{text}"
        for array, got, same_beside, (x, bound) in zip(program.arrays, case.arguments, untouched, program.evaluate()):
            assert same_beside(), f"{what}: memory beside {array.name} was written\n{text}"
            wrong = differences(widened(got), x, bound)
            if wrong.any():
                at = tuple(wrong.nonzero()[0].tolist())
                pytest.fail(f"{what}: {array.name}{list(at)} of {array.dtype}{list(x.shape)} is {got[at].item()}, not {x[at].item()}; "
                            f"{int(wrong.sum())} wrong\n{text}")
