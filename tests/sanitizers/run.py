"""Builds the C++ tests under sanitizers and runs them: what `make sanitize` does.

    python tests/sanitizers/run.py [address] [thread] [--only REGEX] [--seconds N] [--no-build]

address: AddressSanitizer with leaks, and UBSan, for every program; those that run kernels run again without code
made at run time, which no sanitizer sees into, once for each instruction set of this machine. thread:
ThreadSanitizer for the programs that start threads. A line says how each went. Exits with 1 where a program fails,
takes too long or a sanitizer reports anything, in a child process of a test too."""

import argparse
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
SANITIZERS = ("address", "thread")
# By the folders of tests, as Tests.cmake names programs.
RUN_KERNELS = {"prims", "runtime", "tile_ops", "torch"}
# The CPU features that an instruction set needs, as in csrc/cpu/vecmath/isa.cpp.
ISAS = {"baseline": "", "avx2": "avx2 fma f16c", "avx512": "avx2 fma f16c avx512f avx512bw avx512dq avx512vl"}
OPTIONS = {
    "address": {
        # check_initialization_order: also reports statics that are used before another file constructs them.
        "ASAN_OPTIONS": "detect_stack_use_after_return=1:check_initialization_order=1:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    },
    "thread": {
        # Tests fork while threads of a pool wait, and look at what starts threads in the child.
        "TSAN_OPTIONS": f"suppressions={HERE}/thread.supp:print_suppressions=0:die_after_fork=0:"
        "second_deadlock_stack=1:history_size=4"
    },
}


@dataclasses.dataclass
class Run:
    sanitizer: str
    program: pathlib.Path
    variables: dict  # of the environment

    def __str__(self):
        said = "".join(f" {key}={value}" for key, value in self.variables.items())
        return f"{self.sanitizer:8}{self.program.name}{said}"


def programs() -> dict[str, list[pathlib.Path]]:
    """{folder of tests: its C++ files}."""
    folders = {}
    for path in sorted((ROOT / "tests").glob("*/*.cpp")):
        folders.setdefault(path.parent.name, []).append(path)
    return folders


def starts_threads(files: list[pathlib.Path]) -> bool:
    wanted = re.compile(r'#include (<thread>|<future>|"thread_pool\.h")')
    return any(wanted.search(path.read_text()) for path in files)


def machine_isas() -> list[str]:
    flags = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    flags = set(flags[1].split()) if flags else set()
    return [isa for isa, needed in ISAS.items() if set(needed.split()) <= flags]


def runs(sanitizer: str, isas: list[str]) -> list[Run]:
    listed = []
    for folder, files in programs().items():
        program = ROOT / "build" / f"sanitize-{sanitizer}" / "tests" / f"test_{folder}"
        plain = [{"TILE_ISA": isa, "TILE_ASSEMBLER": "off"} for isa in isas] if folder in RUN_KERNELS else []
        if sanitizer == "address":
            listed += [Run(sanitizer, program, variables) for variables in [{}, *plain]]
        elif starts_threads(files):
            listed.append(Run(sanitizer, program, {"TILE_ASSEMBLER": "off"} if plain else {}))
    return listed


def verdict(run: Run, seconds: float) -> tuple[str, str]:
    """("ok" or what is wrong, what was said of it)."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | run.variables
        for name, options in OPTIONS[run.sanitizer].items():
            # A file for each process: what a test's child reports is not lost where the test reads its output.
            environment[name] = f"{options}:log_path={folder}/report"
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [run.program, "--gtest_brief=1"],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # its children too
                process.wait()
                code = None
            output.seek(0)
            said = output.read().decode(errors="replace")
        reports = [path.read_text(errors="replace") for path in sorted(pathlib.Path(folder).glob("report.*"))]
    if reports:
        return f"{len(reports)} processes with reports" if len(reports) > 1 else "a report", "\n".join(reports)
    if code is None:
        return f"takes longer than {seconds:g} s; try --seconds", said
    return ("ok", "") if code == 0 else (f"ended with {code}", said)


def build(sanitizer: str) -> None:
    sys.path.insert(0, str(ROOT / "cmake"))
    from build import build_targets

    targets = sorted({run.program.name for run in runs(sanitizer, [])})
    options = [f"-DTILE_OPS_SANITIZE={sanitizer}", "-DTILE_OPS_TESTS=ON"]
    build_targets(ROOT / "build" / f"sanitize-{sanitizer}", options, targets)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sanitizers", nargs="*", metavar="address|thread", help="both where none is named")
    options.add_argument("--only", default="", metavar="REGEX", help="runs whose line it matches")
    options.add_argument("--seconds", type=float, default=600, help="limit of each run (default 600)")
    options.add_argument("--no-build", action="store_true", help="run what is built")
    options = options.parse_args()
    if unknown := set(options.sanitizers) - set(SANITIZERS):
        print(f"there is no sanitizer {', '.join(sorted(unknown))}; choose of {', '.join(SANITIZERS)}")
        return 2
    wrong = ran = 0
    for sanitizer in options.sanitizers or SANITIZERS:
        if not options.no_build:
            try:
                build(sanitizer)
            except subprocess.CalledProcessError as error:
                return error.returncode
        for run in runs(sanitizer, machine_isas()):
            if not re.search(options.only, str(run)):
                continue
            ran += 1
            start = time.monotonic()
            state, said = verdict(run, options.seconds)
            print(f"{run!s:60} {time.monotonic() - start:6.1f} s  {state}", flush=True)
            if state != "ok":
                wrong += 1
                print(said[-20000:], flush=True)
    print(f"{wrong} of {ran} runs found something" if wrong or not ran else f"{ran} runs: no sanitizer found anything")
    return int(wrong > 0 or not ran)


if __name__ == "__main__":
    sys.exit(main())
