"""FlashAttention with its gradients: heads that share keys and values, causal or full, any lengths.

A block takes a tile of queries and loops over the tiles of keys, with a running maximum and sum of each row, so that
the matrix of scores is never in memory. Backward, one kernel does this again for the gradients of the queries; in
another, each block takes a tile of keys and loops over the queries of all heads that share it. Forward saves the
logarithm of each row's sum. The kernels take a function of one's own that changes scores, and its derivative. Formula: Dao, "FlashAttention-2: faster attention with better parallelism and work
partitioning", 2023."""

import math

import tile_ops
import tile_ops.language as tl
import torch

LOG2_E = math.log2(math.e)  # exp(x) is exp2(x LOG2_E), and exp2 is faster
LEAST = torch.finfo(torch.float32).min  # in place of -inf, because its product with a scale of 0 is 0
ZERO = tl.PaddingMode.ZERO


def rows_of(array, b, h, i, T, D):
    """Loads T rows of one head, [T, D]."""
    return tl.load(array, (b, h, i, 0), (1, 1, T, D), padding_mode=ZERO).reshape((T, D))


def numbers_of(array, b, h, i, T):
    """Loads a number for each of T rows."""
    return tl.load(array, (b, h, i), (1, 1, T), padding_mode=ZERO).reshape((T,))


def positions(i, T):
    return i * T + tl.arange(T, dtype=tl.int32)


def kept(i, j, keys, CAUSAL, TM, TN):
    """Returns which of TM queries attend to which of TN keys, [TM, TN]."""
    rows, columns = positions(i, TM)[:, None], positions(j, TN)[None, :]
    return (columns <= rows) & (columns < keys) if CAUSAL else columns + 0 * rows < keys


def block_position(GPU):
    """Returns a block's tile, the number of tiles, its head and its batch. On a GPU, blocks are ordered by tile before
    heads, so that the causal blocks with the most work begin first; on a CPU, the blocks of a head find its keys in the
    cache."""
    axis = 1 if GPU else 0
    return tl.bid(axis), tl.num_blocks(axis), tl.bid(1 - axis), tl.bid(2)


def product(x, y):
    return tl.mma(x, y, tl.zeros((x.shape[0], y.shape[1]), tl.float32))


def tiles_of_keys(i, k, CAUSAL, TM, TN):
    every = tl.cdiv(k.shape[2], TN)
    return min(every, tl.cdiv((i + 1) * TM, TN)) if CAUSAL else every


def exponents(products, rows, columns, scale, CHANGE):
    """Returns what exp2 takes, but for a factor, and the factor. CHANGE: None, or a function of scores and the positions
    of their queries and keys."""
    if CHANGE is None:
        return products, scale * LOG2_E
    return CHANGE(products * scale, rows, columns), LOG2_E


@tl.kernel
def forward_kernel(
    q, k, v, out, lse, scale: float, CAUSAL: tl.Constant[bool], GPU: tl.Constant[bool],
    TM: tl.Constant[int], TN: tl.Constant[int], D: tl.Constant[int], CHANGE: tl.Constant = None,
):  # fmt: skip
    i, blocks, h, b = block_position(GPU)
    i = blocks - 1 - i  # causal: the longest blocks first
    g = h // (q.shape[1] // k.shape[1])
    tq = rows_of(q, b, h, i, TM, D)
    acc, total = tl.zeros((TM, D), tl.float32), tl.zeros((TM, 1), tl.float32)
    top = tl.full((TM, 1), LEAST, tl.float32)
    for j in range(tiles_of_keys(i, k, CAUSAL, TM, TN)):
        scores = product(tq, rows_of(k, b, g, j, TN, D).transpose())  # not scaled yet
        scores, factor = exponents(scores, positions(i, TM)[:, None], positions(j, TN)[None, :], scale, CHANGE)
        seen = kept(i, j, k.shape[2], CAUSAL, TM, TN)
        new = tl.maximum(top, tl.max(tl.where(seen, scores, LEAST), 1, keepdims=True) * factor)
        weights, decay = tl.where(seen, tl.exp2(tl.fma(scores, factor, -new)), 0), tl.exp2(top - new)
        acc = tl.mma(weights.astype(v.dtype), rows_of(v, b, g, j, TN, D), acc * decay)
        total = total * decay + tl.sum(weights, 1, keepdims=True)
        top = new
    tl.store(out, (b, h, i, 0), (acc / total).astype(out.dtype).reshape((1, 1, TM, D)))
    tl.store(lse, (b, h, i), (top + tl.log2(total)).reshape((1, 1, TM)))  # base-2 logarithm


