"""Times torch.compile(backend="tile") against eager and inductor: small graphs, the cost of a call, models, and first calls.

    python benchmarks/compiled.py [--only REGEX] [--device cpu|cuda] [--dtype NAME] [--write] [--seconds N]

Cases are named "graph: softmax", "overhead: [8,8] softmax", "Llama, inference", "Llama, training". First calls are each made in a
process of its own with empty caches, then in another one that finds these caches. All other times are medians of interleaved
rounds in one process. A case that fails is named with its error, and left out."""

import argparse
import concurrent.futures
import math
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

import compiled_processes
import torch
from compiled_cases import DEVICES, all_names, lacking, section
from report import Table, cells, cpu_name, digits, driver, file_name

HEAD = [
    "case",
    "eager ms",
    "inductor ms",
    "ours ms",
    "inductor / ours",
    "eager / ours",
    "first inductor s",
    "first ours s",
    "warm inductor s",
    "warm ours s",
    "kernels inductor",
    "kernels ours",
    "error eager",
    "error inductor",
    "error ours",
    "our programs",
    "missed",
]
WORDS = {"case", "our programs", "missed"}
SECTIONS = ("graph", "overhead", "inference", "training")
# Bars of a case: inductor's time / ours, and how many times as fast a first call must be.
RATIOS = {"graph": 0.8, "inference": 1.0, "training": 1.0}
FIRST = {"cpu": 3.0, "cuda": 2.0}
OVERHEAD = 2e-6  # seconds that a call may cost more than inductor's
ERROR = 2.0  # how many times inductor's error, or eager's without inductor, ours may be
# Errors below these are roundings of the dtype.
ROUNDING = {"float32": 1e-6, "bfloat16": 1e-2, "float16": 1e-3}
PEERS = ("inductor", "ours")
FIRST_SHARE = 0.6  # of a budget, the part that first calls may use


def options_of(arguments=None):
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--backend", default="tile", help="ours: a backend's name or module:function (default tile)")
    options.add_argument("--only", default="", metavar="REGEX", help="cases whose name it matches")
    options.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is a GPU")
    options.add_argument("--dtype", choices=tuple(ROUNDING), help="default: float32 on a CPU, bfloat16 on a GPU")
    options.add_argument("--scale", choices=("tiny", "small", "full"), help="default: small on a CPU, full on a GPU")
    options.add_argument("--seconds", type=float, default=1.0, help="measuring time a function (default 1)")
    options.add_argument("--limit", type=float, default=300, help="seconds for a first call or a compilation (default 300)")
    options.add_argument("--budget", type=float, default=float("inf"), help="after these seconds no case is begun")
    options.add_argument(
        "--jobs", type=int, help="first calls at a time (default: 1 on a CPU, a quarter of the cores on a GPU)"
    )
    options.add_argument("--no-first", action="store_true", help="make no first calls in processes of their own")
    options.add_argument("--no-inductor", action="store_true", help="compare with eager alone")
    options.add_argument("--write", action="store_true", help="write the table into results/")
    options.add_argument("--add", action="store_true", help="write, and keep the other rows of the table there")
    options.add_argument("--machine", default="", metavar="NAME", help="ends the name of a CPU's table")
    options = options.parse_args(arguments)
    options.backends = {"inductor": "inductor", "ours": options.backend}
    if options.no_inductor:
        del options.backends["inductor"]
    return options


def complain(text):
    print(text, file=sys.stderr, flush=True)


def folder_of(root, case, peer):
    """Returns the folder of a peer's caches for a case."""
    return pathlib.Path(root) / re.sub(r"\W+", "-", case) / peer


