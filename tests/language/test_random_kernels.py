"""Compares random functions run by Python with a launch, kernel.debug and the emulator."""

import pytest
from python_meaning import same, same_on_the_emulator
from random_kernels import function_of

GIVEN = [(3, 5, 1), (10, 2, -1), (0, 7, 2), (61, 44, -3)]
GROUPS = 4


def tried(seed, check):
    function, text = function_of(seed)
    try:
        check(function)
    except Exception as error:
        program = text[text.index("def program") :]
        pytest.fail(f"seed {seed}: {type(error).__name__}: {error}\n{program}")


@pytest.mark.parametrize("group", [0, *(pytest.param(group, marks=pytest.mark.slow) for group in range(1, GROUPS))])
def test_launches(group, long):
    for seed in range(group, 1000 if long else 80, GROUPS):
        tried(seed, lambda function: same(function, *GIVEN, debug=False))


def test_debug(long):
    for seed in range(2000, 2100 if long else 2006):
        tried(seed, lambda function: same(function, GIVEN[0], GIVEN[1]))


@pytest.mark.at_home
def test_on_the_emulator(long):
    for seed in range(3000, 3040 if long else 3004):
        tried(seed, lambda function: same_on_the_emulator([function], *GIVEN))
