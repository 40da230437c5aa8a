"""Operators of elements, rows, products and recurrences whose gradients are derived."""

import tile_ops
import tile_ops.language as tl
import torch
import torch.nn.functional as F

from derive.cases import CASES, NEG_INF, case, power, row_outputs

__all__ = ["CASES"]


@tl.kernel
def swish_kernel(x, out, N: tl.Constant[int]):
    i = tl.bid(0)
    t = tl.load(x, (i,), (N,))
    tl.store(out, (i,), t * tl.sigmoid(t))


@case(lambda make: (make(3, 37),), F.silu)
@tile_ops.op("derived::swish(Tensor x) -> Tensor", outputs="x", grad="auto")
def swish(x, out):
    swish_kernel[tl.cdiv(x.numel(), 32)](x.view(-1), out.view(-1), 32)


@tl.kernel
def polynomial_kernel(x, y, out, scale: float, N: tl.Constant[int]):
    i = tl.bid(0)
    a, b = tl.load(x, (i,), (N,)), tl.load(y, (i,), (N,))
    t = tl.where(a > b, a * b * scale, tl.exp(-a) / (b * b + 1)) + tl.maximum(a, b)
    tl.store(out, (i,), t.astype(out.dtype))


def polynomial_reference(x, y, scale):
    return torch.where(x > y, x * y * scale, torch.exp(-x) / (y * y + 1)) + torch.maximum(x, y)


@case(lambda make: (make(50), make(50), 1.5), polynomial_reference)
@tile_ops.op("derived::polynomial(Tensor x, Tensor y, float scale) -> Tensor", outputs="x", grad="auto")
def polynomial(x, y, scale, out):
    polynomial_kernel[tl.cdiv(x.numel(), 16)](x, y, out, scale, 16)


@tl.kernel
def softmax_kernel(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N), padding_mode=NEG_INF)
    e = tl.exp(t - tl.max(t, axis=1, keepdims=True))
    tl.store(out, (row, 0), e / tl.sum(e, axis=1, keepdims=True))


@case(lambda make: (make(5, 13),), lambda x: x.softmax(-1))
@tile_ops.op("derived::softmax(Tensor x) -> Tensor", outputs="x", grad="auto")
def softmax(x, out):
    softmax_kernel[x.shape[0]](x, out, power(x.shape[1]))


@tl.kernel
def dealt_softmax_kernel(x, out, N: tl.Constant[int]):
    for row in range(tl.bid(0), x.shape[0], tl.num_blocks(0)):
        t = tl.load(x, (row, 0), (1, N), padding_mode=NEG_INF)
        e = tl.exp(t - tl.max(t, axis=1, keepdims=True))
        tl.store(out, (row, 0), e / tl.sum(e, axis=1, keepdims=True))


@case(lambda make: (make(7, 13),), lambda x: x.softmax(-1))
@tile_ops.op("derived::dealt_softmax(Tensor x) -> Tensor", outputs="x", grad="auto")
def dealt_softmax(x, out):
    dealt_softmax_kernel[3](x, out, power(x.shape[1]))


@tl.kernel
def chunked_softmax_kernel(x, out, N: tl.Constant[int]):
    block = tl.bid(0)
    each = tl.cdiv(x.shape[0], tl.num_blocks(0))
    for row in range(block * each, min((block + 1) * each, x.shape[0])):
        t = tl.load(x, (row, 0), (1, N), padding_mode=NEG_INF)
        e = tl.exp(t - tl.max(t, axis=1, keepdims=True))
        tl.store(out, (row, 0), e / tl.sum(e, axis=1, keepdims=True))


@case(lambda make: (make(7, 13),), lambda x: x.softmax(-1))
@tile_ops.op("derived::chunked_softmax(Tensor x) -> Tensor", outputs="x", grad="auto")
def chunked_softmax(x, out):
    chunked_softmax_kernel[3](x, out, power(x.shape[1]))


