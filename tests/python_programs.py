"""Kernels in Python as people write them, each with arguments and what they should give; they run on every target."""

import math

import tile_ops.language as tl
import torch

PROGRAMS = {}  # name: function without arguments -> (kernel, grid, arguments, {index of an output: what it should be})


def program(make):
    PROGRAMS[make.__name__] = make
    return make


@tl.kernel
def add_kernel(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.load(x, i, N) + 2 * tl.load(y, i, N))


@program
def vector_add():
    x, y = torch.randn(1000), torch.randn(1000)
    return add_kernel, (4,), (x, y, torch.full((1000,), math.nan), 256), {2: x + 2 * y}


@tl.kernel
def softmax_kernel(x, out, scale: float, N: tl.Constant[int]):
    for row in range(tl.bid(0), x.shape[0], tl.num_blocks(0)):
        t = tl.load(x, index=(row, 0), shape=(1, N), padding_mode=tl.PaddingMode.NEG_INF)
        t = t.astype(tl.float32) * scale
        e = tl.exp(t - tl.max(t, axis=1, keepdims=True))
        tl.store(out, (row, 0), (e / tl.sum(e, 1, keepdims=True)).astype(out.dtype))


@program
def softmax():
    x = torch.randn(19, 100)
    return softmax_kernel, (8,), (x, torch.empty_like(x), 0.5, 128), {1: (x.double() * 0.5).softmax(1)}


@tl.kernel
def online_softmax_kernel(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    tiles = tl.num_tiles(x, 1, (1, N))
    top = tl.full((1, 1), -math.inf, tl.float32)
    total = tl.zeros((1, 1), tl.float32)
    for k in range(tiles):
        t = tl.load(x, (row, k), (1, N), padding_mode=tl.PaddingMode.NEG_INF)
        new = tl.maximum(top, tl.max(t, 1, keepdims=True))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(t - new), 1, keepdims=True)
        top = new
    for k in range(tiles):
        tl.store(out, (row, k), tl.exp(tl.load(x, (row, k), (1, N)) - top) / total)


@program
def online_softmax():
    x = torch.randn(5, 200)
    return online_softmax_kernel, 5, (x, torch.empty_like(x), 64), {1: x.double().softmax(1)}


@tl.kernel
def matmul_kernel(a, b, c, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    acc = tl.zeros((TM, TN), tl.float32)
    for k in range(tl.num_tiles(a, axis=1, shape=(TM, TK))):
        ta = tl.load(a, (i, k), (TM, TK), padding_mode=tl.PaddingMode.ZERO)
        tb = tl.load(b, (k, j), (TK, TN), padding_mode=tl.PaddingMode.ZERO)
        acc = tl.mma(ta, tb, acc)
    tl.store(c, (i, j), acc.astype(c.dtype))


@program
def matmul():
    a, b = torch.randn(70, 50), torch.randn(50, 90)
    return matmul_kernel, (2, 2), (a, b, torch.empty(70, 90), 64, 64, 32), {2: a.double() @ b.double()}


@program
def matmul_bfloat16():
    a, b = torch.randn(70, 64).bfloat16(), torch.randn(64, 40).bfloat16()
    grid = lambda a, b, c, m, n, k: (tl.cdiv(a.shape[0], m), tl.cdiv(b.shape[1], n))  # noqa: E731
    return matmul_kernel, grid, (a, b, torch.empty(70, 40).bfloat16(), 32, 32, 32), {2: a.double() @ b.double()}


@tl.kernel
def layer_norm_kernel(x, w, b, out, eps: float, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N)).astype(tl.float32)
    count = x.shape[1]
    inside = (tl.arange(N, dtype=tl.int32) < count)[None, :]
    mean = tl.sum(t, 1, keepdims=True) / count
    d = tl.where(inside, t - mean, 0)
    scale = tl.rsqrt(tl.sum(d * d, 1, keepdims=True) / count + eps)
    y = d * scale * tl.load(w, 0, N) + tl.load(b, 0, N)
    tl.store(out, (row, 0), y.astype(out.dtype))


@program
def layer_norm():
    x, w, b = torch.randn(7, 100), torch.randn(100), torch.randn(100)
    want = torch.nn.functional.layer_norm(x.double(), (100,), w.double(), b.double(), 1e-5)
    return layer_norm_kernel, 7, (x, w, b, torch.empty_like(x), 1e-5, 128), {3: want}


