"""Operators of attention whose gradients are derived: biases, caps, windows, shared heads and linear attention."""

import math

import tile_ops
import tile_ops.language as tl
import torch

from derive.cases import ZERO, case, power, wide

NEG = float("-inf")


def rows_of(array, b, h, i, T, D):
    """Loads T rows of one head, [T, D]."""
    return tl.load(array, (b, h, i, 0), (1, 1, T, D), padding_mode=ZERO).reshape((T, D))


def store_rows(array, b, h, i, tile):
    tl.store(array, (b, h, i, 0), tile.astype(array.dtype)[None, None, :, :])


def product(x, y, dtype):
    return tl.mma(x, y, tl.zeros((x.shape[0], y.shape[1]), dtype))


def softmax_of(scores, seen):
    """Returns the softmax of rows over the keys that are seen; rows without any are zeros."""
    scores = tl.where(seen, scores, NEG)
    top = tl.max(scores, 1, keepdims=True)
    e = tl.exp(scores - tl.where(top == NEG, 0, top))
    total = tl.sum(e, 1, keepdims=True)
    return e / tl.where(total == 0, 1, total)


def places(i, j, T, N):
    """Returns the positions of T queries, [T, 1], and of N keys, [1, N]."""
    return i * T + tl.arange(T, dtype=tl.int32)[:, None], j * N + tl.arange(N, dtype=tl.int32)[None, :]


def grid_of(q, T):
    return tl.cdiv(q.shape[2], T), q.shape[1], q.shape[0]


def heads(make, queries, keys, heads=2, kv_heads=2, depth=4):
    return make(1, heads, queries, depth), make(1, kv_heads, keys, depth), make(1, kv_heads, keys, depth)


def reference(q, k, v, change, seen=None):
    scores = change(q @ k.mT * 0.5)
    return (scores if seen is None else scores.masked_fill(~seen, -math.inf)).softmax(-1) @ v


def distance(queries, keys):
    """Returns the position of each query minus that of each key, [queries, keys]."""
    return torch.arange(queries)[:, None] - torch.arange(keys)


