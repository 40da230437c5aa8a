"""Operators whose gradients are derived: control flow, arguments, views, masks and dtypes of many forms."""

import dataclasses

import tile_ops
import tile_ops.language as tl
import torch

from derive.cases import case, loaded, power, row_outputs, spread, transposed, wide


@tl.kernel
def optional_kernel(x, out, bias=None, scale: float = 1.0, SQUARE: tl.Constant[bool] = False, N: tl.Constant[int] = 8):
    i = tl.bid(0)
    t = loaded(x, i, N) * scale
    if bias is not None:
        t = t + loaded(bias, i, N)
    if SQUARE:
        t = t**2
    tl.store(out, i, t.astype(out.dtype))


def optional_reference(x, bias, square):
    t = x * 1.5 if bias is None else x * 1.5 + bias
    return t**2 if square else t


@case(lambda make: (make(21), make(21), False), optional_reference)
@tile_ops.op("gradients::with_bias(Tensor x, Tensor? bias, bool square) -> Tensor", outputs="x", grad="auto")
def with_bias(x, bias, square, out):
    optional_kernel[tl.cdiv(len(x), 8)](x, out, bias=bias, scale=1.5, SQUARE=square)


@case(lambda make: (make(21), None, True), optional_reference)
@tile_ops.op("gradients::without_bias(Tensor x, Tensor? bias, bool square) -> Tensor", outputs="x", grad="auto")
def without_bias(x, bias, square, out):
    optional_kernel[tl.cdiv(len(x), 8)](x, out, bias=bias, scale=1.5, SQUARE=square)


@dataclasses.dataclass(frozen=True)
class Affine:
    scale: object
    shift: object
    power: float


@tl.kernel
def affine_kernel(x, both, affine, out, N: tl.Constant[int]):
    i = tl.bid(0)
    t = loaded(x, i, N) * loaded(affine.scale, i, N) + loaded(affine.shift, i, N)
    first, second = both
    tl.store(out, i, (t * affine.power + loaded(first, i, N) * tl.cos(loaded(second, i, N))).astype(out.dtype))


def affine_reference(x, a, b, scale, shift):
    return (x * scale + shift) * 0.5 + a * b.cos()


@case(lambda make: tuple(make(21) for _ in range(5)), affine_reference)
@tile_ops.op("gradients::affine(Tensor x, Tensor a, Tensor b, Tensor scale, Tensor shift) -> Tensor", outputs="x", grad="auto")
def affine(x, a, b, scale, shift, out):
    affine_kernel[tl.cdiv(len(x), 8)](x, (a, b), Affine(scale, shift, 0.5), out, 8)


@tl.kernel
def listed_kernel(arrays, weights, out, N: tl.Constant[int]):
    i, total = tl.bid(0), tl.zeros((N,), tl.float32)
    for k in range(len(arrays)):
        total += tl.load(arrays[k], i, N).astype(tl.float32) * tl.load(weights, k, ()).astype(tl.float32)
    tl.store(out, i, total.astype(out.dtype))


@case(
    lambda make: (make(21), make(21), make(21), make(3)),
    lambda x, y, z, weights: x * weights[0] + y * weights[1] + z * weights[2],
    float32=True,
)
@tile_ops.op("gradients::listed(Tensor x, Tensor y, Tensor z, Tensor weights) -> Tensor", outputs="x", grad="auto")
def listed(x, y, z, weights, out):
    listed_kernel[tl.cdiv(len(x), 8)]([x, y, z], weights, out, 8)


@tl.kernel
def sided_kernel(x, y, out, other, N: tl.Constant[int]):
    """The block decides from which arrays its result is computed; one result is stored in both branches of an `if`."""
    i = tl.bid(0)
    first, second = tl.full((N,), 1.5, wide(x)), loaded(x, 0, N)
    if i % 3 == 0:
        first, second = tl.sin(loaded(x, i, N)), loaded(y, i, N)
    elif i % 3 == 1:
        second = loaded(y, i, N)
        first, second = second * second, second * loaded(x, i, N)
    if i > 1:
        tl.store(out, i, first.astype(out.dtype))
    else:
        tl.store(out, i, (first * first).astype(out.dtype))
    tl.store(other, i, second.astype(out.dtype))


def sided_reference(x, y):
    out, other = [], []
    for i, (a, b) in enumerate(zip(x.split(4), y.split(4))):
        first = [a.sin(), b * b, torch.full_like(a, 1.5)][i % 3]
        out.append(first if i > 1 else first * first)
        other.append([b, b * a, x[: len(a)]][i % 3])
    return torch.cat(out), torch.cat(other)


