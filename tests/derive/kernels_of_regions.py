"""Operators with scans and reductions by functions of several operations, whose gradients are derived."""

import tile_ops
import tile_ops.language as tl
import torch

from derive.cases import NEG_INF, case, loaded, power, row_outputs, spread, transposed, wide


def with_zeros(x):
    """Some rows have one zero, or two."""
    x[0, 1] = x[1, 2] = x[1, 4] = x[2, 0] = 0
    return x


@tl.kernel
def running_products_kernel(x, y, out, back, M: tl.Constant[int], N: tl.Constant[int]):
    """Running products from both ends, along both axes."""
    i = tl.bid(0)
    t, u = loaded(x, (i, 0), (M, N)), 1 + 0.5 * loaded(y, (i, 0), (M, N))
    tl.store(out, (i, 0), tl.cumprod(t, 1).astype(out.dtype))
    tl.store(back, (i, 0), tl.cumprod(u * t, 0, reverse=True).astype(out.dtype))


def running_products_reference(x, y):
    parts = [part.flip(0).cumprod(0).flip(0) for part in ((1 + 0.5 * y) * x).split(4)]
    return x.cumprod(1), torch.cat(parts)


@case(lambda make: (make(8, 7, change=with_zeros), make(8, 7, change=transposed)), running_products_reference)
@tile_ops.op(
    "gradients::running_products(Tensor x, Tensor y) -> (Tensor out, Tensor back)",
    outputs=lambda x: (torch.empty_like(x), torch.empty_like(x)),
    grad="auto",
)
def running_products(x, y, out, back):
    running_products_kernel[tl.cdiv(x.shape[0], 4)](x, y, out, back, 4, power(x.shape[1]))


def recurrence(a, b, c, d):
    return a * c, b * c + d


@tl.kernel
def linear_scan_kernel(a, b, out, N: tl.Constant[int]):
    """h[t] = a[t] h[t - 1] + b[t], as a scan of pairs."""
    j = tl.bid(0)
    gates, inputs = tl.sigmoid(loaded(a, (0, j), (N, 2))), loaded(b, (0, j), (N, 2))
    _, states = tl.scan((gates, inputs), 0, recurrence, (1.0, 0.0))
    tl.store(out, (0, j), states.astype(out.dtype))


def linear_scan_reference(a, b):
    state, states = torch.zeros_like(b[0]), []
    for gate, row in zip(a.sigmoid(), b):
        state = gate * state + row
        states.append(state)
    return torch.stack(states)


@case(lambda make: (make(11, 5), make(11, 5, change=spread)), linear_scan_reference)
@tile_ops.op("gradients::linear_scan(Tensor a, Tensor b) -> Tensor", outputs="a", grad="auto")
def linear_scan(a, b, out):
    linear_scan_kernel[tl.cdiv(a.shape[1], 2)](a, b, out, power(a.shape[0]))


def joined_sums(m, s, n, t):
    high = tl.maximum(m, n)
    return high, s * tl.exp(m - high) + t * tl.exp(n - high)


@tl.kernel
def running_logsumexp_kernel(x, out, sums, N: tl.Constant[int]):
    """The logarithm of the sum of exponentials up to each element, and of all."""
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N), padding_mode=NEG_INF).astype(wide(x))
    t = tl.where(tl.arange(N, dtype=tl.int32)[None, :] < x.shape[1], t, -30.0)
    high, total = tl.scan((t, tl.ones((1, N), wide(x))), 1, joined_sums, (float("-inf"), 0.0))
    tl.store(out, (row, 0), (high + tl.log(total)).astype(out.dtype))
    high, total = tl.reduce((t, tl.ones((1, N), wide(x))), 1, joined_sums, (float("-inf"), 0.0))
    tl.store(sums, row, (high + tl.log(total)).astype(out.dtype))


@case(lambda make: (make(5, 11),), lambda x: (x.logcumsumexp(1), x.logsumexp(1)))
@tile_ops.op(
    "gradients::running_logsumexp(Tensor x) -> (Tensor out, Tensor sums)",
    outputs=lambda x: (torch.empty_like(x), row_outputs(x)),
    grad="auto",
)
def running_logsumexp(x, out, sums):
    running_logsumexp_kernel[x.shape[0]](x, out, sums, power(x.shape[1]))


