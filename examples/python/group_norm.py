"""Group norm with its gradients.

A block takes a group of channels of an image, and loops over its channels, one tile of pixels at a time: twice for
mean and variance, once to write. Backward, such a block computes x's gradient, and a second kernel, with a block per
channel, sums the channel's gradients over all images. No atomics are used. Formula: Wu and He, "Group normalization",
2018."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO


def tile_of(array, n, g, c, i, T):
    """Loads T pixels of channel c of group g of image n, [T]."""
    return tl.load(array, (n, g, c, i), (1, 1, 1, T), padding_mode=ZERO).reshape((T,)).astype(tl.float32)


@tl.kernel
def forward_kernel(x, w, b, out, mean, rstd, eps: float, T: tl.Constant[int]):
    g, n = tl.bid(0), tl.bid(1)
    channels, pixels = x.shape[2], x.shape[3]
    total = tl.zeros((T,), tl.float32)
    for c in range(channels):
        for i in range(tl.cdiv(pixels, T)):
            total += tile_of(x, n, g, c, i, T)
    m, squares = tl.sum(total) / (channels * pixels), tl.zeros((T,), tl.float32)
    for c in range(channels):
        for i in range(tl.cdiv(pixels, T)):
            d = tl.where(i * T + tl.arange(T, dtype=tl.int32) < pixels, tile_of(x, n, g, c, i, T) - m, 0)
            squares += d * d
    r = tl.rsqrt(tl.sum(squares) / (channels * pixels) + eps)
    for c in range(channels):
        weight, bias = tl.load(w, (g, c), ()).astype(tl.float32), tl.load(b, (g, c), ()).astype(tl.float32)
        for i in range(tl.cdiv(pixels, T)):
            y = (tile_of(x, n, g, c, i, T) - m) * (r * weight) + bias
            tl.store(out, (n, g, c, i), y.astype(out.dtype).reshape((1, 1, 1, T)))
    tl.store(mean, (n, g), m)
    tl.store(rstd, (n, g), r)


@tl.kernel
def input_kernel(grad, x, w, mean, rstd, grad_x, T: tl.Constant[int]):
    g, n = tl.bid(0), tl.bid(1)
    channels, pixels = x.shape[2], x.shape[3]
    m, r = tl.load(mean, (n, g), ()), tl.load(rstd, (n, g), ())
    plain, along = tl.zeros((T,), tl.float32), tl.zeros((T,), tl.float32)
    for c in range(channels):
        weight = tl.load(w, (g, c), ()).astype(tl.float32)
        for i in range(tl.cdiv(pixels, T)):
            gw = tile_of(grad, n, g, c, i, T) * weight
            plain += gw
            along += gw * (tile_of(x, n, g, c, i, T) - m)
    p, a = tl.sum(plain) / (channels * pixels), tl.sum(along) * r * r / (channels * pixels)
    for c in range(channels):
        weight = tl.load(w, (g, c), ()).astype(tl.float32)
        for i in range(tl.cdiv(pixels, T)):
            slope = (tile_of(grad, n, g, c, i, T) * weight - p - (tile_of(x, n, g, c, i, T) - m) * a) * r
            tl.store(grad_x, (n, g, c, i), slope.astype(grad_x.dtype).reshape((1, 1, 1, T)))


@tl.kernel
def channel_kernel(grad, x, mean, rstd, grad_w, grad_b, T: tl.Constant[int]):
    g, c = tl.bid(0), tl.bid(1)
    sum_w, sum_b = tl.zeros((T,), tl.float32), tl.zeros((T,), tl.float32)
    for n in range(x.shape[0]):
        m, r = tl.load(mean, (n, g), ()), tl.load(rstd, (n, g), ())
        for i in range(tl.cdiv(x.shape[3], T)):
            t = tile_of(grad, n, g, c, i, T)
            sum_w += t * (tile_of(x, n, g, c, i, T) - m) * r
            sum_b += t
    tl.store(grad_w, (g, c), tl.sum(sum_w).astype(grad_w.dtype))
    tl.store(grad_b, (g, c), tl.sum(sum_b).astype(grad_b.dtype))


def grouped(x, groups):
    """Returns [images, groups, channels of a group, pixels] of x, or [groups, channels of a group] of a weight."""
    if x.dim() == 1:
        return x.view(groups, len(x) // groups)
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, x.shape[2:].numel())


def width(x):
    return min(2048, 1 << max(x.shape[2:].numel() - 1, 0).bit_length())


@tile_ops.op("programs::group_norm(Tensor x, int groups, Tensor weight, Tensor bias, float eps=1e-5) -> Tensor")
class group_norm:
    """(x - mean) / sqrt(variance + eps) * weight + bias, where mean and variance are those of a group of channels of an
    image.

    x: [images, channels, ...] of float32, float16 or bfloat16; weight, bias: [channels]; groups divides channels.
    Accumulates in float32. Error: ValueError if shapes do not fit."""

    saves = "Tensor mean, Tensor rstd"

    def outputs(x, groups, weight, bias):
        if x.dim() < 2 or groups < 1 or x.shape[1] % groups or not x.shape[1:2] == weight.shape == bias.shape:
            raise ValueError(f"group_norm: x is {list(x.shape)}, groups {groups}, weight {list(weight.shape)}, bias "
                             f"{list(bias.shape)}; pass [images, channels, ...], a divisor of channels, and [channels] "
                             "twice")  # fmt: skip
        return x.new_empty(x.shape)

    def saved_outputs(x, groups):
        return tuple(x.new_empty(x.shape[0], groups, dtype=torch.float32) for _ in range(2))

    def run(x, groups, weight, bias, eps, out, mean, rstd):
        if mean is None:  # no gradients are needed
            mean, rstd = x.new_empty(2, x.shape[0], groups, dtype=torch.float32)
        x, weight, bias, out = (grouped(each, groups) for each in (x, weight, bias, out))
        forward_kernel[groups, x.shape[0]](x, weight, bias, out, mean, rstd, eps, width(x[:, 0]))

    class grad:
        def outputs(x, weight, bias):
            return x.new_empty(x.shape), torch.empty_like(weight), torch.empty_like(bias)

        def run(grad_out, x, groups, weight, mean, rstd, grad_x, grad_weight, grad_bias):
            arrays = (grad_out, x, weight, grad_x, grad_weight, grad_bias)
            grad, x, weight, grad_x, grad_weight, grad_bias = (grouped(each, groups) for each in arrays)
            input_kernel[groups, x.shape[0]](grad, x, weight, mean, rstd, grad_x, width(x[:, 0]))
            channel_kernel[groups, x.shape[2]](grad, x, mean, rstd, grad_weight, grad_bias, width(x[:, 0]))


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(2, 48, 30, 20, device=device, requires_grad=True)
    weight, bias = torch.randn(2, 48, device=device)
    torch.testing.assert_close(group_norm(x, 8, weight, bias), torch.nn.functional.group_norm(x, 8, weight, bias))
    group_norm(x, 8, weight, bias).square().sum().backward()
    print("group norm of", list(x.shape), "and its gradients are there:", x.grad.norm().item())