def twice(x):
    return torch.empty_like(x), torch.empty_like(x)


@case(lambda make: (make(22), make(22)), sided_reference)
@tile_ops.op("gradients::sided(Tensor x, Tensor y) -> (Tensor out, Tensor other)", outputs=twice, grad="auto")
def sided(x, y, out, other):
    sided_kernel[tl.cdiv(len(x), 4)](x, y, out, other, 4)


@tl.kernel
def returning_kernel(x, count, out, N: tl.Constant[int]):
    """Blocks past a number that is in memory leave zeros."""
    i = tl.bid(0)
    if i >= tl.load(count, (), ()):
        return
    t = loaded(x, i, N)
    tl.store(out, i, (t * t * t).astype(out.dtype))


def returning_reference(x, count):
    return torch.where(torch.arange(len(x)) < 8 * count, x**3, 0)


@case(lambda make: (make(29), torch.tensor(2)), returning_reference)
@tile_ops.op("gradients::returning(Tensor x, Tensor count) -> Tensor", outputs="x", grad="auto")
def returning(x, count, out):
    out.zero_()
    returning_kernel[tl.cdiv(len(x), 8)](x, count, out, 8)


@tl.kernel
def triangular_kernel(x, out, N: tl.Constant[int]):
    """A loop whose length depends on the block, with a state that is no sum, from the end to the beginning."""
    i = tl.bid(0)
    state = loaded(x, i, N)
    for k in range(i, -1, -1):
        t = loaded(x, k, N)
        if k % 2 == 0:
            state = state * tl.cos(t)
        else:
            state = tl.tanh(state + t)
    tl.store(out, i, state.astype(out.dtype))


def triangular_reference(x):
    parts, results = x.split(4), []
    for i, state in enumerate(parts):
        for t in reversed(parts[: i + 1]):
            k = next(k for k, part in enumerate(parts) if part is t)
            state = state * t.cos() if k % 2 == 0 else torch.tanh(state + t)
        results.append(state)
    return torch.cat(results)


@case(lambda make: (make(20),), triangular_reference)
@tile_ops.op("gradients::triangular(Tensor x) -> Tensor", outputs="x", grad="auto")
def triangular(x, out):
    triangular_kernel[tl.cdiv(len(x), 4)](x, out, 4)


@tl.kernel
def clipped_kernel(x, limit, out, steps: int, N: tl.Constant[int]):
    """A branch on numbers that the loop carries: a step is taken back if it goes too far."""
    i = tl.bid(0)
    t, most = loaded(x, i, N), tl.load(limit, (), ()).astype(wide(x))
    for step in range(steps):
        new = t * 1.5
        if tl.sum(new * new) > most:
            t = t * 0.75 + tl.sin(new)
        else:
            t = new
    tl.store(out, i, t.astype(out.dtype))


def clipped_reference(x, limit, steps):
    results = []
    for t in x.split(4):
        for _ in range(steps):
            new = t * 1.5
            t = t * 0.75 + new.sin() if (new * new).sum() > limit else new
        results.append(t)
    return torch.cat(results)


@case(lambda make: (make(18), torch.tensor(9.0), 4), clipped_reference)
@tile_ops.op("gradients::clipped(Tensor x, Tensor limit, int steps) -> Tensor", outputs="x", grad="auto")
def clipped(x, limit, steps, out):
    clipped_kernel[tl.cdiv(len(x), 4)](x, limit, out, steps, 4)


@tl.kernel
def skipping_kernel(x, skipped, out, N: tl.Constant[int]):
    row, total = tl.bid(0), tl.zeros((1, N), wide(x))
    for k in range(tl.num_tiles(x, 1, (1, N))):
        if tl.load(skipped, k, ()) == 0:
            t = loaded(x, (row, k), (1, N))
            total = total * 0.5 + t * t
    tl.store(out, row, tl.sum(total, 1).astype(out.dtype))


def skipping_reference(x, skipped):
    total = x.new_zeros(x.shape[0], 4)
    for k, t in enumerate(x.split(4, 1)):
        if not skipped[k]:
            total = total * 0.5 + torch.nn.functional.pad(t * t, (0, 4 - t.shape[1]))
    return total.sum(1)


@case(lambda make: (make(3, 18), torch.tensor([0, 1, 0, 0, 1])), skipping_reference)
@tile_ops.op("gradients::skipping(Tensor x, Tensor skipped) -> Tensor", outputs=row_outputs, grad="auto")
def skipping(x, skipped, out):
    skipping_kernel[len(x)](x, skipped, out, 4)