def variables_of(folder):
    """Returns the environment of a process whose caches are in a folder."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TILE_CACHE_DIR": str(folder / "tile"),
        "CUDA_CACHE_DISABLE": "1",  # the driver has a cache, too
    }


def common(options):
    return {"device": options.device, "dtype": options.dtype, "scale": options.scale}


def first_calls(case, peer, options, root, over):
    """Returns {"first", "warm"} with what the processes tell; a failure becomes an exception there."""
    task = {"task": "first", "case": case, "backend": options.backends[peer], **common(options)}
    found = {}
    for kind in ("first", "warm"):
        if time.monotonic() > over:
            break
        try:
            variables = variables_of(folder_of(root, case, peer))
            found[kind] = compiled_processes.one_answer(task, variables, options.limit)
        except Exception as error:
            complain(f"{case}: {peer}, {kind} call: {str(error) or type(error).__name__}")
            break
    return found


def all_first_calls(cases, options, root, over):
    """Returns {case: {peer: first_calls()}}."""
    if options.no_first:
        return {case: {} for case in cases}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        asked = {
            case: {peer: pool.submit(first_calls, case, peer, options, root, over) for peer in options.backends}
            for case in cases
        }
        return {case: {peer: each.result() for peer, each in found.items()} for case, found in asked.items()}


def all_times(cases, options, root, over):
    """Yields (case, what was measured), until the time is over."""
    task = {
        "task": "times",
        "backends": options.backends,
        "caches": {case: {peer: variables_of(folder_of(root, case, peer)) for peer in options.backends} for case in cases},
        "seconds": options.seconds,
        "limit": options.limit,
        "calls": 1000,
        **common(options),
    }
    for found in compiled_processes.answers(task, cases, variables_of(pathlib.Path(root)), options.limit):
        yield found
        if time.monotonic() > over:
            return


def missed(case, found, first, options):
    """Returns the bars of a case that are missed."""
    kind, times, errors = section(case), found["times"], found["errors"]
    ours, inductor, eager = (times.get(name) for name in ("ours", "inductor", "eager"))
    bars = []
    if inductor and kind in RATIOS:
        bars.append((f"{RATIOS[kind]:g}x inductor", inductor / ours >= RATIOS[kind]))
    if kind in ("inference", "training") and options.device == "cpu":
        bars.append(("1x eager", eager / ours >= 1))
    if inductor and kind == "overhead":
        bars.append((f"inductor + {1e6 * OVERHEAD:g} us", ours <= inductor + OVERHEAD))
    theirs = errors.get("inductor", errors["eager"])
    if not math.isnan(theirs):
        bars.append((f"{ERROR:g}x the error", errors["ours"] <= max(ERROR * theirs, ROUNDING[options.dtype])))
    own, other = (first.get(peer, {}) for peer in ("ours", "inductor"))
    if "first" in own and "first" in other:
        ratio = FIRST[options.device]
        bars.append((f"{ratio:g}x first call", other["first"]["seconds"] / own["first"]["seconds"] >= ratio))
    if "warm" in own and "warm" in other:
        bars.append(("1x warm call", own["warm"]["seconds"] <= other["warm"]["seconds"]))
    if "first" in own:
        bars.append(("no program", not programs_of(own)))
    return "; ".join(text for text, reached in bars if not reached)


def programs_of(first):
    """Returns the programs that the first call and the call of a second process start."""
    return sorted({name for kind in first.values() for name in kind["programs"]})


def cells_of(case, found, first, options):
    """Returns the row of a case."""
    show = lambda value, text=digits: "" if value is None else text(value)  # noqa: E731
    times, errors = found["times"], found["errors"]
    ours = times.get("ours")
    ratios = [times[name] / ours if ours and name in times else None for name in ("inductor", "eager")]
    asked = [first.get(peer, {}).get(kind, {}).get("seconds") for kind in ("first", "warm") for peer in PEERS]
    kernels = [first.get(peer, {}).get("first", {}).get("kernels") for peer in PEERS]
    own = first.get("ours", {})
    return [
        case,
        *(show(times.get(name), lambda value: digits(1e3 * value)) for name in ("eager", *PEERS)),
        *map(show, ratios + asked),
        *(show(count, str) for count in kernels),
        *(show(errors.get(name), "{:.1e}".format) for name in ("eager", *PEERS)),
        (", ".join(programs_of(own)) or "none") if "first" in own else "",
        missed(case, found, first, options) if ours else "ours failed",
    ]


def geomean(values):
    return statistics.geometric_mean(values) if values else float("nan")


def summary(rows):
    """Returns a line for each kind of case: medians, geometric means and least ratios."""
    lines = []
    for kind in SECTIONS:
        parts = []
        some = [row for row in rows if section(row["case"]) == kind]
        for peer in ("inductor", "eager"):
            if ratios := [float(row[f"{peer} / ours"]) for row in some if row.get(f"{peer} / ours")]:
                middle, mean = statistics.median(ratios), geomean(ratios)
                parts.append(f"{peer} / ours: median {middle:.2f}, geomean {mean:.2f}, least {min(ratios):.2f}")
        for name in ("first", "warm"):
            pairs = [(row[f"{name} inductor s"], row[f"{name} ours s"]) for row in some]
            if ratios := [float(a) / float(b) for a, b in pairs if a and b]:
                parts.append(f"{name} call: geomean {geomean(ratios):.2f}, least {min(ratios):.2f}")
        if parts:
            lines.append(f"- {kind}, {len(some)} cases: {'; '.join(parts)}.")
    return lines


def header(options, machine):
    gpu = options.device == "cuda"
    exact = "float32" if options.scale == "full" else "float64"
    return [
        f"{machine}. torch {torch.__version__}, {options.dtype}, {options.scale} models, backend {options.backend}.",
        "Milliseconds of a call, medians of interleaved rounds in one process; inference without gradients, training with them.",
        "Small graphs run from a CUDA graph on a GPU. first: the first call of a process with empty caches, from torch.compile",
        "to the result; warm: of a process that finds these caches. kernels: calls of generated kernels"
        f"{' and of torch' if gpu else ''} in a call. error: the",
        "largest of a result or gradient, relative to its largest element, against float64"
        f"{f' (models: {exact})' if exact != 'float64' else ''}. our programs:",
        "what the first calls of ours start. missed: bars that are not reached. Made by `python benchmarks/compiled.py --write`.",
    ]


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


def run(table, cases, options, save):
    """Adds the rows of the cases. Returns those that are left out, with the reasons. save() takes these after each section."""
    end, out = time.monotonic() + options.budget, {}
    sections = [some for kind in SECTIONS if (some := [case for case in cases if section(case) == kind])]
    for i, some in enumerate(sections):
        start = time.monotonic()
        share = max(0.0, end - start) / (len(sections) - i)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
            first = all_first_calls(some, options, root, start + FIRST_SHARE * share)
            left = set(some)
            for case, found in all_times(some, options, root, start + share):
                left.remove(case)
                add(table, case, found, first[case], options, out)
        out |= {case: "the time was over" for case in some if case in left}
        save(out)
    return out


def add(table, case, found, first, options, out):
    """Adds a case's row, or adds to `out` why there is none, or that a peer is missing."""
    failed = {f"{case}, {peer}": reason for peer, reason in found.get("failed", {}).items()}
    if "reason" in found:
        failed[case] = found["reason"]
    else:
        table.add(*cells_of(case, found, first, options))
    for name, reason in failed.items():
        complain(f"{name}: {reason}")
    out |= failed