@tl.kernel
def delta_kernel(out, grad, delta, GPU: tl.Constant[bool], TM: tl.Constant[int], D: tl.Constant[int]):
    """Computes the term that the gradients of a row's scores share."""
    i, _, h, b = block_position(GPU)
    both = rows_of(out, b, h, i, TM, D).astype(tl.float32) * rows_of(grad, b, h, i, TM, D).astype(tl.float32)
    tl.store(delta, (b, h, i), tl.sum(both, 1).reshape((1, 1, TM)))


@tl.kernel
def query_kernel(
    q, k, v, grad, lse, delta, grad_q, scale: float, CAUSAL: tl.Constant[bool], GPU: tl.Constant[bool],
    TM: tl.Constant[int], TN: tl.Constant[int], D: tl.Constant[int],
    CHANGE: tl.Constant = None, DERIVATIVE: tl.Constant = None,
):  # fmt: skip
    i, blocks, h, b = block_position(GPU)
    i = blocks - 1 - i
    g = h // (q.shape[1] // k.shape[1])
    tq, tg = rows_of(q, b, h, i, TM, D), rows_of(grad, b, h, i, TM, D)
    shift, d = -numbers_of(lse, b, h, i, TM)[:, None], numbers_of(delta, b, h, i, TM)[:, None]
    acc = tl.zeros((TM, D), tl.float32)
    for j in range(tiles_of_keys(i, k, CAUSAL, TM, TN)):
        tk = rows_of(k, b, g, j, TN, D)
        products, rows, columns = product(tq, tk.transpose()), positions(i, TM)[:, None], positions(j, TN)[None, :]
        scores, factor = exponents(products, rows, columns, scale, CHANGE)
        weights = tl.exp2(tl.fma(scores, factor, shift))
        slope = weights * (product(tg, rows_of(v, b, g, j, TN, D).transpose()) - d)
        if DERIVATIVE is not None:
            slope = slope * DERIVATIVE(products * scale, rows, columns)
        slope = tl.where(kept(i, j, k.shape[2], CAUSAL, TM, TN), slope, 0)
        acc = tl.mma(slope.astype(k.dtype), tk, acc)
    tl.store(grad_q, (b, h, i, 0), (acc * scale).astype(grad_q.dtype).reshape((1, 1, TM, D)))


@tl.kernel
def key_kernel(
    q, k, v, grad, lse, delta, grad_k, grad_v, scale: float, CAUSAL: tl.Constant[bool], GPU: tl.Constant[bool],
    TM: tl.Constant[int], TN: tl.Constant[int], D: tl.Constant[int],
    CHANGE: tl.Constant = None, DERIVATIVE: tl.Constant = None,
):  # fmt: skip
    j, _, g, b = block_position(GPU)
    shared = q.shape[1] // k.shape[1]
    tk, tv = rows_of(k, b, g, j, TN, D), rows_of(v, b, g, j, TN, D)
    sum_k, sum_v = tl.zeros((TN, D), tl.float32), tl.zeros((TN, D), tl.float32)
    first = j * TN // TM if CAUSAL else 0
    for h in range(g * shared, (g + 1) * shared):  # all heads that share these keys
        for i in range(first, tl.cdiv(q.shape[2], TM)):
            tq, tg = rows_of(q, b, h, i, TM, D), rows_of(grad, b, h, i, TM, D)
            shift, d = -numbers_of(lse, b, h, i, TM)[None, :], numbers_of(delta, b, h, i, TM)[None, :]
            products, rows, columns = product(tk, tq.transpose()), positions(i, TM)[None, :], positions(j, TN)[:, None]
            scores, factor = exponents(products, rows, columns, scale, CHANGE)  # one row per key
            weights = tl.exp2(tl.fma(scores, factor, shift))
            if CAUSAL:
                weights = tl.where(columns <= rows, weights, 0)
            slope = weights * (product(tv, tg.transpose()) - d)
            if DERIVATIVE is not None:
                slope = slope * DERIVATIVE(products * scale, rows, columns)
            sum_v = tl.mma(weights.astype(q.dtype), tg, sum_v)
            sum_k = tl.mma(slope.astype(q.dtype), tq, sum_k)
    tl.store(grad_k, (b, g, j, 0), (sum_k * scale).astype(grad_k.dtype).reshape((1, 1, TN, D)))
    tl.store(grad_v, (b, g, j, 0), sum_v.astype(grad_v.dtype).reshape((1, 1, TN, D)))


