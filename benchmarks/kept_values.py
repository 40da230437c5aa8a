"""Compares gradients of recurrences that keep values for each iteration with those that compute segments again.

    python benchmarks/kept_values.py [--device cpu|cuda] [--only REGEX] [--seconds S] [--write]

One process, medians of interleaved rounds, random data in bfloat16 on a GPU and float32 on a CPU, printed as a table. MiB: the most
memory that a gradient has at once, with the gradients themselves. --write: into results/kept-values-<chip>.md."""

import re

import measure
import tile_ops
import tile_ops.language as tl
import torch
from report import Table, digits, file_name, machine, of_device
from tile_ops._derive.traced import Traced

WAYS = {"each": (0, -1, 0), "segments": (0, -1, 1)}  # numbers of C++'s Sharing, no folded axis, numbers of its Keeping
launch = Traced.launch


@tl.kernel
def recurrence_kernel(x, gate, out, N: tl.Constant[int]):
    row, j, state = tl.bid(0), tl.bid(1), tl.zeros((1, 1, N), tl.float32)
    for t in range(x.shape[1]):
        forget = tl.sigmoid(tl.load(gate, (row, t, j), (1, 1, N)).astype(tl.float32))
        state = forget * state + (1 - forget) * tl.load(x, (row, t, j), (1, 1, N)).astype(tl.float32)
        tl.store(out, (row, t, j), state.astype(out.dtype))


@tile_ops.op("bench_kept::recurrence(Tensor x, Tensor gate) -> Tensor", outputs="x", grad="auto")
def recurrence(x, gate, out):
    recurrence_kernel[x.shape[0], tl.cdiv(x.shape[2], 128)](x, gate, out, 128)


def row_of(array, head, t, D):
    return tl.load(array, (head, t, 0), (1, 1, D)).reshape((D,)).astype(tl.float32)


@tl.kernel
def delta_rule_kernel(q, k, v, beta, out, D: tl.Constant[int]):
    """The state [D, D] loses what it holds at the key, and takes beta times the value."""
    head, state = tl.bid(0), tl.zeros((D, D), tl.float32)
    for t in range(q.shape[1]):
        key, rate = row_of(k, head, t, D), tl.load(beta, (head, t), ()).astype(tl.float32)
        held = tl.sum(key[:, None] * state, 0)
        state = state + key[:, None] * (rate * (row_of(v, head, t, D) - held))[None, :]
        result = tl.sum(row_of(q, head, t, D)[:, None] * state, 0)
        tl.store(out, (head, t, 0), result[None, None, :].astype(out.dtype))


@tile_ops.op("bench_kept::delta_rule(Tensor q, Tensor k, Tensor v, Tensor beta) -> Tensor", outputs="q", grad="auto")
def delta_rule(q, k, v, beta, out):
    delta_rule_kernel[q.shape[0]](q, k, v, beta, out, q.shape[2])


def cases(device):
    """Yields (name, operator, shapes, scale)."""
    batch, heads = (32, 128) if device == "cuda" else (4, 8)
    for steps in (512, 4096):
        yield f"gated recurrence {[batch, steps, 512]}", recurrence, [(batch, steps, 512)] * 2, 1.0
        yield f"delta rule {[heads, steps, 64]}", delta_rule, [*[(heads, steps, 64)] * 3, (heads, steps)], 0.1


def gradients(operator, inputs, way):
    out = operator(*inputs)
    grad = torch.randn_like(out)

    def run():
        Traced.launch = lambda *given: launch(*given, way)
        return torch.autograd.grad(out, inputs, grad, retain_graph=True)

    return run


def most_bytes(call, device):
    """Returns the most memory that a call has at once."""
    call()
    return measure.allocations(call, device)[0]


def main():
    options = of_device(__doc__)
    options.add_argument("--only", metavar="REGEX", default="")
    options = options.parse_args()
    chip, where = machine(options.device)
    lines = [f"{where}, torch {torch.__version__}. Medians of interleaved rounds, random data. each: values are kept for each"]
    lines += ["iteration. segments: every sqrt(n) iterations. Made by `python benchmarks/kept_values.py --write`."]
    head = ["case", "each us", "segments us", "each / segments", "each MiB", "segments MiB"]
    table = Table("Values that loops keep for their gradients", lines, head, {"case"})
    for name, operator, shapes, scale in cases(options.device):
        if not re.search(options.only, name):
            continue
        dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
        inputs = [(scale * torch.randn(shape, device=options.device)).to(dtype).requires_grad_() for shape in shapes]
        calls = {each: gradients(operator, inputs, way) for each, way in WAYS.items()}
        found = measure.rounds_of(calls, options.seconds, device=options.device)
        memory = [digits(most_bytes(calls[each], options.device) / 2**20) for each in WAYS]
        times = [digits(1e6 * found[each]) for each in WAYS]
        table.add(name, *times, digits(found["each"] / found["segments"]), *memory)
    if options.write:
        table.write(file_name("kept-values", chip))


if __name__ == "__main__":
    main()
