"""Operators of neighbours and of chosen elements whose gradients are derived: stencils, pools, convolutions, segments."""

import tile_ops
import tile_ops.language as tl
import torch
import torch.nn.functional as F

from derive.cases import NEG_INF, ZERO, case, loaded, power, spread, wide


def image_outputs(x, height, width):
    return x.new_empty(*x.shape[:-2], height, width)


@tl.kernel
def average_pool_kernel(x, out, R: tl.Constant[int], C: tl.Constant[int]):
    """Means of squares of 2 x 2."""
    i, j, b = tl.bid(0), tl.bid(1), tl.bid(2)
    t = loaded(x, (b, i, j), (1, 2 * R, 2 * C)).reshape((R, 2, C, 2))
    tl.store(out, (b, i, j), (tl.sum(tl.sum(t, 3), 1) / 4).astype(out.dtype)[None, :, :])


def half_outputs(x):
    return image_outputs(x, x.shape[-2] // 2, x.shape[-1] // 2)


@case(lambda make: (make(2, 6, 10),), lambda x: F.avg_pool2d(x, 2))
@tile_ops.op("gradients::average_pool(Tensor x) -> Tensor", outputs=half_outputs, grad="auto")
def average_pool(x, out):
    average_pool_kernel[tl.cdiv(out.shape[1], 2), tl.cdiv(out.shape[2], 4), len(x)](x, out, 2, 4)


@tl.kernel
def max_pool_kernel(x, out, stride: int, K: tl.Constant[int], R: tl.Constant[int], C: tl.Constant[int]):
    """Maxima of squares of K x K that may overlap, with a border of half of K."""
    i, j, b = tl.bid(0), tl.bid(1), tl.bid(2)
    rows = (i * R + tl.arange(R, dtype=tl.int32))[:, None] * stride - K // 2
    columns = (j * C + tl.arange(C, dtype=tl.int32))[None, :] * stride - K // 2
    best = tl.full((R, C), float("-inf"), x.dtype)
    for dy in tl.static_iter(range(K)):
        for dx in tl.static_iter(range(K)):
            best = tl.maximum(best, tl.gather(x, (b, rows + dy, columns + dx), padding_value=float("-inf")))
    tl.store(out, (b, i, j), best[None, :, :])


def different(x):
    """Returns numbers in the same order of which no two are equal, in any dtype."""
    return (x.double().flatten().argsort().argsort().view(x.shape) / 32 - 1).to(x.dtype)


def max_pool_outputs(x, stride):
    return image_outputs(x, (x.shape[1] - 1) // stride + 1, (x.shape[2] - 1) // stride + 1)


@case(lambda make: (make(2, 7, 9, change=different), 2), lambda x, stride: F.max_pool2d(x, 3, stride, 1))
@tile_ops.op("gradients::max_pool(Tensor x, int stride) -> Tensor", outputs=max_pool_outputs, grad="auto")
def max_pool(x, stride, out):
    max_pool_kernel[tl.cdiv(out.shape[1], 2), tl.cdiv(out.shape[2], 4), len(x)](x, out, stride, 3, 2, 4)


@tl.kernel
def pooled_rows_kernel(x, mean, most, N: tl.Constant[int], D: tl.Constant[int]):
    """The mean and the maxima over a sequence."""
    b, dtype = tl.bid(0), wide(x)
    total, best = tl.zeros((D,), dtype), tl.full((D,), float("-inf"), dtype)
    for i in range(tl.cdiv(x.shape[1], N)):
        total += tl.sum(loaded(x, (b, i, 0), (1, N, D)), 1).reshape((D,))
        best = tl.maximum(best, tl.max(loaded(x, (b, i, 0), (1, N, D), NEG_INF), 1).reshape((D,)))
    tl.store(mean, (b, 0), (total / x.shape[1]).astype(mean.dtype)[None, :])
    tl.store(most, (b, 0), best.astype(most.dtype)[None, :])


@case(lambda make: (make(3, 7, 5),), lambda x: (x.mean(1), x.amax(1)))
@tile_ops.op(
    "gradients::pooled_rows(Tensor x) -> (Tensor mean, Tensor most)",
    outputs=lambda x: (x.new_empty(x.shape[0], x.shape[2]), x.new_empty(x.shape[0], x.shape[2])),
    grad="auto",
)
def pooled_rows(x, mean, most):
    pooled_rows_kernel[len(x)](x, mean, most, 4, power(x.shape[2]))


def inner(array, down, right, R, C):
    """Returns the neighbours of the inner points at this distance down and right, or the points themselves."""
    rows = array.slice(0, 1 + down, array.shape[0] - 1 + down)
    return rows.slice(1, 1 + right, array.shape[1] - 1 + right).tiled_view((R, C))


@tl.kernel
def heat_kernel(u, conductivity, out, r: float, R: tl.Constant[int], C: tl.Constant[int]):
    """A step of heat in a material whose conductivity differs from point to point; edges are not written."""
    at = tl.bid(0), tl.bid(1)
    t, k = inner(u, 0, 0, R, C).load(at), inner(conductivity, 0, 0, R, C).load(at)
    total = tl.zeros((R, C), t.dtype)
    for down, right in tl.static_iter(((-1, 0), (1, 0), (0, -1), (0, 1))):
        mean = 0.5 * (k + inner(conductivity, down, right, R, C).load(at))
        total += mean * (inner(u, down, right, R, C).load(at) - t)
    inner(out, 0, 0, R, C).store(at, (t + r * total).astype(out.dtype))


def heat_reference(u, k, r):
    def at(x, down, right):
        return x[1 + down : x.shape[0] - 1 + down, 1 + right : x.shape[1] - 1 + right]

    t = at(u, 0, 0)
    for down, right in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        t = t + r * 0.5 * (at(k, 0, 0) + at(k, down, right)) * (at(u, down, right) - at(u, 0, 0))
    return F.pad(t, (1, 1, 1, 1))


@case(lambda make: (make(7, 9, change=spread), make(7, 9, change=torch.exp), 0.25), heat_reference)
@tile_ops.op("gradients::heat(Tensor u, Tensor conductivity, float r) -> Tensor", outputs="u", grad="auto")
def heat(u, conductivity, r, out):
    out.zero_()
    heat_kernel[tl.cdiv(u.shape[0] - 2, 2), tl.cdiv(u.shape[1] - 2, 4)](u, conductivity, out, r, 2, 4)


@tl.kernel
def causal_convolution_kernel(x, w, b, out, K: tl.Constant[int], T: tl.Constant[int], C: tl.Constant[int]):
    """Depthwise, along a sequence, up to each element."""
    i, j, batch = tl.bid(0), tl.bid(1), tl.bid(2)
    rows = (i * T + tl.arange(T, dtype=tl.int32))[:, None]
    columns = (j * C + tl.arange(C, dtype=tl.int32))[None, :]
    total = tl.zeros((T, C), wide(x)) + loaded(b, j, C)
    for k in range(K):
        taps = tl.gather(w, (columns, k)).astype(total.dtype)
        total += tl.gather(x, (batch, rows + (k - K + 1), columns)).astype(total.dtype) * taps
    tl.store(out, (batch, i, j), tl.silu(total).astype(out.dtype)[None, :, :])


def causal_convolution_reference(x, w, b):
    t = F.pad(x.mT, (w.shape[1] - 1, 0))
    return F.silu(F.conv1d(t, w[:, None], b, groups=len(w)).mT)


@case(lambda make: (make(2, 7, 5), make(5, 3), make(5)), causal_convolution_reference)
@tile_ops.op("gradients::causal_convolution(Tensor x, Tensor w, Tensor b) -> Tensor", outputs="x", grad="auto")
def causal_convolution(x, w, b, out):
    causal_convolution_kernel[tl.cdiv(x.shape[1], 4), tl.cdiv(x.shape[2], 4), len(x)](x, w, b, out, w.shape[1], 4, 4)


@tl.kernel
def convolution_kernel(x, w, b, out, stride: int, width: int, K: tl.Constant[int], P: tl.Constant[int], C: tl.Constant[int]):
    """Gathers the elements under the filter for P points of the result, and multiplies them as a matrix."""
    i, j, batch = tl.bid(0), tl.bid(1), tl.bid(2)
    channels = x.shape[1]
    point, channel = i * P + tl.arange(P, dtype=tl.int32), j * C + tl.arange(C, dtype=tl.int32)
    row, column = point // width * stride - K // 2, point % width * stride - K // 2
    tap = tl.arange(tl.next_power_of_2(K * K), dtype=tl.int32)
    total = tl.zeros((P, C), wide(x))
    for c in range(channels):
        rows, columns = row[:, None] + (tap // K)[None, :], column[:, None] + (tap % K)[None, :]
        under = tl.gather(x, (batch, c, rows, columns), mask=(tap < K * K)[None, :])
        taps = tl.gather(w, (channel[None, :], c, (tap // K)[:, None], (tap % K)[:, None]))
        total = tl.mma(under, taps, total)
    total += loaded(b, j, C)
    tl.store(out, (batch, j, i), total.astype(out.dtype).transpose()[None, :, :])


def convolution_outputs(x, w, stride):
    return x.new_empty(len(x), len(w), (x.shape[2] - 1) // stride + 1, (x.shape[3] - 1) // stride + 1)


@case(lambda make: (make(2, 3, 5, 7), make(5, 3, 3, 3), make(5), 2), lambda x, w, b, stride: F.conv2d(x, w, b, stride, 1))
@tile_ops.op(
    "gradients::convolution(Tensor x, Tensor w, Tensor b, int stride) -> Tensor", outputs=convolution_outputs, grad="auto"
)
def convolution(x, w, b, stride, out):
    points = out.shape[2] * out.shape[3]
    flat = out.view(len(x), len(w), points)
    convolution_kernel[tl.cdiv(points, 4), tl.cdiv(len(w), 4), len(x)](x, w, b, flat, stride, out.shape[3], 3, 4, 4)


@tl.kernel
def rounded_kernel(x, out, N: tl.Constant[int]):
    tl.store(out, tl.bid(0), tl.load(x, tl.bid(0), N).astype(out.dtype))


@tl.kernel
def transposed_convolution_kernel(x, w, out, stride: int, K: tl.Constant[int], N: tl.Constant[int]):
    """Each element of a sequence adds a multiple of the filter to the result."""
    i, channel = tl.bid(0), tl.bid(1)
    place, tap = i * N + tl.arange(N, dtype=tl.int32)[:, None], tl.arange(tl.next_power_of_2(K), dtype=tl.int32)[None, :]
    t = loaded(x, (channel, i), (1, N)).reshape((N, 1)) * loaded(w, (channel, 0), (1, tl.next_power_of_2(K)))
    inside = (place < x.shape[1]) & (tap < K)
    tl.atomic_add(out, (channel, tl.where(inside, place * stride + tap, -1)), t.astype(out.dtype))


def transposed_convolution_reference(x, w, stride):
    return F.conv_transpose1d(x[None], w[:, None], None, stride, groups=len(x))[0]


@case(lambda make: (make(2, 6), make(2, 3), 2), transposed_convolution_reference)
@tile_ops.op(
    "gradients::transposed_convolution(Tensor x, Tensor w, int stride) -> Tensor",
    outputs=lambda x, w, stride: x.new_empty(len(x), (x.shape[1] - 1) * stride + w.shape[1]),
    grad="auto",
)
def transposed_convolution(x, w, stride, out):
    total = torch.zeros_like(out, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
    transposed_convolution_kernel[tl.cdiv(x.shape[1], 4), len(x)](x, w, total, stride, w.shape[1], 4)
    rounded_kernel[tl.cdiv(out.numel(), 16)](total.view(-1), out.view(-1), 16)


@tl.kernel
def shuffled_kernel(x, out, T: tl.Constant[int]):
    """Four channels become squares of 2 x 2 points."""
    i, j, c = tl.bid(0), tl.bid(1), tl.bid(2)
    t = tl.load(x, (c, i, j), (4, T, T)).reshape((2, 2, T, T)).permute((2, 0, 3, 1))
    tl.store(out, (c, i, j), t.reshape((1, 2 * T, 2 * T)))


def shuffled_outputs(x):
    return x.new_empty(x.shape[0] // 4, 2 * x.shape[1], 2 * x.shape[2])


@case(lambda make: (make(8, 3, 5),), lambda x: F.pixel_shuffle(x, 2))
@tile_ops.op("gradients::shuffled(Tensor x) -> Tensor", outputs=shuffled_outputs, grad="auto")
def shuffled(x, out):
    shuffled_kernel[tl.cdiv(x.shape[1], 2), tl.cdiv(x.shape[2], 2), len(out)](x, out, 2)


@tl.kernel
def enlarged_kernel(x, out, R: tl.Constant[int], C: tl.Constant[int]):
    """Bilinear interpolation: places of the result are computed as floats, elements of x are gathered."""
    i, j, b, dtype = tl.bid(0), tl.bid(1), tl.bid(2), wide(x)
    y = ((i * R + tl.arange(R, dtype=tl.int32)).astype(dtype) + 0.5) * x.shape[1] / out.shape[1] - 0.5
    z = ((j * C + tl.arange(C, dtype=tl.int32)).astype(dtype) + 0.5) * x.shape[2] / out.shape[2] - 0.5
    y, z = tl.maximum(y, 0)[:, None], tl.maximum(z, 0)[None, :]
    top, left = tl.floor(y).astype(tl.int32), tl.floor(z).astype(tl.int32)
    down, right = y - tl.floor(y), z - tl.floor(z)
    total = tl.zeros((R, C), dtype)
    for dy in tl.static_iter(range(2)):
        for dx in tl.static_iter(range(2)):
            weight = (down if dy else 1 - down) * (right if dx else 1 - right)
            at = b, tl.minimum(top + dy, x.shape[1] - 1), tl.minimum(left + dx, x.shape[2] - 1)
            total += weight * tl.gather(x, at).astype(dtype)
    tl.store(out, (b, i, j), total.astype(out.dtype)[None, :, :])


@case(lambda make: (make(2, 3, 4), 8, 7), lambda x, height, width: F.interpolate(x[None], (height, width), mode="bilinear")[0])
@tile_ops.op("gradients::enlarged(Tensor x, int height, int width) -> Tensor", outputs=image_outputs, grad="auto")
def enlarged(x, height, width, out):
    enlarged_kernel[tl.cdiv(height, 4), tl.cdiv(width, 4), len(x)](x, out, 4, 4)


@tl.kernel
def sampled_kernel(x, points, out, N: tl.Constant[int]):
    """Linear interpolation at points that have a gradient, too."""
    i = tl.bid(0)
    p = loaded(points, i, N) * (x.shape[0] - 1)
    left = tl.floor(p).astype(tl.int32)
    a, b = tl.gather(x, left).astype(wide(x)), tl.gather(x, left + 1).astype(wide(x))
    tl.store(out, i, (a + (p - left.astype(p.dtype)) * (b - a)).astype(out.dtype))


def sampled_reference(x, points):
    p = points * (len(x) - 1)
    left = p.floor().long()
    return torch.lerp(x[left], x[left + 1], p - left)


@case(lambda make: (make(9), make(13, change=torch.sigmoid)), sampled_reference)
@tile_ops.op(
    "gradients::sampled(Tensor x, Tensor points) -> Tensor", outputs=lambda points: torch.empty_like(points), grad="auto"
)
def sampled(x, points, out):
    sampled_kernel[tl.cdiv(len(points), 8)](x, points, out, 8)


@tl.kernel
def bag_kernel(table, index, weight, out, D: tl.Constant[int]):
    """Weighted sums of rows of a table; negative indices are padding."""
    b, j = tl.bid(0), tl.bid(1)
    total = tl.zeros((1, D), wide(table))
    for i in range(index.shape[1]):
        row = tl.load(index, (b, i), ())
        t = loaded(table, (tl.maximum(row, 0), j), (1, D)) * tl.load(weight, (b, i), ()).astype(total.dtype)
        total += tl.where(row >= 0, t, 0)
    tl.store(out, (b, j), total.astype(out.dtype))


def bag_reference(table, index, weight):
    return (table[index.clamp(min=0)] * torch.where(index >= 0, weight, 0)[..., None]).sum(1)


@case(lambda make: (make(7, 5), torch.tensor([[1, 1, 6], [0, -1, -1], [3, 6, 1]]), make(3, 3)), bag_reference)
@tile_ops.op(
    "gradients::bag(Tensor table, Tensor index, Tensor weight) -> Tensor",
    outputs=lambda table, index: table.new_empty(len(index), table.shape[1]),
    grad="auto",
)
def bag(table, index, weight, out):
    bag_kernel[len(index), tl.cdiv(table.shape[1], 4)](table, index, weight, out, 4)


@tl.kernel
def segments_kernel(x, segment, out, R: tl.Constant[int], D: tl.Constant[int]):
    i = tl.bid(0)
    t = loaded(x, (i, 0), (R, D))
    rows = tl.load(segment, i, R, padding_mode=ZERO)
    rows = tl.where(i * R + tl.arange(R, dtype=tl.int32) < x.shape[0], rows, -1)
    tl.atomic_add(out, (rows[:, None], tl.arange(D, dtype=tl.int32)[None, :]), (t * tl.sigmoid(t)).astype(out.dtype))


@case(
    lambda make: (make(9, 5), torch.tensor([2, 0, 0, 3, 2, 2, 0, 3, 3]), 4),
    lambda x, segment, count: zeros(x, count).index_add(0, segment, F.silu(x)),
)
@tile_ops.op(
    "gradients::segments(Tensor x, Tensor segment, int count) -> Tensor",
    outputs=lambda x, count: x.new_empty(count, x.shape[1]),
    grad="auto",
)
def segments(x, segment, count, out):
    total = torch.zeros_like(out, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
    segments_kernel[tl.cdiv(len(x), 4)](x, segment, total, 4, power(x.shape[1]))
    rounded_kernel[tl.cdiv(out.numel(), 16)](total.view(-1), out.view(-1), 16)


def zeros(x, count):
    return torch.zeros(count, x.shape[1], dtype=x.dtype, device=x.device)


@tl.kernel
def messages_kernel(x, edges, weight, out, E: tl.Constant[int], D: tl.Constant[int]):
    """Each edge of a graph adds its source's row, times its weight, to its target's row."""
    e = tl.bid(0)
    inside = e * E + tl.arange(E, dtype=tl.int32) < edges.shape[1]
    source = tl.where(inside, tl.load(edges, (0, e), (1, E)).reshape((E,)), -1)
    target = tl.where(inside, tl.load(edges, (1, e), (1, E)).reshape((E,)), -1)
    t = tl.load_advanced_indexing(x, (source, tl.Slice(0, D)), padding_mode=ZERO).astype(wide(x))
    t = tl.tanh(t * loaded(weight, e, E)[:, None])
    tl.atomic_add(out, (target[:, None], tl.arange(D, dtype=tl.int32)[None, :]), t.astype(out.dtype))


def messages_reference(x, edges, weight):
    return torch.zeros_like(x).index_add(0, edges[1], torch.tanh(x[edges[0]] * weight[:, None]))


@case(lambda make: (make(5, 3), torch.tensor([[0, 1, 4, 4, 2, 0], [1, 2, 2, 0, 2, 4]]), make(6)), messages_reference)
@tile_ops.op("gradients::messages(Tensor x, Tensor edges, Tensor weight) -> Tensor", outputs="x", grad="auto")
def messages(x, edges, weight, out):
    out.zero_()
    messages_kernel[tl.cdiv(edges.shape[1], 4)](x, edges, weight, out, 4, power(x.shape[1]))


@tl.kernel
def permuted_rows_kernel(x, order, out, R: tl.Constant[int], D: tl.Constant[int]):
    """Stores rows at other places; the order has each place once."""
    i = tl.bid(0)
    rows = tl.where(i * R + tl.arange(R, dtype=tl.int32) < x.shape[0], tl.load(order, i, R), -1)
    tl.store_advanced_indexing(out, (rows, tl.Slice(0, D)), tl.exp(tl.load(x, (i, 0), (R, D))))


@case(lambda make: (make(7, 5), torch.randperm(7)), lambda x, order: x.exp()[order.argsort()])
@tile_ops.op("gradients::permuted_rows(Tensor x, Tensor order) -> Tensor", outputs="x", grad="auto")
def permuted_rows(x, order, out):
    permuted_rows_kernel[tl.cdiv(len(x), 4)](x, order, out, 4, power(x.shape[1]))


@tl.kernel
def taken_kernel(x, index, out, R: tl.Constant[int], K: tl.Constant[int]):
    """Takes elements of each row at indices, of which some may be equal."""
    i = tl.bid(0)
    rows = (i * R + tl.arange(R, dtype=tl.int32))[:, None]
    t = tl.gather(x, (rows, tl.load(index, (i, 0), (R, K))))
    tl.store(out, (i, 0), t * t)


@case(lambda make: (make(5, 7), torch.randint(7, (5, 3))), lambda x, index: x.gather(1, index) ** 2)
@tile_ops.op(
    "gradients::taken(Tensor x, Tensor index) -> Tensor", outputs=lambda x, index: x.new_empty(index.shape), grad="auto"
)
def taken(x, index, out):
    taken_kernel[tl.cdiv(len(x), 4)](x, index, out, 4, power(index.shape[1]))


@tl.kernel
def rolled_kernel(x, out, shift: int, N: tl.Constant[int]):
    """Neighbours on a ring: indices are taken modulo the extent, and reflected ones at the ends."""
    i, n = tl.bid(0), x.shape[0]
    at = i * N + tl.arange(N, dtype=tl.int32)
    around = tl.gather(x, (at + shift) % n)
    mirrored = n - 1 - tl.abs(n - 1 - tl.abs(at - shift))
    tl.store(out, i, around * tl.gather(x, mirrored) + tl.load(x, i, N))


def rolled_reference(x, shift):
    return x.roll(-shift) * F.pad(x[None], (shift, 0), mode="reflect")[0, : len(x)] + x


@case(lambda make: (make(13), 3), rolled_reference)
@tile_ops.op("gradients::rolled(Tensor x, int shift) -> Tensor", outputs="x", grad="auto")
def rolled(x, shift, out):
    rolled_kernel[tl.cdiv(len(x), 8)](x, out, shift, 8)


@tl.kernel
def overlapping_kernel(x, window, out, N: tl.Constant[int]):
    """Frames of a signal that overlap by half, each times a window."""
    frame = tl.bid(0)
    t = x.tiled_view((N,), padding_mode=ZERO, traversal_steps=(N // 2,)).load((frame,))
    tl.store(out, (frame, 0), (t.astype(wide(x)) * loaded(window, 0, N))[None, :].astype(out.dtype))


@case(lambda make: (make(20), make(8)), lambda x, window: x.unfold(0, 8, 4) * window)
@tile_ops.op(
    "gradients::overlapping(Tensor x, Tensor window) -> Tensor",
    outputs=lambda x, window: x.new_empty(len(x) * 2 // len(window) - 1, len(window)),
    grad="auto",
)
def overlapping(x, window, out):
    overlapping_kernel[len(out)](x, window, out, len(window))
