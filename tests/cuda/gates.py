"""Compares what NVRTC makes of every operator's kernels with its limits: the table gates.txt, a line for each text.

    python tests/cuda/gates.py --write [--all]

Where the hash of a text is in the table its figures are known, and nothing is compiled. --write compiles the others and
writes the table, --all compiles everything again."""

import argparse
import concurrent.futures
import dataclasses
import functools
import hashlib
import os
import pathlib
import re

import gate_calls
import tile_ops  # noqa: F401
from tile_ops import _C

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "gates.txt"
DEVICE = HERE.parent.parent / "csrc" / "cuda" / "device"
INCLUDE = re.compile(r'^#include "cuda/device/(.+)"$', re.MULTILINE)
COMMENT = re.compile(r"^ *//.*\n|  +//.*$", re.MULTILINE)  # a whole line, or after code
COMMAND = "python tests/cuda/gates.py --write"
HEAD = f"# Made by `{COMMAND}`, see there. spilled and local: bytes a thread; shared: bytes a block."


@dataclasses.dataclass(frozen=True)
class Gate:
    call: str
    dtype: str
    arch: int
    kernel: str  # name, and which of the call's kernels of the name
    configuration: str  # "usual", or the name of another one
    hash: str  # covers the chip, and the source and its device library headers without comments
    threads: int
    registers: int
    spilled: int
    local: int
    shared: int
    status: str  # "ok", or "fallback": the other configurations are tried
    warning: str  # "-", or what the log warns of

    @property
    def of_kernel(self):
        return self.call, self.dtype, self.arch, self.kernel

    @property
    def key(self):
        return *self.of_kernel, self.configuration

    def line(self):
        return " ".join(map(str, dataclasses.astuple(self)))


@dataclasses.dataclass(frozen=True)
class Text:
    """Holds a kernel to be compiled for a gate."""

    key: tuple
    hash: str
    row: dict = dataclasses.field(compare=False, default_factory=dict)


COLUMNS = [field.name for field in dataclasses.fields(Gate)]


def read(path=TABLE):
    """The gates, and the version of NVRTC that they are of. A table of other columns holds nothing."""
    lines = path.read_text().splitlines() if path.exists() else []
    if lines[2:3] != ["# " + " ".join(COLUMNS)]:
        return [], "none"
    rows = [line.split(" ", len(COLUMNS) - 1) for line in lines[3:]]
    types = [field.type for field in dataclasses.fields(Gate)]
    return [Gate(*(kind(word) for kind, word in zip(types, row))) for row in rows], lines[1].split()[-1]


def nvrtc():
    return _C.nvrtc()[1]


def write(gates, path=TABLE):
    lines = [HEAD, f"# NVRTC {nvrtc()}", "# " + " ".join(COLUMNS), *sorted(gate.line() for gate in gates)]
    path.write_text("\n".join(lines) + "\n")


def code_of(text):
    """Returns the source without comments, which do not affect the compiled code."""
    return COMMENT.sub("", text)


@functools.cache
def contents(path):
    return code_of(path.read_text())


def with_included(text, folder=DEVICE):
    """The text, and what it includes of the device library, which includes more: those alone make its code."""
    files, left = {}, [text]
    while left:
        new = {name: contents(folder / name) for name in INCLUDE.findall(left.pop()) if name not in files}
        files |= new
        left += new.values()
    return "".join([text, *(files[name] for name in sorted(files))])


def hash_of(text, arch):
    return hashlib.sha256(f"{arch} {with_included(code_of(text))}".encode()).hexdigest()[:16]


def texts(job, configurations):
    """Yields each of the job's kernels once: the text of the usual configuration, or all texts that differ."""
    arch, dtype, name = job
    seen, counts, new = set(), {}, False
    for row in _C.inspect("configurations" if configurations else "usual", arch, 0, lambda: gate_calls.call(name, dtype)):
        hash = hash_of(row["text"], arch)
        kernel = row["kernel"]
        if row["configuration"] == "usual":  # the first of a launch
            new = hash not in seen
            seen.add(hash)
            counts[kernel] = counts.get(kernel, 0) + new
        if new:
            yield Text(
                (name, str(dtype)[6:], arch, f"{kernel}.{counts[kernel]}", row["configuration"].replace(" ", "_")), hash, row
            )


