"""Running sums over many blocks.

A launch sums each part of a row, the same algorithm computes running sums of these (again in parts if there are many),
and a last launch adds the running sum of its own part to that of all parts before it. Blelloch, "Prefix sums and their
applications", 1990."""

import tile_ops
import tile_ops.language as tl
import torch

ZERO = tl.PaddingMode.ZERO
MOST = 4096, 16384  # elements of a tile, on a GPU and on a CPU


@tl.kernel
def sums_kernel(x, sums, R: tl.Constant[int], N: tl.Constant[int]):
    row, part = tl.divmod(tl.bid(0), sums.shape[1])
    t = tl.load(x, (row, part), (R, N), padding_mode=ZERO).astype(sums.dtype)
    tl.store(sums, (row, part), tl.sum(t, 1, keepdims=True))


@tl.kernel
def scan_kernel(x, sums, out, REVERSE: tl.Constant[bool], R: tl.Constant[int], N: tl.Constant[int]):
    row, part = tl.divmod(tl.bid(0), sums.shape[1])
    t = tl.load(x, (row, part), (R, N), padding_mode=ZERO).astype(sums.dtype)
    before = tl.load(sums, (row, part + 1 if REVERSE else part - 1), (R, 1), padding_mode=ZERO)  # 0 outside the array
    tl.store(out, (row, part), (tl.cumsum(t, 1, reverse=REVERSE) + before).astype(out.dtype))


def running_sums(x, out, reverse):
    """Computes running sums along the rows of a matrix. Sums of parts are float64, or int64 if x has integers."""
    most = MOST[x.is_cpu]
    n = min(most, max(16, 1 << (x.shape[1] - 1).bit_length()))
    r, parts = most // n, tl.cdiv(x.shape[1], n)
    blocks = tl.cdiv(len(x), r) * parts
    sums = x.new_empty(len(x), parts, dtype=torch.float64 if x.is_floating_point() else torch.int64)
    if parts > 1:
        sums_kernel[blocks](x, sums, r, n)
        ends = torch.empty_like(sums)
        running_sums(sums, ends, reverse)
        sums = ends
    scan_kernel[blocks](x, sums, out, reverse, r, n)


@tile_ops.op("programs::prefix_sum(Tensor x, bool reverse=False) -> Tensor")
class prefix_sum:
    """Sums along the last extent up to and including each element; with `reverse`, from it on.

    x: [..., n] of floats, whose dtype the result has, or of integers or bool, which give int64. Floats are added in
    float64. Error: ValueError if x has no extent, or is complex."""

    def outputs(x):
        if not x.dim() or x.is_complex():
            raise ValueError(f"prefix_sum: x is {x.dtype} {list(x.shape)}; pass [..., n], not complex")
        return x.new_empty(x.shape, dtype=x.dtype if x.is_floating_point() else torch.int64)

    def run(x, reverse, out):
        if x.numel():
            running_sums(x.reshape(-1, x.shape[-1]), out.view(-1, x.shape[-1]), reverse)

    def grad(grad_out, reverse):
        return (prefix_sum(grad_out, not reverse),)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randint(-100, 100, (5_000_011,), device=device)
    assert torch.equal(prefix_sum(x), x.cumsum(0))
    assert torch.equal(prefix_sum(x, True), x.flip(0).cumsum(0).flip(0))
    print("running sums of", len(x), "integers are exact")
