"""tile::matmul against torch: shapes, strides, epilogues and gradients."""

import pytest
import tile_ops  # noqa: F401
import torch
from activations import ACTIVATIONS
from numerics import check, check_call
from opinfo import DTYPES, check_samples

pytestmark = pytest.mark.usefixtures("deterministic")

matmul = torch.ops.tile.matmul


def reference(input, other, *, bias=None, activation="none", residual=None, alpha=1.0, out_dtype=None):
    out = input @ other
    out = alpha * out if alpha != 1 else out
    out = out if bias is None else out + bias
    out = ACTIVATIONS[activation](out)
    out = out if residual is None else out + residual
    return out if out_dtype is None else out.to(out_dtype)


SHAPES = [
    ((5, 7), (7, 3)),
    ((1, 1), (1, 1)),
    ((1, 64), (64, 1)),
    ((7,), (7,)),
    ((7,), (7, 3)),
    ((5, 7), (7,)),
    ((2, 5, 7), (7,)),
    ((7,), (2, 7, 3)),
    ((2, 5, 7), (7, 3)),
    ((2, 5, 7), (2, 7, 3)),
    ((5, 7), (2, 7, 3)),
    ((3, 1, 5, 7), (1, 4, 7, 3)),
    ((2, 1, 3, 1, 5, 7), (1, 4, 1, 2, 7, 3)),
    ((2, 3, 1, 7), (7, 300)),
    ((17, 33), (33, 16)),
    ((16, 40), (40, 257)),
    ((65, 130), (130, 70)),
    ((0, 7), (7, 3)),
    ((5, 0), (0, 3)),
    ((5, 7), (7, 0)),
    ((0, 5, 7), (7, 3)),
    ((0,), (0,)),
    ((2, 0, 7), (2, 7, 3)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("x, y", SHAPES)
def test_shapes(make, dtype, x, y):
    check_call(matmul, reference, (make(*x, dtype=dtype), make(*y, dtype=dtype)))


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32))
@pytest.mark.parametrize(
    "m, k, n",
    [(129, 300, 257), pytest.param(300, 520, 513, marks=pytest.mark.slow), (3, 1000, 600), (600, 513, 9), (128, 256, 1024)],
)
def test_sizes_of_several_tiles(make, dtype, m, k, n):
    check_call(matmul, reference, (make(m, k, dtype=dtype), make(k, n, dtype=dtype)))


def layouts(make, rows, columns, dtype):
    """Matrices of every layout, dense or not."""
    yield "transposed", make(columns, rows, dtype=dtype, grad=False).t()
    yield "every second", make(rows, 2 * columns, dtype=dtype, grad=False)[:, ::2]
    yield "columns of a wider one", make(rows, columns + 3, dtype=dtype, grad=False)[:, 1 : columns + 1]
    yield "one row", make(columns, dtype=dtype, grad=False).expand(rows, columns)
    yield "one column", make(rows, 1, dtype=dtype, grad=False).expand(rows, columns)
    yield "one value", make(1, 1, dtype=dtype, grad=False).expand(rows, columns)


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32, torch.bfloat16))
def test_strides(make, dtype):
    for name, x in layouts(make, 20, 37, dtype):
        check_call(matmul, reference, (x.requires_grad_(), make(37, 18, dtype=dtype)), what=name)
    for name, y in layouts(make, 37, 18, dtype):
        check_call(matmul, reference, (make(20, 37, dtype=dtype), y.requires_grad_()), what=name)


def test_strided_batches(make):
    x, y = make(3, 4, 5, 6, grad=False), make(3, 4, 6, 7, grad=False)
    for name, a, b in [
        ("axes swapped", x.transpose(0, 1), y.transpose(0, 1)),
        ("batch expanded", x[:1].expand(3, 4, 5, 6), y),
        ("heads behind positions", make(3, 5, 4, 6, grad=False).transpose(1, 2), y),
        ("one weight", make(3, 5, 4, 6, grad=False).transpose(1, 2), y[0, 0]),
        ("positions first", make(5, 3, 6, grad=False).transpose(0, 1), y[0, 0]),
        ("batch sliced", make(6, 4, 5, 6, grad=False)[::2], y),
        ("four interleaved axes", make(2, 1, 3, 1, 2, 5, 6, grad=False), make(1, 2, 1, 3, 1, 6, 7, grad=False)),
    ]:
        check_call(matmul, reference, (a.requires_grad_(), b.requires_grad_()), what=name)


