"""The frame of compiled.py and models.py: their options, the processes that measure, and the table that they write."""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import types
from collections.abc import Callable

import task_processes
import torch
from report import Table, cells, cpu_name, digits, driver, file_name

DEVICES = {"cpu": ("float32", "small"), "cuda": ("bfloat16", "full")}  # the usual dtype and scale
# Errors below these are roundings of the dtype.
ROUNDING = {"float32": 1e-6, "bfloat16": 1e-2, "float16": 1e-3}
FIRST_SHARE = 0.6  # first calls may use this part of a budget


@dataclasses.dataclass
class Benchmark:
    """Cases, the processes that measure them, and the table of their rows. Peers are the functions that a case compares."""

    kind: str  # begins the names of its tables
    title: str
    module: str  # its functions first(task) and times(task) run in processes of task_child.py
    head: list
    words: set
    cases: types.ModuleType  # its functions all_names(), section(case) and lacking(case) describe the cases
    sections: tuple  # kinds of cases, measured one after another
    peers: Callable  # (case, options) -> {peer: further parts of its tasks}
    header: Callable  # options -> lines above the table, below the line about the machine
    rows: Callable  # (case, what times() told, {peer: what first() told}, options) -> lists of cells
    summary: Callable  # (rows as {column: text}, options) -> lines below the table


def parser(description):
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--backend", default="tile", help="ours: a backend's name or module:function (default tile)")
    options.add_argument("--only", default="", metavar="REGEX", help="cases whose name it matches")
    options.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is a GPU")
    options.add_argument("--dtype", choices=tuple(ROUNDING), help="default: float32 on a CPU, bfloat16 on a GPU")
    options.add_argument("--scale", choices=("tiny", "small", "full"), help="default: small on a CPU, full on a GPU")
    options.add_argument("--seconds", type=float, default=1.0, help="measuring time a function (default 1)")
    options.add_argument("--limit", type=float, default=300, help="seconds for a first call or a compilation (default 300)")
    options.add_argument("--budget", type=float, default=float("inf"), help="after these seconds no case is begun")
    options.add_argument(
        "--jobs",
        type=int,
        help="first calls at a time, and cases that are prepared at a time, of which one is measured while all others wait "
        "(default: 1 on a CPU, a quarter of the cores on a GPU)",
    )
    options.add_argument("--no-first", action="store_true", help="make no first calls in processes of their own")
    options.add_argument("--write", action="store_true", help="write the table into results/")
    options.add_argument(
        "--add", action="store_true", help="write, and keep the rows of the table there that are not measured again"
    )
    options.add_argument("--machine", default="", metavar="NAME", help="ends the name of a CPU's table")
    return options


