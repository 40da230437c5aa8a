"""Operators made with tile_ops.op in each of its forms, for tests."""

import tile_ops
import tile_ops.language as tl
import torch


def width(extent):
    """The power of two that holds a row."""
    return 1 << max(extent - 1, 0).bit_length()


def matrix(x):
    return x.reshape(-1, x.shape[-1])


@tl.kernel
def rms_kernel(x, w, out, rstd, eps: float, keep: tl.Constant[bool], N: tl.Constant[int]):
    i = tl.bid(0)
    kind = tl.float64 if x.dtype == tl.float64 else tl.float32
    row = tl.load(x, (i, 0), (1, N)).astype(kind)
    r = tl.rsqrt(tl.sum(row * row, axis=1, keepdims=True) / x.shape[1] + eps)
    if keep:
        tl.store(rstd, (i, 0), r)
    tl.store(out, (i, 0), (row * r * tl.load(w, (0,), (N,)).astype(kind)).astype(out.dtype))


@tl.kernel
def rms_backward_kernel(grad, x, w, rstd, grad_x, products, N: tl.Constant[int]):
    i = tl.bid(0)
    kind = rstd.dtype
    r, row = tl.load(rstd, (i, 0), (1, 1)), tl.load(x, (i, 0), (1, N)).astype(kind)
    n, g = row * r, tl.load(grad, (i, 0), (1, N)).astype(kind)
    wg = g * tl.load(w, (0,), (N,)).astype(kind)
    mean = tl.sum(wg * n, axis=1, keepdims=True) / x.shape[1]
    tl.store(grad_x, (i, 0), (r * (wg - n * mean)).astype(grad_x.dtype))
    tl.store(products, (i, 0), g * n)


def run_rms(x, w, eps, out, rstd):
    rows, flat = matrix(x), matrix(out)
    keep = rstd is not None
    if rows.numel():
        held = rstd.view(-1, 1) if keep else flat
        rms_kernel[rows.shape[0]](rows, w, flat, held, eps, keep, width(x.shape[-1]))


def compute(x):
    return torch.float64 if x.dtype == torch.float64 else torch.float32


@tile_ops.op("tile_py::rms(Tensor x, Tensor w, float eps=1e-5) -> Tensor", leading=())
class rms:
    """RMS norm of the last axis: x / sqrt(mean(x²) + eps) · w."""

    saves = "Tensor rstd"

    def outputs(x, w):
        if w.shape != x.shape[-1:]:
            raise ValueError(f"tile_py::rms: w is {list(w.shape)}; it must be [{x.shape[-1]}], the last extent of x")
        return torch.empty(x.shape, dtype=x.dtype, device=x.device)

    def saved_outputs(x):
        return torch.empty(x.shape[:-1], dtype=compute(x), device=x.device)

    run = run_rms

    class grad:
        def outputs(x, w):
            return torch.empty_like(x, memory_format=torch.contiguous_format), torch.empty_like(w)

        def run(grad_out, x, w, rstd, grad_x, grad_w):
            rows = matrix(x)
            products = torch.zeros(rows.shape, dtype=rstd.dtype, device=x.device)
            if rows.numel():
                arguments = matrix(grad_out), rows, w, rstd.view(-1, 1), matrix(grad_x), products
                rms_backward_kernel[rows.shape[0]](*arguments, width(x.shape[-1]))
            grad_w.copy_(products.sum(0))

    def flops(x):
        return 4 * x.numel()


@tile_ops.op("tile_py::rms_composite(Tensor x, Tensor w, float eps=1e-5) -> Tensor", saves="Tensor rstd")
def rms_composite(x, w, eps, out, rstd):
    """The same with a gradient of torch operations, which has gradients itself."""
    run_rms(x, w, eps, out, rstd)


@rms_composite.outputs
def _like(x):
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


@rms_composite.saved_outputs
def _rstd(x):
    return torch.empty(x.shape[:-1], dtype=compute(x), device=x.device)


@rms_composite.grad
def _gradients(grad_out, x, w, eps):
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    n, g = x * r, grad_out * w
    return r * (g - n * (g * n).mean(-1, keepdim=True)), (grad_out * n).flatten(0, -2).sum(0)


@tl.kernel
def split_kernel(x, scale: float, low, high, N: tl.Constant[int]):
    i = tl.bid(0)
    value = tl.load(x, (i,), (N,))
    tl.store(low, (i,), tl.minimum(value, scale))
    tl.store(high, (i,), tl.maximum(value, scale))


@tile_ops.op("tile_py::split(Tensor x, float at, *, bool swap=False) -> (Tensor low, Tensor high)")
class split:
    outputs = "x"
    fold = "x"

    def run(x, at, swap, low, high):
        low, high = (high, low) if swap else (low, high)
        split_kernel[tl.cdiv(x.numel(), 256)](x.reshape(-1), at, low.reshape(-1), high.reshape(-1), 256)

    class grad:
        outputs = "x"

        def run(grad_low, grad_high, x, at, swap, grad_x):
            grad_low, grad_high = (grad_high, grad_low) if swap else (grad_low, grad_high)
            zero = torch.zeros_like(x)
            grad_low = zero if grad_low is None else grad_low
            torch.where(x < at, grad_low, zero if grad_high is None else grad_high, out=grad_x)


@tl.kernel
def scale_kernel(x, by: float, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(x, (i,), tl.load(x, (i,), (N,)) * by)


@tile_ops.op("tile_py::scale_(Tensor(a!) x, float by) -> ()")
def scale_(x, by):
    scale_kernel[tl.cdiv(x.numel(), 256)](x, by, 256)


@tile_ops.op(
    "tile_py::mixed(Tensor[] xs, Tensor? bias, int[] shape, ScalarType dtype, str how='a, b', Scalar by=2) -> Tensor[]"
)
class mixed:
    """Its arguments come as torch's own operators of Python see them."""

    def outputs(xs, dtype):
        return [torch.empty(x.shape, dtype=dtype, device=x.device) for x in xs]

    def run(xs, bias, shape, dtype, how, by, out):
        assert isinstance(dtype, torch.dtype) and how == "a, b" and list(shape) == [2, 3]
        for x, result in zip(xs, out):
            result.copy_(x * by + (0 if bias is None else bias))

    def grad(grad_out, xs, by):
        gradients = [torch.zeros_like(x) if g is None else g.to(x.dtype) * by for g, x in zip(grad_out, xs)]
        return gradients, sum(g.sum() for g in grad_out if g is not None)
