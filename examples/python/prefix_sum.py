"""Running sums of long rows, with the gradient, which is a running sum from the end.

A row is cut into stretches, a block each: one kernel leaves the sum of each stretch, a second one the sums of all stretches
before it, and a third one adds those to the stretch's own running sum. Integers are exact and wrap; floats are added in
an order that does not depend on timing."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO
STRETCH = 4096


@tl.kernel
def total_kernel(x, totals, N: tl.Constant[int]):
    i, row = tl.bid(0), tl.bid(1)
    t = tl.load(x, (row, i), (1, N), padding_mode=ZERO).astype(totals.dtype)
    tl.store(totals, (row, i), tl.sum(t, 1, keepdims=True))


@tl.kernel
def before_kernel(totals, N: tl.Constant[int]):
    row, carry = tl.bid(0), tl.zeros((1, 1), totals.dtype)
    for i in range(tl.num_tiles(totals, 1, (1, N))):
        t = tl.load(totals, (row, i), (1, N), padding_mode=ZERO)
        tl.store(totals, (row, i), tl.cumsum(t, 1) - t + carry)
        carry += tl.sum(t, 1, keepdims=True)


@tl.kernel
def scan_kernel(x, totals, out, N: tl.Constant[int]):
    i, row = tl.bid(0), tl.bid(1)
    t = tl.load(x, (row, i), (1, N), padding_mode=ZERO).astype(totals.dtype)
    tl.store(out, (row, i), (tl.cumsum(t, 1) + tl.load(totals, (row, i), (1, 1))).astype(out.dtype))


@tile_ops.op("programs::prefix_sum(Tensor x) -> Tensor")
class prefix_sum:
    """out[..., i] = x[..., 0] + ... + x[..., i].

    x: [..., n] of float32, float16, bfloat16, int32 or int64, which the result has, too; 16-bit floats are summed in float32.
    Error: ValueError where x has no axis or another dtype."""

    def outputs(x):
        kinds = torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64
        if x.dim() < 1 or x.dtype not in kinds:
            raise ValueError(
                f"prefix_sum: x is {list(x.shape)} of {x.dtype}; pass [..., n] of float32, float16, bfloat16, int32 or int64"
            )
        return x.new_empty(x.shape)

    def run(x, out):
        rows = x.reshape(x.shape[:-1].numel(), x.shape[-1])
        grid = tl.cdiv(rows.shape[1], STRETCH), rows.shape[0]
        totals = rows.new_empty(grid[::-1], dtype=x.dtype if x.dtype.itemsize > 2 else torch.float32)
        total_kernel[grid](rows, totals, STRETCH)
        before_kernel[grid[1]](totals, 1024)
        scan_kernel[grid](rows, totals, out.view(rows.shape), STRETCH)

    def grad(grad_out):
        return prefix_sum(grad_out.flip(-1)).flip(-1)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randint(-9, 9, (3, 100_000), device=device)
    assert torch.equal(prefix_sum(x), x.cumsum(1))
    x = torch.randn(3, 100_000, device=device, requires_grad=True)
    prefix_sum(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.arange(100_000.0, 0, -1, device=device).expand(3, -1))
    print("running sums of", list(x.shape), "and their gradient are there")