def settle(options):
    """Gives the options that were left out their usual values."""
    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("--device cuda needs a GPU that torch sees")
    dtype, scale = DEVICES[options.device]
    options.dtype, options.scale = options.dtype or dtype, options.scale or scale
    options.jobs = options.jobs or (1 if options.device == "cpu" else max(1, len(os.sched_getaffinity(0)) // 4))


def shown(value, text=digits):
    """Returns the cell of a value, which is empty where nothing was measured."""
    return "" if value is None else text(value)


def complain(text):
    print(text, file=sys.stderr, flush=True)


def folder_of(root, case, peer):
    """Returns the folder of a peer's caches for a case."""
    return pathlib.Path(root) / re.sub(r"\W+", "-", case) / re.sub(r"\W+", "-", peer).strip("-")


def variables_of(folder):
    """Returns the environment of a process whose caches are in a folder."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TILE_CACHE_DIR": str(folder / "tile"),
        "CUDA_CACHE_DISABLE": "1",  # the driver has a cache, too
    }


def common(benchmark, options):
    """Returns the parts that all tasks have."""
    return {"module": benchmark.module, "device": options.device, "dtype": options.dtype, "scale": options.scale}


def first_calls(case, peer, task, options, root, over):
    """Returns {"first", "warm"} with what the processes tell; a failure becomes an exception there."""
    found = {}
    for kind in ("first", "warm"):
        if time.monotonic() > over:
            break
        try:
            found[kind] = task_processes.one_answer(task, variables_of(folder_of(root, case, peer)), options.limit)
        except Exception as error:
            complain(f"{case}: {peer}, {kind} call: {str(error) or type(error).__name__}")
            break
    return found


def all_first_calls(benchmark, peers, options, root, over):
    """Returns {case: {peer: first_calls()}} for {case: {peer: further parts of a task}}."""
    if options.no_first:
        return {case: {} for case in peers}
    task = {"task": "first", **common(benchmark, options)}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        asked = {
            case: {
                peer: pool.submit(first_calls, case, peer, {**task, "case": case, **more}, options, root, over)
                for peer, more in some.items()
            }
            for case, some in peers.items()
        }
        return {case: {peer: each.result() for peer, each in found.items()} for case, found in asked.items()}


def all_times(benchmark, peers, options, root, over):
    """Yields (case, what was measured), until the time is over."""
    task = {
        "task": "times",
        "peers": peers,
        "caches": {case: {peer: variables_of(folder_of(root, case, peer)) for peer in some} for case, some in peers.items()},
        "seconds": options.seconds,
        "limit": options.limit,
        **common(benchmark, options),
    }
    # The process has limits of its own. This one ends code that no exception ends.
    limit = options.limit * (1 + max(map(len, peers.values()))) + 60
    if options.jobs > 1:
        task["turns"] = str(pathlib.Path(root) / "turns")
        limit *= 2  # cases wait for one another
    shares = [[case] for case in peers] if options.jobs > 1 else [list(peers)]

    def answers(cases):
        some = []
        if time.monotonic() <= over:
            for found in task_processes.answers(task, cases, variables_of(pathlib.Path(root)), limit):
                some.append(found)
                if time.monotonic() > over:
                    break
        return some

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for each in concurrent.futures.as_completed([pool.submit(answers, share) for share in shares]):
            yield from each.result()


def machine_of(options):
    """Returns (the machine in words, the name of its table)."""
    if options.device == "cuda":
        name = torch.cuda.get_device_name()
        words = f"{name}, driver {driver()}; {cpu_name()}"
    else:
        import tile_ops._C

        name = f"{tile_ops._C.isa()} {options.machine}"
        words = f"{cpu_name()}, {torch.get_num_threads()} threads, {tile_ops._C.isa()}"
    return words, name if options.dtype == DEVICES[options.device][0] else f"{name} {options.dtype}"


def measured(benchmark, table, cases, options, save):
    """Adds the rows of the cases. Returns those that are left out, with the reasons. save() takes these after each case."""
    end, out = time.monotonic() + options.budget, {}
    sections = [
        some for kind in benchmark.sections if (some := [case for case in cases if benchmark.cases.section(case) == kind])
    ]
    for i, some in enumerate(sections):
        start = time.monotonic()
        share = max(0.0, end - start) / (len(sections) - i)
        peers = {case: benchmark.peers(case, options) for case in some}
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
            first = all_first_calls(benchmark, peers, options, root, start + FIRST_SHARE * share)
            left = set(some)
            for case, found in all_times(benchmark, peers, options, root, start + share):
                left.remove(case)
                add(benchmark, table, case, found, first[case], options, out)
                save(out)
        out |= {case: "the time was over" for case in some if case in left}
        save(out)
    return out


def add(benchmark, table, case, found, first, options, out):
    """Adds a case's rows, or adds to `out` why there are none, or that a peer is missing."""
    failed = {f"{case}, {peer}": reason for peer, reason in found.get("failed", {}).items()}
    if "reason" in found:
        failed[case] = found["reason"]
    else:
        table.lines = [line for line in table.lines if not line.startswith("|") or case_of(line) != case]  # those of --add
        for each in benchmark.rows(case, found, first, options):
            table.add(*each)
    for name, reason in failed.items():
        complain(f"{name}: {reason}")
    out |= failed


def case_of(line):
    return cells(line)[0]


def kept_rows(lines, head, cases):
    """Returns the rows of these cases in an existing table with the same columns."""
    if head not in lines:
        raise ValueError("the table there has other columns; measure all cases with --write")
    return [line for line in lines if line.startswith("|") and case_of(line) in cases]


def ending(benchmark, lines, out, options):
    """Returns the lines after a table: the summary, and what is left out."""
    lines = benchmark.summary([dict(zip(benchmark.head, cells(line))) for line in lines], options)
    names = {}
    for name, reason in out.items():
        names.setdefault(reason.replace("|", "/"), []).append(name)
    lines += [f"- left out: {'; '.join(some)}: {reason}" for reason, some in names.items()]
    return ["", *lines] if lines else []


def run(benchmark, options, left_out=()):
    """Measures the cases that --only names, and prints and writes their table. left_out: {what: reason} to say below it."""
    cases, order = benchmark.cases, {name: i for i, name in enumerate(benchmark.cases.all_names())}
    wanted = [name for name in order if cases.section(name) in benchmark.sections and re.search(options.only, name)]
    left_out = dict(left_out) | {name: f"{lacks} is not installed" for name in wanted if (lacks := cases.lacking(name))}
    for name, reason in left_out.items():
        complain(f"{name} is left out: {reason}")
    machine, name = machine_of(options)
    path = file_name(benchmark.kind, name)
    made = f"{machine}. torch {torch.__version__}, {options.dtype}, {options.scale} models, backend {options.backend}."
    table = Table(benchmark.title, [made, *benchmark.header(options)], benchmark.head, benchmark.words)
    start = len(table.lines)
    if options.add and path.exists():
        table.lines += kept_rows(path.read_text().splitlines(), table.lines[start - 2], set(order))

    def save(out):
        """Writes what is measured so far, because a run may be ended."""
        table.lines[start:] = sorted(table.lines[start:], key=lambda line: order[case_of(line)])
        if options.write or options.add:
            table.write(path, ending(benchmark, table.lines[start:], left_out | out, options))

    before = signal.signal(signal.SIGTERM, task_processes.end_all)  # as `timeout` sends it
    try:
        out = measured(benchmark, table, [name for name in wanted if name not in left_out], options, save)
    finally:
        signal.signal(signal.SIGTERM, before)
    print("\n".join(ending(benchmark, table.lines[start:], left_out | out, options)), flush=True)