@tl.kernel
def no_iterations_kernel(x, y, out, begin: int, end: int, N: tl.Constant[int]):
    i = tl.bid(0)
    t = loaded(x, i, N)
    for _ in range(begin, end):
        t = t * loaded(y, i, N)
    tl.store(out, i, t.astype(out.dtype))


def no_iterations_reference(x, y, begin, end):
    return x * y ** max(end - begin, 0) + 0 * y


@case(lambda make: (make(13), make(13), 3, 1), no_iterations_reference)
@tile_ops.op("gradients::no_iterations(Tensor x, Tensor y, int begin, int end) -> Tensor", outputs="x", grad="auto")
def no_iterations(x, y, begin, end, out):
    no_iterations_kernel[tl.cdiv(len(x), 8)](x, y, out, begin, end, 8)


@tl.kernel
def masked_kernel(x, kept, out, sums, N: tl.Constant[int]):
    """Elements that a mask leaves out have a value of their own, and are not written."""
    i = tl.bid(0)
    at, mask = i * N + tl.arange(N, dtype=tl.int32), tl.load(kept, i, N)
    t = tl.gather(x, at, mask=mask, padding_value=0.5).astype(wide(x)) + tl.gather(x, at + 1).astype(wide(x))
    tl.scatter(out, at, (t * t).astype(out.dtype), mask=mask)
    tl.store(sums, i, tl.sum(tl.sin(t)).astype(out.dtype))


def masked_reference(x, kept):
    t = torch.nn.functional.pad(torch.where(kept, x, 0.5), (0, 3), value=0.5) + torch.nn.functional.pad(x[1:], (0, 4))
    return torch.where(kept, t[: len(x)] ** 2, 0), t.view(-1, 8).sin().sum(1)


@case(lambda make: (make(21), torch.randn(21) > 0), masked_reference)
@tile_ops.op(
    "gradients::masked(Tensor x, Tensor kept) -> (Tensor out, Tensor sums)",
    outputs=lambda x: (torch.empty_like(x), x.new_empty(tl.cdiv(len(x), 8))),
    grad="auto",
)
def masked(x, kept, out, sums):
    out.zero_()
    masked_kernel[len(sums)](x, kept, out, sums, 8)


@tl.kernel
def column_sums_kernel(x, out, M: tl.Constant[int], N: tl.Constant[int]):
    t = loaded(x, (tl.bid(0), tl.bid(1)), (M, N))
    out.tiled_view((N,)).atomic_store_add((tl.bid(1),), tl.sum(t * t, 0).astype(out.dtype))


@case(lambda make: (make(9, 6, change=transposed),), lambda x: (x * x).sum(0))
@tile_ops.op("gradients::column_sums(Tensor x) -> Tensor", outputs=lambda x: x.new_empty(x.shape[1]), grad="auto")
def column_sums(x, out):
    out.zero_()
    column_sums_kernel[tl.cdiv(x.shape[0], 4), tl.cdiv(x.shape[1], 4)](x, out, 4, 4)


@tl.kernel
def sliced_kernel(x, out, begin: int, end: int, N: tl.Constant[int]):
    """Reads and writes a part of the columns, in tiles that begin where the part does."""
    row, i = tl.bid(0), tl.bid(1)
    t = x.slice(1, begin, end).tiled_view((1, N)).load((row, i))
    tl.store(out.slice(1, begin - 1, end - 1), (row, i), tl.exp(t) * t)


def sliced_reference(x, begin, end):
    t = x[:, begin:end]
    return torch.nn.functional.pad(t.exp() * t, (begin - 1, x.shape[1] - end + 1))


@case(lambda make: (make(3, 13, change=spread), 3, 12), sliced_reference)
@tile_ops.op("gradients::sliced(Tensor x, int begin, int end) -> Tensor", outputs="x", grad="auto")
def sliced(x, begin, end, out):
    out.zero_()
    sliced_kernel[len(x), tl.cdiv(end - begin, 4)](x, out, begin, end, 4)


@tl.kernel
def mixed_kernel(x, w, index, out, rounded, N: tl.Constant[int]):
    """bfloat16 or whatever x has, float32 and integers in one kernel; one result has integers."""
    i = tl.bid(0)
    t = loaded(x, i, N) * tl.load(w, i, N).astype(wide(x)) + tl.load(index, i, N).astype(wide(x))
    tl.store(rounded, i, tl.round(t).astype(tl.int32))
    tl.store(out, i, (t * tl.round(t) + tl.trunc(t).astype(tl.int32).astype(t.dtype) * t).astype(out.dtype))


def mixed_reference(x, w, index):
    t = x * w + index
    return t * t.round() + t.trunc() * t


