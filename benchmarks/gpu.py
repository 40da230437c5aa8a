"""Times on a GPU: every case against its peer, and the memory-bound ones against Tensor.copy_ of the same bytes.

    python benchmarks/gpu.py [--only REGEX] [--write]

One process, interleaved rounds, medians, random data in bfloat16. --write: the table into results/<chip>.md."""

import argparse
import functools
import pathlib
import re
import statistics
import subprocess
import sys

import torch
from tile_ops import _C
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent
HEAD = ["case", "MB", "GF", "ours us", "TB/s", "TF/s", "of copy", "peer", "peer / ours", "wanted"]
ops = torch.ops.tile
bf16, device = torch.bfloat16, "cuda"


def replayed(function, calls):
    """`calls` calls as one graph, which the host launches at once; None where they cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(calls):
                function()
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    return graph.replay


def times(functions, rounds, calls, graphs=False):
    """Microseconds of each, the median of interleaved rounds of `calls` calls each."""
    for function in functions:
        for _ in range(3):
            function()
    runs = [(graphs and replayed(function, calls)) or (lambda f=function: [f() for _ in range(calls)]) for function in functions]
    taken = [[] for _ in functions]
    for _ in range(rounds):
        for run, own in zip(runs, taken):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            end.synchronize()
            own.append(1e3 * start.elapsed_time(end) / calls)
    return [statistics.median(own) for own in taken]


def random(*shape, channels_last=False):
    tensor = torch.randn(*shape, device=device, dtype=bf16)
    return tensor.to(memory_format=torch.channels_last) if channels_last else tensor


def softmax_cases():
    def forward():
        x = random(8192, 8192)
        return lambda: ops.softmax(x, 1), 4 * x.numel(), 0, ("eager", lambda: x.softmax(1))

    def backward():
        y, g = random(8192, 8192).softmax(1), random(8192, 8192)
        peer = lambda: torch._softmax_backward_data(g, y, 1, bf16)  # noqa: E731
        return lambda: ops.softmax_backward(g, y, 1), 6 * y.numel(), 0, ("eager", peer)

    yield "softmax 8192², forward", forward, 0.97, None
    yield "softmax 8192², backward", backward, 0.97, None


def norm_cases():
    for rows, columns in ((8192, 4096), (16384, 2048), (4096, 16384)):

        def make(name, backward, rows=rows, columns=columns):
            def case():
                x, g, w = random(rows, columns), random(rows, columns), random(columns)
                mean, rstd = x.float().mean(1, True), torch.rsqrt(x.float().square().mean(1, True) + 1e-5)
                if name == "rms_norm":
                    ours = lambda: ops.rms_norm(x, [columns], w, 1e-5)  # noqa: E731
                    if backward:
                        ours = lambda: ops.rms_norm_backward(g, x, [columns], w, rstd, [True, True])  # noqa: E731
                    peer = lambda: F.rms_norm(x, [columns], w, 1e-5)  # noqa: E731
                else:
                    ours = lambda: ops.layer_norm(x, [columns], w, w)  # noqa: E731
                    if backward:
                        ours = lambda: ops.layer_norm_backward(g, x, [columns], w, w, mean, rstd, [True] * 3)  # noqa: E731
                    peer = lambda: F.layer_norm(x, [columns], w, w)  # noqa: E731
                    if backward:
                        peer = lambda: torch.ops.aten.native_layer_norm_backward(g, x, [columns], mean, rstd, w, w, [True] * 3)  # noqa: E731
                own = None if backward and name == "rms_norm" else ("eager", peer)
                return ours, (6 if backward else 4) * x.numel(), 0, own

            return case

        for name, share, less in (("rms_norm", 0.97, 0.80), ("layer_norm", 0.92, 0.75)):
            yield f"{name} [{rows},{columns}], forward", make(name, False), share, None
            yield f"{name} [{rows},{columns}], backward", make(name, True), less, None


def rope_cases():
    def make(order, direction):
        def heads(count):
            return random(4, count, 4096, 128) if order == "BHSD" else random(4, 4096, count, 128).transpose(1, 2)

        def case():
            q, k, cos, sin = heads(32), heads(8), random(4096, 64), random(4096, 64)
            ours = lambda: ops.rope(q, k, cos, sin)  # noqa: E731
            if direction == "backward":
                ours = lambda: ops.rope_backward(q, k, cos, sin, False, None, None, [True, True])  # noqa: E731
            return ours, 4 * (q.numel() + k.numel()), 0, None

        return case

    for order in ("BHSD", "BSHD"):
        for direction in ("forward", "backward"):
            yield f"rope q[4,32,4096,128] k[4,8,…] {order}, {direction}", make(order, direction), 0.97, None


def group_norm_cases():
    for n, c, size in ((16, 320, 64), (4, 128, 512), (8, 512, 128), (2, 1280, 16)):
        for last in (False, True):

            def case(backward, n=n, c=c, size=size, last=last):
                x, w, b = random(n, c, size, size, channels_last=last), random(c), random(c)
                if not backward:
                    peer = torch.compile(lambda: F.silu(F.group_norm(x, 32, w, b)))
                    return lambda: ops.group_norm(x, 32, w, b, activation="silu"), 4 * x.numel(), 0, ("torch.compile", peer)
                groups = x.float().reshape(n, 32, -1)
                mean, rstd = groups.mean(2), torch.rsqrt(groups.var(2, unbiased=False) + 1e-5)
                g = torch.randn_like(x)
                ours = lambda: ops.group_norm_backward(g, x, 32, w, b, "silu", mean, rstd, [True] * 3)  # noqa: E731
                return ours, 6 * x.numel(), 0, None

            name = f"group_norm+silu [{n},{c},{size},{size}]{' channels_last' if last else ''}"
            yield f"{name}, forward", functools.partial(case, False), 0.80, None
            yield f"{name}, backward", functools.partial(case, True), 0.70, None


CHAIN = """kernel chain(%x: array<bf16,1>, %y: array<bf16,1>, %z: array<bf16,1>) {
  %i: i32 = bid {axis=0}
  %a: bf16[2048] = load %x, %i {pad=0.0, shape=[2048], steps=[2048]}
  %b: bf16[2048] = load %y, %i {pad=0.0, shape=[2048], steps=[2048]}
  %c: bf16[2048] = add %a, %b
  %d: bf16[2048] = mul %c, %b
  %e: bf16[2048] = sub %d, %a
  %f: bf16[2048] = maximum %e, %b
  %g: bf16[2048] = add %f, %a
  %h: bf16[2048] = mul %g, %g
  store %z, %h, %i {steps=[2048]}
}"""


def chain_cases():
    def case():
        x, y = random(1 << 28), random(1 << 28)
        z = torch.empty_like(x)
        call = lambda: _C.run_ir(CHAIN, [x.numel() // 2048, 1, 1], [x, y, z], True)  # noqa: E731
        call()
        torch.testing.assert_close(z[:64], (torch.maximum((x + y) * y - x, y) + x).square()[:64])
        return call, 6 * x.numel(), 0, None

    yield "chain of 6 ops on 2^28 elements", case, 0.97, None


def product_cases():
    for n in (1024, 4096, 8192):

        def case(n=n):
            a, b = random(n, n), random(n, n)
            return lambda: ops.matmul(a, b), 6 * n * n, 2 * n**3, ("cuBLAS", lambda: a @ b)

        yield f"matmul {n}³", case, None, 0.55 if n > 1024 else None
    for depth in (64, 128):
        for causal in (False, True):

            def case(depth=depth, causal=causal):
                q, k, v = (random(2, 16, 4096, depth) for _ in range(3))

                def peer():
                    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
                        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

                flops = 4 * q.shape[0] * q.shape[1] * 4096 * 4096 * depth // (2 if causal else 1)
                return lambda: ops.attention(q, k, v, is_causal=causal), 8 * q.numel(), flops, ("FlashAttention-2", peer)

            def backward(depth=depth, causal=causal):
                q, k, v = (random(2, 16, 4096, depth).requires_grad_() for _ in range(3))
                g = random(2, 16, 4096, depth)

                def gradient(call):
                    out = call()
                    return lambda: torch.autograd.grad(out, (q, k, v), g, retain_graph=True)

                with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
                    peer = gradient(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
                flops = 10 * q.shape[0] * q.shape[1] * 4096 * 4096 * depth // (2 if causal else 1)
                ours = gradient(lambda: ops.attention(q, k, v, is_causal=causal)[0])
                return ours, 14 * q.numel(), flops, ("FlashAttention-2", peer)

            name = f"attention [2,16,4096,{depth}]{' causal' if causal else ''}"
            yield f"{name}, forward", case, None, 1.0
            yield f"{name}, backward", backward, None, 1.0


def all_cases():
    for family in (chain_cases, softmax_cases, norm_cases, rope_cases, group_norm_cases, product_cases):
        yield from family()


def row(name, make, share, ratio):
    ours, bytes_moved, flops, peer = make()
    source = torch.empty(bytes_moved // 4, device=device, dtype=bf16)
    target = torch.empty_like(source)
    functions = [ours, lambda: target.copy_(source)] + ([peer[1]] if peer else [])
    own, copy, *other = times(functions, 9, 3 if flops > 1e12 else 10, graphs=flops == 0)
    reached = copy / own if share else (other[0] / own if ratio else None)
    wanted = "" if reached is None else f"{share or ratio:g}{'' if reached >= (share or ratio) else ', missed'}"
    return [
        name,
        f"{bytes_moved / 1e6:.0f}",
        f"{flops / 1e9:.0f}",
        f"{own:.1f}",
        f"{bytes_moved / own / 1e6:.2f}",
        f"{flops / own / 1e6:.0f}",
        f"{copy / own:.2f}",
        peer[0] if peer else "",
        f"{other[0] / own:.2f}" if peer else "",
        wanted,
    ]


def driver():
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", metavar="REGEX", help="cases whose name it matches")
    options.add_argument("--write", action="store_true", help="write the table into results/")
    options = options.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py needs a GPU that torch sees; `make bench` times the CPU")
    name = torch.cuda.get_device_name()
    lines = [
        f"# {name}",
        "",
        f"Driver {driver()}, torch {torch.__version__}. Microseconds of a call, medians of interleaved rounds in one process,",
        "bfloat16, random data; where nothing is multiplied, calls are replayed from a CUDA graph. of copy: time of Tensor.copy_ on",
        "the same bytes / ours. Made by `python benchmarks/gpu.py --write`.",
        "",
        "| " + " | ".join(HEAD) + " |",
        "|---" + "|---:" * 6 + "|---|---:|---|",
    ]
    print("\n".join(lines), flush=True)
    for case in all_cases():
        if not re.search(options.only, case[0]):
            continue
        lines.append("| " + " | ".join(row(*case)) + " |")
        print(lines[-1], flush=True)
        torch.cuda.empty_cache()
    if options.write:
        chip = re.sub(r"[^a-z0-9]+", "-", name.lower().replace("nvidia", "")).strip("-")
        (HERE / "results" / f"gpu-{chip}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
