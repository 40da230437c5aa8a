"""Whole kernels in Python: on the suite's device, and as a GPU would run them on the emulator."""

import pytest
import torch
from python_programs import PROGRAMS


def close(got, want):
    tolerance = {torch.float32: 2e-5, torch.bfloat16: 2e-2}.get(got.dtype, 0)
    torch.testing.assert_close(got.double(), want.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    kernel, grid, arguments, wanted = PROGRAMS[name]()
    kernel[grid](*arguments)
    for index, want in wanted.items():
        close(arguments[index], want)


@pytest.mark.parametrize("name", ["vector_add", "softmax"])
def test_a_second_launch_with_other_sizes_compiles_nothing(name):
    kernel, grid, arguments, _ = PROGRAMS[name]()
    kernel[grid](*arguments)
    count = kernel.compiled_count
    assert count >= 1
    kernel[grid](*arguments)
    assert kernel.compiled_count == count


def test_strided_and_transposed_arguments():
    kernel, _, _, _ = PROGRAMS["vector_add"]()
    x, y = torch.randn(100, 2)[:, 1], torch.randn(1).expand(100)
    out = torch.full((300,), -1.0)
    kernel[1](x, y, out[::3], 128)
    close(out[::3], x + 2 * y)
    assert (out.reshape(100, 3)[:, 1:] == -1).all()


@pytest.mark.parametrize("size", [0, 1])
def test_no_elements_and_one(size):
    kernel, _, _, _ = PROGRAMS["vector_add"]()
    x, y, out = torch.randn(size), torch.randn(size), torch.empty(size)
    kernel[1](x, y, out, 8)
    close(out, x + 2 * y)
    kernel[0](x, y, out, 8)