@tl.kernel
def transpose_kernel(x, out, T: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    tl.store(out, (j, i), tl.load(x, (i, j), (T, T)).transpose())


@program
def transpose():
    x = torch.randn(50, 30)
    return transpose_kernel, (2, 1), (x, torch.empty(30, 50), 32), {1: x.t()}


@tl.kernel
def transposed_load_kernel(x, out, T: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    tl.store(out, (i, j), tl.load(x, (i, j), (T, T), order=(1, 0)))


@program
def transposed_load():
    x = torch.randn(50, 30)
    return transposed_load_kernel, (1, 2), (x, torch.empty(30, 50), 32), {1: x.t()}


@tl.kernel
def histogram_kernel(x, counts, N: tl.Constant[int]):
    t = tl.load(x, tl.bid(0), N)
    here = tl.bid(0) * N + tl.arange(N, dtype=tl.int32) < x.shape[0]
    tl.atomic_add(counts, tl.where(here, t, -1), 1)


@program
def histogram():
    x = torch.randint(0, 20, (500,), dtype=torch.int32)
    return histogram_kernel, 4, (x, torch.zeros(20, dtype=torch.int32), 128), {1: torch.bincount(x, minlength=20)}


@tl.kernel
def prefix_kernel(x, out, N: tl.Constant[int]):
    total = tl.zeros((1,), tl.int64)
    for k in range(tl.cdiv(x.shape[0], N)):
        t = tl.cumsum(tl.load(x, k, N)) + total
        tl.store(out, k, t)
        total = total + tl.sum(tl.load(x, k, N), keepdims=True)


@program
def prefix_sum():
    x = torch.randint(-100, 100, (300,))
    return prefix_kernel, 1, (x, torch.empty_like(x), 64), {1: x.cumsum(0)}


@tl.kernel
def rope_kernel(x, cos, sin, out, H: tl.Constant[int]):
    row = tl.bid(0)
    first, second = tl.load(x, (row, 0), (1, H)), tl.load(x, (row, 1), (1, H))
    c, s = tl.load(cos, (row, 0), (1, H)), tl.load(sin, (row, 0), (1, H))
    tl.store(out, (row, 0), first * c - second * s)
    tl.store(out, (row, 1), second * c + first * s)


@program
def rope():
    x, angle = torch.randn(6, 32), torch.randn(6, 16)
    a, b, c, s = x[:, :16], x[:, 16:], angle.cos(), angle.sin()
    return rope_kernel, 6, (x, c, s, torch.empty_like(x), 16), {3: torch.cat([a * c - b * s, b * c + a * s], 1)}


def attend(q, k, v, acc, top, total, keep):
    """One step of FlashAttention; keep: which keys count."""
    scores = tl.where(keep, tl.matmul(q, k.transpose()), -1e30)
    new = tl.maximum(top, tl.max(scores, 1, keepdims=True))
    weights = tl.exp(scores - new)
    decay = tl.exp(top - new)
    return tl.mma(weights, v, acc * decay), new, total * decay + tl.sum(weights, 1, keepdims=True)


@tl.kernel
def attention_kernel(q, k, v, out, scale: float, M: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    i = tl.bid(0)
    tq = tl.load(q, (i, 0), (M, D)) * scale
    acc, top, total = tl.zeros((M, D), tl.float32), tl.full((M, 1), -1e30, tl.float32), tl.zeros((M, 1), tl.float32)
    rows = (i * M + tl.arange(M, dtype=tl.int32))[:, None]
    for j in range(tl.cdiv((i + 1) * M, N)):
        columns = (j * N + tl.arange(N, dtype=tl.int32))[None, :]
        tk, tv = tl.load(k, (j, 0), (N, D)), tl.load(v, (j, 0), (N, D))
        acc, top, total = attend(tq, tk, tv, acc, top, total, keep=columns <= rows)
    tl.store(out, (i, 0), acc / total)


@program
def causal_attention():
    q, k, v = torch.randn(3, 40, 16)
    want = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    return attention_kernel, 3, (q, k, v, torch.empty_like(q), 0.25, 16, 16, 16), {3: want}


@tl.kernel
def heat_kernel(u, out, r: float, N: tl.Constant[int]):
    cells = tl.bid(0) * N + tl.arange(N, dtype=tl.int32)
    left, right = tl.gather(u, cells - 1), tl.gather(u, cells + 1)
    middle = tl.gather(u, cells)
    tl.scatter(out, cells, middle + r * (left - 2 * middle + right))


@program
def heat():
    u = torch.randn(70)
    padded = torch.nn.functional.pad(u, (1, 1))
    want = u + 0.2 * (padded[:-2] - 2 * u + padded[2:])
    return heat_kernel, 3, (u, torch.empty_like(u), 0.2, 32), {1: want}


@tl.kernel
def collatz_kernel(x, out):
    n = tl.load(x, tl.bid(0), ())
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
        if steps >= 20:
            break
    tl.store(out, tl.bid(0), steps)


def collatz_steps(n):
    steps = 0
    while n != 1 and steps < 20:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


@program
def collatz():
    x = torch.arange(1, 17, dtype=torch.int32)
    want = torch.tensor([collatz_steps(int(n)) for n in x], dtype=torch.int32)
    return collatz_kernel, 16, (x, torch.zeros_like(x)), {1: want}


@tl.kernel
def welford_kernel(x, mean, m2, N: tl.Constant[int]):
    def combine(n, m, s, k, o, t):
        count = n + k
        d = o - m
        return count, m + d * k / count, s + t + d * d * n * k / count

    t = tl.load(x, (tl.bid(0), 0), (1, N))
    ones = tl.ones((1, N), tl.float32)
    _, average, squares = tl.reduce((ones, t, t * 0), 1, combine, (0, 0, 0))
    tl.store(mean, tl.bid(0), average.item())
    tl.store(m2, tl.bid(0), squares.item())


@program
def welford():
    x = torch.randn(5, 64)
    return (
        welford_kernel, 5, (x, torch.empty(5), torch.empty(5), 64),
        {1: x.double().mean(1), 2: x.double().var(1, correction=0) * 64},
    )  # fmt: skip


@tl.kernel
def gemv_kernel(a, x, out, M: tl.Constant[int], K: tl.Constant[int]):
    total = tl.zeros((M,), tl.float32)
    for k in range(tl.num_tiles(a, 1, (M, K))):
        total += tl.load(a, (tl.bid(0), k), (M, K)) @ tl.load(x, k, K)
    tl.store(out, tl.bid(0), total)


@program
def matrix_times_vector():
    a, x = torch.randn(40, 50), torch.randn(50)
    return gemv_kernel, 3, (a, x, torch.empty(40), 16, 32), {2: a.double() @ x.double()}


@tl.kernel
def bitonic_kernel(x, out, N: tl.Constant[int]):
    t = tl.load(x, 0, N)
    index = tl.arange(N, dtype=tl.int32)
    for stage in tl.static_iter(range(1, N.bit_length())):
        for step in tl.static_iter(range(stage - 1, -1, -1)):
            half = 1 << step
            pairs = t.reshape((N // (2 * half), 2, half))
            half_shape = (N // (2 * half), 1, half)
            other = tl.cat((pairs.extract((0, 1, 0), half_shape), pairs.extract((0, 0, 0), half_shape)), 1).reshape((N,))
            rising = (index & 1 << stage) == 0
            first = (index & half) == 0
            t = tl.where(rising == first, tl.minimum(t, other), tl.maximum(t, other))
    tl.store(out, 0, t)


@program
def bitonic_sort():
    x = torch.randn(16)
    return bitonic_kernel, 1, (x, torch.empty_like(x), 16), {1: x.sort().values}


@tl.kernel
def embedding_kernel(table, ids, out, N: tl.Constant[int], D: tl.Constant[int]):
    rows = tl.load(ids, tl.bid(0), N)
    tl.store(out, (tl.bid(0), 0), tl.load_advanced_indexing(table, (rows, tl.Slice(0, D))))


@program
def embedding():
    table, ids = torch.randn(30, 20), torch.randint(0, 30, (40,), dtype=torch.int32)
    return embedding_kernel, 5, (table, ids, torch.empty(40, 20), 8, 32), {2: table[ids.long()]}


@tl.kernel
def microscale_kernel(x, scales, out, counts, N: tl.Constant[int]):
    t = tl.load(x, tl.bid(0), N)
    scale = (tl.max(tl.abs(t)) / 448).astype(tl.float8_e8m0fnu, rounding_mode=tl.RoundingMode.RP)
    bits, wide = tl.bitcast(scale, tl.uint8), scale.astype(tl.float32)
    tl.store(scales, tl.bid(0), bits)
    tl.store(out, tl.bid(0), (t / wide).astype(tl.float8_e4m3fn).astype(tl.float32) * wide)
    counts.get_raw_memory().atomic_add_offset(bits, 1)


@program
def microscale():
    x = torch.randn(8, 32) * torch.exp2(torch.arange(8.0) * 3 - 9).unsqueeze(1)
    exponents = (x.abs().amax(1).double() / 448).log2().ceil()
    scales, wide = (exponents + 127).to(torch.uint8), torch.exp2(exponents).float().unsqueeze(1)
    rounded = (x / wide).to(torch.float8_e4m3fn).float() * wide
    counts = torch.bincount(scales.int(), minlength=256).int()
    arguments = x.flatten(), torch.zeros_like(scales), torch.empty(256), torch.zeros(256, dtype=torch.int32), 32
    return microscale_kernel, 8, arguments, {1: scales, 2: rounded.flatten(), 3: counts}
