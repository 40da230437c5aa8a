"""tile::matmul in every way torch can call an operator: opcheck, compile, export, autocast, torch.func; its errors."""

import pytest
import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F
from numerics import check_call
from torch.library import opcheck
from threads import with_torch_threads

matmul = torch.ops.tile.matmul


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16))
def test_opcheck(make, dtype):
    x, y = make(2, 5, 7, dtype=dtype), make(7, 3, dtype=dtype)
    opcheck(matmul, (x, y))
    opcheck(matmul, (x.detach(), y))
    opcheck(matmul, (x, make(3, 7, dtype=dtype).t()))
    opcheck(matmul, (x.detach(), y.detach()), {"activation": "relu", "out_dtype": torch.float32})
    kwargs = {"bias": make(3, dtype=dtype), "activation": "gelu", "residual": make(5, 1, dtype=dtype), "alpha": 0.5}
    opcheck(matmul, (x, y), kwargs)
    opcheck(matmul, (make(0, 7, dtype=dtype), y), {"bias": make(3, dtype=dtype)})


def test_opcheck_of_the_gradient(make):
    x, y, grad = make(2, 5, 7), make(7, 3), make(2, 5, 3)
    opcheck(torch.ops.tile.matmul_backward, (grad, x, y, None, "none", 1.0, None, None, [True, True, False, False]))
    pre = make(2, 5, 3, grad=False)
    opcheck(
        torch.ops.tile.matmul_backward,
        (grad.detach(), x.detach(), y.detach(), make(3, grad=False), "silu", 0.5, pre, make(3, grad=False), [True] * 4),
    )


@pytest.mark.parametrize("activation", ["none", "gelu", "gelu_tanh", "silu"])
def test_gradcheck(make, activation):
    f64 = torch.float64
    args = make(2, 3, 4, dtype=f64), make(4, 5, dtype=f64), make(5, dtype=f64), make(3, 1, dtype=f64)

    def call(x, y, bias, residual):
        return matmul(x, y, bias=bias, residual=residual, activation=activation, alpha=0.7)

    assert torch.autograd.gradcheck(call, args, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(call, args, check_batched_grad=True)


def test_gradgradcheck_of_broadcasts(make):
    f64 = torch.float64
    for x, y in [((3, 4), (2, 4, 2)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,))]:
        assert torch.autograd.gradgradcheck(matmul, (make(*x, dtype=f64), make(*y, dtype=f64)))


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_double_backward_with_activation(make, activation):
    x, w, bias, residual = (make(*shape, dtype=torch.float64) for shape in ((2, 5, 4), (4, 3), (3,), (5, 1)))
    function = lambda x, w, bias, residual: matmul(  # noqa: E731
        x, w, bias=bias, residual=residual, activation=activation, alpha=0.5
    )
    assert torch.autograd.gradgradcheck(function, (x, w, bias, residual))


def test_forward_mode(make):
    x = make(3, 4, grad=False, dtype=torch.float64)
    ours, theirs = (torch.func.jvp(lambda t: product(t, t.t()), (x,), (x.sin(),)) for product in (matmul, torch.matmul))
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def mlp(x, w, bias, residual):
    return matmul(matmul(x, w, bias=bias, activation="gelu"), w.t(), residual=residual)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(make, backend):
    torch._dynamo.reset()
    compiled = torch.compile(mlp, fullgraph=True, dynamic=True, backend=backend)
    for rows in (5, 9) if backend == "aot_eager" else (5,):
        args = make(2, rows, 8), make(8, 6), make(6), make(2, rows, 8)
        ours, expected = compiled(*args), mlp(*args)
        torch.testing.assert_close(ours, expected)
        grad = torch.randn_like(expected)
        for a, b in zip(torch.autograd.grad(ours, args, grad), torch.autograd.grad(expected, args, grad)):
            torch.testing.assert_close(a, b)


def test_export(make):
    class Module(torch.nn.Module):
        def forward(self, x, w):
            return matmul(x, w, activation="silu")

    rows = torch.export.Dim("rows", min=2)
    x, w = make(4, 8, grad=False), make(8, 6, grad=False)
    program = torch.export.export(Module(), (x, w), dynamic_shapes=({0: rows}, {}))
    x = make(11, 8, grad=False)
    torch.testing.assert_close(program.module()(x, w), matmul(x, w, activation="silu"))


