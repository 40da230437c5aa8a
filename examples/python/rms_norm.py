"""RMS norm with its gradients.

A block takes a row and saves 1 / root mean square for the gradients. Backward, a block loops over many rows and keeps
its sum for the weight in registers; a second kernel adds the blocks' sums, so that results do not depend on timing.
Formula: Zhang and Sennrich, "Root mean square layer normalization", 2019."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO


@tl.kernel
def forward_kernel(x, w, out, rstd, eps: float, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N), padding_mode=ZERO).astype(tl.float32)
    r = tl.rsqrt(tl.sum(t * t) / x.shape[1] + eps)
    tl.store(out, (row, 0), (t * r * tl.load(w, 0, N)).astype(out.dtype))
    tl.store(rstd, row, r)


def row_of(array, row, N):
    return tl.load(array, (row, 0), (1, N), padding_mode=ZERO).astype(tl.float32)


@tl.kernel
def backward_kernel(grad, x, w, rstd, grad_x, parts, TOGETHER: tl.Constant[int], N: tl.Constant[int]):
    block, iterations, total = tl.bid(0), tl.cdiv(x.shape[0], TOGETHER), tl.zeros((1, N), tl.float32)
    each, weight = tl.cdiv(iterations, tl.num_blocks(0)), tl.load(w, 0, N, padding_mode=ZERO).astype(tl.float32)
    for iteration in range(block * each, min((block + 1) * each, iterations)):
        loaded, sums = (), ()
        for i in tl.static_iter(range(TOGETHER)):  # the rows of an iteration wait once for memory and for their sums
            row = iteration * TOGETHER + i
            loaded += ((row, row_of(grad, row, N), row_of(x, row, N)),)
        for i in tl.static_iter(range(TOGETHER)):
            row, g, t = loaded[i]
            sums += (tl.sum(g * weight * t) / x.shape[1],)
        for i in tl.static_iter(range(TOGETHER)):
            row, g, t = loaded[i]
            r = tl.load(rstd, row, ())
            tl.store(grad_x, (row, 0), (r * tl.fma(-r * r * sums[i], t, g * weight)).astype(grad_x.dtype))
            total += g * (t * r)
    tl.store(parts, (block, 0), total)


@tl.kernel
def sum_kernel(parts, out, R: tl.Constant[int], C: tl.Constant[int]):
    column, total = tl.bid(0), tl.zeros((C,), tl.float32)
    for i in range(tl.num_tiles(parts, 0, (R, C))):
        total += tl.sum(tl.load(parts, (i, column), (R, C), padding_mode=ZERO), 0)
    tl.store(out, column, total.astype(out.dtype))


def matrix(x):
    return x.reshape(x.shape[:-1].numel(), x.shape[-1])


def width(x):
    return 1 << max(x.shape[-1] - 1, 0).bit_length()


@tile_ops.op("programs::rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor")
class rms_norm:
    """x / sqrt(mean(x²) + eps) * weight of each row.

    x: [..., columns] of float32, float16 or bfloat16, up to 16384 columns; weight: [columns]. Accumulates in float32.
    Error: ValueError if shapes do not fit."""

    saves = "Tensor rstd"

    def outputs(x, weight):
        if x.shape[-1:] != weight.shape or x.shape[-1] > 16384:
            raise ValueError(
                f"rms_norm: x is {list(x.shape)}, weight {list(weight.shape)}; "
                "pass [..., columns] of up to 16384 columns and [columns]"
            )
        return x.new_empty(x.shape)

    def saved_outputs(x):
        return x.new_empty(x.shape[:-1], dtype=torch.float32)

    def run(x, weight, eps, out, rstd):
        rows = matrix(x)
        rstd = rows.new_empty(len(rows), dtype=torch.float32) if rstd is None else rstd.view(-1)
        forward_kernel[len(rows)](rows, weight, matrix(out), rstd, eps, width(x))

    class grad:
        def outputs(x, weight):
            return x.new_empty(x.shape), torch.empty_like(weight)

        def run(grad_out, x, weight, rstd, grad_x, grad_weight):
            rows = matrix(x)
            N, bytes = width(x), width(x) * x.dtype.itemsize
            together = 1 if x.is_cpu else max(1, min(16384 // bytes, 4))  # rows of an iteration
            iterations = tl.cdiv(len(rows), together)
            blocks = 64 if x.is_cpu else max(132, 264 * 16384 // (together * bytes))  # as many as a GPU runs at once
            blocks = tl.cdiv(iterations, max(1, tl.cdiv(iterations, blocks)))
            parts = rows.new_empty(blocks, rows.shape[1], dtype=torch.float32)
            backward_kernel[blocks](matrix(grad_out), rows, weight, rstd.view(-1), matrix(grad_x), parts, together, N)
            R, C = (64, 256) if x.is_cpu else (256, 32)
            sum_kernel[tl.cdiv(rows.shape[1], C)](parts, grad_weight, R, C)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, weight = (torch.randn(*size, 1000, device=device, requires_grad=True) for size in ((4, 100), ()))
    torch.testing.assert_close(rms_norm(x, weight), torch.nn.functional.rms_norm(x, (1000,), weight, 1e-6))
    rms_norm(x, weight).square().sum().backward()
    print("RMS norm of", list(x.shape), "and its gradients are there:", x.grad.norm().item())
