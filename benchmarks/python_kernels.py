"""Compares kernels in Python with the same kernels in Triton, the operators in C++ and torch, on a GPU.

python benchmarks/python_kernels.py [--rounds N] [--only REGEX]   (with --only, nothing is written)"""

import argparse
import pathlib
import re
import sys
import time

import measure
import tile_ops  # noqa: F401  registers the operators
import tile_ops.language as tl
import torch
import triton_kernels as peers
from gpu import times
from report import Table, digits, driver, file_name

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "examples" / "python"))
import attention  # noqa: E402, F401  defines torch.ops.programs.attention
import layer_norm as layer_norm_program  # noqa: E402, F401  defines torch.ops.programs.layer_norm

programs = torch.ops.programs


@tl.kernel
def add(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.load(x, i, N) + tl.load(y, i, N))


@tl.kernel
def softmax(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N), padding_mode=tl.PaddingMode.NEG_INF).astype(tl.float32)
    e = tl.exp(t - tl.max(t))
    tl.store(out, (row, 0), (e / tl.sum(e)).astype(out.dtype))


@tl.kernel
def layer_norm(x, w, b, out, eps: float, EXACT: tl.Constant[bool], N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N)).astype(tl.float32)
    count = x.shape[1]
    d = t - tl.sum(t) / count
    if not EXACT:
        d = tl.where((tl.arange(N, dtype=tl.int32) < count)[None, :], d, 0)
    y = d * tl.rsqrt(tl.sum(d * d) / count + eps) * tl.load(w, 0, N) + tl.load(b, 0, N)
    tl.store(out, (row, 0), y.astype(out.dtype))


TUNED_SOFTMAX = softmax.tune([
    {}, {"occupancy": 2}, {"occupancy": 3}, {"occupancy": 4}, {"occupancy": 8},
    {"num_worker_warps": 4}, {"num_worker_warps": 8}, {"num_worker_warps": 16},
])  # fmt: skip
SOFTMAX = {4096: softmax.replace_hints(occupancy=2), 8192: softmax.replace_hints(occupancy=4)}  # of float32
OF_16_BITS = {2048: layer_norm.replace_hints(num_worker_warps=4), 4096: layer_norm.replace_hints(num_worker_warps=4),
              8192: layer_norm.replace_hints(num_worker_warps=8)}  # fmt: skip


def softmax_of(x, out):
    """Launches softmax with hints that suit the width; for 16-bit dtypes with the hints that the tuner finds."""
    rows, columns = x.shape
    kernel = TUNED_SOFTMAX if x.dtype.itemsize == 2 else SOFTMAX.get(columns, softmax)
    kernel[(rows,)](x, out, columns)


def normalise(x, w, b, out):
    """Launches layer_norm. With fewer warps, long rows of 16-bit values wait less for each other's sums."""
    N = 1 << (x.shape[1] - 1).bit_length()
    kernel = OF_16_BITS.get(N, layer_norm) if x.dtype.itemsize == 2 else layer_norm
    kernel[(len(x),)](x, w, b, out, 1e-5, N == x.shape[1], N)


@tl.kernel
def dropout(x, out, p: float, seed: int, N: tl.Constant[int]):
    i = tl.bid(0)
    keep = tl.uniform((N,), seed, i * N) >= p
    tl.store(out, i, tl.where(keep, tl.load(x, i, N) / (1 - p), 0).astype(out.dtype))


@tl.kernel
def launched(a, b, c, d, scale: float, count: int):
    tl.store(d, 0, tl.load(a, 0, 8) * scale)