@tl.kernel
def long_softmax_kernel(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    count = tl.cdiv(x.shape[1], N)
    high = tl.full((1, N), float("-inf"), tl.float32)
    for k in range(count):
        high = tl.maximum(high, tl.load(x, (row, k), (1, N), padding_mode=NEG_INF))
    top = tl.max(high, axis=1, keepdims=True)
    total = tl.zeros((1, N), tl.float32)
    for k in range(count):
        total += tl.exp(tl.load(x, (row, k), (1, N), padding_mode=NEG_INF) - top)
    whole = tl.sum(total, axis=1, keepdims=True)
    for k in range(count):
        t = tl.load(x, (row, k), (1, N), padding_mode=NEG_INF)
        tl.store(out, (row, k), tl.exp(t - top) / whole)


@case(lambda make: (make(3, 21, dtype=torch.float32),), lambda x: x.softmax(-1), float32=True)
@tile_ops.op("derived::long_softmax(Tensor x) -> Tensor", outputs="x", grad="auto")
def long_softmax(x, out):
    long_softmax_kernel[x.shape[0]](x, out, 8)


@tl.kernel
def rms_norm_kernel(x, w, out, eps: float, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N))
    r = tl.rsqrt(tl.sum(t * t, axis=1, keepdims=True) / x.shape[1] + eps)
    tl.store(out, (row, 0), (t * r * tl.load(w, (0,), (N,))).astype(out.dtype))


@case(lambda make: (make(5, 12), make(12), 1e-5), lambda x, w, eps: F.rms_norm(x, (x.shape[-1],), w, eps))
@tile_ops.op("derived::rms_norm(Tensor x, Tensor w, float eps) -> Tensor", outputs="x", grad="auto")
def rms_norm(x, w, eps, out):
    rms_norm_kernel[x.shape[0]](x, w, out, eps, power(x.shape[1]))


@tl.kernel
def layer_norm_kernel(x, w, b, out, eps: float, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N))
    n = x.shape[1]
    inside = tl.arange(N, dtype=tl.int32)[None, :] < n
    centred = tl.where(inside, t - tl.sum(t, axis=1, keepdims=True) / n, 0.0)
    r = tl.rsqrt(tl.sum(centred * centred, axis=1, keepdims=True) / n + eps)
    out_tile = centred * r * tl.load(w, (0,), (N,))
    if b is not None:
        out_tile += tl.load(b, (0,), (N,))
    tl.store(out, (row, 0), out_tile.astype(out.dtype))


@case(lambda make: (make(6, 11), make(11), make(11), 1e-5), lambda x, w, b, eps: F.layer_norm(x, (x.shape[-1],), w, b, eps))
@tile_ops.op("derived::layer_norm(Tensor x, Tensor w, Tensor? b, float eps) -> Tensor", outputs="x", grad="auto")
def layer_norm(x, w, b, eps, out):
    layer_norm_kernel[x.shape[0]](x, w, b, out, eps, power(x.shape[1]))


@tl.kernel
def group_norm_kernel(x, w, b, out, eps: float, C: tl.Constant[int], N: tl.Constant[int]):
    image, group = tl.bid(0), tl.bid(1)
    t = tl.load(x, (image, group, 0), (1, C, N))
    n = C * x.shape[2]
    inside = tl.arange(N, dtype=tl.int32)[None, None, :] < x.shape[2]
    centred = tl.where(inside, t - tl.sum(t) / n, 0.0)
    r = tl.rsqrt(tl.sum(centred * centred) / n + eps)
    scale, shift = tl.load(w, (group,), (C,)), tl.load(b, (group,), (C,))
    out_tile = centred * r * scale[None, :, None] + shift[None, :, None]
    tl.store(out, (image, group, 0), out_tile.astype(out.dtype))


