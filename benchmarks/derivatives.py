"""Compares gradients that the compiler derives with ours written by hand, and forward mode with the operator alone.

    python benchmarks/derivatives.py [--device cpu|cuda] [--only REGEX] [--seconds S] [--write]

One process, medians of interleaved rounds, random data in bfloat16 on a GPU and float32 on a CPU, printed as a table. Gradients are
those of one call of torch.autograd.grad behind a forward that is not timed. On a GPU calls are replayed from a graph, and the host's
time of a call is a column of its own: a training step hides it where its kernels take longer. --seconds: of calls on a CPU.
--write: into results/derivatives-<chip>.md."""

import re
import time

import measure
import tile_ops
import tile_ops.language as tl
import torch
import torch.autograd.forward_ad as fwAD
from report import Table, digits, file_name, machine, of_device

tile = torch.ops.tile
GRADIENT, PRODUCT, ATTENTION, TANGENT = 0.85, 0.95, 0.7, 3.3  # bars: by hand / derived; with tangents / alone


def rows_of(x):
    """Returns how many rows a block has: on a CPU each block costs about 0.1 us, so that ours by hand have several, too."""
    return 1 if x.is_cuda else 16


@tl.kernel
def rms_norm_kernel(x, w, out, eps: float, R: tl.Constant[int], N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (R, N)).astype(tl.float32)
    r = tl.rsqrt(tl.sum(t * t, axis=1, keepdims=True) / x.shape[1] + eps)
    tl.store(out, (row, 0), (t * r * tl.load(w, (0,), (N,)).astype(tl.float32)).astype(out.dtype))


@tile_ops.op("bench_derived::rms_norm(Tensor x, Tensor w) -> Tensor", outputs="x", grad="auto")
def rms_norm(x, w, out):
    rows = rows_of(x)
    rms_norm_kernel[tl.cdiv(x.shape[0], rows)](x, w, out, 1e-5, rows, x.shape[1])


@tl.kernel
def layer_norm_kernel(x, w, b, out, eps: float, R: tl.Constant[int], N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (R, N)).astype(tl.float32)
    centred = t - tl.sum(t, axis=1, keepdims=True) / N
    r = tl.rsqrt(tl.sum(centred * centred, axis=1, keepdims=True) / N + eps)
    scale, shift = tl.load(w, (0,), (N,)).astype(tl.float32), tl.load(b, (0,), (N,)).astype(tl.float32)
    tl.store(out, (row, 0), (centred * r * scale + shift).astype(out.dtype))


@tile_ops.op("bench_derived::layer_norm(Tensor x, Tensor w, Tensor b) -> Tensor", outputs="x", grad="auto")
def layer_norm(x, w, b, out):
    rows = rows_of(x)
    layer_norm_kernel[tl.cdiv(x.shape[0], rows)](x, w, b, out, 1e-5, rows, x.shape[1])


@tl.kernel
def softmax_kernel(x, out, R: tl.Constant[int], N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (R, N)).astype(tl.float32)
    e = tl.exp(t - tl.max(t, axis=1, keepdims=True))
    tl.store(out, (row, 0), (e / tl.sum(e, axis=1, keepdims=True)).astype(out.dtype))


@tile_ops.op("bench_derived::softmax(Tensor x) -> Tensor", outputs="x", grad="auto")
def softmax(x, out):
    rows = rows_of(x)
    softmax_kernel[tl.cdiv(x.shape[0], rows)](x, out, rows, x.shape[1])


@tl.kernel
def swiglu_kernel(gate, up, out, R: tl.Constant[int], N: tl.Constant[int]):
    where = tl.bid(0), tl.bid(1)
    g = tl.load(gate, where, (R, N)).astype(tl.float32)
    tl.store(out, where, (g * tl.sigmoid(g) * tl.load(up, where, (R, N)).astype(tl.float32)).astype(out.dtype))


@tile_ops.op("bench_derived::swiglu(Tensor gate, Tensor up) -> Tensor", outputs="gate", grad="auto")
def swiglu(gate, up, out):
    rows = rows_of(gate)
    swiglu_kernel[tl.cdiv(gate.shape[0], rows), tl.cdiv(gate.shape[1], 1024)](gate, up, out, rows, 1024)