def main(arguments=None):
    options = options_of(arguments)
    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("--device cuda needs a GPU that torch sees")
    dtype, scale = DEVICES[options.device]
    options.dtype, options.scale = options.dtype or dtype, options.scale or scale
    options.jobs = options.jobs or (1 if options.device == "cpu" else max(1, len(os.sched_getaffinity(0)) // 4))
    wanted = [name for name in all_names() if re.search(options.only, name)]
    left_out = {name: f"{lacking(name)} is not installed" for name in wanted if lacking(name)}
    for name, reason in left_out.items():
        complain(f"{name} is left out: {reason}")
    machine, name = machine_of(options)
    path = file_name("compiled", name)
    table = Table("Compiled graphs", header(options, machine), HEAD, WORDS)
    start, order = len(table.lines), {name: i for i, name in enumerate(all_names())}
    if options.add and path.exists():
        table.lines += kept_rows(path.read_text().splitlines(), table.lines[start - 2], set(order) - set(wanted))

    def save(out):
        """Writes what is measured so far, because a run may be ended."""
        table.lines[start:] = sorted(table.lines[start:], key=lambda line: order[case_of(line)])
        if options.write or options.add:
            table.write(path, ending(table.lines[start:], left_out | out))

    out = run(table, [name for name in wanted if name not in left_out], options, save)
    print("\n".join(ending(table.lines[start:], left_out | out)), flush=True)


def case_of(line):
    return cells(line)[0]


def kept_rows(lines, head, cases):
    """Returns the rows of these cases in an existing table with the same columns."""
    if head not in lines:
        raise ValueError("the table there has other columns; measure all cases with --write")
    return [line for line in lines if line.startswith("|") and case_of(line) in cases]


def ending(rows, out):
    """Returns the lines after a table: the summary, and what is left out."""
    lines = summary([dict(zip(HEAD, cells(line))) for line in rows])
    lines += [f"- left out: {case}: {reason.replace('|', '/')}" for case, reason in out.items()]
    return ["", *lines] if lines else []


if __name__ == "__main__":
    main()
