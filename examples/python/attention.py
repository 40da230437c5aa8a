"""FlashAttention with its gradients: heads that share keys and values, causal or full, any lengths.

A block takes a tile of queries and walks over the tiles of keys, with a running maximum and sum of each row, so that no
matrix of scores is ever in memory. Backward, one kernel does so again for the queries' gradients, and another, a block
a tile of keys, walks over the queries of all heads that share it. The logarithm of each row's sum is what forward
saves. Formula: Dao, "FlashAttention-2: faster attention with better parallelism and work partitioning", 2023."""

import math

import tile_ops
import tile_ops.language as tl
import torch

LOG2_E = math.log2(math.e)  # exp(x) is exp2(x LOG2_E), and exp2 is the faster one
ZERO = tl.PaddingMode.ZERO
TILE = 64  # queries and keys of a step


def rows_of(array, b, h, i, T, D):
    """T rows of one head, [T, D]."""
    return tl.load(array, (b, h, i, 0), (1, 1, T, D), padding_mode=ZERO).reshape((T, D))


def numbers_of(array, b, h, i, T):
    """A number for each of T rows, [T, 1]."""
    return tl.load(array, (b, h, i), (1, 1, T), padding_mode=ZERO).reshape((T, 1))


def kept(i, j, keys, CAUSAL, TM, TN):
    """Which of TM queries see which of TN keys, [TM, TN]."""
    rows = (i * TM + tl.arange(TM, dtype=tl.int32))[:, None]
    columns = (j * TN + tl.arange(TN, dtype=tl.int32))[None, :]
    return (columns <= rows) & (columns < keys) if CAUSAL else columns + 0 * rows < keys


def product(x, y):
    return tl.mma(x, y, tl.zeros((x.shape[0], y.shape[1]), tl.float32))


def tiles_of_keys(i, k, CAUSAL, TM, TN):
    every = tl.cdiv(k.shape[2], TN)
    return min(every, tl.cdiv((i + 1) * TM, TN)) if CAUSAL else every


@tl.kernel
def forward_kernel(
    q, k, v, out, lse, scale: float, CAUSAL: tl.Constant[bool],
    TM: tl.Constant[int], TN: tl.Constant[int], D: tl.Constant[int],
):  # fmt: skip
    i, h, b = tl.bid(0), tl.bid(1), tl.bid(2)
    g = h // (q.shape[1] // k.shape[1])
    tq = rows_of(q, b, h, i, TM, D)
    acc, total = tl.zeros((TM, D), tl.float32), tl.zeros((TM, 1), tl.float32)
    top = tl.full((TM, 1), -math.inf, tl.float32)
    for j in range(tiles_of_keys(i, k, CAUSAL, TM, TN)):
        scores = product(tq, rows_of(k, b, g, j, TN, D).transpose()) * (scale * LOG2_E)
        scores = tl.where(kept(i, j, k.shape[2], CAUSAL, TM, TN), scores, -math.inf)
        new = tl.maximum(top, tl.max(scores, 1, keepdims=True))  # the first tile has a key for each row: it is finite
        weights, decay = tl.exp2(scores - new), tl.exp2(top - new)
        acc = tl.mma(weights.astype(v.dtype), rows_of(v, b, g, j, TN, D), acc * decay)
        total = total * decay + tl.sum(weights, 1, keepdims=True)
        top = new
    tl.store(out, (b, h, i, 0), (acc / total).astype(out.dtype).reshape((1, 1, TM, D)))
    tl.store(lse, (b, h, i), (top + tl.log2(total)).reshape((1, 1, TM)))  # to base 2, of scores times LOG2_E