@tl.kernel
def matmul_kernel(x, w, b, out, M: tl.Constant[int], N: tl.Constant[int], K: tl.Constant[int]):
    row, column = tl.bid(0), tl.bid(1)
    total = tl.zeros((M, N), tl.float32)
    for k in range(tl.cdiv(x.shape[1], K)):
        total = tl.mma(tl.load(x, (row, k), (M, K)), tl.load(w, (k, column), (K, N)), total)
    t = total + tl.load(b, (column,), (N,)).astype(tl.float32)
    tl.store(out, (row, column), (t * tl.sigmoid(t)).astype(out.dtype))


def product(x, w):
    return torch.empty(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device)


@tile_ops.op("bench_derived::matmul(Tensor x, Tensor w, Tensor b) -> Tensor", outputs=lambda x, w: product(x, w), grad="auto")
def matmul(x, w, b, out):
    m, n, k = (128, 128, 64) if x.is_cuda else (64, 64, 64)
    matmul_kernel[tl.cdiv(x.shape[0], m), tl.cdiv(w.shape[1], n)](x, w, b, out, m, n, k)


@tl.kernel
def attention_kernel(q, k, v, bias, out, scale: float, M: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    block, head = tl.bid(0), tl.bid(1)
    queries = tl.load(q, (head, block, 0), (1, M, D)).reshape((M, D))
    top, total, acc = tl.full((M, 1), float("-inf"), tl.float32), tl.zeros((M, 1), tl.float32), tl.zeros((M, D), tl.float32)
    for i in range(tl.cdiv(k.shape[1], N)):
        keys = tl.load(k, (head, i, 0), (1, N, D)).reshape((N, D))
        scores = tl.mma(queries, keys.transpose(), tl.zeros((M, N), tl.float32)) * scale
        scores = scores + tl.load(bias, (block, i), (M, N)).astype(tl.float32)
        high = tl.maximum(top, tl.max(scores, axis=1, keepdims=True))
        p, less = tl.exp(scores - high), tl.exp(top - high)
        total = total * less + tl.sum(p, axis=1, keepdims=True)
        acc = tl.mma(p.astype(v.dtype), tl.load(v, (head, i, 0), (1, N, D)).reshape((N, D)), acc * less)
        top = high
    tl.store(out, (head, block, 0), (acc / total).astype(out.dtype)[None, :, :])


@tile_ops.op("bench_derived::attention(Tensor q, Tensor k, Tensor v, Tensor bias) -> Tensor", outputs="q", grad="auto")
def attention(q, k, v, bias, out):
    rows = 128 if q.is_cuda else 64
    attention_kernel[tl.cdiv(q.shape[1], rows), q.shape[0]](q, k, v, bias, out, q.shape[2] ** -0.5, rows, 64, q.shape[2])


def attention_by_hand(q, k, v, bias):
    return tile.attention(q[None], k[None], v[None], attn_bias=bias)[0][0]


def gradients(function, inputs):
    """Returns a function that computes the gradients of the inputs."""
    leaves = [each.detach().requires_grad_() for each in inputs]
    out = function(*leaves)
    grad = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True)


def tangent(function, inputs):
    """Returns a function that computes the result and its tangent."""
    directions = [torch.randn_like(each) for each in inputs]

    def run():
        with fwAD.dual_level():
            return fwAD.unpack_dual(function(*map(fwAD.make_dual, inputs, directions)))

    return run


