"""tile::layer_norm: numerics over dtypes, shapes and strides, what it owes torch, errors."""

import functools

import contract
import numpy
import pytest
import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F
from norm_cases import SHAPES
from numerics import check_call
from opinfo import DTYPES, check_samples

op = torch.ops.tile.layer_norm


@pytest.mark.parametrize("dtype", DTYPES)
def test_opinfo(dtype):
    check_samples(op, "nn.functional.layer_norm", dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", ["", "w", "b", "wb"])
@pytest.mark.parametrize("shape, axes", SHAPES)
def test_shapes(shape, axes, affine, dtype):
    x = torch.randn(shape).to(dtype).requires_grad_()
    size = shape[len(shape) - axes :]
    weight = torch.randn(size).to(dtype).requires_grad_() if "w" in affine else None
    bias = torch.randn(size).to(dtype).requires_grad_() if "b" in affine else None
    check_call(op, F.layer_norm, (x, size, weight, bias, 1e-5))


@pytest.mark.parametrize("eps", [0.0, -0.5, 1e3])
def test_any_eps(eps):
    # A negative one makes NaN of small rows, as in torch.
    x = torch.randn(40, 3, requires_grad=True)
    check_call(op, F.layer_norm, (x, (3,), torch.randn(3, requires_grad=True), torch.randn(3), eps))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 2, 3, 1), (2, 0, 3, 1), (1, 0, 2, 3)])
def test_orders_of_axes(order, axes):
    x = torch.randn(4, 5, 6, 70).permute(order).requires_grad_()
    size = tuple(x.shape[4 - axes :])
    weight, bias = torch.randn(size, requires_grad=True), torch.randn(size, requires_grad=True)
    check_call(op, F.layer_norm, (x, size, weight, bias, 1e-5))
    assert op(x, size, weight).stride() == x.stride()


@pytest.mark.parametrize("axes", [1, 2])
def test_gaps(axes):
    x = torch.randn(4, 6, 8, 10, 12)[1:3, ::2, 1:6, ::3, 2:9].requires_grad_()
    size = tuple(x.shape[5 - axes :])
    weight = torch.randn(*size, 2)[..., 0].requires_grad_()
    check_call(op, F.layer_norm, (x, size, weight, None, 1e-5))


def test_expanded():
    x = torch.randn(4, 1, 5).expand(4, 6, 5).requires_grad_()
    weight = torch.randn(1).expand(5).requires_grad_()
    check_call(op, F.layer_norm, (x, (5,), weight, weight, 1e-5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_dtypes(dtype):
    x = torch.randn(5, 40).to(dtype).requires_grad_()
    weight, bias = torch.randn(40, requires_grad=True), torch.randn(40, requires_grad=True)

    # torch takes both dtypes on the CPU alone, and has no kernel for a wide bias alone: a weight of ones is the same.
    def theirs(x, shape, weight, bias):
        weight = torch.ones_like(bias) if weight is None else weight
        if x.is_cpu:
            return F.layer_norm(x, shape, weight, bias)
        return F.layer_norm(x.to(weight.dtype), shape, weight, bias).to(x.dtype)

    check_call(op, theirs, (x, (40,), weight, bias))
    check_call(op, theirs, (x, (40,), None, bias))


@pytest.mark.parametrize("length", [63, 4096, 20000, 140000])
def test_large_mean_small_variance(length):
    # The variance is 1e-8 of the squared mean: a sum of squares less the squared mean has no digit left of it.
    x = (torch.randn(7, length) + 1e4).requires_grad_()
    check_call(op, F.layer_norm, (x, (length,)))


@pytest.mark.parametrize("shape, order", [((3, 140000), (0, 1)), ((1000, 70), (1, 0))])
def test_rows_that_are_walked_keep_a_small_variance(shape, order):
    # torch rounds the mean, near which float32 numbers are 1e-3 of a deviation apart.
    x = (torch.randn(shape) + 1e4).permute(order)
    expected = F.layer_norm(x.double(), x.shape[1:])
    assert (op(x, x.shape[1:]) - expected).abs().max() < 1e-5


@pytest.mark.parametrize("length", [63, 4096, 20000, 140000])
def test_large_mean_small_variance_in_double(length):
    # torch rounds here too, so both are held against extended precision.
    x = torch.randn(7, length, dtype=torch.double) + 1e4
    wide = x.cpu().numpy().astype(numpy.longdouble)
    centered = wide - wide.mean(-1, keepdims=True)
    expected = centered / numpy.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    ours, theirs = (abs(f(x, (length,)).cpu().numpy() - expected).max() for f in (op, F.layer_norm))
    assert ours <= 2 * theirs + numpy.spacing(1e4)  # the mean itself is rounded to double


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, False), (False, False, True)])
@pytest.mark.parametrize("length", [40, 17000, 140000])
def test_gradient_of_one_argument(wanted, length):
    x = torch.randn(5, length, requires_grad=wanted[0])
    weight, bias = (torch.randn(length, requires_grad=each) for each in wanted[1:])
    check_call(op, F.layer_norm, (x, (length,), weight, bias, 1e-5))


