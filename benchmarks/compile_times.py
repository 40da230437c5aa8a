"""Measures the cost of a first call: from trace to loaded module on one core, and from the disk cache in a new process.

    python benchmarks/compile_times.py [--only REGEX] [--write] [--seconds N]

Every case runs in separate processes, each bound to one core: one with an empty cache folder, then one that finds the
kernels of the first there. Without a GPU it measures the steps that need none, tracing and NVRTC, for an H100, and says
so; times are then those of the processor, which other processes hardly change."""

import argparse
import concurrent.futures
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HEAD = ["case", "kernels", "call ms", "slowest kernel ms", "of it NVRTC ms", "cached call ms", "cached kernel ms", "bars"]
PART, LIMIT = "== ", 90  # a mark between the log's parts; the limit of a process in seconds
CACHED_BAR = 5.0
# Limits of the milliseconds of a kernel from trace to loaded module.
BARS = {
    "chain": 150,
    "softmax": 150,
    "rms_norm": 150,
    "layer_norm": 150,
    "rope": 150,
    "group_norm": 150,
    "matmul": 600,
    "attention": 600,
}


def calls(device):
    """Returns {name: (function of tensors, tensors that want gradients)}, in bfloat16, with the shapes of
    benchmarks/gpu.py but fewer rows."""
    import gpu_cases
    import torch

    ops = torch.ops.tile

    def make(*shape):
        return torch.empty(*shape, dtype=torch.bfloat16, device=device).normal_().requires_grad_()

    def chain(x, y):
        from tile_ops import _C

        z = torch.empty_like(x)
        _C.run_ir(gpu_cases.CHAIN, [x.numel() // 2048, 1, 1], [x.detach(), y.detach(), z], True)
        return z

    angle = torch.rand(4096, 64, device=device).bfloat16()
    return {
        "chain": (chain, lambda: [make(1 << 20), make(1 << 20)]),
        "softmax": (lambda x: ops.softmax(x, 1), lambda: [make(1024, 8192)]),
        "rms_norm": (lambda x, w: ops.rms_norm(x, [4096], w, 1e-5), lambda: [make(8192, 4096), make(4096)]),
        "layer_norm": (lambda x, w, b: ops.layer_norm(x, [4096], w, b), lambda: [make(8192, 4096), make(4096), make(4096)]),
        "rope": (lambda q, k: ops.rope(q, k, angle, angle), lambda: [make(1, 32, 4096, 128), make(1, 8, 4096, 128)]),
        "group_norm": (
            lambda x, w, b: ops.group_norm(x, 32, w, b, activation="silu"),
            lambda: [make(8, 512, 128, 128), make(512), make(512)],
        ),
        "matmul": (lambda a, b: ops.matmul(a, b), lambda: [make(4096, 4096), make(4096, 4096)]),
        "attention": (
            lambda q, k, v: ops.attention(q, k, v, is_causal=True)[0],
            lambda: [make(2, 16, 4096, 128) for _ in range(3)],
        ),
    }


def parts_of(name, device):
    """Yields "forward" and "backward" with their calls; each is made after the one before has run."""
    import torch

    function, make = calls(device)[name]
    inputs = make()
    yield "forward", lambda: function(*inputs)
    if name == "chain":
        return
    results = function(*inputs)
    results = [each for each in (results if isinstance(results, tuple) else (results,)) if each.requires_grad]
    grads = [torch.empty_like(each) for each in results]
    yield "backward", lambda: torch.autograd.grad(results, inputs, grads, retain_graph=True)


def milliseconds(call, clock=time.perf_counter):
    start = clock()
    call()
    return 1e3 * (clock() - start)


def child(name, device, cached):
    """Runs in the separate process: prints the times of the first and of a later call of each part as JSON; the log
    goes to stderr."""
    import tile_ops
    from tile_ops import _C
    import torch

    torch.set_num_threads(1)
    clock = time.perf_counter if device == "cuda" else time.process_time
    found = {}
    if device == "cuda":
        # Excludes torch's own first times: its context, its kernels, its gradient threads, and what it imports for
        # gradients.
        x = torch.ones(64, 64, device=device, requires_grad=True)
        (x * 1).sum().backward()
        torch.autograd.grad([x * 1], [x], [torch.ones_like(x)])
        _C.driver()
    if not cached:
        chip = torch.cuda.get_device_capability() if device == "cuda" else (9, 0)
        nothing = tile_ops.cuda_kernel("__global__ void nothing() {}", "nothing")
        found["nvrtc"] = milliseconds(lambda: nothing.compile(10 * chip[0] + chip[1]), clock)
    for part, run in parts_of(name, device):
        if device == "cuda":

            def call(run=run):
                run()
                torch.cuda.synchronize()
        else:

            def call(run=run):
                rows.extend(tile_ops.inspect(run, what="resources", arch=90))

        rows = []
        print(f"{PART}{part}", file=sys.stderr, flush=True)
        first = milliseconds(call, clock)
        print(PART, file=sys.stderr, flush=True)
        found[part] = {"first": first, "again": milliseconds(call) if device == "cuda" else 0.0, "kernels": len(rows)}
    print(json.dumps(found), flush=True)
    sys.stderr.flush()
    # While Python exits, torch's autograd threads may still release a Python object, which terminates the process.
    os._exit(0)


def read_log(text):
    """Returns {part: [{"trace", "load", "nvrtc", "cached"}]} from the lines of TILE_LOG=1: a dictionary per kernel, in
    milliseconds."""
    parts, kernels, traced = {}, None, {}
    for line in text.splitlines():
        if line.startswith(PART.strip()):
            name = line.removeprefix(PART.strip()).strip()
            kernels = parts.setdefault(name, []) if name else None
            traced = {}
        elif kernels is not None and (found := re.match(r"tile: (\S+): traced in ([\d.]+) ms", line)):
            traced[found[1]] = float(found[2])
        elif kernels is not None and (
            found := re.match(
                r"tile: (\S+): compiled for sm_\d+ and loaded on .* in ([\d.]+) ms, (from the cache|NVRTC) ([\d.]+) ms", line
            )
        ):
            own = {"trace": traced.pop(found[1], 0.0), "load": float(found[2]), "nvrtc": float(found[4])}
            kernels.append(own | {"cached": found[3] != "NVRTC"})
    return parts


def process(name, device, core, folder, cached):
    """Returns the measurements of a child, with the kernels of its log."""
    variables = {**os.environ, "TILE_CACHE_DIR": folder, "TILE_LOG": "1", "TILE_CACHE_MB": "1024", "TILE_PACKS": "none"}
    variables["CUDA_CACHE_DISABLE"] = "1"  # the driver has a cache, too
    command = [sys.executable, __file__, "--child", name, device, str(int(cached)), str(core)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1])
    found = json.loads(done.stdout.splitlines()[-1])
    logged = read_log(done.stderr)
    for part in found:
        if part != "nvrtc":
            found[part]["log"] = logged.get(part, [])
    return found


def measured(name, device, core):
    """Returns (cold, cached) for one case."""
    with tempfile.TemporaryDirectory() as folder:
        return process(name, device, core, folder, False), process(name, device, core, folder, True)


def one_round(names, device, rounds, over):
    """Returns {name: [(cold, cached) or an exception]} with `rounds` entries each, or fewer if the time is over."""
    cores = sorted(os.sched_getaffinity(0))
    workers = max(1, min(4, len(cores) // 2))
    found = {name: [] for name in names}

    def work(index):
        for i in range(index, rounds * len(names), workers):
            name = names[i % len(names)]
            if time.monotonic() > over and found[name]:
                continue
            try:
                found[name].append(measured(name, device, cores[index]))
            except Exception as error:
                found[name].append(error)

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    return found


def median(values):
    values = list(values)
    return statistics.median(values) if values else None


def slowest(log):
    """Returns the kernel that took longest from trace to loaded module."""
    return max(log, key=lambda kernel: kernel["trace"] + kernel["load"], default=None)


def total(kernel):
    return kernel["trace"] + kernel["load"]


def verdict(value, bar, before="", behind=""):
    return "" if value is None else f"{before}{bar:g}{behind}{'' if value < bar else ', missed'}"


def cells_of(name, part, pairs):
    """Returns the row of a part from its rounds."""
    from report import digits

    cold, cached = ([pair[i][part] for pair in pairs] for i in (0, 1))
    show = lambda value: "" if value is None else digits(value)  # noqa: E731
    call, again = (median(each["first"] - each["again"] for each in side) for side in (cold, cached))
    slow, fast = ([kernel for each in side if (kernel := slowest(each["log"]))] for side in (cold, cached))
    compiling, loading = median(map(total, slow)), median(map(total, fast))
    recompiled = any(not kernel["cached"] for each in cached for kernel in each["log"])
    count = max(len(each["log"]) or each["kernels"] for each in cold)
    bars = [verdict(compiling, BARS[name], f"{name} "), verdict(loading, CACHED_BAR, behind=" cached")]
    bars += ["compiled again, missed"] if recompiled else []
    nvrtc = median(kernel["nvrtc"] for kernel in slow)
    label = f"{name}, {part}" if name != "chain" else "chain of 6 ops"
    shown = map(show, (call, compiling, nvrtc, again, loading))
    return [label, str(count), *shown, "; ".join(filter(None, bars))]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", metavar="REGEX", help="operators whose name it matches")
    options.add_argument("--write", action="store_true", help="write the table into results/, where there is a GPU")
    options.add_argument("--rounds", type=int, default=3, help="processes of each case (default 3)")
    options.add_argument("--seconds", type=float, default=80, help="after them no further round is begun (default 80)")
    options = options.parse_args()
    import torch
    from report import Table, cpu_name, digits, driver, file_name

    device = "cuda" if torch.cuda.is_available() else "meta"
    names = [name for name in BARS if re.search(options.only, name)]
    found = one_round(names, device, options.rounds, time.monotonic() + options.seconds)
    good = {name: [pair for pair in pairs if isinstance(pair, tuple)] for name, pairs in found.items()}
    loading = median(pair[0]["nvrtc"] for pairs in good.values() for pair in pairs)
    words = [
        f"{cpu_name()}, one core; torch {torch.__version__}, bfloat16, medians. Loading NVRTC and compiling an empty "
        "kernel, once a"
    ]
    words += [f"process: {digits(loading)} ms, " if loading else "process, "]
    words[-1] += "is in no row. cached: a new process that finds the kernels on disk."
    if device == "cuda":
        title = f"First calls, {torch.cuda.get_device_name()}"
        words[0] = f"Driver {driver()}, " + words[0]
        words += [
            "call: a first call less a later one. kernel: from trace to loaded module, the slowest one of the call. "
            "Bars: of a kernel."
        ]
    else:
        title = "First calls, without a GPU"
        words += [
            "There is no GPU here: a call is tracing and NVRTC for sm_90, in time of the processor; nothing is loaded or run, and no bar applies."
        ]
    words += ["Made by `python benchmarks/compile_times.py --write`."]
    table = Table(title, words, HEAD, {"case", "bars"})
    for name in names:
        for error in (each for each in found[name] if not isinstance(each, tuple)):
            print(f"{name}: {error}", file=sys.stderr, flush=True)
        if not good[name]:
            table.add(f"{name}: failed")
        for part in (part for part in ("forward", "backward") if good[name] and part in good[name][0][0]):
            table.add(*cells_of(name, part, good[name]))
    if options.write and device == "cuda":
        table.write(file_name("compile", torch.cuda.get_device_name()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        os.sched_setaffinity(0, {int(sys.argv[5])})  # before torch's threads start
        child(sys.argv[2], sys.argv[3], sys.argv[4] == "1")
    else:
        main()
