"""examples/python: parts of models, against float64, with gradients; on the emulator, too."""

import numpy
import philox
import pytest
import torch
import torch.nn.functional as F
from programs_reference import compare
from python_examples import load, on_the_emulator

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SHAPES = [(5, 64), (3, 2, 100), (300, 33), (7, 1), (1, 5000), (9,), (), (0, 8), (4, 0), (2, 3, 4, 5)]


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


@pytest.mark.at_home
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


def rope(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


def compare_rope(x, cos, sin):
    """cos and sin have no gradients."""
    compare(lambda x: load("rope").rope(x, cos, sin), lambda x: rope(x, cos.to(x.dtype), sin.to(x.dtype)), (x,))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(2, 3, 50, 64), (1, 1, 1, 2), (2, 1, 300, 20), (1, 2, 9, 6000), (0, 2, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)]
)
def test_rope(shape, dtype):
    (x,) = tensors(dtype, shape)
    compare_rope(x, *load("rope").tables(*shape[2:]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_rope_of_strided_tensors(dtype):
    x, cos, sin = tensors(dtype, (2, 30, 3, 20), (10, 30), (10, 30))
    compare_rope(x.transpose(1, 2), cos.mT, sin.mT)
    compare_rope(x[:1, :, :, ::2].transpose(1, 2).expand(4, 3, 30, 10), cos.mT[:, :5], sin.mT[:, ::2])


def test_rope_keeps_products_of_equal_distances():
    """The product of rows at positions i and j is that of rows at i + 7 and j + 7, which is why models rotate them."""
    q, k = tensors(torch.float32, (1, 1, 1, 40), (1, 1, 1, 40))
    turned = [load("rope").rope(each.expand(1, 1, 60, 40), *load("rope").tables(60, 40)) for each in (q, k)]
    scores = (turned[0] @ turned[1].mT)[0, 0]
    torch.testing.assert_close(scores[7:, 7:], scores[:-7, :-7], rtol=1e-4, atol=1e-4)


@pytest.mark.at_home
def test_rope_on_the_emulator():
    with on_the_emulator() as ran:
        compare_rope(tensors(torch.float16, (2, 2, 40, 20))[0], *load("rope").tables(40, 20))
    assert ran == ["rope_kernel"] * 2


def test_rope_is_an_operator():
    x, cos, sin = tensors(torch.float32, (2, 3, 4, 6), (4, 3), (4, 3))
    program = load("rope").rope
    torch.library.opcheck(program.overload, (x.requires_grad_(), cos, sin))
    text = ("rope: x is [2, 3, 4, 6], cos [4, 3], sin [3, 4]; pass [batch, heads, length, depth] of an even depth, and "
            "twice [length, depth / 2]")  # fmt: skip
    refused(program, text, x, cos, sin.mT)
    refused(program, "rope: x is [2, 3, 4, 5], cos [4, 3]", x[..., 1:], cos, sin)
    text = "rope: x is torch.float32, cos torch.float64, sin torch.float32; pass float32, float16 or bfloat16"
    refused(program, text, x, cos.double(), sin)


def seed_of(number):
    return torch.tensor([number], dtype=torch.int64)


def dropout(x, p, seed):
    """By a Philox of its own, which NumPy computes."""
    numbers = philox.uniform(seed.item() % 2**64, numpy.arange(x.numel()), torch.float32)
    return torch.where((numbers >= p).reshape(x.shape).to(x.device), x / (1 - p) if p < 1 else x * 0, x * 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.0, 0.25, 0.9, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_dropout(shape, p, dtype):
    seed, (x,) = seed_of(1234567890123456789), tensors(dtype, shape)
    compare(lambda x: load("dropout").dropout(x, p, seed), lambda x: dropout(x, p, seed), (x,))


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, -(2**63)])
def test_dropout_of_strides_and_any_seed(number):
    seed, (x,) = seed_of(number), tensors(torch.float32, (40, 70, 2))
    compare(lambda x: load("dropout").dropout(x, 0.5, seed), lambda x: dropout(x, 0.5, seed), (x[:, ::3, 1].mT,))


def test_dropout_draws_the_same_again_and_may_be_differentiated_twice():
    (x,) = tensors(torch.float32, (100, 100))
    program, x = load("dropout").dropout, x.requires_grad_()
    out = program(x, 0.5, seed_of(3))
    assert torch.equal(out, program(x, 0.5, seed_of(3))) and not torch.equal(out, program(x, 0.5, seed_of(4)))
    assert 0.47 < (out == 0).double().mean() < 0.53
    weights = torch.ones_like(x, requires_grad=True)
    (grad,) = torch.autograd.grad((out * weights).sum(), x, create_graph=True)
    (again,) = torch.autograd.grad(grad.sum(), weights)
    assert torch.equal(again, program(torch.ones_like(x), 0.5, seed_of(3)))


@pytest.mark.at_home
def test_dropout_on_the_emulator():
    seed, (x,) = seed_of(99), tensors(torch.float16, (50, 60))
    with on_the_emulator() as ran:
        compare(lambda x: load("dropout").dropout(x, 0.3, seed), lambda x: dropout(x, 0.3, seed), (x,))
    assert ran == ["dropout_kernel"] * 2


def test_dropout_is_an_operator():
    seed, (x,) = seed_of(5), tensors(torch.float32, (4, 30))
    program = load("dropout").dropout
    torch.library.opcheck(program.overload, (x.requires_grad_(), 0.5, seed))
    refused(program, "dropout: p is 1.5; pass a number from 0 to 1", x, 1.5, seed)
    refused(program, "dropout: seed is [1] of torch.int32; pass [1] of torch.int64", x, 0.5, seed.int())
    refused(program, "dropout: x is torch.float64; pass float32, float16 or bfloat16", x.double(), 0.5, seed)
