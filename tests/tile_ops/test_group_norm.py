"""tile::group_norm: numerics over dtypes, shapes and memory orders, SiLU, what it owes torch, errors."""

import functools

import math

import pytest
import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F
from numerics import check_call
from opinfo import DTYPES, check_samples

op = torch.ops.tile.group_norm


def theirs(input, num_groups, weight=None, bias=None, eps=1e-5, *, activation="none"):
    own = bias if weight is not None else None  # torch's backward crashes on a bias alone
    if input.dim() > 1 and input.numel() == input.shape[0] * num_groups:  # F.group_norm refuses one value a group
        shape = *input.shape[:2], math.prod(input.shape[2:]), num_groups
        out = torch.native_group_norm(input.contiguous(), weight, own, *shape, eps)[0]
    else:
        out = F.group_norm(input, num_groups, weight, own, eps)
    if bias is not None and own is None:
        out = out + bias.to(out.dtype).view(-1, *[1] * (input.dim() - 2))
    return F.silu(out) if activation == "silu" else out


def parameters(channels, dtype, affine="wb"):
    return tuple(torch.randn(channels).to(dtype).requires_grad_() if name in affine else None for name in "wb")


@pytest.mark.parametrize("dtype", DTYPES)
def test_opinfo(dtype):
    check_samples(op, "nn.functional.group_norm", dtype)


SHAPES = [
    ((1, 1), 1),
    ((3, 6), 3),
    ((2, 1200), 2),
    ((0, 6, 5), 3),
    ((2, 6, 0), 3),
    ((2, 0, 3), 3),
    ((1, 1, 1, 3), 1),
    ((2, 6, 7), 2),
    ((1, 32, 32, 4), 32),
    ((1, 16, 1025), 1),
    pytest.param((1, 4, 150, 151), 2, marks=pytest.mark.slow),
    pytest.param((2, 63, 21, 39), 21, marks=pytest.mark.slow),
    ((2, 12, 3, 4, 5), 4),
    ((16, 48, 12, 8), 12),
    ((1, 600, 5, 5), 1),
    ((2, 320, 9, 15), 32),
    ((1, 640, 3, 43), 32),
    ((2, 130, 9, 16), 65),
    ((5, 8), 8),
]
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("shape, groups", SHAPES)
def test_shapes(shape, groups, activation, dtype):
    weight, bias = parameters(shape[1], dtype)
    x = torch.randn(shape).to(dtype)
    orders = [x] + ([x.contiguous(memory_format=FORMATS[x.dim()])] if x.dim() in FORMATS else [])
    for x in orders:
        x = x.detach().requires_grad_()
        if not x.numel():  # torch gives NaN for the parameters where the pixels are none: a sum of nothing is 0
            grads = torch.autograd.grad(op(x, groups, weight, bias, activation=activation).sum(), (x, weight, bias))
            assert [g.shape for g in grads] == [x.shape, weight.shape, bias.shape] and not any(g.any() for g in grads)
            continue
        check_call(op, theirs, (x, groups, weight, bias), {"activation": activation}, what=str(x.stride()))
        out = op(x, groups, weight, bias, activation=activation)
        assert out.stride() == torch.empty_like(x).stride()
        if out.numel():
            assert torch.autograd.grad(out.sum(), x)[0].stride() == torch.empty_like(x).stride()


@pytest.mark.parametrize("affine", ["", "w", "b"])
@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("shape", [(6, 6, 5, 7), pytest.param((1, 6, 200, 101), marks=pytest.mark.slow)])
def test_without_parameters(shape, activation, affine):
    for memory_format in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(shape).contiguous(memory_format=memory_format).requires_grad_()
        check_call(op, theirs, (x, 2, *parameters(6, torch.float32, affine)), {"activation": activation})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_mixed_dtypes(dtype, memory_format):
    x = torch.randn(2, 6, 5, 7).to(dtype).contiguous(memory_format=memory_format).requires_grad_()

    # torch takes both dtypes on the CPU alone.
    def peer(x, groups, weight, bias, **options):
        wide = x if x.is_cpu else x.to(weight.dtype)
        return theirs(wide, groups, weight, bias, **options).to(x.dtype)

    check_call(op, peer, (x, 3, *parameters(6, torch.float32)), {"activation": "silu"})


