"""The cases of the GPU table that multiply matrices, without attention."""

import functools

import tile_ops
import torch
from gpu_work import Case, Work, exactly, gradient, peers_of, random
from torch.nn import functional as F

ops = torch.ops.tile

LARGE = [
    (8192, 8192, 8192),
    (4096, 4096, 4096),
    (16384, 4096, 4096),
    (8192, 11008, 4096),
    (8192, 4096, 11008),
    (8192, 28672, 8192),
    (4096, 4096, 16384),
    (16384, 16384, 1024),
]
SMALL = [(2048, 2048, 2048), (1024, 1024, 1024), (128, 4096, 4096), (16, 4096, 4096), (1, 4096, 4096)]
# Linear layers of a decoded token.
ONE_ROW = [(1, 512, 2048), (1, 1024, 1024), (1, 3072, 768), (1, 2048, 2048), (1, 2048, 8192), (1, 4096, 4096)]
# Rows whose bytes are no multiple of 16, with the required ratio to cuBLAS.
ODD = {(4095, 4097, 4096): 3, (3000, 5000, 1111): 2}

# Products of 8-bit floats: the scales, the extents, and arguments of scaled_work.
SCALED = [
    ("rows", (8192, 8192, 8192), {}),
    ("rows, fast", (8192, 8192, 8192), {"fast": True}),
    ("blocks", (4096, 7168, 16384), {"by_blocks": True}),
]


def matmul_work(m, n, k, layout, dtype=torch.bfloat16):
    """layout: of the operands as they are multiplied, N for row-major and T for column-major."""
    a = (random(m, k) if layout[0] == "N" else random(k, m).t()).to(dtype)
    b = (random(k, n) if layout[1] == "N" else random(n, k).t()).to(dtype)
    peers, exact = {"cuBLAS": lambda: lambda: a @ b}, exactly(torch.matmul, (a, b))
    return Work(lambda: ops.matmul(a, b), dtype.itemsize * (m * k + k * n + m * n), 2 * m * n * k, peers, exact)


def allowing_tf32(call):
    """The call, during which torch allows products of float32 to round their operands to tf32."""

    def run():
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        try:
            return call()
        finally:
            torch.set_float32_matmul_precision(before)

    return run


def tf32_work(m, n, k, layout):
    exact = matmul_work(m, n, k, layout, torch.float32)
    peers = {name: lambda make=make: allowing_tf32(make()) for name, make in exact.peers.items()}
    return Work(allowing_tf32(exact.ours), exact.bytes, exact.flops, peers)


def epilogue_work(ours, theirs, rows=8192, width=4096, hidden=4096):
    """A linear layer; both functions take x, its weight, a bias and a tensor of the result's shape."""
    inputs = random(rows, width), random(hidden, width) / width**0.5, random(hidden), random(rows, hidden)
    moved = 2 * sum(x.numel() for x in inputs) + 2 * rows * hidden
    flops = 2 * rows * width * hidden
    return Work(lambda: ours(*inputs), moved, flops, peers_of(theirs, inputs), exactly(theirs, inputs))


def five_operations(x, weight, bias, other):
    scaled = F.linear(x, weight, bias) * 0.5
    return torch.tanh(scaled) * other + x[:, :1]


EPILOGUES = {
    "linear+bias+gelu_tanh": (
        lambda x, w, bias, other: ops.matmul(x, w.t(), bias=bias, activation="gelu_tanh"),
        lambda x, w, bias, other: F.gelu(F.linear(x, w, bias), approximate="tanh"),
    ),
    "linear+residual": (
        lambda x, w, bias, other: ops.matmul(x, w.t(), residual=other),
        lambda x, w, bias, other: F.linear(x, w) + other,
    ),
    "linear, epilogue of five operations": (
        lambda x, w, bias, other: tile_ops.matmul(
            x,
            w.t(),
            epilogue="tanh((acc + bias) * 0.5) * other + first",
            operands={"bias": bias, "other": other, "first": x[:, :1]},
        ),
        five_operations,
    ),
}


def gated_matmul_work(rows, width, hidden, backward):
    x, weights = random(rows, width), [random(hidden, width) / width**0.5 for _ in range(2)]

    def theirs(x, gate, up):
        return F.silu(F.linear(x, gate)) * F.linear(x, up)

    g = random(rows, hidden) if backward else None
    peers, exact = peers_of(theirs, (x, *weights), grads=g), exactly(theirs, (x, *weights), grads=g)
    moved, flops = 2 * (x.numel() + 2 * weights[0].numel() + rows * hidden), 4 * rows * width * hidden
    if not backward:
        return Work(lambda: tile_ops.gated_linear(x, *weights), moved, flops, peers, exact)
    return Work(gradient(tile_ops.gated_linear, (x, *weights), g), 2 * moved, 2 * flops, peers, exact)