def wanted(jobs, gates, others=gate_calls.in_all_configurations):
    """The texts that are to have a gate: usual configurations; the others of some jobs, and where a usual one tries
    them."""
    fallback = {(gate.of_kernel, gate.hash) for gate in gates if gate.configuration == "usual" and gate.status != "ok"}
    for job in jobs:
        every = list(texts(job, others(job)))
        kernels = {text.key[:4] for text in every if (text.key[:4], text.hash) in fallback}
        yield from every
        if kernels and not others(job):
            yield from (text for text in texts(job, True) if text.key[:4] in kernels and text.key[4] != "usual")


def unknown(found, gates):
    """The texts that the table does not hold."""
    hashes = {gate.key: gate.hash for gate in gates}
    return [text for text in found if hashes.get(text.key) != text.hash]


def compiled(found):
    """The gates of texts; NVRTC runs on all cores, once for texts that are the same."""

    def figures(row):
        code = _C.compile_text(row["text"], row["kernel"], row["entry"], row["arch"], row["path"])
        spilled = code["spill_stores"] + code["spill_loads"]
        shared = row["shared_bytes"] + code["shared_bytes"]
        status = "ok" if code["acceptable"] else "fallback"
        return row["threads"], code["registers"], spilled, code["stack_bytes"], shared, status, code["warning"] or "-"

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        once = {text.hash: text.row for text in found}
        known = dict(zip(once, pool.map(figures, once.values())))
    return [Gate(*text.key, text.hash, *known[text.hash]) for text in found]


def brought_up(jobs, gates, compile_all=False):
    """(texts, new gates): a gate for every text. What is compiled may want others to be."""
    new = []
    while True:
        found = list(wanted(jobs, [*gates, *new]))
        missing = unknown(found, new if compile_all else [*gates, *new])
        if not missing:
            return found, new
        new += compiled(missing)


def broken(gates, new):
    """A line for each text that takes more than its gate; of a kernel without any the best configuration must not
    spill."""
    known, kernels = {gate.key: gate for gate in gates}, {gate.of_kernel for gate in gates}
    best = {}

    def rank(gate):  # as they are chosen, nearly
        return gate.status != "ok", gate.configuration != "usual", gate.warning != "-", gate.spilled

    for gate in new:
        most = known.get(gate.key)
        if not most:
            best[gate.of_kernel] = min(best.get(gate.of_kernel, gate), gate, key=rank)
            continue
        figures = ["registers", "spilled", "local", "shared"]
        worse = [
            f"{name} {getattr(gate, name)} > {getattr(most, name)}"
            for name in figures
            if getattr(gate, name) > getattr(most, name)
        ]
        if gate.warning not in ("-", most.warning):
            worse.append(gate.warning)
        if worse:
            yield f"{' '.join(map(str, gate.key))}: {', '.join(worse)}"
    for gate in best.values():
        worse = ([f"spilled {gate.spilled} > 0"] if gate.spilled else []) + ([gate.warning] if gate.warning != "-" else [])
        if worse and gate.of_kernel not in kernels:
            yield f"{' '.join(map(str, gate.key))}: {', '.join(worse)}"


def main():
    os.environ["TILE_PACKS"] = "none"  # the figures are those of this NVRTC
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the table")
    options.add_argument("--all", action="store_true", help="compile what the table knows, too")
    options = options.parse_args()
    gates, version = read()
    found, new = brought_up(list(gate_calls.jobs()), gates, compile_all=options.all or version != nvrtc())
    print("\n".join(broken(gates, new)) or "no kernel takes more than its gate")
    if options.write:
        table = {gate.key: gate for gate in [*gates, *new]}
        write([table[text.key] for text in found])


if __name__ == "__main__":
    main()
