"""tile::softmax and tile::log_softmax: numerics over dtypes, axes and strides, what they owe torch, errors."""

import pytest
import tile_ops
import torch
from numerics import check, check_call
from opinfo import DTYPES, check_samples

pytestmark = pytest.mark.parametrize("name", ["softmax", "log_softmax"])
tile = torch.ops.tile


def operator(name):
    return getattr(tile, name)


def check_torchs(name, x, dim):
    """Asserts the numerics rule for a call."""
    sums = x.numel() // max(1, x.shape[dim]) if x.dim() else 1
    check_call(operator(name), getattr(torch, name), (x, dim), sums=sums)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("variant", ["", "with_dtype"])
def test_opinfo(name, dtype, variant):
    def ours(input, dim, dtype=None):
        return operator(name)(input, dim, dtype)

    check_samples(ours, name, dtype, variant)


SHAPES = [
    ((), 0),
    ((1,), 0),
    ((7,), -1),
    ((0, 5), 1),
    ((5, 0), 1),
    ((5, 0), 0),
    ((3, 1), 1),
    ((2, 63), 1),
    ((3, 64), 1),
    ((3, 65), 1),
    ((33, 513), 1),
    ((5, 4097), -1),
    ((2, 16385), 1),
    ((2, 40000), 1),
    ((2, 140000), 1),
    ((63, 2), 0),
    ((300, 5), 0),
    ((5, 300, 7), 1),
    ((2, 65, 257), 1),
    ((2, 3, 4, 5, 6), 2),
    ((2, 3, 4, 5, 6), 0),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, dim", SHAPES)
def test_shapes(name, shape, dim, dtype):
    x = torch.randn(shape).mul(4).to(dtype).requires_grad_()
    check_torchs(name, x, dim)


@pytest.mark.parametrize("dim", range(4))
@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 2, 3, 1), (2, 0, 3, 1), (1, 0, 2, 3)])
def test_orders_of_axes(name, order, dim):
    x = torch.randn(4, 5, 6, 70).permute(order).requires_grad_()
    check_torchs(name, x, dim)
    assert operator(name)(x, dim).stride() == x.stride()


@pytest.mark.parametrize("dim", range(5))
def test_gaps_and_many_slices(name, dim):
    # No two axes collapse into one, so the launch loops over the leading ones.
    x = torch.randn(4, 6, 8, 10, 12)[1:3, ::2, 1:6, ::3, 2:9].requires_grad_()
    check_torchs(name, x, dim)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_expanded(name, dim):
    x = torch.randn(4, 1, 5).expand(4, 6, 5).requires_grad_()
    check_torchs(name, x, dim)


@pytest.mark.parametrize("length", [5, 20000, 140000])
@pytest.mark.parametrize("dim", [0, 1])
def test_infinities_and_nan(name, length, dim):
    x = torch.randn(6, length)
    x[0, 1:] = -torch.inf
    x[1] = -torch.inf
    x[2, 3] = torch.inf
    x[3, 4] = torch.nan
    x[4, : length - 1] = -torch.inf
    x[5] = 1e30
    x = x if dim else x.t().contiguous()
    theirs = getattr(torch, name)
    check(operator(name)(x, dim), theirs(x, dim), theirs(x.double(), dim))


@pytest.mark.parametrize("source", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("result", DTYPES)
@pytest.mark.parametrize("shape, dim", [((3, 70), 1), ((70, 3), 0), ((2, 17000), 1), ((2, 40000), 1)])
def test_dtype_casts_first(name, source, result, shape, dim):
    x = (torch.randn(shape) * 3).to(source)
    y, theirs = operator(name)(x, dim, dtype=result), getattr(torch, name)
    reference = theirs(x.to(result).double(), dim)
    check(y, theirs(x, dim, dtype=result), reference)


def test_dtype_gradient_has_the_dtype_of_the_input(name):
    x = torch.randn(3, 70, dtype=torch.bfloat16, requires_grad=True)
    (grad,) = torch.autograd.grad(operator(name)(x, 1, dtype=torch.float32), x, torch.randn(3, 70))
    assert grad.dtype == torch.bfloat16


def test_backward_is_an_operator(name):
    y = operator(name)(torch.randn(3, 5, dtype=torch.double), 1)
    torch.library.opcheck(operator(f"{name}_backward"), (torch.randn(3, 5, dtype=torch.double), y, 1))


def test_scalar_under_vmap(name):
    x = torch.randn(4, dtype=torch.double)
    expected = torch.full((4,), 1.0 if name == "softmax" else 0.0, dtype=torch.double)
    assert torch.equal(torch.vmap(lambda t: operator(name)(t, 0))(x), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_gives_the_dtype_of_torch(name, dtype, device):
    x = torch.randn(3, 5, dtype=dtype)
    with torch.autocast(device.type, torch.bfloat16):
        assert operator(name)(x, 1).dtype == getattr(torch, name)(x, 1).dtype


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (
            lambda op, _: op(torch.ones(3, 4), 2),
            ValueError,
            "tile::NAME: dim 2 is out of range for 'input' of rank 2; give one in [-2, 1]",
        ),
        (
            lambda op, _: op(torch.ones(()), 1),
            ValueError,
            "tile::NAME: dim 1 is out of range for 'input' of rank 0; give one in [-1, 0]",
        ),
        (
            lambda op, _: op(torch.ones(3, dtype=torch.int64), 0),
            TypeError,
            "tile::NAME: 'input' is Long; NAME is computed in Half, BFloat16, Float or Double, pass dtype=torch.float32",
        ),
        (
            lambda op, _: op(torch.ones(3), 0, dtype=torch.int32),
            TypeError,
            "tile::NAME: dtype is Int; NAME is computed in Half, BFloat16, Float or Double, pass one of these",
        ),
        (
            lambda op, _: op(torch.ones(3, dtype=torch.complex64), 0, dtype=torch.float32),
            TypeError,
            "tile::NAME: 'input' is ComplexFloat; pass a real tensor",
        ),
        (
            lambda _, backward: backward(torch.ones(3, 4), torch.ones(3, 5), 1),
            ValueError,
            "tile::NAME_backward: 'grad_out' is Float[3, 4], but 'out' is Float[3, 5]; they must agree",
        ),
    ],
)
def test_errors(name, call, kind, text):
    with pytest.raises(kind) as error:
        call(operator(name), operator(f"{name}_backward"))
    assert str(error.value).splitlines()[0] == text.replace("NAME", name)


def test_package_forwards_the_name(name):
    assert getattr(tile_ops, name) is operator(name)
