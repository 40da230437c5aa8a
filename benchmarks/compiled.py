"""Times torch.compile(backend="tile") against eager and inductor: small graphs, the cost of a call, models, and first calls.

    python benchmarks/compiled.py [--only REGEX] [--device cpu|cuda] [--dtype NAME] [--write] [--seconds N]
        [--options NAME=VALUE…]

Cases are named "graph: softmax", "overhead: [8,8] softmax", "Llama, inference", "Llama, training". First calls are each made in a
process of its own with empty caches, then in another one that finds these caches. All other times are medians of interleaved
rounds in one process. A case that fails is named with its error, and left out."""

import argparse
import math
import statistics

import benchmark_frame
import compiled_cases
from benchmark_frame import ROUNDING, Benchmark, shown
from compiled_cases import section
from report import digits

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
PEERS = ("inductor", "ours")


def option(text):
    """Returns the (name, value) of an option of our backend."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, for example products=torch")
    return name, value


def peers(case, options):
    given = {"ours": {"options": options.options}} if options.options else {}
    return {peer: {"backend": backend, **given.get(peer, {})} for peer, backend in options.backends.items()}


def options_of(arguments=None):
    options = benchmark_frame.parser(__doc__)
    options.add_argument("--no-inductor", action="store_true", help="compare with eager alone")
    options.add_argument(
        "--options",
        nargs="+",
        type=option,
        default=[],
        metavar="NAME=VALUE",
        help="options of our backend, for example products=torch",
    )
    options = options.parse_args(arguments)
    options.options = dict(options.options)
    options.backends = {"inductor": "inductor", "ours": options.backend}
    if options.no_inductor:
        del options.backends["inductor"]
    return options


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
    times, errors = found["times"], found["errors"]
    ours = times.get("ours")
    ratios = [times[name] / ours if ours and name in times else None for name in ("inductor", "eager")]
    asked = [first.get(peer, {}).get(kind, {}).get("seconds") for kind in ("first", "warm") for peer in PEERS]
    kernels = [first.get(peer, {}).get("first", {}).get("kernels") for peer in PEERS]
    own = first.get("ours", {})
    return [
        case,
        *(shown(times.get(name), lambda value: digits(1e3 * value)) for name in ("eager", *PEERS)),
        *map(shown, ratios + asked),
        *(shown(count, str) for count in kernels),
        *(shown(errors.get(name), "{:.1e}".format) for name in ("eager", *PEERS)),
        (", ".join(programs_of(own)) or "none") if "first" in own else "",
        missed(case, found, first, options) if ours else "ours failed",
    ]


def summary(rows):
    """Returns a line for each kind of case: medians, geometric means and least ratios."""
    lines = []
    for kind in SECTIONS:
        parts = []
        some = [row for row in rows if section(row["case"]) == kind]
        for peer in ("inductor", "eager"):
            if ratios := [float(row[f"{peer} / ours"]) for row in some if row.get(f"{peer} / ours")]:
                middle, mean = statistics.median(ratios), statistics.geometric_mean(ratios)
                parts.append(f"{peer} / ours: median {middle:.2f}, geomean {mean:.2f}, least {min(ratios):.2f}")
        for name in ("first", "warm"):
            pairs = [(row[f"{name} inductor s"], row[f"{name} ours s"]) for row in some]
            if ratios := [float(a) / float(b) for a, b in pairs if a and b]:
                parts.append(f"{name} call: geomean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
        if parts:
            lines.append(f"- {kind}, {len(some)} cases: {'; '.join(parts)}.")
    return lines


def header(options):
    gpu = options.device == "cuda"
    exact = "float32" if options.scale == "full" else "float64"
    given = "".join(f" {name}={value}" for name, value in options.options.items())
    return [
        *([f"Options of our backend:{given}."] if given else []),
        "Milliseconds of a call, medians of interleaved rounds in one process; inference without gradients, training with them.",
        "Small graphs run from a CUDA graph on a GPU. first: the first call of a process with empty caches, from torch.compile",
        "to the result; warm: of a process that finds these caches. kernels: calls of generated kernels"
        f"{' and of torch' if gpu else ''} in a call. error: the",
        "largest of a result or gradient, relative to its largest element, against float64"
        f"{f' (models: {exact})' if exact != 'float64' else ''}. our programs:",
        "what the first calls of ours start. missed: bars that are not reached. Made by `python benchmarks/compiled.py --write`.",
    ]


BENCHMARK = Benchmark(
    kind="compiled",
    title="Compiled graphs",
    module="compiled_child",
    head=HEAD,
    words=WORDS,
    cases=compiled_cases,
    sections=SECTIONS,
    peers=peers,
    header=header,
    rows=lambda *what: [cells_of(*what)],
    summary=lambda rows, options: summary(rows),
)


def main(arguments=None):
    options = options_of(arguments)
    benchmark_frame.settle(options)
    benchmark_frame.run(BENCHMARK, options)


if __name__ == "__main__":
    main()