def test_gradients_have_the_layout_of_their_tensors(make):
    x, w = make(2, 5, 3, 7).transpose(1, 2), make(9, 7).t()
    for tensor, grad in zip((x, w), torch.autograd.grad(matmul(x, w).sum(), (x, w))):
        assert grad.stride() == tensor.stride()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_epilogue(make, dtype, activation):
    kwargs = {"bias": make(21, dtype=dtype), "activation": activation, "residual": make(3, 19, 21, dtype=dtype), "alpha": 0.25}
    check_call(matmul, reference, (make(3, 19, 40, dtype=dtype), make(40, 21, dtype=dtype)), kwargs)


@pytest.mark.parametrize("shape", [(), (1,), (5,), (6, 1), (6, 5), (4, 1, 1), (4, 1, 5), (4, 6, 1), (1, 6, 5), (4, 6, 5)])
@pytest.mark.parametrize("role", ["bias", "residual"])
def test_epilogue_broadcasts(make, role, shape):
    kwargs = {role: make(*shape) if shape else make(1).detach()[0].requires_grad_(), "activation": "silu"}
    check_call(matmul, reference, (make(4, 6, 8), make(8, 5)), kwargs)
    check_call(matmul, reference, (make(4, 6, 8).detach(), make(8, 5).detach()), kwargs)


@pytest.mark.parametrize(
    "x, y, bias", [((8,), (8, 5), (5,)), ((4, 8), (8,), (4,)), ((4, 8), (8,), ()), ((8,), (8,), ()), ((3, 4, 8), (8,), (3, 1))]
)
def test_epilogue_of_vectors(make, x, y, bias):
    kwargs = {
        "bias": make(1, *bias).detach()[0].requires_grad_(),
        "residual": make(1, *bias).detach()[0].requires_grad_(),
        "activation": "gelu",
    }
    check_call(matmul, reference, (make(*x), make(*y)), kwargs)


def test_mixed_dtypes_of_the_epilogue(make):
    x, y = make(6, 8, dtype=torch.bfloat16), make(8, 5, dtype=torch.bfloat16)
    out = matmul(x, y, bias=make(5), residual=make(6, 5, dtype=torch.float64), activation="silu")
    assert out.dtype == torch.bfloat16
    grads = torch.autograd.grad(out.sum(), (x, y))
    assert all(grad.dtype == torch.bfloat16 and grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize(
    "dtype, out_dtype", [(torch.bfloat16, torch.float32), (torch.float32, torch.float16), (torch.float64, torch.float32)]
)
def test_out_dtype(make, dtype, out_dtype, activation):
    x, y = make(20, 40, dtype=dtype), make(40, 30, dtype=dtype)
    bias = make(30, dtype=dtype)
    out = matmul(x, y, bias=bias, activation=activation, out_dtype=out_dtype)
    assert out.dtype == out_dtype
    theirs = reference(x, y, bias=bias, activation=activation).to(out_dtype)
    wide = [t.detach().double().requires_grad_() for t in (x, y, bias)]
    exact = reference(wide[0], wide[1], bias=wide[2], activation=activation)
    check(out, theirs, exact)
    grad = torch.randn_like(out)
    for i, each in enumerate(
        zip(
            torch.autograd.grad(out, (x, y, bias), grad),
            torch.autograd.grad(theirs, (x, y, bias), grad),
            torch.autograd.grad(exact, wide, grad.double()),
        )
    ):
        check(*each, gradient=True, what=f"gradient {i}")


def test_only_wanted_gradients(make):
    x, y, bias, residual = make(6, 8), make(8, 5), make(5), make(6, 5)
    for wanted in (x, y, bias, residual):
        for each in (x, y, bias, residual):
            each.requires_grad_(each is wanted)
        ours = torch.autograd.grad(matmul(x, y, bias=bias, residual=residual, activation="silu").sum(), wanted)[0]
        torch.testing.assert_close(
            ours, torch.autograd.grad(reference(x, y, bias=bias, residual=residual, activation="silu").sum(), wanted)[0]
        )


def test_infinities_and_nan():
    x = torch.tensor([[float("inf"), 1.0], [float("nan"), 1.0], [3e38, 3e38], [1.0, 2.0]])
    y = torch.tensor([[1.0, 0.0], [2.0, 1.0]])
    for activation in ("none", "relu"):
        check(
            matmul(x, y, activation=activation),
            reference(x, y, activation=activation),
            reference(x.double(), y.double(), activation=activation),
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["matmul", "__rmatmul__", "mm", "bmm", "mv"])
def test_opinfo(name, dtype):
    ours = {"__rmatmul__": lambda x, y: matmul(y, x)}.get(name, matmul)
    assert check_samples(ours, name, dtype) > 0
