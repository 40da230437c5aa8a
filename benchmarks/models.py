"""Times models unchanged, compiled and patched: inference, a training step (loss, gradients, AdamW), and greedy decoding.

    python benchmarks/models.py [--only REGEX] [--way inference training decoding] [--variants REGEX] [--device cpu|cuda] [--write]

Cases are named "Llama, training". Each has a row for each variant: eager, torch.compile, Liger where it is installed and patches
the model, tile_ops.patch alone, with our AdamW and with torch.compile, and torch.compile(backend="tile"). All times of a case are
medians of interleaved rounds in one process; first calls are each made in a process of its own with empty caches, then in another
one that finds these caches. A variant that fails is named with its error, and left out."""

import statistics

import benchmark_frame
import model_cases
import model_variants
import model_ways
import torch
from benchmark_frame import Benchmark, shown
from model_cases import section
from model_variants import PEERS
from report import digits

HEAD = [
    "case",
    "variant",
    "ms",
    "of peers",
    "first s",
    "warm s",
    "peak GiB",
    "kernels",
    "host ms",
    "breaks",
    "loss difference",
    "missed",
]
WORDS = {"case", "variant", "missed"}
DECODED_BY_GRAPH = "torch.compile, graph"  # the peer of variants that replay a graph
# Bars: time of the fastest peer / that of a variant, in each case and as geometric mean, by device and way.
RATIOS = {
    ("cpu", "inference", "patched"): (1.0, 1.3),
    ("cpu", "training", "patched"): (1.0, 1.3),
    ("cpu", "decoding", "patched"): (1.0, 0.0),
    ("cuda", "inference", "patched"): (1.0, 1.15),
    ("cuda", "training", "patched"): (1.0, 1.2),
    ("cuda", "decoding", "patched, graph"): (1.2, 0.0),
}
FIRST = {"first": 2.0, "warm": 1.0}  # seconds that a first call on a GPU may take longer than eager's
MILLISECONDS = {("Llama, training", "H100"): 70.0}  # the full model, patched
LOSS = {"float32": 1e-4, "bfloat16": 1e-2, "float16": 1e-2}  # relative differences that are roundings


def peers(case, options):
    names = model_variants.variants(section(case), options.device, options.variants)
    return {name: {"variant": name, "backend": options.backend} for name in names}


def same_loss(name, found, options):
    return difference(found[name], found["eager"]) <= LOSS[options.dtype]


def of_peers(name, found, options):
    """Returns the time of the fastest peer / that of a variant, or None without a peer. A peer with a wrong loss is none."""
    peers = (DECODED_BY_GRAPH,) if model_variants.NAMED[name].graph else PEERS
    seconds = [found[peer]["seconds"] for peer in peers if peer in found and same_loss(peer, found, options)]
    return min(seconds) / found[name]["seconds"] if seconds else None


def missed(case, name, found, first, options):
    """Returns the bars of a variant that are missed."""
    way, own = section(case), found[name]
    ratio, bars = of_peers(name, found, options), []
    if ratio and (bar := RATIOS.get((options.device, way, name))):
        bars.append((f"{bar[0]:g}x peers", ratio >= bar[0]))
    if name == "patched" and options.device == "cuda":
        bars += bars_on_gpu(case, own, found, first, options)
    if name == "patched + compile":
        alone = [found[each]["seconds"] for each in ("patched", "torch.compile") if each in found]
        bars.append(("1x patched or compiled", own["seconds"] <= min(alone, default=own["seconds"])))
        bars.append(("one graph", not own["breaks"]))
    bars.append(("eager's loss", name == "eager" or same_loss(name, found, options)))
    return "; ".join(text for text, reached in bars if not reached)


def bars_on_gpu(case, own, found, first, options):
    eager, liger = found["eager"], found.get("Liger", {})
    if section(case) != "decoding":
        yield "eager's host time", own["host"] <= eager["host"]
    if section(case) == "training" and liger.get("peak"):
        yield "Liger's memory", own["peak"] <= liger["peak"]
    for kind, seconds in FIRST.items():
        both = [first.get(each, {}).get(kind, {}).get("seconds") for each in ("patched", "eager")]
        if None not in both:
            yield f"{kind} call: eager + {seconds:g} s", both[0] <= both[1] + seconds
    for (name, chip), most in MILLISECONDS.items():
        if case == name and options.scale == "full" and chip in torch.cuda.get_device_name():
            yield f"{most:g} ms", 1e3 * own["seconds"] <= most


