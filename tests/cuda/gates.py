"""What NVRTC makes of every operator's kernels, and what it may: the table gates.txt, a line a kernel.

    python tests/cuda/gates.py --write [--all]

Where the hash of a kernel's text is in the table its figures are known, and nothing is compiled. --write compiles the others
and writes the table, --all compiles everything anew."""

import argparse
import concurrent.futures
import dataclasses
import hashlib
import os
import pathlib

import gate_calls
import tile_ops  # noqa: F401
from tile_ops import _C

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "gates.txt"
COMMAND = "python tests/cuda/gates.py --write"
HEAD = f"# Made by `{COMMAND}`, see there. spilled and local: bytes a thread; shared: bytes a block."


@dataclasses.dataclass(frozen=True)
class Gate:
    call: str
    dtype: str
    chip: int
    kernel: str  # name, and which of the call's kernels of the name
    hash: str  # of the texts of its configurations, the device library and the options
    threads: int
    registers: int
    spilled: int
    local: int
    shared: int
    loss: str  # "-", or what the log warns of

    @property
    def key(self):
        return self.call, self.dtype, self.chip, self.kernel

    def line(self):
        return " ".join(map(str, dataclasses.astuple(self)))


COLUMNS = [field.name for field in dataclasses.fields(Gate)]


def read(path=TABLE):
    """The gates, and the version of NVRTC that they are of."""
    lines = path.read_text().splitlines() if path.exists() else ["", "# NVRTC none"]
    rows = [line.split(" ", len(COLUMNS) - 1) for line in lines if line and not line.startswith("#")]
    types = [field.type for field in dataclasses.fields(Gate)]
    return [Gate(*(kind(word) for kind, word in zip(types, row))) for row in rows], lines[1].split()[-1]


def nvrtc():
    return _C.nvrtc()[1]


def write(gates, path=TABLE):
    lines = [HEAD, f"# NVRTC {nvrtc()}", "# " + " ".join(COLUMNS), *sorted(gate.line() for gate in gates)]
    path.write_text("\n".join(lines) + "\n")


def library():
    """A digest of the device library."""
    digest = hashlib.sha256()
    for path in sorted((HERE.parent.parent / "csrc" / "cuda" / "device").iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def rows(job, what):
    """What the launches of a job compile to, in their order."""
    chip, dtype, name = job
    return _C.inspect(what, chip, 0, lambda: gate_calls.call(name, dtype))


def wanted(jobs):
    """Of each job its kernels: {which of its launches: (key, hash)}."""
    start, found = library(), {}
    for job in jobs:
        chip, dtype, name = job
        kernels, counts = {}, {}
        for i, row in enumerate(rows(job, "configurations")):
            hash = hashlib.sha256((start + row["text"]).encode()).hexdigest()[:16]
            if hash not in (other for _, other in kernels.values()):
                number = counts[row["kernel"]] = counts.get(row["kernel"], 0) + 1
                kernels[i] = (name, str(dtype)[6:], chip, f"{row['kernel']}.{number}"), hash
        found[job] = kernels
    return found


def compiled(found):
    """The gates of jobs; NVRTC runs on all cores."""

    def of_job(job):
        results = rows(job, "code")
        for i, (key, hash) in found[job].items():
            row = results[i]
            spilled = row["spill_stores"] + row["spill_loads"]
            yield Gate(*key, hash, row["threads"], row["registers"], spilled, row["stack_bytes"], row["shared_bytes"], row["loss"] or "-")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [gate for gates in pool.map(lambda job: list(of_job(job)), found) for gate in gates]


def unknown(found, gates):
    """The jobs of which a kernel's text is not in the table."""
    hashes = {gate.key: gate.hash for gate in gates}
    return {job: kernels for job, kernels in found.items() if any(hashes.get(key) != hash for key, hash in kernels.values())}


def broken(gates, new):
    """A line for each kernel that takes more than its gate; one without a gate must not spill."""
    known = {gate.key: gate for gate in gates}
    for gate in new:
        most = known.get(gate.key)
        figures = ["registers", "spilled", "local", "shared"] if most else ["spilled"]
        worse = [f"{name} {getattr(gate, name)} > {getattr(most, name, 0)}" for name in figures if getattr(gate, name) > getattr(most, name, 0)]
        if gate.loss not in ("-", most.loss if most else "-"):
            worse.append(gate.loss)
        if worse:
            yield f"{' '.join(map(str, gate.key))}: {', '.join(worse)}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the table")
    options.add_argument("--all", action="store_true", help="compile what the table knows, too")
    options = options.parse_args()
    gates, version = read()
    found = wanted(gate_calls.jobs())
    new = compiled(found if options.all or version != nvrtc() else unknown(found, gates))
    print("\n".join(broken(gates, new)) or "no kernel takes more than its gate")
    if options.write:
        table = {gate.key: gate for gate in [*gates, *new]}
        write([table[key] for kernels in found.values() for key, _ in kernels.values()])


if __name__ == "__main__":
    main()