# Groups from 8192 elements on, whose gradient a CPU computes in one kernel: of a tile and of several, uneven ones.
LARGE = [((2, 12, 65, 64), 4), ((1, 70, 33, 31), 1), ((9, 34, 4999), 2), ((3, 6, 70, 59), 1), ((8, 1, 9000), 1)]


@pytest.mark.parametrize("dtype", [*DTYPES[:1], *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in DTYPES[1:])])
@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("shape, groups", LARGE)
def test_large_groups(shape, groups, activation, dtype):
    weight, bias = parameters(shape[1], dtype)
    x = torch.randn(shape).to(dtype).requires_grad_()
    check_call(op, theirs, (x, groups, weight, bias), {"activation": activation})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("affine", ["", "w", "b"])
def test_large_groups_without_parameters(affine, dtype):
    x = torch.randn(2, 6, 65, 66).to(dtype).requires_grad_()
    check_call(op, theirs, (x, 2, *parameters(6, dtype, affine)), {"activation": "silu"})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_large_groups_of_mixed_dtypes(dtype, device):
    x = torch.randn(2, 6, 65, 66).to(dtype).requires_grad_()

    def peer(x, *args, **options):
        return theirs(x if x.is_cpu else x.to(args[1].dtype), *args, **options).to(x.dtype)

    check_call(op, peer, (x, 3, *parameters(6, torch.float32)), {"activation": "silu"})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
def test_large_groups_of_other_strides(wanted, dtype):
    weight, bias = parameters(6, dtype)
    incoming = torch.randn(2, 1, 67, 1).to(dtype).expand(2, 6, 67, 66)
    for x in (torch.randn(4, 12, 70, 66)[1:3, ::2, 1:68], torch.randn(2, 1, 67, 1).expand(2, 6, 67, 66)):
        args = [t.detach().to(dtype).requires_grad_(w) for t, w in zip((x, weight, bias), wanted)]
        check_call(op, theirs, (args[0], 2, *args[1:]), {"activation": "silu"}, grad_outputs=[incoming])


def test_sums_of_a_large_group_are_exact():
    # Constant values have deviations of 0, so grad_weight is 0 and grad_bias counts.
    x, weight, bias = torch.full((1, 8, 70, 70), 3.0), torch.ones(8), torch.zeros(8)
    args = torch.ones_like(x), x, 2, weight, bias, "none", torch.full((1, 2), 3.0), torch.full((1, 2), 2.0), [True] * 3
    grad_x, grad_weight, grad_bias = torch.ops.tile.group_norm_backward(*args)
    assert not grad_x.any() and not grad_weight.any() and torch.equal(grad_bias, torch.full((8,), 4900.0))


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (1, 0, 2, 3), (2, 3, 0, 1), (3, 2, 1, 0)])
def test_orders_of_axes(order):
    x = torch.randn(4, 6, 8, 10).permute(order).requires_grad_()
    check_call(op, theirs, (x, 2, *parameters(x.shape[1], torch.float32)))
    assert op(x, 2).stride() == x.stride()


