"""Rotary position embedding with its gradient.

The two halves of a head's row are the coordinates of points, each of which is turned by an angle of its own times the
position. A block turns all heads of a few positions: angles are read once. The gradient is turned back, by the same kernel.
Formula: Su et al., "RoFormer: enhanced transformer with rotary position embedding", 2021."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def rotate_kernel(x, cos, sin, out, T: tl.Constant[int], D: tl.Constant[int]):
    i, b = tl.bid(0), tl.bid(1)
    c = tl.load(cos, (i, 0), (T, D)).reshape((1, 1, T, D))
    s = tl.load(sin, (i, 0), (T, D)).reshape((1, 1, T, D))
    half = x.shape[3] // 2
    low, high, out_low, out_high = (
        x.slice(3, 0, half),
        x.slice(3, half, 2 * half),
        out.slice(3, 0, half),
        out.slice(3, half, 2 * half),
    )
    for h in range(x.shape[1]):
        u = tl.load(low, (b, h, i, 0), (1, 1, T, D)).astype(tl.float32)
        v = tl.load(high, (b, h, i, 0), (1, 1, T, D)).astype(tl.float32)
        tl.store(out_low, (b, h, i, 0), (u * c - v * s).astype(out.dtype))
        tl.store(out_high, (b, h, i, 0), (v * c + u * s).astype(out.dtype))


@tile_ops.op("programs::rope(Tensor x, Tensor cos, Tensor sin) -> Tensor")
class rope:
    """(u cos - v sin, v cos + u sin) for the halves u, v of each row of x.

    x: [batch, heads, length, depth], depth even, of float32, float16 or bfloat16; cos, sin: [length, depth / 2] of float32,
    which get no gradients. Error: ValueError where shapes do not fit."""

    def outputs(x, cos, sin):
        if x.dim() != 4 or x.shape[3] % 2 or not cos.shape == sin.shape == (x.shape[2], x.shape[3] // 2):
            raise ValueError(
                f"rope: x is {list(x.shape)}, cos {list(cos.shape)}, sin {list(sin.shape)}; "
                "pass [batch, heads, length, depth] of even depth, and twice [length, depth / 2]"
            )
        return x.new_empty(x.shape)

    def run(x, cos, sin, out):
        width = 1 << max(x.shape[3] // 2 - 1, 0).bit_length()
        rotate_kernel[tl.cdiv(x.shape[2], 16), len(x)](x, cos, sin, out, 16, width)

    def grad(grad_out, cos, sin):
        return rope(grad_out, cos, -sin), None, None


def angles(length, depth, base=10000.0, device=None):
    """cos and sin, [length, depth / 2]: position times base ** (-2 i / depth)."""
    speeds = base ** (-torch.arange(0, depth, 2, device=device, dtype=torch.float64) / depth)
    angle = torch.arange(length, device=device, dtype=torch.float64)[:, None] * speeds
    return angle.cos().float(), angle.sin().float()


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(2, 4, 100, 64, device=device, requires_grad=True)
    cos, sin = angles(100, 64, device=device)
    turned = torch.view_as_complex(torch.stack(x.chunk(2, 3), -1)) * torch.complex(cos, sin)
    torch.testing.assert_close(rope(x, cos, sin), torch.cat([turned.real, turned.imag], 3))
    rope(x, cos, sin).square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * x)  # a rotation keeps lengths
    print("rotations of", list(x.shape), "and their gradient are there")
