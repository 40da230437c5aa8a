"""tile::add_rms_norm: numerics over dtypes, shapes and strides, gradients of either result, what it owes torch,
errors."""

import functools

import contract
import pytest
import tile_ops
import torch
import torch.nn.functional as F
from numerics import check_call
from opinfo import DTYPES
from norm_cases import SHAPES, epsilon

op = torch.ops.tile.add_rms_norm
backward = torch.ops.tile.add_rms_norm_backward


def torchs(input, residual, normalized_shape, weight=None, eps=None):
    total = input + residual
    return F.rms_norm(total, normalized_shape, weight, eps), total


def pair(shape, dtype=torch.float32):
    return tuple(torch.randn(shape).to(dtype).requires_grad_() for _ in range(2))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape, axes", SHAPES)
def test_shapes(shape, axes, affine, dtype):
    size = shape[len(shape) - axes :]
    weight = torch.randn(size).to(dtype).requires_grad_() if affine else None
    check_call(op, torchs, (*pair(shape, dtype), size, weight, 1e-5))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [40, 17000, 140000])
def test_the_sum_is_torchs(length, dtype):
    x, residual = pair((5, length), dtype)
    assert torch.equal(op(x, residual, (length,))[1], x + residual)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_norm_is_of_the_rounded_sum(dtype):
    x, residual = pair((5, 40), dtype)
    out, total = op(x, residual, (40,), None, 1e-5)
    assert torch.equal(out, torch.ops.tile.rms_norm(total, (40,), None, 1e-5))


@pytest.mark.parametrize("dtype", DTYPES)
def test_default_eps(dtype):
    def exact(input, residual, normalized_shape):
        return torchs(input, residual, normalized_shape, None, epsilon(dtype))

    x, residual = ((each.detach() * 1e-4).requires_grad_() for each in pair((5, 40), dtype))
    check_call(op, torchs, (x, residual, (40,)), reference=exact)


@pytest.mark.parametrize("axes", [1, 3])
@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 2, 3, 1), (2, 0, 3, 1)])
def test_orders_of_axes(order, axes):
    x, other = (each.detach().permute(order).requires_grad_() for each in pair((4, 5, 6, 70)))
    plain = other.detach().contiguous().requires_grad_()
    size = tuple(x.shape[4 - axes :])
    for residual in (other, plain):
        check_call(op, torchs, (x, residual, size, torch.randn(size, requires_grad=True), 1e-5))
        assert all(result.stride() == x.stride() for result in op(x, residual, size))


def test_gaps():
    x, residual = (torch.randn(4, 6, 8, 10, 12)[1:3, ::2, 1:6, ::3, 2:9].requires_grad_() for _ in range(2))
    for axes in (1, 2):
        check_call(op, torchs, (x, residual, tuple(x.shape[5 - axes :]), None, 1e-5))


def test_expanded():
    x, residual = torch.randn(4, 1, 5).expand(4, 6, 5).requires_grad_(), torch.randn(5).expand(4, 6, 5).requires_grad_()
    check_call(op, torchs, (x, residual, (5,), torch.randn(1).expand(5).requires_grad_(), 1e-5))


def test_one_tensor_twice():
    (x, _) = pair((5, 40))
    check_call(lambda x: op(x, x, (40,), None, 1e-5), lambda x: torchs(x, x, (40,), None, 1e-5), (x,))


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
@pytest.mark.parametrize("weight_dtype", DTYPES)
def test_mixed_dtypes(weight_dtype):
    def theirs(x, residual, shape, weight, eps):
        total = x + residual
        wide = total.double() if weight.dtype == torch.float64 else total
        return F.rms_norm(wide, shape, weight, eps).to(x.dtype), total

    weight = torch.randn(40).to(weight_dtype).requires_grad_()
    check_call(op, theirs, (*pair((5, 40), torch.bfloat16), (40,), weight, 1e-5))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("length", [40, 17000, 140000])
def test_gradient_of_one_result(length, which):
    x, residual = pair((5, length))
    weight = torch.randn(length, requires_grad=True)
    check_call(lambda *args: op(*args)[which], lambda *args: torchs(*args)[which], (x, residual, (length,), weight, 1e-5))


def test_a_gradient_of_the_sum_alone_passes_as_it_is():
    x, residual = (torch.full((2, 3), torch.inf).requires_grad_() for _ in range(2))
    grad = torch.randn(2, 3)
    for each in torch.autograd.grad(op(x, residual, (3,))[1], (x, residual), grad):
        assert torch.equal(each, grad)


