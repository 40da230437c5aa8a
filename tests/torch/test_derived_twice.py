"""Second derivatives of operators whose gradient follows from expressions or from the compiler."""

import pytest
import tile_ops
import tile_ops.language as tl
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.func import hessian, jacfwd, jacrev, jvp, vmap


def leaf(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@tile_ops.elementwise("twice::mixed(Tensor x, Tensor y, float a=1.5) -> Tensor")
def mixed(x, y, a):
    return tl.exp(x * a) * tl.sin(y) + x * x * y


def mixed_reference(x, y, a=1.5):
    return (x * a).exp() * y.sin() + x * x * y


@tile_ops.elementwise("twice::pair(Tensor x, Tensor y) -> (Tensor, Tensor)")
def pair(x, y):
    return tl.sin(x) * y, tl.exp(y)


@tile_ops.reduction("twice::sum_of_squares(Tensor x, Tensor y) -> Tensor", "sum")
def sum_of_squares(x, y):
    return x * x * tl.sin(y)


@tl.kernel
def cubes_kernel(x, w, out, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N))
    tl.store(out, (row, 0), t * t * t * tl.load(w, (0,), (N,)) * tl.sum(t * t, axis=1, keepdims=True))


@tile_ops.op("twice::cubes(Tensor x, Tensor w) -> Tensor", outputs="x", grad="auto")
def cubes(x, w, out):
    cubes_kernel[x.shape[0]](x, w, out, 1 << max(x.shape[1] - 1, 0).bit_length())


def cubes_reference(x, w):
    return x**3 * w * (x * x).sum(1, keepdim=True)


SHAPES = [((3, 5), (3, 5)), ((3, 1), (5,)), ((), (2, 3)), ((1,), (1,)), ((0, 4), (4,)), ((70,), (70,))]


@pytest.mark.parametrize("shapes", SHAPES)
def test_double_backward_of_elementwise(shapes):
    x, y = (leaf(*shape) for shape in shapes)
    assert gradcheck(mixed, (x, y)) and gradgradcheck(mixed, (x, y))
    assert gradgradcheck(pair, (x, y))


def test_double_backward_of_strided_elementwise():
    x, y = leaf(5, 6), leaf(6, 5)
    assert gradgradcheck(lambda x, y: mixed(x[:, ::2], y.mT[:, 1::2]), (x, y))


@pytest.mark.parametrize("dim, keepdim", [(None, False), (0, True), (-1, False), ((0, 1), False)])
@pytest.mark.parametrize("shapes", SHAPES[:2])
def test_double_backward_of_reductions(shapes, dim, keepdim):
    x, y = (leaf(*shape) for shape in shapes)
    assert gradgradcheck(lambda x, y: sum_of_squares(x, y, dim=dim, keepdim=keepdim), (x, y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_double_backward_in_other_dtypes(dtype):
    def second(function, x):
        (first,) = torch.autograd.grad(function(x, x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sin().sum(), x)[0]

    x = torch.rand(3, 9).to(dtype).requires_grad_()
    exact = x.detach().double().requires_grad_()
    tolerance = 8 * torch.finfo(dtype).eps
    expected = second(mixed_reference, exact)
    torch.testing.assert_close(
        second(mixed, x).double(), expected, rtol=tolerance, atol=tolerance * expected.abs().max().item()
    )


def test_hessians():
    x, y = torch.randn(2, 7, dtype=torch.float64)
    for ours, reference in (
        (lambda x: mixed(x, y).sum(), lambda x: mixed_reference(x, y).sum()),
        (lambda x: sum_of_squares(x, y), lambda x: (x * x * y.sin()).sum()),
        (lambda x: cubes(x[None], y).sin().sum(), lambda x: cubes_reference(x[None], y).sin().sum()),
    ):
        torch.testing.assert_close(hessian(ours)(x), hessian(reference)(x))
        torch.testing.assert_close(jacfwd(jacrev(ours))(x), hessian(reference)(x))
        each = vmap(hessian(ours))(torch.stack([x, y]))
        torch.testing.assert_close(each, vmap(hessian(reference))(torch.stack([x, y])))


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (200, 3), (4, 0)])
def test_forward_mode_of_derived_gradients(shape):
    x, w, tangents = torch.randn(shape).double(), torch.randn(shape[1]).double(), torch.randn(shape).double()

    def gradients(function):
        return torch.func.grad(lambda x, w: function(x, w).sin().sum(), (0, 1))

    both = (tangents, torch.ones_like(w))
    torch.testing.assert_close(jvp(gradients(cubes), (x, w), both), jvp(gradients(cubes_reference), (x, w), both))
    torch.testing.assert_close(
        jvp(lambda x: gradients(cubes)(x, w), (x,), (tangents,)),
        jvp(lambda x: gradients(cubes_reference)(x, w), (x,), (tangents,)),
    )


def test_forward_mode_of_derived_gradients_in_graphs():
    torch.compiler.reset()
    x, w, tangents = torch.randn(3, 5), torch.randn(5), torch.randn(3, 5)

    def both(x, tangents):
        return jvp(torch.func.grad(lambda x: cubes(x, w).sum()), (x,), (tangents,))

    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, tangents), both(x, tangents))