def joined_moments(n, mean, square, m, other, more):
    count = n + m
    far = other - mean
    return count, mean + far * m / count, square + more + far * far * n * m / count


@tl.kernel
def moments_kernel(x, out, N: tl.Constant[int]):
    """Mean and variance by parts; the counts have no gradient, and the length is a power of two."""
    row = tl.bid(0)
    t = loaded(x, (row, 0), (1, N))
    _, mean, square = tl.reduce((tl.ones((1, N), wide(x)), t, tl.zeros((1, N), wide(x))), 1, joined_moments, (0.0, 0.0, 0.0))
    tl.store(out, row, (mean + tl.sqrt(square / N)).astype(out.dtype))


@case(lambda make: (make(5, 8),), lambda x: x.mean(1) + x.std(1, correction=0))
@tile_ops.op("gradients::moments(Tensor x) -> Tensor", outputs=row_outputs, grad="auto")
def moments(x, out):
    moments_kernel[x.shape[0]](x, out, x.shape[1])


def matrix_product(a, b, c, d, e, f, g, h):
    return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h


@tl.kernel
def matrices_kernel(x, out, N: tl.Constant[int]):
    """A chain of products of 2 x 2 matrices, which do not commute, from the end to the beginning."""
    tiles = (loaded(x, (0, 0), (1, N)), loaded(x, (1, 0), (1, N)), loaded(x, (2, 0), (1, N)), loaded(x, (3, 0), (1, N)))
    a, b, c, d = tl.scan(tiles, 1, matrix_product, (1.0, 0.0, 0.0, 1.0), reverse=True)
    tl.store(out, (0, 0), a.astype(out.dtype))
    tl.store(out, (1, 0), b.astype(out.dtype))
    tl.store(out, (2, 0), c.astype(out.dtype))
    tl.store(out, (3, 0), d.astype(out.dtype))


def matrices_reference(x):
    made, results = None, []
    for each in reversed(x.view(2, 2, -1).unbind(2)):
        made = each if made is None else made @ each
        results.append(made.reshape(4))
    return torch.stack(results[::-1], 1)


@case(lambda make: (make(4, 8),), matrices_reference)
@tile_ops.op("gradients::matrices(Tensor x) -> Tensor", outputs="x", grad="auto")
def matrices(x, out):
    matrices_kernel[1](x, out, x.shape[1])


@tl.kernel
def captured_kernel(x, rate, out, N: tl.Constant[int]):
    """An associative function with a number from outside, x + y + rate x y, and the place of its largest element."""
    row = tl.bid(0)
    t, r = loaded(x, (row, 0), (1, N)), tl.load(rate, (), ()).astype(wide(x))
    total = tl.scan(t, 1, lambda a, b: a + b + r * a * b, 0.0)
    places = tl.broadcast_to(tl.arange(N, dtype=tl.int32)[None, :], (1, N))
    best, at = tl.reduce(
        (total, places), 1, lambda a, i, b, j: (tl.where(a >= b, a, b), tl.where(a >= b, i, j)), (float("-inf"), 0)
    )
    tl.store(out, row, (best * (1 + at.astype(wide(x)))).astype(out.dtype))


def captured_reference(x, rate):
    total, results = x[:, 0], []
    results.append(total)
    for column in x[:, 1:].unbind(1):
        total = total + column + rate * total * column
        results.append(total)
    best, at = torch.stack(results, 1).max(1)
    return best * (1 + at)


@case(lambda make: (make(6, 8), make()), captured_reference)
@tile_ops.op("gradients::captured(Tensor x, Tensor rate) -> Tensor", outputs=row_outputs, grad="auto")
def captured(x, rate, out):
    captured_kernel[x.shape[0]](x, rate, out, 8)


@tl.kernel
def largest_yet_kernel(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.scan(loaded(x, (row, 0), (1, N)), 1, lambda a, b: tl.maximum(a, b), float("-inf"))
    tl.store(out, (row, 0), (t * t).astype(out.dtype))


@case(lambda make: (make(5, 11),), lambda x: x.cummax(1)[0] ** 2)
@tile_ops.op("gradients::largest_yet(Tensor x) -> Tensor", outputs="x", grad="auto")
def largest_yet(x, out):
    largest_yet_kernel[x.shape[0]](x, out, power(x.shape[1]))