def cases():
    """Yields (name, bytes moved, {name of the implementation: function})."""
    x, y = torch.randn(2, 1 << 26, device="cuda")
    out = torch.empty_like(x)
    yield (
        "vector add 2^26 float32",
        3 * x.nbytes,
        {
            "Python": lambda: add[(len(x) // 512,)](x, y, out, 512),
            "Triton": lambda: peers.add(x, y, out),
            "torch": lambda: torch.add(x, y, out=out),
        },
    )
    yield (
        "dropout 2^26 float32",
        2 * x.nbytes,
        {
            "Python": lambda: dropout[((1 << 26) // 2048,)](x, out, 0.5, 7, 2048),
            "Triton": lambda: peers.dropout(x, out, 0.5, 7),
            "C++": lambda: tile_ops.dropout(x, 0.5),
            "torch": lambda: torch.dropout(x, 0.5, True),
        },
    )
    for dtype in (torch.float32, torch.bfloat16):
        for columns in (1024, 4096, 8192):
            rows = (1 << 25) // columns
            x = torch.randn(rows, columns, device="cuda").to(dtype)
            w, b = torch.randn(2, columns, device="cuda").to(dtype)
            out = torch.empty_like(x)
            kind = f"[{rows}, {columns}] {str(dtype)[6:]}"
            yield (
                f"softmax {kind}",
                2 * x.nbytes,
                {
                    "Python": lambda: softmax_of(x, out),
                    "Triton": lambda: peers.softmax(x, out),
                    "C++": lambda: torch.ops.tile.softmax(x, 1),
                    "torch": lambda: torch.softmax(x, 1),
                },
            )
            yield (
                f"layer_norm {kind}",
                2 * x.nbytes,
                {
                    "Python": lambda: normalise(x, w, b, out),
                    "Triton": lambda: peers.layer_norm(x, w, b, out, 1e-5),
                    "C++": lambda: torch.ops.tile.layer_norm(x, [columns], w, b, 1e-5),
                    "torch": lambda: torch.nn.functional.layer_norm(x, (columns,), w, b),
                },
            )
            grad, grads = torch.randn_like(x), (torch.empty_like(x), torch.empty_like(w), torch.empty_like(b))
            _, mean, rstd = torch.native_layer_norm(x, (columns,), w, b, 1e-5)
            saved = mean.view(-1), rstd.view(-1)
            yield (
                f"layer_norm backward {kind}",
                3 * x.nbytes,
                {
                    "Python": lambda: programs.layer_norm_backward(grad, x, w, b, *saved),
                    "Triton": lambda: peers.layer_norm_backward(grad, x, w, *saved, *grads),
                    "C++": lambda: torch.ops.tile.layer_norm_backward(grad, x, [columns], w, b, mean, rstd, [True] * 3),
                    "torch": lambda: torch.ops.aten.native_layer_norm_backward(
                        grad, x, [columns], mean, rstd, w, b, [True] * 3
                    ),
                },
            )
    for causal in (False, True):
        for length, depth in ((1024, 64), (4096, 64), (4096, 128), (16384, 128)):
            shape = 4 * 4096 // length or 1, 32, length, depth
            q, k, v = torch.randn(3, *shape, device="cuda").bfloat16()
            out, lse = torch.empty_like(q), q.new_empty(shape[:3], dtype=torch.float32)
            kind = f"{list(shape)} bfloat16{' causal' if causal else ''}"
            yield (
                f"attention {kind}",
                4 * shape[0] * shape[1] * length * length * depth // (2 if causal else 1),
                {
                    "Python": lambda: programs.attention(q, k, v, causal),
                    "Triton": lambda: peers.attention(q, k, v, out, lse, causal),
                    "C++": lambda: torch.ops.tile.attention(q, k, v, is_causal=causal),
                    "torch": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
                },
            )


def check():
    """Checks that the kernels and their peers return the same results."""
    x = torch.randn(64, 1000, device="cuda")
    w, b = torch.randn(2, 1000, device="cuda")
    one, two = torch.empty_like(x), torch.empty_like(x)
    softmax[(64,)](x, one, 1024)
    peers.softmax(x, two)
    torch.testing.assert_close(one, two)
    normalise(x, w, b, one)
    peers.layer_norm(x, w, b, two, 1e-5)
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
    _, mean, rstd = torch.native_layer_norm(x, (1000,), w, b, 1e-5)
    grad, grads = torch.randn_like(x), (torch.empty_like(x), torch.empty_like(w), torch.empty_like(b))
    peers.layer_norm_backward(grad, x, w, mean.view(-1), rstd.view(-1), *grads)
    ours = programs.layer_norm_backward(grad, x, w, b, mean.view(-1), rstd.view(-1))
    torch.testing.assert_close(ours, grads, rtol=1e-4, atol=1e-4)
    for causal in (False, True):
        q, k, v = torch.randn(3, 2, 4, 300, 64, device="cuda").bfloat16()
        out, lse = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
        peers.attention(q, k, v, out, lse, causal)
        torch.testing.assert_close(programs.attention(q, k, v, causal), out, rtol=2e-2, atol=2e-2)


def host_times(functions, rounds=9, calls=2000):
    """Returns the microseconds that a call takes on the host, the minimum of the rounds."""
    best = {}
    for _ in range(rounds):
        for name, function in functions.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls):
                function()
            taken = (time.perf_counter() - start) / calls * 1e6
            best[name] = min(taken, best.get(name, taken))
    torch.cuda.synchronize()
    return best


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=25)
    options.add_argument("--only", default="", metavar="REGEX", help="cases whose name it matches")
    options = options.parse_args()
    check()
    chip = torch.cuda.get_device_name()
    head = ["case", "Python us", "Triton us", "C++ us", "torch us", "Triton / Python", "C++ / Python", "GB/s, TFLOP/s"]
    lines = [
        f"{chip}, driver {driver()}, {peers.version()}. Medians of interleaved rounds, random data;",
        "calls are replayed from a CUDA graph, so that the kernels are measured and not the host. Ours of",
        "softmax in bfloat16 are the fastest of their configurations by `kernel.tune`.",
        "Ratios above 1: the kernel in Python takes less time. Made by `python benchmarks/python_kernels.py`.",
    ]
    table = Table("Kernels in Python", lines, head, {"case"})
    for name, moved, functions in cases():
        if not re.search(options.only, name):
            continue
        found = dict(zip(functions, times(list(functions.values()), options.rounds, 4, graphs=True)))
        ours = found["Python"]
        cells = [digits(found[key]) if key in found else "" for key in ("Python", "Triton", "C++", "torch")]
        ratios = [digits(found[key] / ours) if key in found else "" for key in ("Triton", "C++")]
        table.add(name, *cells, *ratios, digits(moved / ours * (1e-6 if name.startswith("attention") else 1e-3)))
    t = [torch.randn(8, device="cuda") for _ in range(4)]
    host = host_times(
        {
            "Python": lambda: launched[(1,)](*t, 1.0, 2),
            "Triton": lambda: peers.launched(*t),
            "torch": lambda: torch.add(t[0], t[1]),
        }
    )
    table.add(
        "the host's part of a launch, 4 tensors and 2 scalars (torch.add: 2 tensors)",
        *[digits(host[key]) for key in ("Python", "Triton")], "", digits(host["torch"]), digits(host["Triton"] / host["Python"]),
    )  # fmt: skip
    if not options.only:
        table.write(file_name("python", chip))


if __name__ == "__main__":
    with measure.time_limit(300), torch.cuda.stream(torch.cuda.Stream()):  # a stream in which graphs can be captured
        main()
