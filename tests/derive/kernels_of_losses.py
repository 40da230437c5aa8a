"""Losses whose gradients are derived."""

import tile_ops
import tile_ops.language as tl
import torch
import torch.nn.functional as F

from derive.cases import NEG_INF, case, loaded, power, row_outputs, wide


def scalar_outputs(x):
    return x.new_empty(())


def log_softmax_of(array, row, N):
    t = loaded(array, (row, 0), (1, N), NEG_INF)
    t = t - tl.detach(tl.max(t))
    return t - tl.log(tl.sum(tl.exp(t)))


@tl.kernel
def ignoring_cross_entropy_kernel(x, target, loss, ignored: int, smoothing: float, N: tl.Constant[int]):
    row, classes = tl.bid(0), x.shape[1]
    logs, column = log_softmax_of(x, row, N), tl.arange(N, dtype=tl.int32)[None, :]
    label = tl.load(target, row, ())
    chosen = tl.sum(tl.where(column == label, logs, 0))
    every = tl.sum(tl.where(column < classes, logs, 0)) / classes
    t = -(1 - smoothing) * chosen - smoothing * every
    tl.store(loss, row, tl.where(label == ignored, 0, t).astype(loss.dtype))


def ignoring_cross_entropy_reference(x, target, ignored, smoothing):
    return F.cross_entropy(x, target, ignore_index=ignored, label_smoothing=smoothing, reduction="none")


@case(lambda make: (make(6, 10), torch.tensor([3, -1, 9, 0, -1, 4]), -1, 0.25), ignoring_cross_entropy_reference)
@tile_ops.op(
    "gradients::ignoring_cross_entropy(Tensor x, Tensor target, int ignored, float smoothing) -> Tensor",
    outputs=row_outputs,
    grad="auto",
)
def ignoring_cross_entropy(x, target, ignored, smoothing, out):
    ignoring_cross_entropy_kernel[x.shape[0]](x, target, out, ignored, smoothing, power(x.shape[1]))


@tl.kernel
def chunked_cross_entropy_kernel(x, target, loss, lse, N: tl.Constant[int]):
    row = tl.bid(0)
    tops, sums = tl.full((1, N), float("-inf"), wide(x)), tl.zeros((1, N), wide(x))
    for k in range(tl.num_tiles(x, 1, (1, N))):
        t = loaded(x, (row, k), (1, N), NEG_INF)
        new = tl.maximum(tops, t)
        safe = tl.where(new == float("-inf"), 0.0, new)  # only -inf so far: exp returns zeros, not NaN
        sums = sums * tl.exp(tops - safe) + tl.exp(t - safe)
        tops = new
    top = tl.max(tops)
    log = top + tl.log(tl.sum(sums * tl.exp(tops - top)))
    tl.store(loss, row, (log - tl.gather(x, (row, tl.load(target, row, ())))).astype(loss.dtype))
    tl.store(lse, row, log.astype(lse.dtype))


def two_row_outputs(x):
    return row_outputs(x), row_outputs(x)


@case(
    lambda make: (make(5, 21), torch.randint(21, (5,))),
    lambda x, target: (F.cross_entropy(x, target, reduction="none"), x.logsumexp(1)),
)
@tile_ops.op(
    "gradients::chunked_cross_entropy(Tensor x, Tensor target) -> (Tensor loss, Tensor lse)",
    outputs=two_row_outputs,
    grad="auto",
)
def chunked_cross_entropy(x, target, loss, lse):
    chunked_cross_entropy_kernel[x.shape[0]](x, target, loss, lse, 8)


@tl.kernel
def soft_cross_entropy_kernel(x, probabilities, loss, N: tl.Constant[int]):
    """Adds the rows' losses to one number; rows are dealt to blocks."""
    total = tl.zeros((1,), wide(x))
    inside = tl.arange(N, dtype=tl.int32)[None, :] < x.shape[1]
    for row in range(tl.bid(0), x.shape[0], tl.num_blocks(0)):
        logs = tl.where(inside, log_softmax_of(x, row, N), 0)
        total -= tl.sum(logs * loaded(probabilities, (row, 0), (1, N)), 1)
    tl.store(loss, tl.bid(0), total)


