"""make bench: times every case of cases.py against torch eager and torch.compile, and writes a table and a bar chart."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import measure


# The variables that limit torch, its compiler and its product libraries, as TILE_ISA limits tile_ops.
HELD = {
    "baseline": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "avx512": {},
}


def options_of(arguments=None):
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--only", default="", metavar="REGEX", help="cases whose name it matches; the results files stay as they are"
    )
    options.add_argument("--seconds", type=float, default=1.0, help="measuring time a function (default 1)")
    options.add_argument(
        "--isa",
        choices=("baseline", "avx2", "avx512"),
        help="what our kernels and torch's may use (default: the best of the machine)",
    )
    options.add_argument(
        "--machine",
        default="",
        metavar="NAME",
        help="ends the names of the results files, so that two machines' lie side by side",
    )
    options.add_argument("--fresh", action="store_true", help=argparse.SUPPRESS)  # for the process of fresh_rows()
    return options.parse_args(arguments)


if __name__ == "__main__":  # must run before torch and tile_ops are loaded
    OPTIONS = options_of()
    if OPTIONS.isa:
        os.environ.update(HELD[OPTIONS.isa], TILE_ISA=OPTIONS.isa)
        # With a shared cache, processes limited to fewer instructions than those that filled it end with "buffer
        # overflow detected".
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/tile_ops_bench_{OPTIONS.isa}")
    if not OPTIONS.fresh:
        measure.start_warm()
        measure.reserve()

import tile_ops._C  # noqa: E402
import torch  # noqa: E402
from cases import PEERS, all_cases, fresh_cases  # noqa: E402
from report import Table, cpu_name, digits, file_name, judged, ratio_bars  # noqa: E402
from tile_ops._doctor import instructions  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
HEAD = [
    "case",
    "MB",
    "GF",
    "eager ms",
    "torch.compile ms",
    "ours ms",
    "ratio",
    "ratio to compile",
    "ours GB/s",
    "ours GF/s",
    "wanted",
]
COMPILING = 180  # limit in seconds for one case


def made_peers(case, complain):
    """Returns ({name: call}, {name: text of its cell}): the peers that can be made here, and those that cannot."""
    calls, failed = {}, {}
    for name, make in case.peers.items():
        try:
            with measure.time_limit(COMPILING):
                call = make()
                call()
            calls[name] = call
        except Exception as error:
            complain(f"{case.name}: {name} is left out: {measure.reason(error)}")
            failed[name] = "no C++ compiler" if "C++ compiler" in str(error) else "failed"
    return calls, failed


def row(case, seconds, complain):
    peers, failed = made_peers(case, complain)
    rounds = dict(seconds=seconds, least=3, most=5) if case.long else dict(seconds=seconds)
    settle = measure.SPIN if case.calls else 0.0
    times = measure.rounds_of({**peers, "ours": case.make()}, calls=case.calls, settle=settle, **rounds)
    ours = times.pop("ours")
    found = list(ratio_bars(case.ratios, ours, times))
    if case.microseconds:
        found.append((f"{case.microseconds:g} us", 1e6 * ours <= case.microseconds))
    rates = [digits(amount / ours / 1e9) for amount in (case.bytes, case.flops)]
    theirs = [digits(1e3 * times[name]) if name in times else failed.get(name, "") for name in PEERS]
    ratios = [digits(times[name] / ours) if name in times else "" for name in PEERS]
    return [
        case.name,
        digits(case.bytes / 1e6),
        digits(case.flops / 1e9),
        *theirs,
        digits(1e3 * ours),
        *ratios,
        *rates,
        judged(found),
    ]


def rows(cases, options):
    for case in cases:
        if re.search(options.only, case.name):
            yield row(case, options.seconds, lambda text: print(text, file=sys.stderr, flush=True))
            torch._dynamo.reset()


def fresh_rows(options):
    """Yields the rows of fresh_cases(), from a process with the default allocator."""
    environment = {name: value for name, value in os.environ.items() if name not in measure.WARM}
    command = [sys.executable, __file__, "--fresh", "--only", options.only, "--seconds", str(options.seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield from map(json.loads, process.stdout)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")


def header(seconds):
    return [
        f"{cpu_name()}, {torch.get_num_threads()} threads, tile_ops on {instructions()}; torch {torch.__version__}, "
        "its kernels on"
        f" {torch.backends.cpu.get_cpu_capability()}.",
        f"Medians of interleaved rounds in one process, {seconds:g} s a function, warm allocator (fresh output: the "
        "default one,",
        "in a process of its own). ratio: eager's time / ours; ratio to compile: torch.compile's.",
        "MB and GF: the least that must be moved and computed. Made by `make bench`.",
    ]


def load_operators():
    """Loads the users' kernels that the cases call."""
    sys.path.append(str(HERE.parent / "examples"))
    import build_cpp

    build_cpp.load()
    torch.ops.load_library(str(build_cpp.build(build_cpp.FOLDER.parent / "benchmarks", ("chains",), HERE / "cpp")))


def main(options):
    import torch._functorch.config

    load_operators()
    torch.manual_seed(0)
    torch._functorch.config.donated_buffer = False  # otherwise a compiled backward runs only once
    if options.fresh:
        for cells in rows(fresh_cases(), options):
            print(json.dumps(cells), flush=True)
        return
    table = Table(f"CPU, {tile_ops._C.isa()}", header(options.seconds), HEAD, {"case", "wanted"})
    for some in (rows(all_cases(), options), fresh_rows(options)):
        for cells in some:
            table.add(*cells)
    if not options.only:
        import bar_chart

        path = file_name("cpu", f"{tile_ops._C.isa()} {options.machine}")
        table.write(path)
        bar_chart.draw(path)


if __name__ == "__main__":
    main(OPTIONS)
