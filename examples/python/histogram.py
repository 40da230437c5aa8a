"""Histogram by atomic sums.

A block walks over stretches of elements and adds 1 in the bin of each: in bins of its own, so that few blocks meet in one
place; a second kernel adds the blocks' bins. Sums of integers do not depend on their order."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def count_kernel(x, low: float, scale: float, parts, N: tl.Constant[int]):
    block, bins = tl.bid(0), parts.shape[1]
    for i in range(block, tl.num_tiles(x, 0, N), tl.num_blocks(0)):
        place = (tl.load(x, i, N, padding_mode=tl.PaddingMode.NAN).astype(tl.float32) - low) * scale
        inside = (place >= 0) & (place <= bins)  # no NaN
        bin = tl.minimum(tl.where(inside, place, 0).astype(tl.int32), bins - 1)  # the last bin has its upper end
        tl.atomic_add(parts, (block, tl.where(inside, bin, -1)), 1)  # none where outside


@tl.kernel
def sum_kernel(parts, out, N: tl.Constant[int]):
    i = tl.bid(0)
    total = tl.zeros((N,), tl.int64)
    for block in range(parts.shape[0]):
        total += tl.load(parts, (block, i), (1, N)).reshape((N,))
    tl.store(out, i, total)


@tile_ops.op("programs::histogram(Tensor x, int bins, float low, float high) -> Tensor")
class histogram:
    """How many elements of x lie in each of `bins` equal parts of low to high, [bins] of int64; high itself is in the last,
    what is outside, or NaN, in none. x: any shape of float32, float16 or bfloat16; places are computed in float32.
    Error: ValueError unless bins is at least 1 and low below high."""

    def outputs(x, bins, low, high):
        if bins < 1 or not low < high:
            raise ValueError(
                f"histogram: bins is {bins}, low {low}, high {high}; pass at least 1 bin, and low below high"
            )
        return x.new_empty(bins, dtype=torch.int64)

    def run(x, bins, low, high, out):
        blocks = max(1, min(tl.cdiv(x.numel(), 2048), 256 if x.is_cuda else torch.get_num_threads()))
        parts = x.new_zeros(blocks, bins, dtype=torch.int32 if x.numel() < 2**31 else torch.int64)
        count_kernel[blocks](x.reshape(-1), low, bins / (high - low), parts, 2048)
        sum_kernel[tl.cdiv(bins, 256)](parts, out, 256)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(1_000_000, device=device)
    counts = histogram(x, 100, -3.0, 3.0)
    wanted = torch.histc(x, 100, -3.0, 3.0)
    assert (counts - wanted).abs().max() <= 10 and counts.sum() == ((x >= -3) & (x <= 3)).sum()  # edges round
    print("histogram of", len(x), "numbers, the highest bin has", counts.max().item())
