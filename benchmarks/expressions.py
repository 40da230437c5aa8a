"""Compares operators of one expression in Python (elementwise, reduction) with torch eager and torch.compile.

    python benchmarks/expressions.py [--device cpu|cuda] [--seconds S] [--write]

One process, medians of interleaved rounds, random data, printed as a table. --write: into
results/expressions-<chip>.md."""

import measure
import tile_ops
import tile_ops.language as tl
import torch
from report import Table, digits, file_name, machine, of_device


@tile_ops.elementwise("bench::chain(Tensor x, Tensor y, float scale) -> Tensor")
def chain(x, y, scale):
    return tl.tanh(x * scale + y) * tl.sigmoid(y) - x


@tile_ops.reduction("bench::total(Tensor x) -> Tensor", "sum")
def total(x):
    return x


@tile_ops.reduction("bench::largest(Tensor x) -> Tensor", "max")
def largest(x):
    return x


@tile_ops.reduction("bench::norm(Tensor x) -> Tensor", "sum", finish=lambda total, count: tl.sqrt(total))
def norm(x):
    return x * x


@tile_ops.reduction("bench::logsumexp(Tensor x) -> Tensor")
class logsumexp:
    identity = (float("-inf"), 0.0)

    def map(x):
        return x, 1.0

    def combine(top, sum_, other, more):
        high = tl.maximum(top, other)
        safe = tl.where(high == float("-inf"), 0.0, high)
        return high, sum_ * tl.exp(top - safe) + more * tl.exp(other - safe)

    def finish(top, sum_):
        return top + tl.log(sum_)


def plain_chain(x, y, scale):
    return torch.tanh(x * scale + y) * torch.sigmoid(y) - x


REDUCTIONS = {
    "sum": (total, lambda x, dim: torch.sum(x, dim)),
    "max": (largest, lambda x, dim: torch.amax(x, () if dim is None else dim)),
    "norm": (norm, lambda x, dim: torch.linalg.vector_norm(x, dim=dim)),
    "logsumexp": (logsumexp, lambda x, dim: torch.logsumexp(x, tuple(range(x.dim())) if dim is None else dim)),
}


def differentiated(function, inputs, grad):
    def run():
        out = function(*inputs)
        return torch.autograd.grad(out, [each for each in inputs if isinstance(each, torch.Tensor)], grad)

    return run


def cases(device):
    """Yields (name, bytes moved, ours, eager, compiled)."""
    compiled = torch.compile(plain_chain)
    shape = (8192, 8192) if device == "cuda" else (2048, 4096)
    for dtype in (torch.float32, torch.bfloat16):
        kind = f"{list(shape)} {str(dtype)[6:]}"
        x, y = torch.randn(2, *shape, device=device).to(dtype)
        row = torch.randn(shape[1], device=device).to(dtype)
        each = x.nbytes
        yield (f"chain {kind}", 3 * each, *(lambda f=f: f(x, y, 0.5) for f in (chain, plain_chain, compiled)))
        yield (f"chain with a row {kind}", 2 * each, *(lambda f=f: f(x, row, 0.5) for f in (chain, plain_chain, compiled)))
        given = (x.clone().requires_grad_(), y.clone().requires_grad_(), 0.5)
        grad = torch.randn_like(x)
        made = [differentiated(f, given, grad) for f in (chain, plain_chain, compiled)]
        yield (f"chain and gradients {kind}", 8 * each, *made)
        for name, (ours, torchs) in REDUCTIONS.items():
            by_inductor = torch.compile(torchs)
            for dim, what in ((1, "of rows"), (0, "of columns"), (None, "of all")):
                of = (lambda f=f, dim=dim: f(x, dim) for f in (lambda x, dim: ours(x, dim=dim), torchs, by_inductor))
                yield (f"{name} {what} {kind}", each, *of)


def main():
    options = of_device(__doc__)
    options = options.parse_args()
    chip, where = machine(options.device)
    lines = [f"{where}, torch {torch.__version__}. Medians of interleaved rounds, random data. Ratios above 1: ours takes less"]
    lines += ["time. Made by `python benchmarks/expressions.py --write`."]
    head = ["case", "ours us", "eager us", "torch.compile us", "eager / ours", "torch.compile / ours", "GB/s"]
    table = Table("Operators of one expression", lines, head, {"case"})
    for name, moved, *functions in cases(options.device):
        torch.testing.assert_close(functions[0](), functions[1](), rtol=3e-2, atol=3e-2 if "sum" not in name else 1e3)
        names = ("ours", "eager", "compiled")
        found = measure.rounds_of(dict(zip(names, functions)), options.seconds, device=options.device)
        ours, eager, compiled = (found[each] for each in names)
        times = [digits(1e6 * each) for each in (ours, eager, compiled)]
        table.add(name, *times, digits(eager / ours), digits(compiled / ours), digits(moved / ours * 1e-9))
    if options.write:
        table.write(file_name("expressions", chip))


if __name__ == "__main__":
    main()