def difference(own, eager):
    """Returns the relative difference of a loss from eager's; NaN differs from every bar."""
    return abs(own["loss"] - eager["loss"]) / max(abs(eager["loss"]), 1e-30)


def rows(case, found, first, options):
    """Returns a row for each variant that was measured."""
    return [cells_of(case, name, found["variants"], first, options) for name in found["variants"]]


def cells_of(case, name, found, first, options):
    own, asked = found[name], first.get(name, {})
    peak, host = own.get("peak"), own.get("host")
    return [
        case,
        name,
        digits(1e3 * own["seconds"]),
        shown(of_peers(name, found, options)),
        *(shown(asked.get(kind, {}).get("seconds")) for kind in ("first", "warm")),
        shown(peak and peak / 2**30),
        shown(own.get("kernels"), lambda count: f"{count:.0f}"),
        shown(host and 1e3 * host),
        str(own["breaks"]) if model_variants.NAMED[name].backend else "",
        "" if name == "eager" else f"{difference(own, found['eager']):.1e}",
        missed(case, name, found, first, options),
    ]


def summary(rows, options):
    """Returns a line for each way and variant of ours: geometric mean, least ratio, and the bars that are missed."""
    lines = []
    for way in model_ways.WAYS:
        for name in model_variants.NAMED:
            some = [row for row in rows if section(row["case"]) == way and row["variant"] == name]
            ratios = {row["case"]: float(row["of peers"]) for row in some if row["of peers"]}
            if name == "eager" or not ratios:
                continue
            least = min(ratios, key=ratios.get)
            bar = RATIOS.get((options.device, way, name), (0.0, 0.0))[1]
            mean = statistics.geometric_mean(ratios.values())
            parts = [f"geomean {mean:.2f}" + (f" (bar {bar:g}, missed)" if mean < bar else f" (bar {bar:g})" if bar else "")]
            parts.append(f"least {ratios[least]:.2f} ({least.split(', ')[0]})")
            if name not in (*PEERS, DECODED_BY_GRAPH):
                parts.append(f"{sum(bool(row['missed']) for row in some)} rows miss a bar")
            lines.append(f"- {way}, {name}, {len(some)} models, of peers: {', '.join(parts)}.")
    return lines


def header(options):
    peers = ", ".join(PEERS[:-1])
    return [
        "ms: of a call, medians of interleaved rounds in one process: inference without gradients; training: loss, gradients and",
        "torch's AdamW, which is fused on a GPU; decoding: a token behind a prompt of "
        f"{model_ways.LENGTHS[options.scale][0]}, batch 1, in a static cache where a variant compiles",
        "or replays a graph. patched: `tile_ops.patch`; compile: `torch.compile`; graph: replayed from a CUDA graph, inductor's by",
        f"`reduce-overhead`. of peers: time of the fastest of {peers} and {PEERS[-1]} / this one, if its loss is eager's; of graphs: inductor's",
        "graph. first: the first call of a process with empty caches, from the model to the result, patching and compiling included;",
        "warm: of a process that finds these caches. peak: memory that is allocated in a call; host: until a call returns; both on a GPU.",
        "breaks: of graphs in Dynamo. loss difference: from eager's, relative; of training after three steps, of decoding for eager's",
        "tokens. missed: bars that are not reached. Made by `python benchmarks/models.py --write`.",
    ]


def benchmark(ways):
    return Benchmark(
        kind="models",
        title="Models",
        module="models_child",
        head=HEAD,
        words=WORDS,
        cases=model_cases,
        sections=tuple(way for way in model_ways.WAYS if way in ways),
        peers=peers,
        header=header,
        rows=rows,
        summary=summary,
    )


def main(arguments=None):
    options = benchmark_frame.parser(__doc__)
    options.add_argument("--way", nargs="+", choices=model_ways.WAYS, default=model_ways.WAYS, help="default: all")
    options.add_argument("--variants", default="", metavar="REGEX", help="variants beside eager whose name it matches")
    options = options.parse_args(arguments)
    benchmark_frame.settle(options)
    benchmark_frame.run(benchmark(options.way), options, left_out(options))


def left_out(options):
    """Returns {variant: reason} of those that cannot be made here."""
    return {
        each.name: f"{package} is not installed"
        for each in model_variants.VARIANTS
        if options.device in each.devices and (package := model_variants.lacking(each))
    }


if __name__ == "__main__":
    main()
