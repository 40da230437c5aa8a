"""Histogram with atomics.

Each block counts its part of the numbers in its own bins, which only its threads add to. A second kernel sums the
blocks' bins, so that the whole GPU does not contend for one counter."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def count_kernel(x, counts, low: float, high: float, N: tl.Constant[int]):
    block, bins = tl.bid(0), counts.shape[1]
    for i in range(block, tl.num_tiles(x, 0, N), tl.num_blocks(0)):
        t = tl.load(x, i, N, padding_mode=tl.PaddingMode.NEG_INF).astype(tl.float32)
        inside = (t >= low) & (t <= high)  # false if t is NaN
        index = tl.where(inside, (t - low) / (high - low) * bins, -1).astype(tl.int32)
        where = block, tl.minimum(index, bins - 1)  # bin -1 is outside of the array, so it is not counted
        tl.atomic_add(counts, where, 1, memory_order=tl.MemoryOrder.RELAXED, memory_scope=tl.MemoryScope.BLOCK)


@tl.kernel
def sum_kernel(counts, out, R: tl.Constant[int], C: tl.Constant[int]):
    column, total = tl.bid(0), tl.zeros((C,), tl.int64)
    for i in range(tl.num_tiles(counts, 0, (R, C))):
        total += tl.sum(tl.load(counts, (i, column), (R, C), padding_mode=tl.PaddingMode.ZERO).astype(tl.int64), 0)
    tl.store(out, column, total)


@tile_ops.op("programs::histogram(Tensor x, int bins, float low, float high) -> Tensor counts")
class histogram:
    """The number of elements of x in each of `bins` equal parts of [low, high]: torch.histc, as int64.

    Bin i contains low + i width <= x < low + (i + 1) width, computed in float32; the last one includes high. NaN and
    numbers outside are not counted. x: float32, float16 or bfloat16, of any shape; 1 <= bins <= 2^20. Error: ValueError
    otherwise."""

    def outputs(x, bins, low, high):
        if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise ValueError(f"histogram: x is {x.dtype}; pass float32, float16 or bfloat16")
        if not 1 <= bins <= 1 << 20 or not low < high:
            raise ValueError(f"histogram: bins is {bins}, low {low} and high {high}; "
                             "pass 1 to 2^20 bins, and low < high")  # fmt: skip
        return x.new_empty(bins, dtype=torch.int64)

    def run(x, bins, low, high, counts):
        n, most = (16384, 16) if x.is_cpu else (4096, 528)
        blocks = min(most, tl.cdiv(x.numel(), n))
        parts = x.new_zeros(blocks, bins, dtype=torch.int32)
        count_kernel[blocks](x.reshape(-1), parts, low, high, n)
        sum_kernel[tl.cdiv(bins, 128)](parts, counts, 32, 128)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(1 << 22, device=device)
    counts = histogram(x, 8, -2.0, 2.0)
    assert counts.sum() == ((x >= -2) & (x <= 2)).sum()
    print("in eighths from -2 to 2 are", counts.tolist())