def tiles(q, small):
    """Returns True if on a GPU, and the queries, keys and depth of a tile. `small`: the first two, for up to 128 16-bit
    numbers."""
    D = 1 << (q.shape[3] - 1).bit_length()
    side = 64 if q.is_cpu or D <= 128 else 32
    return not q.is_cpu, *(small if not q.is_cpu and q.dtype.itemsize == 2 and D <= 128 else (side, side)), D


def grid(x, T):
    """Returns a grid with a block for each tile of T rows of each head, in the order of `block_position`."""
    rows, heads = tl.cdiv(x.shape[2], T), x.shape[1]
    return (rows, heads, x.shape[0]) if x.is_cpu else (heads, rows, x.shape[0])


def scale_of(q, scale):
    return q.shape[3] ** -0.5 if scale is None else scale


@tile_ops.op("programs::attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None) -> Tensor")
class attention:
    """softmax(scale q kᵀ) v of each head.

    q: [batch, heads, queries, depth]; k, v: [batch, kv_heads, keys, depth] with heads a multiple of kv_heads and at
    least one key; all float32, float16 or bfloat16. causal: query i sees keys up to i. scale: 1 / sqrt(depth) by
    default. Error: ValueError where shapes or dtypes do not fit."""

    saves = "Tensor lse"

    def outputs(q, k, v):
        fits = q.dim() == 4 and k.dim() == 4 and k.shape == v.shape and q.shape[::3] == k.shape[::3]
        if not fits or 0 in k.shape[1:] or q.shape[1] % k.shape[1]:
            raise ValueError(f"attention: q is {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}; pass [batch, heads, "
                             "queries, depth] and twice [batch, kv_heads, keys, depth], with heads a multiple of kv_heads "
                             "and at least one key")  # fmt: skip
        if q.dtype not in (torch.float32, torch.float16, torch.bfloat16) or not q.dtype == k.dtype == v.dtype:
            raise ValueError(f"attention: q is {q.dtype}, k {k.dtype}, v {v.dtype}; pass one of float32, float16 and bfloat16")
        return q.new_empty(q.shape)

    def saved_outputs(q):
        return q.new_empty(q.shape[:3], dtype=torch.float32)

    def run(q, k, v, causal, scale, out, lse):
        lse = q.new_empty(q.shape[:3], dtype=torch.float32) if lse is None else lse
        scale, sizes = scale_of(q, scale), tiles(q, (128, 64))
        q, scale = (-q, -scale) if scale < 0 else (q, scale)
        forward_kernel[grid(q, sizes[1])](q, k, v, out, lse, scale, causal, *sizes)

    class grad:
        def outputs(q, k, v):
            return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)

        def run(grad_out, q, k, v, causal, scale, out, lse, grad_q, grad_k, grad_v):
            delta, scale = torch.empty_like(lse), scale_of(q, scale)
            sizes = tiles(q, (128, 32))
            delta_kernel[grid(q, sizes[1])](out, grad_out, delta, *sizes[:2], sizes[3])
            query_kernel[grid(q, sizes[1])](q, k, v, grad_out, lse, delta, grad_q, scale, causal, *sizes)
            sizes = tiles(q, (32, 128))
            key_kernel[grid(k, sizes[2])](q, k, v, grad_out, lse, delta, grad_k, grad_v, scale, causal, *sizes)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    q = torch.randn(2, 8, 300, 64, device=device, requires_grad=True)
    k, v = (torch.randn(2, 2, 300, 64, device=device, requires_grad=True) for _ in range(2))
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(attention(q, k, v, causal=True), wanted, rtol=1e-4, atol=1e-4)
    attention(q, k, v, causal=True).square().sum().backward()
    print("attention of", list(q.shape), "and its gradients are there:", q.grad.norm().item())