def test_meta():
    x, w = (torch.empty(2, 5, 7, device="meta", dtype=torch.bfloat16), torch.empty(7, 3, device="meta", dtype=torch.bfloat16))
    out = matmul(x, w, out_dtype=torch.float32)
    assert (out.shape, out.dtype, out.device.type) == ((2, 5, 3), torch.float32, "meta")


def test_autocast(make, device):
    def in_bfloat16(function):
        def call(*args):
            with torch.autocast(device.type, torch.bfloat16):
                return function(*args)

        return call

    ours = in_bfloat16(lambda x, w, bias: matmul(x, w, bias=bias))
    theirs = in_bfloat16(lambda x, w, bias: F.linear(x, w.t(), bias))
    args = make(5, 8), make(8, 6), make(6)
    out = ours(*args)
    assert out.dtype == torch.bfloat16
    assert {grad.dtype for grad in torch.autograd.grad(out.sum(), args)} == {torch.float32}
    check_call(ours, theirs, args, reference=lambda x, w, bias: F.linear(x, w.t(), bias))


def test_func(make):
    x, w, bias = make(5, 8, grad=False), make(8, 6, grad=False), make(6, grad=False)

    def ours(x, w, bias):
        return matmul(x, w, bias=bias, activation="silu").sum()

    def theirs(x, w, bias):
        return F.silu(x @ w + bias).sum()

    for a, b in zip(torch.func.grad(ours, (0, 1, 2))(x, w, bias), torch.func.grad(theirs, (0, 1, 2))(x, w, bias)):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(torch.func.jacrev(lambda t: matmul(t, w))(x), torch.func.jacrev(lambda t: t @ w)(x))


@pytest.mark.parametrize("dims", [(0, None, None), (None, 0, None), (None, None, 0), (0, 0, 0), (1, 2, 1), (0, 0, None)])
def test_vmap(make, dims):
    samples = 3
    shapes = [[4, 5, 8], [8, 6], [6]]
    args = []
    for shape, dim in zip(shapes, dims):
        if dim is not None:
            shape = shape[:dim] + [samples] + shape[dim:]
        args.append(make(*shape, dtype=torch.float64, grad=False))

    def ours(x, w, bias):
        return matmul(x, w, bias=bias, residual=bias, activation="silu")

    def theirs(x, w, bias):
        return F.silu(x @ w + bias) + bias

    torch.testing.assert_close(torch.vmap(ours, dims)(*args), torch.vmap(theirs, dims)(*args))
    grads = [torch.vmap(torch.func.grad(lambda *a, f=f: f(*a).square().sum(), (0, 1, 2)), dims)(*args) for f in (ours, theirs)]
    for a, b in zip(*grads):
        torch.testing.assert_close(a, b)


def test_vmap_of_vectors(make):
    x, y = make(3, 8, grad=False), make(3, 8, grad=False)
    torch.testing.assert_close(torch.vmap(matmul)(x, y), torch.vmap(torch.dot)(x, y))


@pytest.mark.parametrize(
    "make_grad", [lambda o: torch.ones(1).expand_as(o), lambda o: torch.randn(o.shape[::-1]).permute(2, 1, 0)]
)
def test_incoming_gradients_of_any_layout(make, make_grad):
    x, w, bias = make(2, 5, 8), make(8, 6), make(6)
    for activation in ("none", "silu"):
        ours = matmul(x, w, bias=bias, activation=activation)
        theirs = x @ w + bias
        theirs = F.silu(theirs) if activation == "silu" else theirs
        grad = make_grad(theirs)
        for a, b in zip(torch.autograd.grad(ours, (x, w, bias), grad), torch.autograd.grad(theirs, (x, w, bias), grad)):
            torch.testing.assert_close(a, b)


def test_threads_agree_bit_for_bit(make):
    x, w, bias = make(300, 200), make(200, 280), make(280)

    def call():
        out = matmul(x, w, bias=bias, activation="gelu")
        return out.detach(), *torch.autograd.grad(out.sum(), (x, w, bias))

    assert all(torch.equal(a, b) for a, b in zip(*with_torch_threads((1, 2), call)))
