"""examples/python: parts of models, beside float64, with gradients; on the emulator, too."""

import pytest
import torch
import torch.nn.functional as F
from programs_reference import compare
from python_examples import load, on_the_emulator

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SHAPES = [(5, 64), (3, 2, 100), (300, 33), (7, 1), (1, 5000), (9,), (), (0, 8), (4, 0), (2, 3, 4, 5)]
needs_cpu = pytest.mark.skipif(torch.get_default_device().type == "cuda", reason="the GPU itself runs them there")


def tensors(dtype, *shapes):
    return tuple(torch.randn(shape).to(dtype) for shape in shapes)


def refused(program, text, *arguments):
    with pytest.raises(ValueError) as error:
        program(*arguments)
    assert text in str(error.value)


def swiglu(gate, up):
    return F.silu(gate) * up


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_swiglu(shape, dtype):
    compare(load("swiglu").swiglu, swiglu, tensors(dtype, shape, shape))


def test_swiglu_of_halves_and_strides():
    (x,) = tensors(torch.float32, (3, 40, 50))
    compare(load("swiglu").swiglu, swiglu, x.chunk(2, -1))
    compare(load("swiglu").swiglu, swiglu, (x.mT, x.mT[:, :, 3:4].expand(3, 50, 40)))


def test_swiglu_far_from_zero():
    gate = torch.tensor([-1e4, -100.0, -20.0, -0.0, 20.0, 100.0, 1e4])
    compare(load("swiglu").swiglu, swiglu, (gate, torch.ones(7)))


@needs_cpu
def test_swiglu_on_the_emulator():
    with on_the_emulator() as ran:
        compare(load("swiglu").swiglu, swiglu, tensors(torch.bfloat16, (3, 70), (3, 70)))
    assert ran == ["forward_kernel", "backward_kernel"]


def test_swiglu_is_an_operator():
    gate, up = (each.requires_grad_() for each in tensors(torch.float32, (4, 30), (4, 30)))
    program = load("swiglu").swiglu
    torch.library.opcheck(program.overload, (gate, up))
    refused(program, "swiglu: gate is [4, 30], up [30]; pass two of one shape", gate, up[0])
    text = "swiglu: gate is torch.float32, up torch.float16; pass one of float32, float16 and bfloat16"
    refused(program, text, gate, up.half())