def cases(device):
    """Yields (name, makes the two functions to compare, bar)."""
    cuda, dtype = device == "cuda", torch.bfloat16 if device == "cuda" else torch.float32
    rows, columns, size = (16384, 4096, 4096) if cuda else (512, 1024, 512)
    heads, length = (32, 2048) if cuda else (2, 256)

    def random(*shape):
        return torch.randn(shape, device=device).to(dtype)

    def compared(derived, by_hand, *shapes):
        inputs = [random(*shape) for shape in shapes]
        return gradients(by_hand, inputs), gradients(derived, inputs)

    wide, row = (rows, columns), (columns,)
    of_norm = f"[{rows}, {columns}]"
    for name, derived, by_hand, shapes in (
        ("rms norm", rms_norm, lambda x, w: tile.rms_norm(x, w.shape, w, 1e-5), (wide, row)),
        ("layer norm", layer_norm, lambda x, w, b: tile.layer_norm(x, w.shape, w, b, 1e-5), (wide, row, row)),
        ("softmax", softmax, lambda x: tile.softmax(x, -1), (wide,)),
        ("swiglu", swiglu, lambda gate, up: tile.swiglu(gate, up), (wide, wide)),
    ):
        yield f"gradient of {name} {of_norm}", lambda d=derived, h=by_hand, s=shapes: compared(d, h, *s), GRADIENT
    product = lambda x, w, b: tile.matmul(x, w, bias=b, activation="silu")  # noqa: E731
    shapes = ((size, size), (size, size), (size,))
    yield f"gradient of matmul + silu {size}", lambda: compared(matmul, product, *shapes), PRODUCT
    shapes = (*[(heads, length, 64)] * 3, (length, length))
    yield (
        f"gradient of attention + bias {[heads, length, 64]}",
        lambda: compared(attention, attention_by_hand, *shapes),
        ATTENTION,
    )

    def with_tangent(function, *shapes):
        inputs = [random(*shape) for shape in shapes]
        return lambda: function(*inputs), tangent(function, inputs)

    for length in (length, 4 * length):
        heads_of = [(1, heads, length, 64)] * 3
        for causal in (False, True):
            name = f"forward mode of attention {list(heads_of[0])}{' causal' if causal else ''}"
            call = lambda q, k, v, causal=causal: tile.attention(q, k, v, is_causal=causal)[0]  # noqa: E731
            yield name, lambda call=call, shapes=heads_of: with_tangent(call, *shapes), 1 / TANGENT
    for name, call, shapes in (
        ("rms norm", lambda x, w: tile.rms_norm(x, w.shape, w, 1e-5), (wide, row)),
        ("softmax", lambda x: tile.softmax(x, -1), (wide,)),
        ("matmul", lambda x, y: tile.matmul(x, y), ((size, size), (size, size))),
    ):
        yield f"forward mode of {name} {list(shapes[0])}", lambda c=call, s=shapes: with_tangent(c, *s), None


def host_seconds(function, calls=30):
    """Returns how long the host takes for a call on an idle GPU that does not have it wait."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        function()
    seconds = (time.perf_counter() - start) / calls
    torch.cuda.synchronize()
    return seconds


def seconds_on_gpu(functions):
    """Returns the seconds of each of a dict's functions, replayed from a graph."""
    import gpu

    for name, function in functions.items():
        function()
        if gpu.replayed(function, 1) is None:
            raise RuntimeError(f"{name}: cannot be captured in a graph")
    found = gpu.times(list(functions.values()), 9, 10, graphs=True)
    return {name: us / 1e6 for name, us in zip(functions, found)}


def main():
    options = of_device(__doc__)
    options.add_argument("--only", metavar="REGEX", default="")
    options = options.parse_args()
    chip, where = machine(options.device)
    lines = [
        f"{where}, torch {torch.__version__}. Medians of interleaved rounds, random data. peer: our gradient written by hand,"
    ]
    lines += ["or the operator without tangents. Made by `python benchmarks/derivatives.py --write`."]
    columns, cuda = ["case", "derived us", "peer us", "peer / derived", "bar"], options.device == "cuda"
    if cuda:
        lines += ["Calls are replayed from a graph. host us: the host's time of a call that is not."]
        columns += ["derived host us", "peer host us"]
        torch.cuda.set_stream(torch.cuda.Stream())  # that of a graph
    table = Table("Derivatives by the compiler", lines, columns, {"case"})
    for name, make, bar in cases(options.device):
        if not re.search(options.only, name):
            continue
        try:
            peer, derived = make()
            functions = {"derived": derived, "peer": peer}
            if cuda:
                found = seconds_on_gpu(functions)
                host = [digits(1e6 * host_seconds(each)) for each in functions.values()]
            else:
                found, host = measure.rounds_of(functions, options.seconds), []
        except (RuntimeError, ValueError) as error:
            table.add(f"{name}: {str(error).splitlines()[0]}")
            continue
        times = [digits(1e6 * found[each]) for each in functions]
        table.add(name, *times, digits(found["peer"] / found["derived"]), "" if bar is None else digits(bar), *host)
    if options.write:
        table.write(file_name("derivatives", chip))


if __name__ == "__main__":
    main()