@tl.kernel
def total_kernel(parts, out, factor: float, N: tl.Constant[int]):
    tl.store(out, (), (tl.sum(tl.load(parts, 0, N)) * factor).astype(out.dtype))


@case(lambda make: (make(7, 5), make(7, 5, change=lambda x: x.softmax(1))), lambda x, p: F.cross_entropy(x, p, reduction="sum"))
@tile_ops.op("gradients::soft_cross_entropy(Tensor x, Tensor p) -> Tensor", outputs=scalar_outputs, grad="auto")
def soft_cross_entropy(x, p, out):
    parts = x.new_empty(3, dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
    soft_cross_entropy_kernel[3](x, p, parts, power(x.shape[1]))
    total_kernel[1](parts, out, 1.0, 4)


@tl.kernel
def focal_kernel(x, target, loss, gamma: float, alpha: float, N: tl.Constant[int]):
    """Binary labels: cross entropy times a power of the probability of being wrong."""
    i = tl.bid(0)
    t, label = loaded(x, i, N), tl.load(target, i, N)
    z = tl.where(label, t, -t)
    entropy = tl.maximum(-z, 0) + tl.log1p(tl.exp(-tl.abs(z)))
    weight = tl.where(label, alpha, 1 - alpha)
    tl.store(loss, i, (weight * tl.pow(tl.sigmoid(-z), gamma) * entropy).astype(loss.dtype))


def focal_reference(x, target, gamma, alpha):
    p = torch.where(target, x.sigmoid(), 1 - x.sigmoid())
    return torch.where(target, alpha, 1 - alpha) * (1 - p) ** gamma * -p.log()


@case(lambda make: (make(37), torch.randn(37) > 0, 2.0, 0.25), focal_reference)
@tile_ops.op("gradients::focal(Tensor x, Tensor target, float gamma, float alpha) -> Tensor", outputs="x", grad="auto")
def focal(x, target, gamma, alpha, out):
    focal_kernel[tl.cdiv(len(x), 16)](x, target, out, gamma, alpha, 16)


@tl.kernel
def focal_rows_kernel(x, target, loss, gamma: float, N: tl.Constant[int]):
    row = tl.bid(0)
    t = loaded(x, (row, 0), (1, N), NEG_INF)
    top = tl.max(t)
    label = tl.gather(x, (row, tl.load(target, row, ()))).astype(wide(x)) - top
    log = label - tl.log(tl.sum(tl.exp(t - top)))
    tl.store(loss, row, (-tl.pow(1 - tl.exp(log), gamma) * log).astype(loss.dtype))


def focal_rows_reference(x, target, gamma):
    log = -F.cross_entropy(x, target, reduction="none")
    return -((1 - log.exp()) ** gamma) * log


@case(lambda make: (make(6, 9), torch.randint(9, (6,)), 1.5), focal_rows_reference)
@tile_ops.op("gradients::focal_rows(Tensor x, Tensor target, float gamma) -> Tensor", outputs=row_outputs, grad="auto")
def focal_rows(x, target, gamma, out):
    focal_rows_kernel[x.shape[0]](x, target, out, gamma, power(x.shape[1]))


@tl.kernel
def divergence_kernel(x, y, loss, N: tl.Constant[int]):
    """KL divergence of the softmax of x from that of y."""
    row = tl.bid(0)
    p, q = log_softmax_of(x, row, N), log_softmax_of(y, row, N)
    inside = tl.arange(N, dtype=tl.int32)[None, :] < x.shape[1]
    tl.store(loss, row, tl.sum(tl.exp(p) * tl.where(inside, p - q, 0)).astype(loss.dtype))  # outside both are -inf


def divergence_reference(x, y):
    return F.kl_div(y.log_softmax(1), x.log_softmax(1), log_target=True, reduction="none").sum(1)


@case(lambda make: (make(5, 7), make(5, 7)), divergence_reference)
@tile_ops.op("gradients::divergence(Tensor x, Tensor y) -> Tensor", outputs=row_outputs, grad="auto")
def divergence(x, y, out):
    divergence_kernel[x.shape[0]](x, y, out, power(x.shape[1]))


@tl.kernel
def huber_kernel(x, y, parts, delta: float, N: tl.Constant[int]):
    i = tl.bid(0)
    d = tl.abs(loaded(x, i, N) - loaded(y, i, N))
    tl.store(parts, i, tl.sum(tl.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))))


