"""Rotary position embedding, with its gradient computed by the same kernel.

The first and the second half of a row are the coordinates of points, each of which is rotated by its own angle, which
grows with the row's position. The gradient rotates by the negative angle; only the tables are saved. Formula: Su et
al., "RoFormer: enhanced transformer with rotary position embedding", 2021."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def rope_kernel(x, cos, sin, out, sign: float, T: tl.Constant[int], D: tl.Constant[int]):
    i, h, b = tl.bid(0), tl.bid(1), tl.bid(2)
    first = tl.load(x, (b, h, i, 0, 0), (1, 1, T, 1, D)).reshape((T, D)).astype(tl.float32)
    second = tl.load(x, (b, h, i, 1, 0), (1, 1, T, 1, D)).reshape((T, D)).astype(tl.float32)
    c, s = tl.load(cos, (i, 0), (T, D)).astype(tl.float32), tl.load(sin, (i, 0), (T, D)).astype(tl.float32) * sign
    tl.store(out, (b, h, i, 0, 0), (first * c - second * s).astype(out.dtype).reshape((1, 1, T, 1, D)))
    tl.store(out, (b, h, i, 1, 0), (second * c + first * s).astype(out.dtype).reshape((1, 1, T, 1, D)))


def rotate(x, cos, sin, out, sign):
    """Writes x to out, with its points rotated by sign times the angles of cos and sin."""
    halves = [each.unflatten(-1, (2, x.shape[3] // 2)) for each in (x, out)]
    width = 1 << max(x.shape[3] // 2 - 1, 0).bit_length()
    height = max(1, 2048 // width)
    rope_kernel[tl.cdiv(x.shape[2], height), x.shape[1], x.shape[0]](halves[0], cos, sin, halves[1], sign, height, width)


def tables(length, depth, base=10000.0, device=None):
    """Returns cos and sin of the angles position * base ** (-2 i / depth), [length, depth / 2] each, in float32."""
    speeds = base ** (-torch.arange(0, depth, 2, dtype=torch.float64, device=device) / depth)
    angles = torch.arange(length, device=device).double()[:, None] * speeds
    return angles.cos().float(), angles.sin().float()


@tile_ops.op("programs::rope(Tensor x, Tensor cos, Tensor sin) -> Tensor")
class rope:
    """The pairs (x[..., i], x[..., i + depth / 2]) rotated by the angles whose cosines and sines are passed.

    x: [batch, heads, length, depth] of float32, float16 or bfloat16, depth even; cos, sin: [length, depth / 2] of any
    of these, without gradients. Computed in float32. Error: ValueError if shapes or dtypes do not fit."""

    def outputs(x, cos, sin):
        fits = x.dim() == 4 and x.shape[3] % 2 == 0 and cos.shape == sin.shape == (x.shape[2], x.shape[3] // 2)
        if not fits:
            raise ValueError(f"rope: x is {list(x.shape)}, cos {list(cos.shape)}, sin {list(sin.shape)}; pass [batch, "
                             "heads, length, depth] of an even depth, and twice [length, depth / 2]")  # fmt: skip
        if any(each.dtype not in (torch.float32, torch.float16, torch.bfloat16) for each in (x, cos, sin)):
            raise ValueError(f"rope: x is {x.dtype}, cos {cos.dtype}, sin {sin.dtype}; pass float32, float16 or bfloat16")
        return x.new_empty(x.shape)

    def run(x, cos, sin, out):
        rotate(x, cos, sin, out, 1.0)

    class grad:
        def outputs(grad_out):
            return grad_out.new_empty(grad_out.shape)

        def run(grad_out, cos, sin, grad_x):
            rotate(grad_out, cos, sin, grad_x, -1.0)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(2, 8, 1000, 128, device=device, requires_grad=True)
    cos, sin = tables(1000, 128, device=device)
    first, second = x.chunk(2, -1)
    torch.testing.assert_close(rope(x, cos, sin), torch.cat((first * cos - second * sin, second * cos + first * sin), -1))
    rope(x, cos, sin).square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())  # rotation preserves lengths
    print("rotary embedding of", list(x.shape), "and its gradient are there:", x.grad.norm().item())
