"""The k largest elements of each row, in order, with their indices, by bitonic sorting.

A number and its index become one integer, larger for larger numbers and for smaller indices, so that no two are equal.
A row is a matrix whose columns are runs of k, so that steps work on whole rows of it. The runs are sorted, half of them
ascending; then the larger numbers of a descending and an ascending run are kept and put in order by one merge, until
one run is left. Batcher, "Sorting networks and their applications", 1968; Shanbhag et al., "Efficient top-k query
processing on massively parallel hardware", 2018."""

import tile_ops
import tile_ops.language as tl
import torch

LEAST = -(1 << 63)
DTYPES = torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.int8, torch.uint8


def ordered(x):
    """Maps x to int64 integers in the same order: NaN above all, -0 equal to 0."""
    if not tl.static_eval(x.dtype in (tl.float32, tl.float16, tl.bfloat16)):
        return x.astype(tl.int64)
    value = x.astype(tl.float32)
    bits = tl.bitcast(tl.where(value == 0, 0, value), tl.int32)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return tl.where(tl.isnan(value), 0x7FFFFFFF, bits).astype(tl.int64)


def merged(keys, size):
    """Sorts bitonic runs of a size, along the middle axis, alternately descending and ascending; whole columns are
    descending in the first half of them and ascending in the other."""
    rows, length, columns = keys.shape
    for half in tl.static_iter(size >> i + 1 for i in range(size.bit_length() - 1)):
        count = length // (2 * half)
        pairs, part = keys.reshape((rows, count, 2, half, columns)), (rows, count, 1, half, columns)
        x, y = pairs.extract((0, 0, 0, 0, 0), part), pairs.extract((0, 0, 1, 0, 0), part)
        if size < length:
            rises = (tl.arange(count, dtype=tl.int32) & size // (2 * half) != 0).reshape((1, count, 1, 1, 1))
        else:
            rises = (tl.arange(columns, dtype=tl.int32) * 2 >= max(columns, 2)).reshape((1, 1, 1, 1, columns))
        low, high = tl.minimum(x, y), tl.maximum(x, y)
        keys = tl.cat((tl.where(rises, low, high), tl.where(rises, high, low)), 2).reshape((rows, length, columns))
    return keys


@tl.kernel
def top_k_kernel(x, values, indices, R: tl.Constant[int], N: tl.Constant[int], K: tl.Constant[int]):
    i, column = tl.bid(0), tl.arange(N, dtype=tl.int32)
    keys = (ordered(tl.load(x, (i, 0), (R, N))) << 32) + (N - 1 - column)
    keys = tl.where(column < x.shape[1], keys, LEAST).reshape((R, K, N // K))  # each column is a run
    for stage in tl.static_iter(range(1, K.bit_length())):
        keys = merged(keys, 1 << stage)
    for count in tl.static_iter(N // K >> i + 1 for i in range((N // K).bit_length() - 1)):
        keys = merged(tl.max(keys.reshape((R, K, 2, count)), 2), K)
    keys = keys.reshape((R, K))
    at = N - 1 - (keys & (N - 1)).astype(tl.int32)
    tl.store(indices, (i, 0), at)
    tl.store(values, (i, 0), tl.gather(x, ((i * R + tl.arange(R, dtype=tl.int32))[:, None], at)))


@tile_ops.op("programs::top_k(Tensor x, int k) -> (Tensor values, Tensor indices)")
class top_k:
    """The k largest elements of each row in descending order, and their indices, int64; like torch.topk with
    sorted=True.

    NaN comes first, equal numbers in row order. x: [..., columns] of float32, float16, bfloat16, int32, int16, int8 or
    uint8, up to 4096 columns, 0 <= k <= columns. Error: ValueError otherwise."""

    def outputs(x, k):
        if x.dtype not in DTYPES:
            raise ValueError(f"top_k: x is {x.dtype}; pass floats or integers of up to 32 bits")
        if not x.dim() or x.shape[-1] > 4096 or not 0 <= k <= x.shape[-1]:
            raise ValueError(f"top_k: x is {list(x.shape)} and k {k}; pass [..., columns] of up to 4096 columns and no "
                             "larger k")  # fmt: skip
        shape = *x.shape[:-1], k
        return x.new_empty(shape), x.new_empty(shape, dtype=torch.int64)

    def run(x, k, values, indices):
        if values.numel():
            n, most = 1 << (x.shape[-1] - 1).bit_length(), 1 << (k - 1).bit_length()
            r, rows = max(1, 1024 // n), x.reshape(-1, x.shape[-1])
            top_k_kernel[tl.cdiv(len(rows), r)](rows, values.view(-1, k), indices.view(-1, k), r, n, most)

    def grad(grad_values, x, indices):
        return (torch.zeros_like(x, dtype=grad_values.dtype).scatter(-1, indices, grad_values),)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(64, 4000, device=device)
    values, indices = top_k(x, 10)
    torch.testing.assert_close(values, x.topk(10).values, rtol=0, atol=0)
    assert torch.equal(x.gather(1, indices), values)
    print("the 10 largest of 64 rows of 4000 are those of torch")
