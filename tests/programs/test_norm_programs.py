"""examples/python: the norms, beside float64, with gradients; on the emulator, too."""

import pytest
import torch
import torch.nn.functional as F
from programs_reference import compare
from python_examples import load, on_the_emulator

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
needs_cpu = pytest.mark.skipif(torch.get_default_device().type == "cuda", reason="the GPU itself runs them there")


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def tensors(shape, dtype):
    return torch.randn(shape).mul(2).add(0.3).to(dtype), torch.randn(shape[-1]).to(dtype), torch.randn(shape[-1]).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 64), (3, 2, 100), (300, 33), (7, 1), (1, 513), (9,), (0, 8)])
def test_layer_norm(shape, dtype):
    compare(load("layer_norm").layer_norm, layer_norm, tensors(shape, dtype))


def test_layer_norm_of_strided_rows():
    x, w, b = tensors((6, 50), torch.float32)
    compare(load("layer_norm").layer_norm, layer_norm, (torch.stack([x, x], -1)[..., 0].mT.contiguous().mT, w, b))


@needs_cpu
def test_layer_norm_on_the_emulator():
    with on_the_emulator() as ran:
        compare(load("layer_norm").layer_norm, layer_norm, tensors((5, 100), torch.float16))
    assert set(ran) == {"forward_kernel", "backward_kernel", "sum_kernel"}


def test_layer_norm_is_an_operator():
    x, w, b = (each.requires_grad_() for each in tensors((4, 30), torch.float32))
    program = load("layer_norm").layer_norm
    torch.library.opcheck(program.overload, (x, w, b))
    with pytest.raises(ValueError) as error:
        program(x, w, b[:5])
    assert ("layer_norm: x is [4, 30], weight [30], bias [5]; pass [..., columns] of up to 16384 columns, [columns] and "
            "[columns]") in str(error.value)  # fmt: skip
