"""What plain Python functions do with dictionaries, enumerations, dataclasses and tuples, kernels do, too."""

import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator
from python_values import FUNCTIONS

NUMBERS = [5, 2, 6, 9]


def kernel_of(function):
    @tl.kernel
    def kernel(out, n):
        tl.store(out, 0, function(n))

    return kernel


@tl.kernel
def all_of_them(out, n):
    for place in tl.static_iter(range(len(FUNCTIONS))):
        tl.store(out, place, FUNCTIONS[place](n))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_a_kernel_does_as_python(function):
    kernel = kernel_of(function)
    for n in NUMBERS:
        launched, debugged = torch.zeros(2, 1)
        kernel[1](launched, n)
        kernel.debug(1, debugged, n)
        assert (launched.item(), debugged.item()) == (function(n), function(n)), n


@pytest.mark.skipif(torch.get_default_device().type == "cuda", reason="the GPU itself runs them there")
def test_on_the_emulator():
    for n in NUMBERS[:2]:
        out = torch.zeros(len(FUNCTIONS))
        with on_the_emulator(chips=(90,)) as ran:
            all_of_them[1](out, n)
        assert ran == ["all_of_them"] and out.tolist() == [function(n) for function in FUNCTIONS]
