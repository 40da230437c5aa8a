"""grad="auto": views in run whose elements share memory, and lists of tensors."""

import pytest
import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def sines_kernel(x, out, N: tl.Constant[int]):
    tl.store(out, (tl.bid(0), 0), tl.sin(tl.load(x, (tl.bid(0), 0), (1, N))))


def operator_of(name, view, schema="(Tensor x)"):
    def run(x, out):
        sines_kernel[len(out)](view(x), out, 1 << (out.shape[1] - 1).bit_length())

    outputs = lambda x: torch.empty(view(x).shape, dtype=x.dtype, device=x.device)  # noqa: E731
    return tile_ops.op(f"views::{name}{schema} -> Tensor", outputs=outputs, grad="auto")(run)


VIEWS = {
    "windows": lambda x: x.unfold(0, 4, 1),
    "apart": lambda x: x.unfold(0, 3, 2),
    "strided": lambda x: x.as_strided((3, 4), (1, 2)),
    "expanded": lambda x: x[:5].expand(3, 5),
    "few": lambda x: x[2:7].unfold(0, 5, 1),
    "none": lambda x: x[:0].unfold(0, 0, 1),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", VIEWS)
def test_views_whose_elements_share_memory(name, dtype):
    view = VIEWS[name]
    operator, x = operator_of(f"{name}_{str(dtype)[6:]}", view), torch.randn(13).to(dtype).requires_grad_()
    exact = x.detach().double().requires_grad_()
    incoming = torch.randn(view(exact).shape).to(dtype)
    (ours,) = torch.autograd.grad(operator(x), x, incoming)
    (expected,) = torch.autograd.grad(view(exact).sin(), exact, incoming.double())
    tolerance = 4 * torch.finfo(dtype).eps
    torch.testing.assert_close(ours.double(), expected, rtol=tolerance, atol=tolerance)


@tl.kernel
def sums_of_sines_kernel(xs, out, N: tl.Constant[int]):
    i = tl.bid(0)
    total = tl.zeros((N,), out.dtype)
    for k in range(len(xs)):
        total = total + tl.sin(tl.load(xs[k], i, N))
    tl.store(out, i, total)


@tl.kernel
def halves_kernel(x, first, second, N: tl.Constant[int]):
    i = tl.bid(0)
    t = tl.load(x, i, N)
    tl.store(first, i, tl.sin(t))
    tl.store(second, i, t * t)


@tile_ops.op("views::sum_of_sines(Tensor[] xs, Tensor y) -> Tensor", outputs="y", grad="auto")
def sum_of_sines(xs, y, out):
    sums_of_sines_kernel[tl.cdiv(y.numel(), 8)]([*xs, y], out, 8)


@tile_ops.op("views::both(Tensor x) -> Tensor[] outs", outputs=lambda x: [torch.empty_like(x) for _ in range(2)], grad="auto")
def both(x, outs):
    halves_kernel[tl.cdiv(x.numel(), 8)](x, *outs, 8)


@pytest.mark.parametrize("size", [0, 1, 13])
def test_lists_of_arguments(size):
    a, b, y = (torch.randn(size, dtype=torch.float64, requires_grad=True) for _ in range(3))
    incoming = torch.randn(size, dtype=torch.float64)
    ours = torch.autograd.grad(sum_of_sines([a, b], y), (a, b, y), incoming)
    torch.testing.assert_close(ours, torch.autograd.grad(a.sin() + b.sin() + y.sin(), (a, b, y), incoming))
    (ours,) = torch.autograd.grad(sum_of_sines([a, b.detach()], a), a, incoming)
    torch.testing.assert_close(ours, torch.autograd.grad(2 * a.sin(), a, incoming)[0])
    (ours,) = torch.autograd.grad(sum_of_sines([a, b], y.detach()), b, incoming)
    torch.testing.assert_close(ours, torch.autograd.grad(b.sin(), b, incoming)[0])
    assert torch.autograd.gradcheck(lambda *given: sum_of_sines(list(given[:2]), given[2]), (a, b, y))


def test_lists_of_results():
    x = torch.randn(13, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: tuple(both(x)), (x,))
    (ours,) = torch.autograd.grad(both(x)[1].sum(), x)
    torch.testing.assert_close(ours, 2 * x.detach())


def test_lists_under_transforms():
    a, b, y = torch.randn(3, 4, 13, dtype=torch.float64)
    loss = lambda a, b, y: sum_of_sines([a, b], y).pow(2).sum()  # noqa: E731
    expected = lambda a, b, y: (a.sin() + b.sin() + y.sin()).pow(2).sum()  # noqa: E731
    ours = torch.func.grad(loss, (0, 1, 2))(a[0], b[0], y[0])
    torch.testing.assert_close(ours, torch.func.grad(expected, (0, 1, 2))(a[0], b[0], y[0]))
    ours = torch.func.vmap(torch.func.grad(loss))(a, b, y)
    torch.testing.assert_close(ours, torch.func.vmap(torch.func.grad(expected))(a, b, y))
