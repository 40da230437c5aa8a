"""Layer norm with its gradients.

A block takes a row. Backward, a block walks over many rows and keeps its sums for weight and bias in registers; a
second kernel adds the blocks' sums. Nothing is added by atomics, so results do not depend on timing.
Formula: Ba et al., "Layer normalization", 2016."""

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


@tl.kernel
def backward_kernel(grad, x, w, mean, rstd, grad_x, parts_w, parts_b, N: tl.Constant[int]):
    block, count = tl.bid(0), x.shape[1]
    weight = tl.load(w, 0, N, padding_mode=ZERO).astype(tl.float32)
    inside = tl.arange(N, dtype=tl.int32) < count
    sum_w, sum_b = tl.zeros((1, N), tl.float32), tl.zeros((1, N), tl.float32)
    for row in range(block, x.shape[0], tl.num_blocks(0)):
        g = tl.load(grad, (row, 0), (1, N), padding_mode=ZERO).astype(tl.float32)
        t, r = tl.load(x, (row, 0), (1, N)).astype(tl.float32), tl.load(rstd, row, ())
        normal = tl.where(inside, (t - tl.load(mean, row, ())) * r, 0)
        gw = g * weight
        along = tl.sum(gw * normal) / count
        tl.store(grad_x, (row, 0), ((gw - tl.sum(gw) / count - normal * along) * r).astype(grad_x.dtype))
        sum_w += g * normal
        sum_b += g
    tl.store(parts_w, (block, 0), sum_w)
    tl.store(parts_b, (block, 0), sum_b)


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


@tile_ops.op("programs::layer_norm(Tensor x, Tensor weight, Tensor bias, float eps=1e-5) -> Tensor")
class layer_norm:
    """(x - mean) / sqrt(variance + eps) * weight + bias of each row.

    x: [..., columns] of float32, float16 or bfloat16, up to 16384 columns; weight, bias: [columns]. Sums are of
    float32. Error: ValueError where shapes do not fit."""

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
        if mean is None:  # nobody asks for gradients
            mean, rstd = rows.new_empty(2, len(rows), dtype=torch.float32)
        arguments = rows, weight, bias, matrix(out), mean.view(-1), rstd.view(-1)
        forward_kernel[len(rows)](*arguments, eps, width(x))

    class grad:
        def outputs(x, weight, bias):
            return x.new_empty(x.shape), torch.empty_like(weight), torch.empty_like(bias)

        def run(grad_out, x, weight, mean, rstd, grad_x, grad_weight, grad_bias):
            rows, flat = matrix(x), matrix(grad_out)
            blocks = min(max(256, 2**19 // max(rows.shape[1], 1)), len(rows))  # enough to hide each other's waits
            parts = rows.new_empty(2, blocks, rows.shape[1], dtype=torch.float32)
            arguments = flat, rows, weight, mean.view(-1), rstd.view(-1), matrix(grad_x), *parts
            backward_kernel[blocks](*arguments, width(x))
            for part, out in zip(parts, (grad_weight, grad_bias)):
                sum_kernel[tl.cdiv(rows.shape[1], 64)](part, out, 32, 64)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, weight, bias = (torch.randn(*size, 1000, device=device, requires_grad=True) for size in ((4, 100), (), ()))
    torch.testing.assert_close(layer_norm(x, weight, bias), torch.nn.functional.layer_norm(x, (1000,), weight, bias))
    layer_norm(x, weight, bias).square().sum().backward()
    print("layer norm of", list(x.shape), "and its gradients are there:", x.grad.norm().item())