@case(lambda make: (make(3, 8, 5), make(8), make(8), 2, 1e-5), lambda x, w, b, g, eps: F.group_norm(x, g, w, b, eps))
@tile_ops.op("derived::group_norm(Tensor x, Tensor w, Tensor b, int groups, float eps) -> Tensor", outputs="x", grad="auto")
def group_norm(x, w, b, groups, eps, out):
    group_norm_kernel[x.shape[0], groups](x, w, b, out, eps, x.shape[1] // groups, power(x.shape[2]))


@tl.kernel
def swiglu_kernel(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    half = x.shape[1] // 2
    gate = x.slice(1, 0, half)
    up = x.slice(1, half, x.shape[1])
    g = tl.load(gate, (row, tl.bid(1)), (1, N))
    tl.store(out, (row, tl.bid(1)), g * tl.sigmoid(g) * tl.load(up, (row, tl.bid(1)), (1, N)))


def swiglu_outputs(x):
    return torch.empty((x.shape[0], x.shape[1] // 2), dtype=x.dtype, device=x.device)


@case(lambda make: (make(3, 22),), lambda x: F.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1])
@tile_ops.op("derived::swiglu(Tensor x) -> Tensor", outputs=swiglu_outputs, grad="auto")
def swiglu(x, out):
    swiglu_kernel[x.shape[0], tl.cdiv(out.shape[1], 8)](x, out, 8)


@tl.kernel
def rope_kernel(x, cos, sin, out, N: tl.Constant[int]):
    row, head = tl.bid(0), tl.bid(1)
    a, b = tl.load(x, (row, head, 0), (1, 1, N)), tl.load(x, (row, head, 1), (1, 1, N))
    c, s = tl.load(cos, (row, 0), (1, N))[:, None, :], tl.load(sin, (row, 0), (1, N))[:, None, :]
    tl.store(out, (row, head, 0), a * c - b * s)
    tl.store(out, (row, head, 1), b * c + a * s)


def rope_reference(x, cos, sin):
    a, b = x.chunk(2, -1)
    c, s = cos[:, None], sin[:, None]
    return torch.cat((a * c - b * s, b * c + a * s), -1)


@case(lambda make: (make(5, 3, 8), make(5, 4), make(5, 4)), rope_reference)
@tile_ops.op("derived::rope(Tensor x, Tensor cos, Tensor sin) -> Tensor", outputs="x", grad="auto")
def rope(x, cos, sin, out):
    rope_kernel[x.shape[0], x.shape[1]](x, cos, sin, out, x.shape[2] // 2)


@tl.kernel
def cross_entropy_kernel(x, target, loss, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N), padding_mode=NEG_INF)
    top = tl.max(t)
    chosen = tl.gather(x, (row, tl.load(target, (row,), (1,))))
    tl.store(loss, (row,), tl.log(tl.sum(tl.exp(t - top))) + top - chosen)


@case(lambda make: (make(6, 10), torch.randint(10, (6,))), lambda x, y: F.cross_entropy(x, y, reduction="none"))
@tile_ops.op("derived::cross_entropy(Tensor x, Tensor target) -> Tensor", outputs=row_outputs, grad="auto")
def cross_entropy(x, target, out):
    cross_entropy_kernel[x.shape[0]](x, target, out, power(x.shape[1]))


@tl.kernel
def matmul_kernel(x, w, b, out, M: tl.Constant[int], N: tl.Constant[int], K: tl.Constant[int], acc: tl.Constant):
    row, column = tl.bid(0), tl.bid(1)
    total = tl.zeros((M, N), acc)
    for k in range(tl.cdiv(x.shape[1], K)):
        total = tl.mma(tl.load(x, (row, k), (M, K)), tl.load(w, (k, column), (K, N)), total)
    t = total + tl.load(b, (column,), (N,)).astype(acc)
    tl.store(out, (row, column), (t * tl.sigmoid(t)).astype(out.dtype))


def matmul_outputs(x, w):
    return torch.empty((x.shape[0], w.shape[1]), dtype=x.dtype, device=x.device)


@case(lambda make: (make(9, 20), make(20, 11), make(11)), lambda x, w, b: F.silu(x @ w + b))
@tile_ops.op("derived::matmul(Tensor x, Tensor w, Tensor b) -> Tensor", outputs=matmul_outputs, grad="auto")
def matmul(x, w, b, out):
    acc = tl.float64 if x.dtype == torch.float64 else tl.float32
    matmul_kernel[tl.cdiv(x.shape[0], 8), tl.cdiv(w.shape[1], 8)](x, w, b, out, 8, 8, 8, acc)


@tl.kernel
def attention_kernel(q, k, v, out, scale: float, M: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    batch, block = tl.bid(1), tl.bid(0)
    acc = tl.float64 if q.dtype == tl.float64 else tl.float32
    queries = tl.load(q, (batch, block, 0), (1, M, D)).reshape((M, D))
    keys = tl.load(k, (batch, 0, 0), (1, N, D)).reshape((N, D))
    values = tl.load(v, (batch, 0, 0), (1, N, D)).reshape((N, D))
    scores = tl.mma(queries, keys.transpose(), tl.zeros((M, N), acc)) * scale
    scores = tl.where(tl.arange(N, dtype=tl.int32)[None, :] < k.shape[1], scores, float("-inf"))
    p = tl.exp(scores - tl.max(scores, axis=1, keepdims=True))
    p = p / tl.sum(p, axis=1, keepdims=True)
    tl.store(out, (batch, block, 0), tl.mma(p.astype(v.dtype), values, tl.zeros((M, D), acc)).astype(out.dtype)[None, :, :])


@tl.kernel
def grouped_matmul_kernel(x, w, out, T: tl.Constant[int], GROUP: tl.Constant[int]):
    rows, columns = tl.cdiv(x.shape[0], T), tl.cdiv(w.shape[1], T)
    block, width = tl.bid(0), GROUP * columns
    first = block // width * GROUP
    size = min(rows - first, GROUP)
    row, column = first + block % width % size, block % width // size
    acc = tl.float64 if x.dtype == tl.float64 else tl.float32
    total = tl.zeros((T, T), acc)
    for k in range(tl.cdiv(x.shape[1], T)):
        total = tl.mma(tl.load(x, (row, k), (T, T)), tl.load(w, (k, column), (T, T)), total)
    tl.store(out, (row, column), total.astype(out.dtype))


@case(lambda make: (make(20, 9), make(9, 14)), lambda x, w: x @ w)
@tile_ops.op("derived::grouped_matmul(Tensor x, Tensor w) -> Tensor", outputs=matmul_outputs, grad="auto")
def grouped_matmul(x, w, out):
    grouped_matmul_kernel[tl.cdiv(x.shape[0], 4) * tl.cdiv(w.shape[1], 4)](x, w, out, 4, 2)


def attention_arguments(make):
    return make(2, 6, 8), make(2, 7, 8), make(2, 7, 8), 0.25


def attention_reference(q, k, v, scale):
    return (q @ k.transpose(-1, -2) * scale).softmax(-1) @ v


@case(attention_arguments, attention_reference)
@tile_ops.op("derived::attention(Tensor q, Tensor k, Tensor v, float scale) -> Tensor", outputs="q", grad="auto")
def attention(q, k, v, scale, out):
    attention_kernel[tl.cdiv(q.shape[1], 4), q.shape[0]](q, k, v, out, scale, 4, power(k.shape[1]), q.shape[2])


@tl.kernel
def online_attention_kernel(q, k, v, out, scale: float, M: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    batch, block = tl.bid(1), tl.bid(0)
    dtype = tl.float64 if q.dtype == tl.float64 else tl.float32
    queries = tl.load(q, (batch, block, 0), (1, M, D)).reshape((M, D))
    high = tl.full((M, 1), float("-inf"), dtype)
    total = tl.zeros((M, 1), dtype)
    acc = tl.zeros((M, D), dtype)
    for j in range(tl.cdiv(k.shape[1], N)):
        keys = tl.load(k, (batch, j, 0), (1, N, D)).reshape((N, D))
        values = tl.load(v, (batch, j, 0), (1, N, D)).reshape((N, D))
        scores = tl.mma(queries, keys.transpose(), tl.zeros((M, N), dtype)) * scale
        scores = tl.where(tl.arange(N, dtype=tl.int32)[None, :] + j * N < k.shape[1], scores, float("-inf"))
        higher = tl.maximum(high, tl.max(scores, axis=1, keepdims=True))
        p, alpha = tl.exp(scores - higher), tl.exp(high - higher)
        total = total * alpha + tl.sum(p, axis=1, keepdims=True)
        acc = tl.mma(p.astype(v.dtype), values, acc * alpha)
        high = higher
    tl.store(out, (batch, block, 0), (acc / total).astype(out.dtype)[None, :, :])


@case(attention_arguments, attention_reference)
@tile_ops.op("derived::online_attention(Tensor q, Tensor k, Tensor v, float scale) -> Tensor", outputs="q", grad="auto")
def online_attention(q, k, v, scale, out):
    online_attention_kernel[tl.cdiv(q.shape[1], 4), q.shape[0]](q, k, v, out, scale, 4, 4, q.shape[2])


@tl.kernel
def embedding_kernel(weight, index, out, D: tl.Constant[int]):
    row = tl.bid(0)
    token = tl.load(index, (row,), ())
    tl.store(out, (row, 0), tl.load(weight, (token, 0), (1, D)))


def embedding_outputs(weight, index):
    return torch.empty((index.shape[0], weight.shape[1]), dtype=weight.dtype, device=weight.device)


@case(lambda make: (make(7, 8), torch.randint(7, (9,))), lambda weight, index: F.embedding(index, weight))
@tile_ops.op("derived::embedding(Tensor weight, Tensor index) -> Tensor", outputs=embedding_outputs, grad="auto")
def embedding(weight, index, out):
    embedding_kernel[index.shape[0]](weight, index, out, weight.shape[1])


@tl.kernel
def stencil_kernel(x, out, N: tl.Constant[int]):
    i = tl.bid(0)
    at = i * N + tl.arange(N, dtype=tl.int32)
    left, centre, right = tl.gather(x, (at - 1,)), tl.gather(x, (at,)), tl.gather(x, (at + 1,))
    tl.store(out, (i,), left * centre - 2.0 * right * right)


def stencil_reference(x):
    left, right = F.pad(x, (1, 0))[:-1], F.pad(x, (0, 1))[1:]
    return left * x - 2 * right * right


@case(lambda make: (make(21),), stencil_reference)
@tile_ops.op("derived::stencil(Tensor x) -> Tensor", outputs="x", grad="auto")
def stencil(x, out):
    stencil_kernel[tl.cdiv(x.shape[0], 8)](x, out, 8)


@tl.kernel
def elements_kernel(x, y, out, M: tl.Constant[int], N: tl.Constant[int]):
    rows = (tl.bid(0) * M + tl.arange(M, dtype=tl.int32))[:, None]
    columns = (tl.bid(1) * N + tl.arange(N, dtype=tl.int32))[None, :]
    t = tl.gather(x, (rows, columns)) * tl.exp(tl.gather(y, (columns,)))
    tl.scatter(out, (rows, columns), t.astype(out.dtype))


@case(lambda make: (make(7, 10), make(10)), lambda x, y: x * y.exp())
@tile_ops.op("derived::elements(Tensor x, Tensor y) -> Tensor", outputs="x", grad="auto")
def elements(x, y, out):
    elements_kernel[tl.cdiv(x.shape[0], 4), tl.cdiv(x.shape[1], 8)](x, y, out, 4, 8)


@tl.kernel
def running_sum_kernel(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    tl.store(out, (row, 0), tl.cumsum(tl.sin(tl.load(x, (row, 0), (1, N))), axis=1))


@case(lambda make: (make(3, 9),), lambda x: x.sin().cumsum(1))
@tile_ops.op("derived::running_sum(Tensor x) -> Tensor", outputs="x", grad="auto")
def running_sum(x, out):
    running_sum_kernel[x.shape[0]](x, out, power(x.shape[1]))


@tl.kernel
def recurrence_kernel(x, a, out, N: tl.Constant[int]):
    column = tl.bid(0)
    state = tl.zeros((N,), x.dtype)
    for t in range(x.shape[0]):
        gate = tl.sigmoid(tl.load(a, (t, column), (1, N)).reshape((N,)))
        state = state * gate + tl.load(x, (t, column), (1, N)).reshape((N,))
        tl.store(out, (t, column), state[None, :])


def recurrence_reference(x, a):
    state, rows = torch.zeros_like(x[0]), []
    for t in range(x.shape[0]):
        state = state * a[t].sigmoid() + x[t]
        rows.append(state)
    return torch.stack(rows)


@case(lambda make: (make(6, 11), make(6, 11)), recurrence_reference)
@tile_ops.op("derived::recurrence(Tensor x, Tensor a) -> Tensor", outputs="x", grad="auto")
def recurrence(x, a, out):
    recurrence_kernel[tl.cdiv(x.shape[1], 4)](x, a, out, 4)


@tl.kernel
def squares_kernel(x, out, N: tl.Constant[int]):
    i = tl.bid(0)
    t = tl.load(x, (i,), (N,))
    tl.store(out, (i,), t * t)


@tl.kernel
def sum_kernel(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, (i,), tl.load(x, (i,), (N,)) * tl.load(y, (i,), (N,)) + tl.load(x, (i,), (N,)))


@case(lambda make: (make(40), make(40)), lambda x, y: (x * x) ** 2 * y + (x * x) ** 2)
@tile_ops.op("derived::chain(Tensor x, Tensor y) -> Tensor", outputs="x", grad="auto")
def chain(x, y, out):
    once, twice = torch.empty_like(x), torch.empty_like(x)
    blocks = tl.cdiv(x.shape[0], 16)
    squares_kernel[blocks](x, once, 16)
    squares_kernel[blocks](once, twice, 16)
    sum_kernel[blocks](twice, y, out, 16)


@tl.kernel
def statistics_kernel(x, mean, deviation, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N))
    m = tl.sum(t) / x.shape[1]
    inside = tl.arange(N, dtype=tl.int32)[None, :] < x.shape[1]
    d = tl.where(inside, t - m, 0.0)
    tl.store(mean, (row,), m)
    tl.store(deviation, (row,), tl.sqrt(tl.sum(d * d) / x.shape[1]))


def statistics_outputs(x):
    return row_outputs(x), row_outputs(x)


@case(lambda make: (make(4, 9),), lambda x: (x.mean(1), x.std(1, correction=0)))
@tile_ops.op("derived::statistics(Tensor x) -> (Tensor mean, Tensor deviation)", outputs=statistics_outputs, grad="auto")
def statistics(x, mean, deviation):
    statistics_kernel[x.shape[0]](x, mean, deviation, power(x.shape[1]))


@tl.kernel
def products_kernel(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N), padding_mode=tl.PaddingMode.ZERO)
    inside = tl.arange(N, dtype=tl.int32)[None, :] < x.shape[1]
    tl.store(out, (row,), tl.prod(tl.where(inside, t, 1.0)) + tl.min(tl.where(inside, t, 9.0)))


@case(lambda make: (make(4, 5),), lambda x: x.prod(1) + x.amin(1))
@tile_ops.op("derived::products(Tensor x) -> Tensor", outputs=row_outputs, grad="auto")
def products(x, out):
    products_kernel[x.shape[0]](x, out, power(x.shape[1]))


@tl.kernel
def transposed_kernel(x, out, M: tl.Constant[int], N: tl.Constant[int]):
    i, j = tl.bid(0) // tl.cdiv(x.shape[1], N), tl.bid(0) % tl.cdiv(x.shape[1], N)
    tl.store(out, (j, i), tl.tanh(tl.load(x, (i, j), (M, N))).transpose())


def transposed_outputs(x):
    return torch.empty((x.shape[1], x.shape[0]), dtype=x.dtype, device=x.device)


@case(lambda make: (make(9, 14),), lambda x: x.tanh().t())
@tile_ops.op("derived::transposed(Tensor x) -> Tensor", outputs=transposed_outputs, grad="auto")
def transposed(x, out):
    transposed_kernel[tl.cdiv(x.shape[0], 4) * tl.cdiv(x.shape[1], 8)](x, out, 4, 8)


@tl.kernel
def branches_kernel(x, out, N: tl.Constant[int]):
    i = tl.bid(0)
    t = tl.load(x, (i,), (N,))
    if i % 2 == 0:
        y = t * t
    else:
        y = tl.exp(t)
    for k in range(i):
        if k > 0:
            y = y * tl.cos(t)
    tl.store(out, (i,), y)


def branches_reference(x):
    parts = []
    for i, t in enumerate(x.split(8)):
        y = t * t if i % 2 == 0 else t.exp()
        for k in range(i):
            if k > 0:
                y = y * t.cos()
        parts.append(y)
    return torch.cat(parts)


@case(lambda make: (make(37),), branches_reference)
@tile_ops.op("derived::branches(Tensor x) -> Tensor", outputs="x", grad="auto")
def branches(x, out):
    branches_kernel[tl.cdiv(x.shape[0], 8)](x, out, 8)
