"""Compares kernels that use dictionaries, enumerations, dataclasses and tuples with the same functions in plain Python."""

import pytest
from python_meaning import same, same_on_the_emulator
from python_values import FUNCTIONS

NUMBERS = [5, 2, 6, 9]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_a_kernel_does_as_python(function):
    same(function, *NUMBERS)


@pytest.mark.at_home
def test_on_the_emulator():
    same_on_the_emulator(FUNCTIONS, *NUMBERS[:2])