@case(lambda make: (make(37), make(37), 0.75), lambda x, y, delta: F.huber_loss(x, y, delta=delta, reduction="sum"))
@tile_ops.op("gradients::huber(Tensor x, Tensor y, float delta) -> Tensor", outputs=scalar_outputs, grad="auto")
def huber(x, y, delta, out):
    parts = x.new_empty(tl.cdiv(len(x), 16), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
    huber_kernel[len(parts)](x, y, parts, delta, 16)
    total_kernel[1](parts, out, 1.0, power(len(parts)))


@tl.kernel
def squared_error_kernel(x, y, weight, loss, N: tl.Constant[int]):
    i = tl.bid(0)
    d = loaded(x, i, N) - loaded(y, i, N)
    tl.atomic_add(loss, (), tl.sum(loaded(weight, i, N) * d * d).astype(loss.dtype))


@case(lambda make: (make(37), make(37), make(37)), lambda x, y, weight: (weight * (x - y) ** 2).sum())
@tile_ops.op("gradients::squared_error(Tensor x, Tensor y, Tensor weight) -> Tensor", outputs=scalar_outputs, grad="auto")
def squared_error(x, y, weight, out):
    total = x.new_zeros((), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
    squared_error_kernel[tl.cdiv(len(x), 16)](x, y, weight, total, 16)
    total_kernel[1](total.view(1), out, 1.0, 1)


@tl.kernel
def hinge_kernel(x, target, loss, margin: float, N: tl.Constant[int]):
    row = tl.bid(0)
    label, column = tl.load(target, row, ()), tl.arange(N, dtype=tl.int32)[None, :]
    right = tl.gather(x, (row, label)).astype(wide(x))
    other = (column < x.shape[1]) & (column != label)
    t = tl.where(other, tl.maximum(margin - right + loaded(x, (row, 0), (1, N)), 0), 0)
    tl.store(loss, row, (tl.sum(t) / x.shape[1]).astype(loss.dtype))


def hinge_reference(x, target, margin):
    return F.multi_margin_loss(x, target, margin=margin, reduction="none")


@case(lambda make: (make(6, 7), torch.randint(7, (6,)), 0.5), hinge_reference)
@tile_ops.op("gradients::hinge(Tensor x, Tensor target, float margin) -> Tensor", outputs=row_outputs, grad="auto")
def hinge(x, target, margin, out):
    hinge_kernel[x.shape[0]](x, target, out, margin, power(x.shape[1]))


@tl.kernel
def triplet_kernel(anchor, positive, negative, loss, margin: float, R: tl.Constant[int], N: tl.Constant[int]):
    i, rows = tl.bid(0), tl.arange(R, dtype=tl.int32)
    a = loaded(anchor, (i, 0), (R, N))
    near, far = a - loaded(positive, (i, 0), (R, N)), a - loaded(negative, (i, 0), (R, N))
    here = i * R + rows < anchor.shape[0]
    near, far = tl.sqrt(tl.where(here, tl.sum(near * near, 1), 1)), tl.sqrt(tl.where(here, tl.sum(far * far, 1), 1))
    tl.store(loss, i, tl.maximum(near - far + margin, 0).astype(loss.dtype))


def triplet_reference(anchor, positive, negative, margin):
    return ((anchor - positive).norm(dim=1) - (anchor - negative).norm(dim=1) + margin).relu()


def anchor_outputs(anchor):
    return row_outputs(anchor)


@case(lambda make: (make(7, 5), make(7, 5), make(7, 5), 0.5), triplet_reference)
@tile_ops.op(
    "gradients::triplet(Tensor anchor, Tensor positive, Tensor negative, float margin) -> Tensor",
    outputs=anchor_outputs,
    grad="auto",
)
def triplet(anchor, positive, negative, margin, out):
    triplet_kernel[tl.cdiv(anchor.shape[0], 4)](anchor, positive, negative, out, margin, 4, power(anchor.shape[1]))


@tl.kernel
def preference_kernel(chosen, rejected, loss, beta: float, N: tl.Constant[int]):
    """The loss of direct preferences: pairs of sums of the logarithms of probabilities of tokens."""
    row = tl.bid(0)
    margin = tl.sum(loaded(chosen, (row, 0), (1, N)) - loaded(rejected, (row, 0), (1, N)), 1) * beta
    tl.store(loss, row, (tl.maximum(-margin, 0) + tl.log1p(tl.exp(-tl.abs(margin)))).astype(loss.dtype))


def chosen_outputs(chosen):
    return row_outputs(chosen)


@case(
    lambda make: (make(5, 6), make(5, 6), 0.5), lambda chosen, rejected, beta: -F.logsigmoid((chosen - rejected).sum(1) * beta)
)
@tile_ops.op("gradients::preference(Tensor chosen, Tensor rejected, float beta) -> Tensor", outputs=chosen_outputs, grad="auto")
def preference(chosen, rejected, beta, out):
    preference_kernel[chosen.shape[0]](chosen, rejected, out, beta, power(chosen.shape[1]))


@tl.kernel
def contrastive_kernel(x, y, loss, scale: float, R: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    """Cross entropy of the products of all rows of x and y, where equal rows are right."""
    i, rows = tl.bid(0), x.shape[0]
    row, column = i * R + tl.arange(R, dtype=tl.int32)[:, None], tl.arange(N, dtype=tl.int32)[None, :]
    t = tl.mma(tl.load(x, (i, 0), (R, D)), tl.load(y, (0, 0), (N, D)).transpose(), tl.zeros((R, N), wide(x))) * scale
    t = tl.where(column < rows, t, float("-inf"))
    top = tl.max(t, 1, keepdims=True)
    log = top + tl.log(tl.sum(tl.exp(t - top), 1, keepdims=True))
    tl.store(loss, i, tl.sum(tl.where(row == column, log - t, 0), 1).astype(loss.dtype))


@case(
    lambda make: (make(7, 4), make(7, 4), 0.5),
    lambda x, y, scale: F.cross_entropy(x @ y.T * scale, torch.arange(len(x), device=x.device), reduction="none"),
)
@tile_ops.op("gradients::contrastive(Tensor x, Tensor y, float scale) -> Tensor", outputs=row_outputs, grad="auto")
def contrastive(x, y, scale, out):
    contrastive_kernel[tl.cdiv(x.shape[0], 4)](x, y, out, scale, 4, power(x.shape[0]), power(x.shape[1]))


@tl.kernel
def gaussian_kernel(x, mean, deviation, loss, N: tl.Constant[int]):
    """Negative logarithm of a density whose deviation is softplus of an argument."""
    i = tl.bid(0)
    s = tl.log1p(tl.exp(loaded(deviation, i, N))) + 0.125
    z = (loaded(x, i, N) - loaded(mean, i, N)) / s
    tl.store(loss, i, (0.5 * z * z + tl.log(s)).astype(loss.dtype))


def gaussian_reference(x, mean, deviation):
    s = F.softplus(deviation) + 0.125
    return F.gaussian_nll_loss(mean, x, s * s, reduction="none", eps=1e-12)


@case(lambda make: (make(37), make(37), make(37)), gaussian_reference)
@tile_ops.op("gradients::gaussian(Tensor x, Tensor mean, Tensor deviation) -> Tensor", outputs="x", grad="auto")
def gaussian(x, mean, deviation, out):
    gaussian_kernel[tl.cdiv(len(x), 8)](x, mean, deviation, out, 8)