def mixed_arguments(make):
    x = make(21)
    return x, make(21, dtype=torch.promote_types(x.dtype, torch.float32)), torch.arange(21) % 3


@case(mixed_arguments, mixed_reference)
@tile_ops.op("gradients::mixed(Tensor x, Tensor w, Tensor index) -> Tensor", outputs="x", grad="auto")
def mixed(x, w, index, out):
    mixed_kernel[tl.cdiv(len(x), 8)](x, w, index, out, torch.empty_like(index, dtype=torch.int32), 8)


@tl.kernel
def reduced_kernel(x, out, N: tl.Constant[int]):
    """Reductions by functions, over both axes of a tile."""
    i = tl.bid(0)
    t = loaded(x, (i, 0, 0), (1, 4, N)).reshape((4, N))
    inside = tl.arange(N, dtype=tl.int32)[None, :] < x.shape[2]
    high = tl.reduce(tl.where(inside, t, float("-inf")), 1, lambda a, b: tl.maximum(a, b), float("-inf"))
    low = tl.reduce(tl.where(inside, t, float("inf")), 1, lambda a, b: tl.minimum(a, b), float("inf"))
    all = tl.reduce(tl.where(inside, 1 + 0.25 * t, 1), 1, lambda a, b: a * b, 1.0)
    tl.store(out, (i, 0), (tl.cumsum(high * all, 0) - low)[None, :].astype(out.dtype))


def reduced_reference(x):
    return (x.amax(2) * (1 + 0.25 * x).prod(2)).cumsum(1) - x.amin(2)


@case(lambda make: (make(3, 4, 6),), reduced_reference)
@tile_ops.op("gradients::reduced(Tensor x) -> Tensor", outputs=lambda x: x.new_empty(x.shape[:2]), grad="auto")
def reduced(x, out):
    reduced_kernel[len(x)](x, out, power(x.shape[2]))


@tl.kernel
def broadcast_kernel(x, y, z, out, N: tl.Constant[int]):
    """Axes that are added, exchanged and spread, and one element of an array."""
    i = tl.bid(0)
    a, b = loaded(x, (0, i), (4, N)), loaded(y, i, N)
    c = tl.load(z, (2,), ()).astype(wide(x))
    t = tl.broadcast_to(b[None, :, None], (4, N, 2)) * tl.permute(tl.cat((a[None], -a[None] * c), 0), (1, 2, 0))
    tl.store(out, (0, i), (tl.sum(t * t, 2) + c).astype(out.dtype))


def broadcast_reference(x, y, z):
    return (x * y) ** 2 * (1 + z[2] ** 2) + z[2]


@case(lambda make: (make(4, 11), make(11), make(3)), broadcast_reference)
@tile_ops.op("gradients::broadcast(Tensor x, Tensor y, Tensor z) -> Tensor", outputs="x", grad="auto")
def broadcast(x, y, z, out):
    broadcast_kernel[tl.cdiv(x.shape[1], 4)](x, y, z, out, 4)


@tl.kernel
def volume_kernel(x, w, out, T: tl.Constant[int]):
    """Three axes of a grid, with an array that two of them share."""
    at = tl.bid(0), tl.bid(1), tl.bid(2)
    t = loaded(x, at, (1, T, T)) * loaded(w, (tl.bid(1), 0), (T, 1))[None, :, :]
    tl.store(out, at, (t * tl.sigmoid(t)).astype(out.dtype))


def volume_reference(x, w):
    return torch.nn.functional.silu(x * w)


@case(lambda make: (make(3, 5, 6), make(5, 1)), volume_reference)
@tile_ops.op("gradients::volume(Tensor x, Tensor w) -> Tensor", outputs="x", grad="auto")
def volume(x, w, out):
    volume_kernel[len(x), tl.cdiv(x.shape[1], 4), tl.cdiv(x.shape[2], 4)](x, w, out, 4)


@tl.kernel
def first_axis_kernel(x, out, R: tl.Constant[int], C: tl.Constant[int]):
    """Every block reads the first row of the array, and its own rows."""
    i, j = tl.bid(0), tl.bid(1)
    first = loaded(x, (0, j), (1, C))
    tl.store(out, (i, j), (loaded(x, (i, j), (R, C)) * first + first * first).astype(out.dtype))


@case(lambda make: (make(9, 6),), lambda x: x * x[0] + x[0] ** 2)
@tile_ops.op("gradients::first_axis(Tensor x) -> Tensor", outputs="x", grad="auto")
def first_axis(x, out):
    first_axis_kernel[tl.cdiv(len(x), 4), tl.cdiv(x.shape[1], 4)](x, out, 4, 4)
