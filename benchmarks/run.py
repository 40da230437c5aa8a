"""make bench: times every case of cases.py against torch eager, prints the table and writes it into results/."""

import argparse
import pathlib
import re
import sys

import measure
from report import Table, cpu_name, digits, file_name

if __name__ == "__main__":
    measure.start_warm()
    measure.reserve()

import cases
import tile_ops
import tile_ops._C
import torch

HERE = pathlib.Path(__file__).resolve().parent
HEAD = ["case", "MB", "GF", "eager ms", "ours ms", "ratio", "ours GB/s", "ours GF/s", "wanted"]


def wanted(case, ratio):
    """The ratio that the project requires or aims at, and whether it is reached."""
    goal = case.required if case.required is not None else case.target
    if goal is None:
        return ""
    mark = "" if ratio >= goal else ", missed"
    return f"{'required' if case.required is not None else 'target'} {goal:g}{mark}"


def row(case, seconds):
    rounds = dict(seconds=seconds, least=3, most=5) if case.long else dict(seconds=seconds)
    times = measure.rounds_of({"eager": case.eager, "ours": case.ours}, **rounds)
    eager, ours = times["eager"], times["ours"]
    rates = [digits(case.bytes / ours / 1e9), digits(case.flops / ours / 1e9)]
    amounts = [digits(case.bytes / 1e6), digits(case.flops / 1e9)]
    return [case.name, *amounts, digits(1e3 * eager), digits(1e3 * ours), digits(eager / ours), *rates,
            wanted(case, eager / ours)]


def header(seconds):
    return [
        f"{cpu_name()}, {torch.get_num_threads()} threads, tile_ops on {tile_ops._C.isa()}; torch {torch.__version__}, "
        "its kernels on"
        f" {torch.backends.cpu.get_cpu_capability()}.",
        f"Medians of interleaved rounds in one process, {seconds:g} s a function, warm allocator. ratio: eager's time "
        "/ ours.",
        "MB and GF: the least that must be moved and computed. Made by `make bench`.",
    ]


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", metavar="REGEX",
                         help="cases whose name it matches; the results file stays as it is")
    options.add_argument("--seconds", type=float, default=1.0, help="measuring time a function (default 1)")
    options = options.parse_args()
    sys.path.append(str(HERE.parent / "examples"))
    import build_cpp

    build_cpp.load()
    torch.manual_seed(0)
    table = Table(f"CPU, {tile_ops._C.isa()}", header(options.seconds), HEAD, {"case", "wanted"})
    for case in cases.all_cases(torch.ops.examples.vector_add):
        if re.search(options.only, case.name):
            table.add(*row(case, options.seconds))
    if not options.only:
        table.write(file_name("cpu", tile_ops._C.isa()))


if __name__ == "__main__":
    main()