def scaled_work(m, n, k, by_blocks=False, fast=False):
    """Products of 8-bit floats, with a scale for each row and column, or for 128 of them and 128 of k."""
    x, y = random(m, k).to(torch.float8_e4m3fn), random(n, k).to(torch.float8_e4m3fn).t()
    of_blocks = (-(-k // 128), m), (-(-n // 128), -(-k // 128))
    scales = [random(*shape).float().abs() + 0.5 for shape in (of_blocks if by_blocks else ((m, 1), (1, n)))]
    if by_blocks:
        scales = [each.t() for each in scales]

    def wide(x, y, a, b):
        if by_blocks:
            a, b = a.repeat_interleave(128, 1)[:, :k], b.repeat_interleave(128, 0)[:k].repeat_interleave(128, 1)[:, :n]
        return (x * a) @ (y * b)

    peers = {"torch._scaled_mm": lambda: lambda: torch._scaled_mm(x, y, *scales, out_dtype=torch.bfloat16, use_fast_accum=fast)}
    moved = m * k + k * n + 2 * m * n
    return Work(
        lambda: ops.scaled_matmul(x, y, *scales, fast_accum=fast), moved, 2 * m * n * k, peers, exactly(wide, (x, y, *scales))
    )


def product_cases():
    for shape in LARGE:
        for layout in ("NN", "NT", "TN"):
            name = f"matmul {'x'.join(map(str, shape))} {layout}"
            yield Case(name, functools.partial(matmul_work, *shape, layout), ratios={"cuBLAS": 0.95}, product=True)
    for shape in SMALL:
        name = f"matmul {'x'.join(map(str, shape))} NN"
        yield Case(name, functools.partial(matmul_work, *shape, "NN"), ratios={"cuBLAS": 0.9})
    for shape in ONE_ROW:
        name = f"matmul {'x'.join(map(str, shape))} NT"
        yield Case(name, functools.partial(matmul_work, *shape, "NT"), ratios={"cuBLAS": 1.1})
        rows, columns, depth = shape
        make = functools.partial(epilogue_work, *EPILOGUES["linear+bias+gelu_tanh"], rows, depth, columns)
        yield Case(f"{name}, bias and gelu_tanh", make, ratios={"eager": 1.1})
        yield Case(f"{name}, gated", functools.partial(gated_matmul_work, rows, depth, columns, False), ratios={"eager": 1.1})
    for shape, ratio in ODD.items():
        name = f"matmul {'x'.join(map(str, shape))} NN"
        yield Case(name, functools.partial(matmul_work, *shape, "NN"), ratios={"cuBLAS": ratio}, product=True)
    better = {"eager": 1.03, "torch.compile": 1.03}
    for name, functions in EPILOGUES.items():
        make = functools.partial(epilogue_work, *functions)
        yield Case(f"{name} [8192,4096]x[4096,4096]", make, ratios=better, product=True)
    for backward in (False, True):
        make = functools.partial(gated_matmul_work, 4096, 4096, 11008, backward)
        direction = "backward" if backward else "forward"
        ratios = {} if backward else better
        yield Case(f"gated_matmul [4096,4096]x[4096,11008], {direction}", make, ratios=ratios, product=True)
    make = functools.partial(gated_matmul_work, 16384, 2048, 5632, True)
    yield Case("gated_matmul [16384,2048]x[2048,5632], backward", make, product=True)
    for layout in ("NN", "NT", "TN"):
        make = functools.partial(matmul_work, 4096, 4096, 4096, layout, torch.float32)
        yield Case(f"matmul float32 4096x4096x4096 {layout}", make, ratios={"cuBLAS": 0.9}, product=True)
        make = functools.partial(tf32_work, 4096, 4096, 4096, layout)
        yield Case(f"matmul tf32 4096x4096x4096 {layout}", make, product=True)
    for name, shape, options in SCALED:
        make = functools.partial(scaled_work, *shape, **options)
        title = f"scaled_matmul {'x'.join(map(str, shape))}, {name}"
        yield Case(title, make, ratios={"torch._scaled_mm": 0.97}, product=True)
