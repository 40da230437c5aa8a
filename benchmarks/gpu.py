"""Times on a GPU: every case of gpu_cases.py against its peers, and memory-bound cases against Tensor.copy_ of the same
bytes.

    python benchmarks/gpu.py [--only REGEX] [--write] [--name NAME] [--seconds N]

One process, interleaved rounds, medians, random data in bfloat16. --write: writes the table to results/gpu-<chip>.md,
or <NAME>-<chip>.md, and of the former the picture that roofline.py draws. A row or a peer that fails is named and left out; peers are also left out
once the time is over."""

import argparse
import ctypes
import re
import statistics
import sys
import time
from random import Random

import measure
import torch
import torch._functorch.config
from gpu_cases import all_cases
from gpu_work import bf16, device, random
from report import Table, digits, driver, file_name, judged, ratio_bars

NAMED = ("eager", "torch.compile")  # peers with a column of their own
HEAD = ["case", "MB", "GF", "ours us", "TB/s", "TF/s", "of copy", "eager", "torch.compile", "other peers", "bars"]
ROW_SECONDS, PEER_SECONDS = 60, 45
KERNEL_NODE = 0  # CU_GRAPH_NODE_TYPE_KERNEL


def captured(function, calls, **options):
    """Returns a graph of `calls` calls, captured in the current stream. Gradients run in the stream of their forward,
    which must be the same stream."""
    graph = torch.cuda.CUDAGraph(**options)
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        for _ in range(calls):
            function()
    return graph


def replayed(function, calls):
    """Returns the calls as one graph, which the host launches at once; None if they cannot be captured."""
    try:
        return captured(function, calls).replay
    except RuntimeError:
        torch.cuda.synchronize()
        return None


def times(functions, rounds, calls, graphs=False):
    """Returns the microseconds of each function, the median of interleaved rounds of `calls` calls each. Each round has
    a different order, because a chip is slower after a function that heats it."""
    for function in functions:
        for _ in range(3):
            function()
    runs = [
        (graphs and replayed(function, calls)) or (lambda f=function: [f() for _ in range(calls)]) for function in functions
    ]
    taken = [[] for _ in functions]
    pairs, order = list(zip(runs, taken)), Random(0)
    for _ in range(rounds):
        order.shuffle(pairs)
        for run, own in pairs:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            end.synchronize()
            own.append(1e3 * start.elapsed_time(end) / calls)
    return [statistics.median(own) for own in taken]


def launches(function):
    """Returns the number of kernels that a call launches, including those of torch."""
    try:
        return kernels_of_graph(function)
    except (RuntimeError, AttributeError, OSError):  # it cannot be captured, or torch or the driver is too old
        return profiled_kernels(function)