double = functools.partial(torch.randn, dtype=torch.double)
CASES = [
    ((double(3, 5), [5], double(5), double(5), 1e-5), {}),
    ((double(2, 3, 4), [3, 4]), {"eps": 1e-5}),
    ((double(2, 3, 4), [4], None, double(4)), {}),
    ((double(2, 3, 4), [4], double(4)), {"eps": 1e-3}),
]


@pytest.mark.parametrize("args, kwargs", CASES)
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda c: c.__name__)
def test_contract(check, args, kwargs):
    check(op, contract.with_gradients(args), kwargs)


@pytest.mark.slow  # inductor compiles it for several seconds
def test_inductor():
    contract.compiles_with_inductor(op, contract.with_gradients(CASES[0][0]), {})


@pytest.mark.parametrize("mask", [[True, True, True], [True, False, False], [False, True, False], [False, False, True]])
def test_backward_is_an_operator(mask):
    args = (double(3, 5), double(3, 5), [5], double(5), double(5), double(3, 1), double(3, 1), mask)
    torch.library.opcheck(torch.ops.tile.layer_norm_backward, args)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_gives_the_dtype_of_torch(dtype, device):
    x = torch.randn(3, 5, dtype=dtype)
    with torch.autocast(device.type, torch.bfloat16):
        assert op(x, [5], torch.ones(5), torch.ones(5)).dtype == F.layer_norm(x, [5], torch.ones(5), torch.ones(5)).dtype


@pytest.mark.parametrize(
    "args, kind, text",
    [
        (
            (torch.ones(2, 3, dtype=torch.int64), [3]),
            TypeError,
            "'input' is Long; it must be Half, BFloat16, Float or Double, convert it with .to()",
        ),
        (
            (torch.ones(2, 3), []),
            ValueError,
            "normalized_shape is empty; give the sizes of the last dimensions, to normalise over them",
        ),
        (
            (torch.ones(2, 3), [2]),
            ValueError,
            "normalized_shape is [2], but 'input' has sizes [2, 3]; it must be the sizes of the last dimensions",
        ),
        (
            (torch.ones(3), [2, 3]),
            ValueError,
            "normalized_shape is [2, 3], but 'input' has sizes [3]; it must be the sizes of the last dimensions",
        ),
        (
            (torch.ones(2, 3), [3], torch.ones(4)),
            ValueError,
            "'weight' has sizes [4], but normalized_shape is [3]; they must be equal",
        ),
        (
            (torch.ones(2, 3), [3], torch.ones(3, dtype=torch.int32)),
            TypeError,
            "'weight' is Int; it must be Half, BFloat16, Float or Double, convert it with .to()",
        ),
        (
            (torch.ones(2, 3), [3], torch.ones(3, dtype=torch.bfloat16)),
            TypeError,
            "'weight' is BFloat16 and 'input' Float; 'weight' must have the dtype of 'input', or be Float where that "
            "has 16 bits",
        ),
        (
            (torch.ones(2, 3, dtype=torch.half), [3], torch.ones(3), torch.ones(3, dtype=torch.half)),
            TypeError,
            "'weight' is Float and 'bias' Half; convert one of them",
        ),
        (
            (torch.ones(2, 3), [3], None, torch.ones(2)),
            ValueError,
            "'bias' has sizes [2], but normalized_shape is [3]; they must be equal",
        ),
    ],
)
def test_errors(args, kind, text):
    with pytest.raises(kind) as error:
        op(*args)
    assert str(error.value).splitlines()[0] == "tile::layer_norm: " + text