@tl.kernel
def alibi_kernel(q, k, v, slopes, out, T: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    i, h, b, dtype = tl.bid(0), tl.bid(1), tl.bid(2), wide(q)
    rows, columns = places(i, 0, T, N)
    scores = product(rows_of(q, b, h, i, T, D), rows_of(k, b, h, 0, N, D).transpose(), dtype) * 0.5
    scores -= tl.load(slopes, h, ()).astype(dtype) * (rows - columns).astype(dtype)
    p = softmax_of(scores, (columns <= rows) & (columns < k.shape[2]))
    store_rows(out, b, h, i, product(p.astype(v.dtype), rows_of(v, b, h, 0, N, D), dtype))


def alibi_reference(q, k, v, slopes):
    away = distance(q.shape[2], k.shape[2])
    return reference(q, k, v, lambda scores: scores - slopes[:, None, None] * away, away >= 0)


@case(lambda make: (*heads(make, 7, 7), make(2)), alibi_reference)
@tile_ops.op("gradients::alibi(Tensor q, Tensor k, Tensor v, Tensor slopes) -> Tensor", outputs="q", grad="auto")
def alibi(q, k, v, slopes, out):
    alibi_kernel[grid_of(q, 4)](q, k, v, slopes, out, 4, power(k.shape[2]), q.shape[3])


@tl.kernel
def capped_kernel(q, k, v, bias, out, cap: float, T: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    """Scores get a learned bias and then a cap by tanh; keys come in tiles."""
    i, h, b, dtype = tl.bid(0), tl.bid(1), tl.bid(2), wide(q)
    tq = rows_of(q, b, h, i, T, D)
    top, total, acc = tl.full((T, 1), NEG, dtype), tl.zeros((T, 1), dtype), tl.zeros((T, D), dtype)
    for j in range(tl.cdiv(k.shape[2], N)):
        _, columns = places(i, j, T, N)
        scores = product(tq, rows_of(k, b, h, j, N, D).transpose(), dtype) * 0.5
        scores += tl.load(bias, (h, i, j), (1, T, N), padding_mode=ZERO).reshape((T, N)).astype(dtype)
        scores = tl.where(columns < k.shape[2], cap * tl.tanh(scores / cap), NEG)
        new = tl.maximum(top, tl.max(scores, 1, keepdims=True))
        p, decay = tl.exp(scores - new), tl.exp(top - new)
        total = total * decay + tl.sum(p, 1, keepdims=True)
        acc = tl.mma(p.astype(v.dtype), rows_of(v, b, h, j, N, D), acc * decay)
        top = new
    store_rows(out, b, h, i, acc / total)


def capped_reference(q, k, v, bias, cap):
    return reference(q, k, v, lambda scores: cap * torch.tanh((scores + bias) / cap))


@case(lambda make: (*heads(make, 6, 7), make(2, 6, 7), 1.5), capped_reference)
@tile_ops.op("gradients::capped(Tensor q, Tensor k, Tensor v, Tensor bias, float cap) -> Tensor", outputs="q", grad="auto")
def capped(q, k, v, bias, cap, out):
    capped_kernel[grid_of(q, 4)](q, k, v, bias, out, cap, 4, 4, q.shape[3])


@tl.kernel
def window_kernel(q, k, v, out, window: int, T: tl.Constant[int], D: tl.Constant[int]):
    """A query sees `window` keys, up to its own; only their tiles are read."""
    i, h, b, dtype = tl.bid(0), tl.bid(1), tl.bid(2), wide(q)
    tq = rows_of(q, b, h, i, T, D)
    top, total, acc = tl.full((T, 1), -1e30, dtype), tl.zeros((T, 1), dtype), tl.zeros((T, D), dtype)
    for j in range(max(i * T - window + 1, 0) // T, i + 1):
        rows, columns = places(i, j, T, T)
        seen = (columns <= rows) & (columns > rows - window) & (columns < k.shape[2])
        scores = tl.where(seen, product(tq, rows_of(k, b, h, j, T, D).transpose(), dtype) * 0.5, NEG)
        new = tl.maximum(top, tl.max(scores, 1, keepdims=True))
        p, decay = tl.exp(scores - new), tl.exp(top - new)
        total = total * decay + tl.sum(p, 1, keepdims=True)
        acc = tl.mma(p.astype(v.dtype), rows_of(v, b, h, j, T, D), acc * decay)
        top = new
    store_rows(out, b, h, i, acc / total)


def window_reference(q, k, v, window):
    away = distance(q.shape[2], k.shape[2])
    return reference(q, k, v, lambda scores: scores, (away >= 0) & (away < window))


@case(lambda make: (*heads(make, 14, 14), 6), window_reference)
@tile_ops.op("gradients::window(Tensor q, Tensor k, Tensor v, int window) -> Tensor", outputs="q", grad="auto")
def window(q, k, v, window, out):
    window_kernel[grid_of(q, 4)](q, k, v, out, window, 4, q.shape[3])


@tl.kernel
def shared_heads_kernel(q, k, v, out, T: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    i, h, b, dtype = tl.bid(0), tl.bid(1), tl.bid(2), wide(q)
    g = h // (q.shape[1] // k.shape[1])
    rows, columns = places(i, 0, T, N)
    scores = product(rows_of(q, b, h, i, T, D), rows_of(k, b, g, 0, N, D).transpose(), dtype) * 0.5
    p = softmax_of(scores, (columns <= rows) & (columns < k.shape[2]))
    store_rows(out, b, h, i, product(p.astype(v.dtype), rows_of(v, b, g, 0, N, D), dtype))


def shared_heads_reference(q, k, v):
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    return reference(q, k, v, lambda scores: scores, distance(q.shape[2], k.shape[2]) >= 0)


@case(lambda make: heads(make, 6, 6, heads=6), shared_heads_reference)
@tile_ops.op("gradients::shared_heads(Tensor q, Tensor k, Tensor v) -> Tensor", outputs="q", grad="auto")
def shared_heads(q, k, v, out):
    shared_heads_kernel[grid_of(q, 4)](q, k, v, out, 4, power(k.shape[2]), q.shape[3])


@tl.kernel
def cross_kernel(q, k, v, kept, out, T: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    """Keys of another sequence, of which a mask keeps some; a sequence without any gives zeros."""
    i, h, b, dtype = tl.bid(0), tl.bid(1), tl.bid(2), wide(q)
    scores = product(rows_of(q, b, h, i, T, D), rows_of(k, b, h, 0, N, D).transpose(), dtype) * 0.5
    p = softmax_of(scores, tl.load(kept, (b, 0), (1, N)))
    store_rows(out, b, h, i, product(p.astype(v.dtype), rows_of(v, b, h, 0, N, D), dtype))


def cross_reference(q, k, v, kept):
    some = kept.any(1)[:, None, None, None]
    return torch.where(some, reference(q, k, v, lambda scores: scores, kept[:, None, None, :] | ~some), 0)


def cross_arguments(make):
    kept = torch.tensor([[True, False, True, True, False], [False] * 5])
    return make(2, 1, 6, 4), make(2, 1, 5, 4), make(2, 1, 5, 4), kept


@case(cross_arguments, cross_reference)
@tile_ops.op("gradients::cross(Tensor q, Tensor k, Tensor v, Tensor kept) -> Tensor", outputs="q", grad="auto")
def cross(q, k, v, kept, out):
    cross_kernel[grid_of(q, 4)](q, k, v, kept, out, 4, power(k.shape[2]), q.shape[3])


@tl.kernel
def relative_kernel(q, k, v, table, out, T: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    """A bias of the distance of query and key, from a table in which far distances share an entry."""
    i, h, b, dtype = tl.bid(0), tl.bid(1), tl.bid(2), wide(q)
    rows, columns = places(i, 0, T, N)
    half = table.shape[1] // 2
    bucket = tl.minimum(tl.maximum(rows - columns + half, 0), table.shape[1] - 1)
    scores = product(rows_of(q, b, h, i, T, D), rows_of(k, b, h, 0, N, D).transpose(), dtype) * 0.5
    p = softmax_of(scores + tl.gather(table, (h, bucket)).astype(dtype), columns < k.shape[2])
    store_rows(out, b, h, i, product(p.astype(v.dtype), rows_of(v, b, h, 0, N, D), dtype))


def relative_reference(q, k, v, table):
    bucket = (distance(q.shape[2], k.shape[2]) + table.shape[1] // 2).clamp(0, table.shape[1] - 1)
    return reference(q, k, v, lambda scores: scores + table[:, bucket])


@case(lambda make: (*heads(make, 6, 7), make(2, 5)), relative_reference)
@tile_ops.op("gradients::relative(Tensor q, Tensor k, Tensor v, Tensor table) -> Tensor", outputs="q", grad="auto")
def relative(q, k, v, table, out):
    relative_kernel[grid_of(q, 4)](q, k, v, table, out, 4, power(k.shape[2]), q.shape[3])


@tl.kernel
def sink_kernel(q, k, v, sink, out, lse, T: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    """A learned logit takes part in each row's sum, but has no value. The logarithms of sums are a result, too."""
    i, h, b, dtype = tl.bid(0), tl.bid(1), tl.bid(2), wide(q)
    _, columns = places(i, 0, T, N)
    logit = tl.load(sink, h, ()).astype(dtype)
    scores = product(rows_of(q, b, h, i, T, D), rows_of(k, b, h, 0, N, D).transpose(), dtype) * 0.5
    scores = tl.where(columns < k.shape[2], scores, NEG)
    top = tl.maximum(tl.max(scores, 1, keepdims=True), logit)
    e = tl.exp(scores - top)
    total = tl.sum(e, 1, keepdims=True) + tl.exp(logit - top)
    store_rows(out, b, h, i, product((e / total).astype(v.dtype), rows_of(v, b, h, 0, N, D), dtype))
    tl.store(lse, (b, h, i), (top + tl.log(total)).astype(lse.dtype).reshape((1, 1, T)))


def sink_reference(q, k, v, sink):
    scores = q @ k.mT * 0.5
    scores = torch.cat((scores, sink[:, None, None].expand(*scores.shape[:3], 1)), -1)
    return scores.softmax(-1)[..., :-1] @ v, scores.logsumexp(-1)


def sink_outputs(q):
    return torch.empty_like(q), q.new_empty(q.shape[:3])


@case(lambda make: (*heads(make, 6, 5), make(2)), sink_reference)
@tile_ops.op(
    "gradients::sink(Tensor q, Tensor k, Tensor v, Tensor sink) -> (Tensor out, Tensor lse)", outputs=sink_outputs, grad="auto"
)
def sink(q, k, v, sink, out, lse):
    sink_kernel[grid_of(q, 4)](q, k, v, sink, out, lse, 4, power(k.shape[2]), q.shape[3])


@tl.kernel
def decoding_kernel(q, k, v, parts, lse, T: tl.Constant[int], D: tl.Constant[int]):
    """One query of each head; blocks share the keys among them, and the next kernel joins their results."""
    part, h, dtype = tl.bid(0), tl.bid(1), wide(q)
    query = tl.load(q, (h, 0), (1, D)).astype(dtype)
    keys = tl.load(k, (h, part, 0), (1, T, D)).reshape((T, D)).astype(dtype)
    values = tl.load(v, (h, part, 0), (1, T, D)).reshape((T, D)).astype(dtype)
    scores = tl.sum(keys * query, 1, keepdims=True) * 0.5
    scores = tl.where(part * T + tl.arange(T, dtype=tl.int32)[:, None] < k.shape[1], scores, NEG)
    top = tl.max(scores)
    e = tl.exp(scores - top)
    tl.store(parts, (h, part, 0), (tl.sum(e * values, 0) / tl.sum(e))[None, None, :])
    tl.store(lse, (h, part), top + tl.log(tl.sum(e)))


@tl.kernel
def joining_kernel(parts, lse, out, P: tl.Constant[int], D: tl.Constant[int]):
    h = tl.bid(0)
    weights = tl.load(lse, (h, 0), (1, P), padding_mode=tl.PaddingMode.NEG_INF).reshape((P, 1))
    weights = tl.exp(weights - tl.max(weights))
    values = tl.load(parts, (h, 0, 0), (1, P, D)).reshape((P, D))
    tl.store(out, (h, 0), (tl.sum(weights * values, 0) / tl.sum(weights))[None, :].astype(out.dtype))


def decoding_reference(q, k, v):
    return torch.einsum("hk,hkd->hd", (torch.einsum("hd,hkd->hk", q, k) * 0.5).softmax(1), v)


@case(lambda make: (make(2, 4), make(2, 11, 4), make(2, 11, 4)), decoding_reference)
@tile_ops.op("gradients::decoding(Tensor q, Tensor k, Tensor v) -> Tensor", outputs="q", grad="auto")
def decoding(q, k, v, out):
    count, dtype = tl.cdiv(k.shape[1], 4), torch.float64 if q.dtype == torch.float64 else torch.float32
    parts, lse = q.new_empty(len(q), count, q.shape[1], dtype=dtype), q.new_empty(len(q), count, dtype=dtype)
    decoding_kernel[count, len(q)](q, k, v, parts, lse, 4, q.shape[1])
    joining_kernel[len(q)](parts, lse, out, power(count), q.shape[1])


@tl.kernel
def linear_attention_kernel(q, k, v, out, T: tl.Constant[int], D: tl.Constant[int]):
    """Causal attention whose weights are products of positive features: chunks with a carried state."""
    h, b, dtype = tl.bid(0), tl.bid(1), wide(q)
    state, norm = tl.zeros((D, D), dtype), tl.zeros((D,), dtype)
    for i in range(tl.cdiv(q.shape[2], T)):
        rows, columns = places(i, i, T, T)
        tq, tk = tl.exp(rows_of(q, b, h, i, T, D).astype(dtype)), rows_of(k, b, h, i, T, D).astype(dtype)
        tk = tl.where(rows < k.shape[2], tl.exp(tk), 0)
        tv = rows_of(v, b, h, i, T, D).astype(dtype)
        scores = tl.where(columns <= rows, product(tq, tk.transpose(), dtype), 0)
        above = tl.mma(tq, state, product(scores, tv, dtype))
        below = tl.sum(scores, 1, keepdims=True) + tl.sum(tq * norm, 1, keepdims=True)
        store_rows(out, b, h, i, above / below)
        state, norm = tl.mma(tk.transpose(), tv, state), norm + tl.sum(tk, 0)


def linear_attention_reference(q, k, v):
    scores = (q.exp() @ k.exp().mT).tril()
    return scores / scores.sum(-1, keepdim=True) @ v


@case(lambda make: heads(make, 11, 11), linear_attention_reference)
@tile_ops.op("gradients::linear_attention(Tensor q, Tensor k, Tensor v) -> Tensor", outputs="q", grad="auto")
def linear_attention(q, k, v, out):
    linear_attention_kernel[q.shape[1], q.shape[0]](q, k, v, out, 4, q.shape[3])


@tl.kernel
def differential_kernel(q, k, v, factor, out, T: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    """The difference of two softmaxes, whose queries and keys are halves of the given ones."""
    i, h, b, dtype = tl.bid(0), tl.bid(1), tl.bid(2), wide(q)
    columns, values = tl.arange(N, dtype=tl.int32)[None, :], rows_of(v, b, h, 0, N, 2 * D)
    tq, tk = rows_of(q, b, h, i, T, 2 * D), rows_of(k, b, h, 0, N, 2 * D)
    weights = ()
    for half in tl.static_iter(range(2)):
        scores = product(tq.extract((0, half), (T, D)), tk.extract((0, half), (N, D)).transpose(), dtype) * 0.5
        weights += (softmax_of(scores, columns < k.shape[2]),)
    p = weights[0] - tl.sigmoid(tl.load(factor, h, ()).astype(dtype)) * weights[1]
    store_rows(out, b, h, i, product(p.astype(v.dtype), values, dtype))


def differential_reference(q, k, v, factor):
    first, second = ((a @ b.mT * 0.5).softmax(-1) for a, b in zip(q.chunk(2, -1), k.chunk(2, -1)))
    return (first - factor.sigmoid()[:, None, None] * second) @ v


@case(lambda make: (*heads(make, 6, 5), make(2)), differential_reference)
@tile_ops.op("gradients::differential(Tensor q, Tensor k, Tensor v, Tensor factor) -> Tensor", outputs="q", grad="auto")
def differential(q, k, v, factor, out):
    differential_kernel[grid_of(q, 4)](q, k, v, factor, out, 4, power(k.shape[2]), q.shape[3] // 2)


@tl.kernel
def packed_kernel(q, k, v, begins, out, scale: float, T: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    """Sequences one after another in the rows of a matrix; a query sees the keys of its own."""
    i, dtype = tl.bid(0), wide(q)
    rows, columns = places(i, 0, T, N)
    own, other = tl.gather(begins, rows), tl.gather(begins, columns)  # equal within a sequence
    scores = product(tl.load(q, (i, 0), (T, D)), tl.load(k, (0, 0), (N, D)).transpose(), dtype) * scale
    p = softmax_of(scores, (own == other) & (columns < k.shape[0]))
    tl.store(out, (i, 0), product(p.astype(v.dtype), tl.load(v, (0, 0), (N, D)), dtype).astype(out.dtype))


def packed_reference(q, k, v, begins, scale):
    return (q @ k.mT * scale).masked_fill(begins[:, None] != begins, -math.inf).softmax(-1) @ v


@case(lambda make: (*(make(9, 4) for _ in range(3)), torch.tensor([0, 0, 0, 3, 4, 4, 4, 4, 4]), 0.5), packed_reference)
@tile_ops.op("gradients::packed(Tensor q, Tensor k, Tensor v, Tensor begins, float scale) -> Tensor", outputs="q", grad="auto")
def packed(q, k, v, begins, scale, out):
    packed_kernel[tl.cdiv(len(q), 4)](q, k, v, begins, out, scale, 4, power(len(k)), q.shape[1])