@pytest.mark.parametrize("wanted", [(True, False, False), (False, True, True), (False, False, True)])
@pytest.mark.parametrize("length", [40, 17000, 140000])
def test_gradient_of_some_arguments(wanted, length):
    x, residual, weight = (
        torch.randn(shape, requires_grad=each) for shape, each in zip(((5, length), (5, length), (length,)), wanted)
    )
    check_call(op, torchs, (x, residual, (length,), weight, 1e-5))


def test_the_gradient_is_written_once():
    x, residual = pair((5, 40))
    out, total = op(x, residual, (40,))
    first, second = torch.autograd.grad((out, total), (x, residual), (torch.ones_like(out), torch.ones_like(out)))
    assert first.data_ptr() == second.data_ptr()


double = functools.partial(torch.randn, dtype=torch.double)
CASES = [((double(3, 5), double(3, 5), [5], double(5), 1e-5), {}), ((double(2, 3, 4), double(2, 3, 4), [3, 4]), {"eps": 1e-5})]


@pytest.mark.parametrize("args, kwargs", CASES)
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda c: c.__name__)
def test_contract(check, args, kwargs):
    check(op, contract.with_gradients(args), kwargs)


@pytest.mark.slow  # inductor compiles it for several seconds
def test_inductor():
    contract.compiles_with_inductor(op, contract.with_gradients(CASES[0][0]), {})


def test_compiled_autograd():
    x, residual = pair((3, 8))
    torch._dynamo.reset()

    def grads(function):
        out, total = function(x, residual, (8,), None, 1e-5)
        (out.sin().sum() + total.cos().sum()).backward()
        found = x.grad, residual.grad
        x.grad = residual.grad = None
        return found

    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        got = grads(op)
    torch.testing.assert_close(got, grads(torchs))


@pytest.mark.parametrize("mask", [[True, True], [True, False], [False, True]])
@pytest.mark.parametrize("missing", [(), (0,), (1,)])
def test_backward_is_an_operator(mask, missing):
    grads = [None if i in missing else double(3, 5) for i in range(2)]
    torch.library.opcheck(backward, (*grads, double(3, 5), [5], double(5), double(3, 1), mask))


def test_double_backward_is_an_error():
    x, residual = pair((3, 5))
    (grad,) = torch.autograd.grad(op(x, residual, (5,))[0].square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="double backward of tile::add_rms_norm is not implemented"):
        grad.sum().backward()


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_gives_the_dtype_of_torchs_norm(dtype, device):
    x = torch.randn(3, 5, dtype=dtype)
    with torch.autocast(device.type, torch.bfloat16):
        assert op(x, x, [5], torch.ones(5))[0].dtype == F.rms_norm(x, [5], torch.ones(5)).dtype


@pytest.mark.parametrize(
    "args, kind, text",
    [
        (
            (torch.ones(2, 3), torch.ones(2, 1), [3]),
            ValueError,
            "'residual' has sizes [2, 1], but 'input' has [2, 3]; they must be equal",
        ),
        (
            (torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bfloat16), [3]),
            TypeError,
            "'residual' is BFloat16 and 'input' Float; convert one with .to()",
        ),
        (
            (torch.ones(2, 3, dtype=torch.int64), torch.ones(2, 3), [3]),
            TypeError,
            "'input' is Long; it must be Half, BFloat16, Float or Double, convert it with .to()",
        ),
        (
            (torch.ones(2, 3), torch.ones(2, 3), []),
            ValueError,
            "normalized_shape is empty; give the sizes of the last dimensions, to normalise over them",
        ),
        (
            (torch.ones(2, 3), torch.ones(2, 3), [2]),
            ValueError,
            "normalized_shape is [2], but 'input' has sizes [2, 3]; it must be the sizes of the last dimensions",
        ),
        (
            (torch.ones(2, 3), torch.ones(2, 3), [3], torch.ones(4)),
            ValueError,
            "'weight' has sizes [4], but normalized_shape is [3]; they must be equal",
        ),
    ],
)
def test_errors(args, kind, text):
    with pytest.raises(kind) as error:
        op(*args)
    assert str(error.value).splitlines()[0] == "tile::add_rms_norm: " + text


def test_module():
    norm, theirs = tile_ops.nn.AddRMSNorm(40, eps=1e-5), torch.nn.RMSNorm(40, eps=1e-5)
    with torch.no_grad():
        theirs.weight.uniform_()
    norm.load_state_dict(theirs.state_dict())
    x, residual = pair((3, 40))
    torch.testing.assert_close(norm(x, residual), (theirs(x + residual), x + residual))
