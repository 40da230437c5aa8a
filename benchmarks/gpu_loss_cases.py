"""The cases of the GPU table that look up rows: losses and embedding."""

import functools

import gpu_work
import torch
from gpu_work import Case, Work, exactly, liger, peers_of, random
from torch.nn import functional as F

ops, bf16 = torch.ops.tile, torch.bfloat16


def cross_entropy_work(rows, classes, backward):
    x, target = random(rows, classes), torch.randint(0, classes, (rows,), device=gpu_work.device)

    def theirs(x):
        return F.cross_entropy(x, target)

    def ligers(x):
        from liger_kernel.transformers.functional import liger_cross_entropy

        return liger_cross_entropy(x, target)

    if not backward:
        peers = peers_of(theirs, (x,), **liger(lambda: lambda: ligers(x)))
        return Work(lambda: ops.cross_entropy(x, target), 2 * x.numel(), 5 * x.numel(), peers, exactly(theirs, (x,)))
    lse, one = torch.logsumexp(x.float(), 1), torch.ones((), device=gpu_work.device, dtype=bf16)
    divisors = torch.full((2,), float(rows), device=gpu_work.device)
    peers = peers_of(theirs, (x,), grads=one)  # Liger's forward also computes the gradient
    ours = lambda: ops.cross_entropy_backward(  # noqa: E731
        one, x, target, None, -100, "mean", 0.0, 0.0, lse, divisors
    )
    return Work(ours, 4 * x.numel(), 4 * x.numel(), peers, exactly(theirs, (x,), grads=one))


def linear_cross_entropy_work(rows, depth, classes, backward):
    x, w = random(rows, depth), random(classes, depth)
    target = torch.randint(0, classes, (rows,), device=gpu_work.device)
    flops, count = 2 * rows * depth * classes, x.numel() + w.numel()

    def theirs(x, w):
        logits = F.linear(x, w)
        return F.cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), target)

    def ligers(x, w):
        from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

        return liger_fused_linear_cross_entropy(x, w, target)

    def call(function, wide=False):
        """Forward, or forward and backward: implementations compute the gradient in different places."""
        leaves = [t.double() if wide else t for t in (x, w)]
        if not backward:
            return lambda: function(*leaves)
        leaves = [t.detach().requires_grad_() for t in leaves]
        return lambda: torch.autograd.grad(function(*leaves), leaves)

    peers = {"eager": lambda: call(theirs)} | liger(lambda: call(ligers))
    ours = call(lambda x, w: ops.linear_cross_entropy(x, w, target))
    exact = lambda: call(theirs, wide=True)()  # noqa: E731
    return Work(ours, (4 if backward else 2) * count, flops * (4 if backward else 1), peers, exact)


def embedding_work(rows, columns, count, backward):
    w, indices = random(rows, columns), torch.randint(0, rows, (count,), device=gpu_work.device)

    def theirs(w):
        return F.embedding(indices, w)

    if not backward:
        peers = peers_of(theirs, (w,))
        exact = exactly(theirs, (w,))
        return Work(lambda: ops.embedding(w, indices), 4 * count * columns, count * columns, peers, exact)
    g = random(count, columns)
    ours = lambda: ops.embedding_backward(g, w, indices, -1)  # noqa: E731
    peers, exact = peers_of(theirs, (w,), grads=g), exactly(theirs, (w,), grads=g)
    return Work(ours, 2 * (w.numel() + g.numel()), g.numel(), peers, exact)


def loss_cases():
    for backward in (False, True):
        way = "backward" if backward else "forward"
        yield Case(
            f"cross_entropy [8192,128256], {way}",
            functools.partial(cross_entropy_work, 8192, 128256, backward),
            fraction=0.90 if backward else 0.97,
        )
        yield Case(
            f"linear_cross_entropy [4096,4096] @ [4096,32000], {'both ways' if backward else way}",
            functools.partial(linear_cross_entropy_work, 4096, 4096, 32000, backward),
            product=True,
        )
        yield Case(f"embedding [128256,4096] at 8192, {way}", functools.partial(embedding_work, 128256, 4096, 8192, backward))
