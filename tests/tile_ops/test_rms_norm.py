"""tile::rms_norm: numerics over dtypes, shapes and strides, what it owes torch, errors."""

import functools

import contract
import pytest
import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F
from numerics import check_call
from opinfo import DTYPES, check_samples
from norm_cases import SHAPES, epsilon

op = torch.ops.tile.rms_norm


def reference(dtype):
    def call(input, normalized_shape, weight=None, eps=None):
        return F.rms_norm(input, normalized_shape, weight, epsilon(dtype) if eps is None else eps)

    return call


@pytest.mark.parametrize("dtype", DTYPES)
def test_opinfo(dtype):
    check_samples(op, "nn.functional.rms_norm", dtype, reference=reference(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape, axes", SHAPES)
def test_shapes(shape, axes, affine, dtype):
    x = torch.randn(shape).to(dtype).requires_grad_()
    size = shape[len(shape) - axes :]
    weight = torch.randn(size).to(dtype).requires_grad_() if affine else None
    check_call(op, F.rms_norm, (x, size, weight, 1e-5))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_default_eps(dtype, scale):
    x = (torch.randn(5, 40) * scale).to(dtype).requires_grad_()
    check_call(op, F.rms_norm, (x, (40,)), reference=reference(dtype))


@pytest.mark.parametrize("eps", [0.0, -0.5, 1e3])
def test_any_eps(eps):
    # A negative one makes NaN of small rows, as in torch.
    x = torch.randn(40, 3, requires_grad=True)
    check_call(op, F.rms_norm, (x, (3,), torch.randn(3, requires_grad=True), eps))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 2, 3, 1), (2, 0, 3, 1), (1, 0, 2, 3)])
def test_orders_of_axes(order, axes):
    x = torch.randn(4, 5, 6, 70).permute(order).requires_grad_()
    size = tuple(x.shape[4 - axes :])
    weight = torch.randn(size, requires_grad=True)
    check_call(op, F.rms_norm, (x, size, weight, 1e-5))
    assert op(x, size, weight).stride() == x.stride()


@pytest.mark.parametrize("axes", [1, 2])
def test_gaps(axes):
    x = torch.randn(4, 6, 8, 10, 12)[1:3, ::2, 1:6, ::3, 2:9].requires_grad_()
    size = tuple(x.shape[5 - axes :])
    weight = torch.randn(*size, 2)[..., 0].requires_grad_()
    check_call(op, F.rms_norm, (x, size, weight, 1e-5))


def test_expanded():
    x = torch.randn(4, 1, 5).expand(4, 6, 5).requires_grad_()
    weight = torch.randn(1).expand(5).requires_grad_()
    check_call(op, F.rms_norm, (x, (5,), weight, 1e-5))


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weight_dtype", DTYPES)
def test_mixed_dtypes(dtype, weight_dtype):
    # with a float64 weight torch still normalises in float32: ours is held to float64
    def theirs(x, shape, weight, eps):
        return F.rms_norm(x.double() if weight.dtype == torch.float64 else x, shape, weight, eps).to(x.dtype)

    x = torch.randn(5, 40).to(dtype).requires_grad_()
    check_call(op, theirs, (x, (40,), torch.randn(40).to(weight_dtype).requires_grad_(), 1e-5))


@pytest.mark.parametrize("wanted", [(True, False), (False, True)])
@pytest.mark.parametrize("length", [40, 17000, 140000])
def test_gradient_of_one_argument(wanted, length):
    x = torch.randn(5, length, requires_grad=wanted[0])
    check_call(op, F.rms_norm, (x, (length,), torch.randn(length, requires_grad=wanted[1]), 1e-5))


double = functools.partial(torch.randn, dtype=torch.double)
CASES = [
    ((double(3, 5), [5], double(5), 1e-5), {}),
    ((double(2, 3, 4), [3, 4]), {"eps": 1e-5}),
    ((double(2, 3, 4), [4], double(4)), {"eps": 1e-3}),
]


@pytest.mark.parametrize("args, kwargs", CASES)
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda c: c.__name__)
def test_contract(check, args, kwargs):
    check(op, contract.with_gradients(args), kwargs)


@pytest.mark.slow  # inductor compiles it for several seconds
def test_inductor():
    contract.compiles_with_inductor(op, contract.with_gradients(CASES[0][0]), {})


@pytest.mark.parametrize("mask", [[True, True], [True, False], [False, True]])
def test_backward_is_an_operator(mask):
    args = (double(3, 5), double(3, 5), [5], double(5), double(3, 1), mask)
    torch.library.opcheck(torch.ops.tile.rms_norm_backward, args)


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_gives_the_dtype_of_torch(dtype, device):
    x = torch.randn(3, 5, dtype=dtype)
    with torch.autocast(device.type, torch.bfloat16):
        assert op(x, [5], torch.ones(5)).dtype == F.rms_norm(x, [5], torch.ones(5)).dtype


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
    ],
)
def test_errors(args, kind, text):
    with pytest.raises(kind) as error:
        op(*args)
    assert str(error.value).splitlines()[0] == "tile::rms_norm: " + text