@tl.kernel
def query_kernel(
    q, k, v, out, grad, lse, delta, grad_q, scale: float, CAUSAL: tl.Constant[bool],
    TM: tl.Constant[int], TN: tl.Constant[int], D: tl.Constant[int],
):  # fmt: skip
    i, h, b = tl.bid(0), tl.bid(1), tl.bid(2)
    g = h // (q.shape[1] // k.shape[1])
    tq, tg, tl_ = rows_of(q, b, h, i, TM, D), rows_of(grad, b, h, i, TM, D), numbers_of(lse, b, h, i, TM)
    d = tl.sum(tg.astype(tl.float32) * rows_of(out, b, h, i, TM, D).astype(tl.float32), 1, keepdims=True)
    tl.store(delta, (b, h, i), d.reshape((1, 1, TM)))  # for key_kernel, the next launch
    acc = tl.zeros((TM, D), tl.float32)
    for j in range(tiles_of_keys(i, k, CAUSAL, TM, TN)):
        tk = rows_of(k, b, g, j, TN, D)
        weights = tl.exp2(product(tq, tk.transpose()) * (scale * LOG2_E) - tl_)
        slope = weights * (product(tg, rows_of(v, b, g, j, TN, D).transpose()) - d)
        slope = tl.where(kept(i, j, k.shape[2], CAUSAL, TM, TN), slope, 0)
        acc = tl.mma(slope.astype(k.dtype), tk, acc)
    tl.store(grad_q, (b, h, i, 0), (acc * scale).astype(grad_q.dtype).reshape((1, 1, TM, D)))


@tl.kernel
def key_kernel(
    q, k, v, grad, lse, delta, grad_k, grad_v, scale: float, CAUSAL: tl.Constant[bool],
    TM: tl.Constant[int], TN: tl.Constant[int], D: tl.Constant[int],
):  # fmt: skip
    j, g, b = tl.bid(0), tl.bid(1), tl.bid(2)
    shared = q.shape[1] // k.shape[1]
    tk, tv = rows_of(k, b, g, j, TN, D), rows_of(v, b, g, j, TN, D)
    sum_k, sum_v = tl.zeros((TN, D), tl.float32), tl.zeros((TN, D), tl.float32)
    first = j * TN // TM if CAUSAL else 0
    for h in range(g * shared, (g + 1) * shared):  # all heads that read these keys
        for i in range(first, tl.cdiv(q.shape[2], TM)):
            tq, tg = rows_of(q, b, h, i, TM, D), rows_of(grad, b, h, i, TM, D)
            weights = tl.exp2(product(tq, tk.transpose()) * (scale * LOG2_E) - numbers_of(lse, b, h, i, TM))
            weights = tl.where(kept(i, j, k.shape[2], CAUSAL, TM, TN), weights, 0)
            slope = weights * (product(tg, tv.transpose()) - numbers_of(delta, b, h, i, TM))
            sum_v = tl.mma(weights.astype(q.dtype).transpose(), tg, sum_v)
            sum_k = tl.mma(slope.astype(q.dtype).transpose(), tq, sum_k)
    tl.store(grad_k, (b, g, j, 0), (sum_k * scale).astype(grad_k.dtype).reshape((1, 1, TN, D)))
    tl.store(grad_v, (b, g, j, 0), sum_v.astype(grad_v.dtype).reshape((1, 1, TN, D)))


def constants(q, causal, scale):
    return q.shape[3] ** -0.5 if scale is None else scale, causal, TILE, TILE, 1 << (q.shape[3] - 1).bit_length()


def grid(x):
    """A block for each tile of rows of each head."""
    return tl.cdiv(x.shape[2], TILE), x.shape[1], x.shape[0]


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
            raise ValueError(
                f"attention: q is {q.dtype}, k {k.dtype}, v {v.dtype}; pass one of float32, float16 and bfloat16"
            )
        return q.new_empty(q.shape)

    def saved_outputs(q):
        return q.new_empty(q.shape[:3], dtype=torch.float32)

    def run(q, k, v, causal, scale, out, lse):
        lse = q.new_empty(q.shape[:3], dtype=torch.float32) if lse is None else lse
        forward_kernel[grid(q)](q, k, v, out, lse, *constants(q, causal, scale))

    class grad:
        def outputs(q, k, v):
            return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)

        def run(grad_out, q, k, v, causal, scale, out, lse, grad_q, grad_k, grad_v):
            delta, given = torch.empty_like(lse), constants(q, causal, scale)
            query_kernel[grid(q)](q, k, v, out, grad_out, lse, delta, grad_q, *given)
            key_kernel[grid(k)](q, k, v, grad_out, lse, delta, grad_k, grad_v, *given)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    q = torch.randn(2, 8, 300, 64, device=device, requires_grad=True)
    k, v = (torch.randn(2, 2, 300, 64, device=device, requires_grad=True) for _ in range(2))
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(attention(q, k, v, causal=True), wanted, rtol=1e-4, atol=1e-4)
    attention(q, k, v, causal=True).square().sum().backward()
    print("attention of", list(q.shape), "and its gradients are there:", q.grad.norm().item())