def test_gaps_and_expanded():
    for x in (torch.randn(4, 12, 9, 10)[1:3, ::2, 1:6, ::3], torch.randn(2, 1, 5, 1).expand(2, 6, 5, 7)):
        for given in (x, x.permute(0, 1, 3, 2)):
            check_call(op, theirs, (given.detach().requires_grad_(), 3, *parameters(6, torch.float32)))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_gradient_of_another_memory_order(memory_format):
    other = torch.channels_last if memory_format == torch.contiguous_format else torch.contiguous_format
    x = torch.randn(2, 6, 5, 7).contiguous(memory_format=memory_format).requires_grad_()
    incoming = torch.randn(2, 6, 5, 7).contiguous(memory_format=other)
    check_call(op, theirs, (x, 3, *parameters(6, torch.float32)), {"activation": "silu"}, grad_outputs=[incoming])


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shape", [(2, 6, 40, 50), (1, 4, 150, 151), (2, 8, 65, 64)])
def test_large_mean_small_variance(shape, memory_format):
    # The variance is 1e-8 of the squared mean: a sum of squares less the squared mean has no digit left of it.
    x = (torch.randn(shape) + 1e4).contiguous(memory_format=memory_format).requires_grad_()
    check_call(op, theirs, (x, 2, *parameters(shape[1], torch.float32)))


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
def test_gradient_of_one_argument(wanted):
    x, weight, bias = torch.randn(2, 6, 5), torch.randn(6), torch.randn(6)
    args = [t.requires_grad_(w) for t, w in zip((x, weight, bias), wanted)]
    check_call(op, theirs, (args[0], 3, *args[1:]), {"activation": "silu"})


double = functools.partial(torch.randn, dtype=torch.double)


@pytest.mark.parametrize("mask", [[True, True, True], [True, False, False], [False, True, False], [False, False, True]])
def test_backward_is_an_operator(mask):
    args = (double(2, 4, 3), double(2, 4, 3), 2, double(4), double(4), "silu", double(2, 2), double(2, 2), mask)
    torch.library.opcheck(torch.ops.tile.group_norm_backward, args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_gives_the_dtype_of_torch(dtype, device):
    x = torch.randn(3, 4, 5, dtype=dtype)
    with torch.autocast(device.type, torch.bfloat16):
        assert op(x, 2, torch.ones(4), torch.ones(4)).dtype == theirs(x, 2, torch.ones(4), torch.ones(4)).dtype


X = torch.ones(2, 6, 5)


@pytest.mark.parametrize(
    "args, kwargs, kind, text",
    [
        ((X, 4), {}, ValueError, "'input' has 6 channels, which num_groups=4 does not divide; give a divisor"),
        ((X, 0), {}, ValueError, "num_groups is 0; it must be at least 1"),
        ((torch.ones(6), 2), {}, ValueError, "'input' has 1 dimensions; it must have 2 to 5: [N, C, …]"),
        ((torch.ones(1, 2, 1, 1, 1, 1), 2), {}, ValueError, "'input' has 6 dimensions; it must have 2 to 5: [N, C, …]"),
        ((X, 2), {"activation": "relu"}, ValueError, "activation is 'relu'; it must be 'none' or 'silu'"),
        (
            (X, 2, torch.ones(5)),
            {},
            ValueError,
            "'weight' has sizes [5], but the channels of 'input' are [6]; they must be equal",
        ),
        (
            (X, 2, None, torch.ones(6, 1)),
            {},
            ValueError,
            "'bias' has sizes [6, 1], but the channels of 'input' are [6]; they must be equal",
        ),
        ((X.long(), 2), {}, TypeError, "'input' is Long; it must be Half, BFloat16, Float or Double, convert it with .to()"),
        (
            (X.double(), 2, torch.ones(6)),
            {},
            TypeError,
            "'weight' is Float and 'input' Double; 'weight' must have the dtype of 'input', or be Float where that has 16 bits",
        ),
    ],
)
def test_errors(args, kwargs, kind, text):
    with pytest.raises(kind) as error:
        op(*args, **kwargs)
    assert str(error.value).splitlines()[0] == "tile::group_norm: " + text


def test_a_gradient_of_another_shape():
    with pytest.raises(ValueError) as error:
        torch.ops.tile.group_norm_backward(
            torch.ones(2, 6, 4), torch.ones(2, 6, 5), 2, None, None, "none", torch.zeros(2, 2), torch.ones(2, 2), [True] * 3
        )
    assert str(error.value).splitlines()[0] == (
        "tile::group_norm_backward: grad_out has shape [2, 6, 4]; it must be [2, 6, 5], that of the result"
    )
