"""Operators with products of matrices whose gradients are derived."""

import tile_ops
import tile_ops.language as tl
import torch
import torch.nn.functional as F

from derive.cases import ZERO, case, loaded, power, spread, transposed, wide


def product(x, y, dtype):
    return tl.mma(x, y, tl.zeros((x.shape[0], y.shape[1]), dtype))


def product_of(a, b, i, j, T, dtype):
    """Returns the tile (i, j) of a @ b, [T, T]."""
    total = tl.zeros((T, T), dtype)
    for k in range(tl.cdiv(a.shape[1], T)):
        left = tl.load(a, (i, k), (T, T), padding_mode=ZERO)
        total = tl.mma(left, tl.load(b, (k, j), (T, T), padding_mode=ZERO), total)
    return total


def grid_of(out, T):
    return tl.cdiv(out.shape[-2], T), tl.cdiv(out.shape[-1], T)


def product_outputs(x, w):
    return x.new_empty(x.shape[0], w.shape[1])


@tl.kernel
def linear_kernel(x, w, b, residual, out, T: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    t = product_of(x, w, i, j, T, wide(x)) + loaded(b, j, T)
    t = 0.5 * t * (1 + tl.erf(t * 0.7071067811865476))
    tl.store(out, (i, j), (t + loaded(residual, (i, j), (T, T))).astype(out.dtype))


@case(
    lambda make: (make(9, 13), make(11, 13, change=lambda x: x.mT), make(11), make(9, 11)),
    lambda x, w, b, residual: F.gelu(x @ w + b) + residual,
)
@tile_ops.op("gradients::linear(Tensor x, Tensor w, Tensor b, Tensor residual) -> Tensor", outputs=product_outputs, grad="auto")
def linear(x, w, b, residual, out):
    linear_kernel[grid_of(out, 8)](x, w, b, residual, out, 8)


@tl.kernel
def batched_kernel(a, b, out, T: tl.Constant[int]):
    i, j, z = tl.bid(0), tl.bid(1), tl.bid(2)
    total = tl.zeros((1, T, T), wide(a))
    for k in range(tl.cdiv(a.shape[2], T)):
        left = tl.load(a, (z, i, k), (1, T, T), padding_mode=ZERO)
        total = tl.mma(left, tl.load(b, (z, k, j), (1, T, T), padding_mode=ZERO), total)
    tl.store(out, (z, i, j), total.astype(out.dtype))


def batched_outputs(a, b):
    return a.new_empty(a.shape[0], a.shape[1], b.shape[2])


@case(lambda make: (make(3, 5, 9), make(3, 9, 6, change=spread)), torch.bmm)
@tile_ops.op("gradients::batched(Tensor a, Tensor b) -> Tensor", outputs=batched_outputs, grad="auto")
def batched(a, b, out):
    batched_kernel[(*grid_of(out, 4), a.shape[0])](a, b, out, 4)


@case(lambda make: (make(3, 5, 9), make(1, 9, 6)), lambda a, b: a @ b)
@tile_ops.op("gradients::shared_factor(Tensor a, Tensor b) -> Tensor", outputs=batched_outputs, grad="auto")
def shared_factor(a, b, out):
    batched_kernel[(*grid_of(out, 4), a.shape[0])](a, b.expand(a.shape[0], -1, -1), out, 4)


@tl.kernel
def low_rank_kernel(x, w, down, up, out, scale: float, T: tl.Constant[int], R: tl.Constant[int]):
    """x @ (w + scale down @ up), where the rank fits in a tile."""
    i, j, dtype = tl.bid(0), tl.bid(1), wide(x)
    total, low = tl.zeros((T, T), dtype), tl.zeros((T, R), dtype)
    for k in range(tl.cdiv(x.shape[1], T)):
        left = tl.load(x, (i, k), (T, T), padding_mode=ZERO)
        total = tl.mma(left, tl.load(w, (k, j), (T, T), padding_mode=ZERO), total)
        low = tl.mma(left, tl.load(down, (k, 0), (T, R), padding_mode=ZERO), low)
    total = tl.mma((low * scale).astype(up.dtype), tl.load(up, (0, j), (R, T), padding_mode=ZERO), total)
    tl.store(out, (i, j), total.astype(out.dtype))


@case(
    lambda make: (make(9, 13), make(13, 6), make(13, 3), make(3, 6), 0.5),
    lambda x, w, down, up, scale: x @ w + scale * (x @ down) @ up,
)
@tile_ops.op(
    "gradients::low_rank(Tensor x, Tensor w, Tensor down, Tensor up, float scale) -> Tensor",
    outputs=product_outputs,
    grad="auto",
)
def low_rank(x, w, down, up, scale, out):
    low_rank_kernel[grid_of(out, 4)](x, w, down, up, out, scale, 4, power(down.shape[1]))


@tl.kernel
def feed_forward_kernel(x, gate, up, down, out, T: tl.Constant[int], D: tl.Constant[int]):
    """silu(x @ gate) * (x @ up) @ down by tiles of the inner extent."""
    i, dtype = tl.bid(0), wide(x)
    rows, total = tl.load(x, (i, 0), (T, D), padding_mode=ZERO), tl.zeros((T, D), dtype)
    for k in range(tl.cdiv(gate.shape[1], T)):
        g = product(rows, tl.load(gate, (0, k), (D, T), padding_mode=ZERO), dtype)
        u = product(rows, tl.load(up, (0, k), (D, T), padding_mode=ZERO), dtype)
        total = tl.mma((tl.silu(g) * u).astype(x.dtype), tl.load(down, (k, 0), (T, D), padding_mode=ZERO), total)
    tl.store(out, (i, 0), total.astype(out.dtype))


@case(
    lambda make: (make(7, 5), make(5, 11), make(5, 11), make(11, 5)),
    lambda x, gate, up, down: (F.silu(x @ gate) * (x @ up)) @ down,
)
@tile_ops.op("gradients::feed_forward(Tensor x, Tensor gate, Tensor up, Tensor down) -> Tensor", outputs="x", grad="auto")
def feed_forward(x, gate, up, down, out):
    feed_forward_kernel[tl.cdiv(x.shape[0], 4)](x, gate, up, down, out, 4, power(x.shape[1]))


@tl.kernel
def split_kernel(a, b, parts, T: tl.Constant[int]):
    split, i, j = tl.bid(0), tl.bid(1), tl.bid(2)
    total = tl.zeros((T, T), wide(a))
    for k in range(split, tl.cdiv(a.shape[1], T), tl.num_blocks(0)):
        left = tl.load(a, (i, k), (T, T), padding_mode=ZERO)
        total = tl.mma(left, tl.load(b, (k, j), (T, T), padding_mode=ZERO), total)
    tl.store(parts, (split, i, j), total[None, :, :])


@tl.kernel
def parts_kernel(parts, out, T: tl.Constant[int]):
    i, j, total = tl.bid(0), tl.bid(1), tl.zeros((1, T, T), parts.dtype)
    for split in range(parts.shape[0]):
        total += tl.load(parts, (split, i, j), (1, T, T))
    tl.store(out, (i, j), total.reshape((T, T)).astype(out.dtype))


@case(lambda make: (make(7, 29, change=transposed), make(29, 6)), lambda x, w: x @ w)
@tile_ops.op("gradients::split(Tensor x, Tensor w) -> Tensor", outputs=product_outputs, grad="auto")
def split(x, w, out):
    parts = x.new_empty(3, *out.shape, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
    split_kernel[(3, *grid_of(out, 4))](x, w, parts, 4)
    parts_kernel[grid_of(out, 4)](parts, out, 4)


@tl.kernel
def persistent_kernel(x, w, out, T: tl.Constant[int]):
    rows, columns = tl.num_tiles(out, 0, (T, T)), tl.num_tiles(out, 1, (T, T))
    for tile in range(tl.bid(0), rows * columns, tl.num_blocks(0)):
        i, j = tl.divmod(tile, columns)
        tl.store(out, (i, j), tl.tanh(product_of(x, w, i, j, T, wide(x))).astype(out.dtype))


@case(lambda make: (make(9, 11), make(11, 10)), lambda x, w: (x @ w).tanh())
@tile_ops.op("gradients::persistent(Tensor x, Tensor w) -> Tensor", outputs=product_outputs, grad="auto")
def persistent(x, w, out):
    persistent_kernel[4](x, w, out, 4)


@tl.kernel
def bilinear_kernel(x, w, y, out, T: tl.Constant[int], M: tl.Constant[int], N: tl.Constant[int]):
    """x w y of each pair of rows and each of several matrices w."""
    i, o = tl.bid(0), tl.bid(1)
    left, right = tl.load(x, (i, 0), (T, M)), loaded(y, (i, 0), (T, N))
    t = product(left, tl.load(w, (o, 0, 0), (1, M, N)).reshape((M, N)), wide(x))
    tl.store(out, (i, o), tl.sum(t * right, 1, keepdims=True).astype(out.dtype))


def bilinear_outputs(x, w):
    return x.new_empty(x.shape[0], w.shape[0])


@case(lambda make: (make(7, 3), make(2, 3, 5), make(7, 5)), lambda x, w, y: F.bilinear(x, y, w))
@tile_ops.op("gradients::bilinear(Tensor x, Tensor w, Tensor y) -> Tensor", outputs=bilinear_outputs, grad="auto")
def bilinear(x, w, y, out):
    bilinear_kernel[tl.cdiv(x.shape[0], 4), w.shape[0]](x, w, y, out, 4, power(x.shape[1]), power(y.shape[1]))


@tl.kernel
def quadratic_kernel(x, w, b, out, N: tl.Constant[int]):
    """A quadratic form, whose matrix is a product of a factor and its transpose."""
    row = tl.bid(0)
    t, factor = tl.load(x, (row, 0), (1, N)), tl.load(w, (0, 0), (N, N))
    y = product(t, factor, wide(x))
    tl.store(out, row, (0.5 * tl.sum(y * y, 1) + tl.sum(loaded(x, (row, 0), (1, N)) * loaded(b, 0, N), 1)).astype(out.dtype))


def quadratic_outputs(x):
    return x.new_empty(x.shape[0])


@case(lambda make: (make(6, 5), make(5, 5), make(5)), lambda x, w, b: 0.5 * ((x @ w) ** 2).sum(1) + x @ b)
@tile_ops.op("gradients::quadratic(Tensor x, Tensor w, Tensor b) -> Tensor", outputs=quadratic_outputs, grad="auto")
def quadratic(x, w, b, out):
    quadratic_kernel[x.shape[0]](x, w, b, out, power(x.shape[1]))


@tl.kernel
def outer_kernel(x, y, out, M: tl.Constant[int], N: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    tl.store(out, (i, j), (loaded(x, i, M)[:, None] * tl.tanh(loaded(y, j, N))[None, :]).astype(out.dtype))


def outer_outputs(x, y):
    return x.new_empty(len(x), len(y))


@case(lambda make: (make(9), make(6)), lambda x, y: torch.outer(x, y.tanh()))
@tile_ops.op("gradients::outer(Tensor x, Tensor y) -> Tensor", outputs=outer_outputs, grad="auto")
def outer(x, y, out):
    outer_kernel[tl.cdiv(len(x), 4), tl.cdiv(len(y), 4)](x, y, out, 4, 4)


@tl.kernel
def distances_kernel(x, y, out, T: tl.Constant[int], D: tl.Constant[int]):
    """Distances of all pairs of rows, by differences."""
    i, j = tl.bid(0), tl.bid(1)
    a, b = loaded(x, (i, 0), (T, D)), loaded(y, (j, 0), (T, D))
    d = a[:, None, :] - b[None, :, :]
    tl.store(out, (i, j), tl.sqrt(tl.sum(d * d, 2) + 1e-6).astype(out.dtype))


def pairs_outputs(x, y):
    return x.new_empty(x.shape[0], y.shape[0])


@case(lambda make: (make(6, 3), make(9, 3)), lambda x, y: (((x[:, None] - y) ** 2).sum(2) + 1e-6).sqrt())
@tile_ops.op("gradients::distances(Tensor x, Tensor y) -> Tensor", outputs=pairs_outputs, grad="auto")
def distances(x, y, out):
    distances_kernel[grid_of(out, 4)](x, y, out, 4, power(x.shape[1]))


@tl.kernel
def radial_kernel(x, y, width, out, T: tl.Constant[int], D: tl.Constant[int]):
    """exp(-|x - y|^2 / 2 width^2) of all pairs of rows, with the square as a product."""
    i, j, dtype = tl.bid(0), tl.bid(1), wide(x)
    a, b = loaded(x, (i, 0), (T, D)), loaded(y, (j, 0), (T, D))
    squares = tl.sum(a * a, 1, keepdims=True) + tl.sum(b * b, 1)[None, :]
    squares = tl.maximum(squares - 2 * product(a, b.transpose(), dtype), 0)
    s = tl.load(width, 0, ()).astype(dtype)
    tl.store(out, (i, j), tl.exp(squares / (-2 * s * s)).astype(out.dtype))


def radial_reference(x, y, width):
    return torch.exp(-((x[:, None] - y) ** 2).sum(2) / (2 * width * width))


@case(lambda make: (make(6, 3), make(9, 3), make(1, change=torch.exp)), radial_reference)
@tile_ops.op("gradients::radial(Tensor x, Tensor y, Tensor width) -> Tensor", outputs=pairs_outputs, grad="auto")
def radial(x, y, width, out):
    radial_kernel[grid_of(out, 4)](x, y, width, out, 4, power(x.shape[1]))


@tl.kernel
def gram_kernel(x, out, T: tl.Constant[int]):
    """x^T x: both operands are tiles of one array."""
    i, j = tl.bid(0), tl.bid(1)
    total = tl.zeros((T, T), wide(x))
    for k in range(tl.cdiv(x.shape[0], T)):
        left = tl.load(x, (i, k), (T, T), order="F", padding_mode=ZERO)
        total = tl.mma(left, tl.load(x, (k, j), (T, T), padding_mode=ZERO), total)
    tl.store(out, (i, j), (total / x.shape[0]).astype(out.dtype))


def gram_outputs(x):
    return x.new_empty(x.shape[1], x.shape[1])


@case(lambda make: (make(10, 7),), lambda x: x.mT @ x / len(x))
@tile_ops.op("gradients::gram(Tensor x) -> Tensor", outputs=gram_outputs, grad="auto")
def gram(x, out):
    gram_kernel[grid_of(out, 4)](x, out, 4)


@tl.kernel
def quantized_kernel(x, codes, scales, out, T: tl.Constant[int]):
    """A product with a matrix of 8-bit integers, which has a scale for each column."""
    i, j, dtype = tl.bid(0), tl.bid(1), wide(x)
    total = tl.zeros((T, T), dtype)
    for k in range(tl.cdiv(x.shape[1], T)):
        right = tl.load(codes, (k, j), (T, T), padding_mode=ZERO).astype(x.dtype)
        total = tl.mma(tl.load(x, (i, k), (T, T), padding_mode=ZERO), right, total)
    tl.store(out, (i, j), (total * loaded(scales, j, T)).astype(out.dtype))


@case(
    lambda make: (make(6, 11), torch.randint(-9, 9, (11, 7), dtype=torch.int8), make(7)),
    lambda x, codes, scales: x @ (codes * scales),
)
@tile_ops.op(
    "gradients::quantized(Tensor x, Tensor codes, Tensor scales) -> Tensor",
    outputs=lambda x, codes: x.new_empty(x.shape[0], codes.shape[1]),
    grad="auto",
)
def quantized(x, codes, scales, out):
    quantized_kernel[grid_of(out, 4)](x, codes, scales, out, 4)


@tl.kernel
def experts_kernel(x, weights, expert, out, T: tl.Constant[int]):
    """Multiplies each tile of rows by the matrix of its expert; tiles without one keep zeros."""
    i, j, dtype = tl.bid(0), tl.bid(1), wide(x)
    e, total = tl.load(expert, i, ()), tl.zeros((T, T), dtype)
    if e < weights.shape[0]:
        for k in range(tl.cdiv(x.shape[1], T)):
            right = tl.load(weights, (e, k, j), (1, T, T), padding_mode=ZERO).reshape((T, T))
            total = tl.mma(tl.load(x, (i, k), (T, T), padding_mode=ZERO), right, total)
    tl.store(out, (i, j), total.astype(out.dtype))


def experts_reference(x, weights, expert):
    padded = F.pad(weights, (0, 0, 0, 0, 0, 1))[expert]
    return torch.cat([rows @ w for rows, w in zip(x.split(4), padded)])


@case(lambda make: (make(14, 5), make(3, 5, 6), torch.tensor([1, 3, 0, 1])), experts_reference)
@tile_ops.op(
    "gradients::experts(Tensor x, Tensor weights, Tensor expert) -> Tensor",
    outputs=lambda x, weights: x.new_empty(x.shape[0], weights.shape[2]),
    grad="auto",
)
def experts(x, weights, expert, out):
    experts_kernel[grid_of(out, 4)](x, weights, expert, out, 4)


@tl.kernel
def normed_linear_kernel(x, w, out, eps: float, T: tl.Constant[int], D: tl.Constant[int]):
    """RMS norm and a product in one kernel."""
    i, j = tl.bid(0), tl.bid(1)
    t = loaded(x, (i, 0), (T, D))
    t = t * tl.rsqrt(tl.sum(t * t, 1, keepdims=True) / x.shape[1] + eps)
    tl.store(out, (i, j), product(t.astype(w.dtype), tl.load(w, (0, j), (D, T)), wide(x)).astype(out.dtype))


@case(lambda make: (make(6, 5), make(5, 9), 1e-5), lambda x, w, eps: F.rms_norm(x, x.shape[1:], eps=eps) @ w)
@tile_ops.op("gradients::normed_linear(Tensor x, Tensor w, float eps) -> Tensor", outputs=product_outputs, grad="auto")
def normed_linear(x, w, eps, out):
    normed_linear_kernel[grid_of(out, 4)](x, w, out, eps, 4, power(x.shape[1]))