def profiled_kernels(function):
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        function()
        torch.cuda.synchronize()
    on_gpu = [event for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    kernels = sum(not event.name.startswith(("Memcpy", "Memset")) for event in on_gpu)
    if not kernels:
        raise RuntimeError("the profiler sees no kernel")
    return kernels


def kernels_of_graph(function):
    graph = captured(function, 1, keep_graph=True)
    library, count, kind = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(0), ctypes.c_int(0)

    def ask(name, *arguments):
        if error := getattr(library, name)(*arguments):
            raise RuntimeError(f"{name} gives error {error}")

    raw = ctypes.c_void_p(graph.raw_cuda_graph())
    ask("cuGraphGetNodes", raw, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    ask("cuGraphGetNodes", raw, nodes, ctypes.byref(count))
    kernels = 0
    for node in nodes:
        ask("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        kernels += kind.value == KERNEL_NODE
    return kernels


def bars(case, own, copy, others, count):
    """Returns the case's bars, and those that are missed."""
    found = []
    if case.fraction:
        found.append((f"{case.fraction:g} of copy", copy / own >= case.fraction))
    found += ratio_bars(case.ratios, own, others)
    if case.microseconds:
        found.append((f"{case.microseconds:g} us", own < case.microseconds))
    if case.launches:
        within = count is None or count <= case.launches
        seen = " not counted" if count is None else "" if within else f" wanted, {count} seen"
        found.append((f"{case.launches} launch{'es' if case.launches > 1 else ''}{seen}", within))
    return judged(found)


def made_peers(case, work, complain):
    """Returns {name: call} of the peers that are available here."""
    calls = {}
    for name, make in work.peers.items():
        try:
            with measure.time_limit(PEER_SECONDS):
                call = make()
                call()
                torch.cuda.synchronize()
                calls[name] = call
        except Exception as error:
            complain(f"{case.name}: {name} is left out: {measure.reason(error)}")
    return calls


def row(case, with_peers, complain):
    work = case.make()
    work.ours()
    peers = made_peers(case, work, complain) if with_peers else {}
    source = torch.empty(int(work.bytes) // 4, device=device, dtype=bf16)
    target = torch.empty_like(source)
    copying = lambda: target.copy_(source)  # noqa: E731
    functions = [work.ours, copying, *peers.values()]
    own, copy, *other = times(functions, 9, 3 if work.flops > 1e12 else 10, graphs=not case.product)
    # For 2^29 bytes, the copy of a graph takes 1.5 times as long as one that is launched.
    copy = min(copy, *times([copying], 9, 10))
    others = dict(zip(peers, other))
    count = None
    if case.launches:
        try:
            count = launches(work.ours)
        except Exception as error:  # the driver lacks these functions
            complain(f"{case.name}: its launches are not counted: {measure.reason(error)}")
    ratio = {name: digits(value / own) for name, value in others.items()}
    rest = ", ".join(f"{name} {ratio[name]}" for name in sorted(ratio, key=str.lower) if name not in NAMED)
    return [
        case.name,
        digits(work.bytes / 1e6),
        digits(work.flops / 1e9),
        digits(own),
        digits(work.bytes / own / 1e6),
        digits(work.flops / own / 1e6),
        f"{copy / own:.2f}",
        ratio.get("eager", ""),
        ratio.get("torch.compile", ""),
        rest,
        bars(case, own, copy, others, count),
    ]


def roofs():
    """Returns the TB/s of a copy and the TF/s of cuBLAS, both at sizes where they are fastest."""
    source = random(1 << 29)
    target = torch.empty_like(source)
    (copy,) = times([lambda: target.copy_(source)], 9, 3)
    a, b = random(8192, 8192), random(8192, 8192)
    (product,) = times([lambda: a @ b], 9, 3)
    return 4 * source.numel() / copy / 1e6, 2 * 8192**3 / product / 1e6


def run(table, options):
    over = time.monotonic() + options.seconds
    complain = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    for case in all_cases():
        if not re.search(options.only, case.name):
            continue
        # A peer may also fail within its graph; then the row has only our time.
        for with_peers in (True, False) if time.monotonic() < over else (False,):
            try:
                with measure.time_limit(ROW_SECONDS + (PEER_SECONDS if with_peers else 0)):
                    cells = row(case, with_peers, complain)
                break
            except Exception as error:
                cells = [f"{case.name}: failed, {measure.reason(error)}"]
                complain(cells[0] + (", with its peers" if with_peers else ""))
        table.add(*cells)
        torch._dynamo.reset()
        torch.cuda.empty_cache()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", metavar="REGEX", help="cases whose name it matches")
    options.add_argument("--write", action="store_true", help="write the table and the picture into results/")
    options.add_argument("--name", default="gpu", help="the table's name, for a part of the cases (default gpu)")
    options.add_argument("--seconds", type=float, default=240, help="after them peers are left out (default 240)")
    options = options.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/gpu.py needs a GPU that torch sees; `make bench` times the CPU")
    torch._functorch.config.donated_buffer = False  # otherwise a compiled backward runs only once
    name = torch.cuda.get_device_name()
    part = f"--only '{options.only}' " if options.only else ""
    part += f"--name {options.name} " if options.name != "gpu" else ""
    with torch.cuda.stream(torch.cuda.Stream()):
        bandwidth, peak = roofs()
        words = [
            f"Driver {driver()}, torch {torch.__version__}. Microseconds of a call, medians of interleaved rounds in "
            "one process,",
            "bfloat16, random data; where no matrices are multiplied, calls are replayed from a CUDA graph. MB and GF: "
            "the least that must be",
            "moved and computed. of copy: time of Tensor.copy_ on the same bytes, from a graph or launched, the faster, / ours;",
            "peers: their time / ours.",
            f"Roofs: a copy moves {bandwidth:.2f} TB/s, cuBLAS reaches {peak:.0f} TF/s. Made by `python "
            f"benchmarks/gpu.py {part}--write`.",
        ]
        table = Table(name, words, HEAD, {"case", "other peers", "bars"})
        run(table, options)
    if not options.write:
        return
    path = file_name(options.name, name)
    table.write(path)
    if options.name != "gpu":
        return
    try:
        import roofline

        roofline.draw(path)
    except ImportError as error:
        print(f"no picture is drawn: {error}; `pip install pillow`, then `python benchmarks/roofline.py {path.name}`")


if __name__ == "__main__":
    main()
