"""Layer norm with its gradients.

A block takes a row. Backward, a block loops over many rows and keeps its sums for weight and bias in registers; a
second kernel adds the blocks' sums. No atomics are used, so results do not depend on timing. Formula: Ba et al., "Layer
normalization", 2016."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO


@tl.kernel
def forward_kernel(x, w, b, out, mean, rstd, eps: float, N: tl.Constant[int]):
    row, count = tl.bid(0), x.shape[1]
    t = tl.load(x, (row, 0), (1, N), padding_mode=ZERO).astype(tl.float32)
    m = tl.sum(t) / count
    d = tl.where(tl.arange(N, dtype=tl.int32) < count, t - m, 0)
    r = tl.rsqrt(tl.sum(d * d) / count + eps)
    tl.store(out, (row, 0), (d * r * tl.load(w, 0, N) + tl.load(b, 0, N)).astype(out.dtype))
    tl.store(mean, row, m)
    tl.store(rstd, row, r)


def row_of(array, row, N):
    return tl.load(array, (row, 0), (1, N), padding_mode=ZERO).astype(tl.float32)


@tl.kernel
def backward_kernel(grad, x, w, mean, rstd, grad_x, parts, TOGETHER: tl.Constant[int], N: tl.Constant[int]):
    block, count, iterations = tl.bid(0), x.shape[1], tl.cdiv(x.shape[0], TOGETHER)
    each = tl.cdiv(iterations, tl.num_blocks(0))
    weight = tl.load(w, 0, N, padding_mode=ZERO).astype(tl.float32)  # 0 past a row's end, so that sums are not affected
    sum_w, sum_b = tl.zeros((1, N), tl.float32), tl.zeros((1, N), tl.float32)
    for iteration in range(block * each, min((block + 1) * each, iterations)):
        loaded, summed = (), ()
        for i in tl.static_iter(range(TOGETHER)):  # the rows of an iteration wait once for memory and for their sums
            row = iteration * TOGETHER + i
            loaded += ((row, row_of(grad, row, N), row_of(x, row, N) - tl.load(mean, row, (1,))),)
        for i in tl.static_iter(range(TOGETHER)):
            row, g, d = loaded[i]
            u = g * weight
            summed += ((u, tl.sum(u, 1), tl.sum(u * d, 1)),)
        for i in tl.static_iter(range(TOGETHER)):
            row, g, d = loaded[i]
            (u, total, along), r = summed[i], tl.load(rstd, row, (1,))
            centred = tl.fma(-(r * (r * (along / count))), d, u - total / count)
            tl.store(grad_x, (row, 0), (r * centred).astype(grad_x.dtype))
            sum_w += g * (d * r)
            sum_b += g
    tl.store(parts, (0, block, 0), sum_w.reshape((1, 1, N)))
    tl.store(parts, (1, block, 0), sum_b.reshape((1, 1, N)))


@tl.kernel
def sum_kernel(parts, grad_w, grad_b, R: tl.Constant[int], C: tl.Constant[int]):
    column, which, total = tl.bid(0), tl.bid(1), tl.zeros((C,), tl.float32)
    for i in range(tl.num_tiles(parts, 1, (1, R, C))):
        total += tl.sum(tl.load(parts, (which, i, column), (1, R, C), padding_mode=ZERO), 1).reshape((C,))
    out = grad_w if which == 0 else grad_b
    tl.store(out, column, total.astype(out.dtype))


def matrix(x):
    return x.reshape(x.shape[:-1].numel(), x.shape[-1])


def width(x):
    return 1 << max(x.shape[-1] - 1, 0).bit_length()


@tile_ops.op("programs::layer_norm(Tensor x, Tensor weight, Tensor bias, float eps=1e-5) -> Tensor")
class layer_norm:
    """(x - mean) / sqrt(variance + eps) * weight + bias of each row.

    x: [..., columns] of float32, float16 or bfloat16, up to 16384 columns; weight, bias: [columns]. Accumulates in
    float32. Error: ValueError if shapes do not fit."""

    saves = "Tensor mean, Tensor rstd"

    def outputs(x, weight, bias):
        if not x.shape[-1:] == weight.shape == bias.shape or x.shape[-1] > 16384:
            raise ValueError(f"layer_norm: x is {list(x.shape)}, weight {list(weight.shape)}, bias {list(bias.shape)}; "
                             "pass [..., columns] of up to 16384 columns, [columns] and [columns]")  # fmt: skip
        return x.new_empty(x.shape)

    def saved_outputs(x):
        return tuple(x.new_empty(x.shape[:-1], dtype=torch.float32) for _ in range(2))

    def run(x, weight, bias, eps, out, mean, rstd):
        rows = matrix(x)
        if mean is None:  # no gradients are needed
            mean, rstd = rows.new_empty(2, len(rows), dtype=torch.float32)
        arguments = rows, weight, bias, matrix(out), mean.view(-1), rstd.view(-1)
        forward_kernel[len(rows)](*arguments, eps, width(x))

    class grad:
        def outputs(x, weight, bias):
            return x.new_empty(x.shape), torch.empty_like(weight), torch.empty_like(bias)

        def run(grad_out, x, weight, mean, rstd, grad_x, grad_weight, grad_bias):
            rows, flat = matrix(x), matrix(grad_out)
            N, bytes = width(x), width(x) * x.dtype.itemsize
            together = 1 if x.is_cpu else max(1, min(16384 // bytes, 4))  # rows of an iteration
            iterations = tl.cdiv(len(rows), together)
            blocks = 64 if x.is_cpu else max(132, 264 * 16384 // (together * bytes))  # as many as a GPU runs at once
            blocks = tl.cdiv(iterations, max(1, tl.cdiv(iterations, blocks)))
            parts = rows.new_empty(2, blocks, rows.shape[1], dtype=torch.float32)
            arguments = flat, rows, weight, mean.view(-1), rstd.view(-1), matrix(grad_x), parts
            backward_kernel[blocks](*arguments, together, N)
            R, C = (64, 256) if x.is_cpu else (256, 32)
            sum_kernel[tl.cdiv(rows.shape[1], C), 2](parts, grad_weight, grad_bias, R, C)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, weight, bias = (torch.randn(*size, 1000, device=device, requires_grad=True) for size in ((4, 100), (), ()))
    torch.testing.assert_close(layer_norm(x, weight, bias), torch.nn.functional.layer_norm(x, (1000,), weight, bias))
    layer_norm(x, weight, bias).square().sum().backward()
    print("layer norm of", list(x.shape), "and its gradients are there:", x.grad.norm().item())
