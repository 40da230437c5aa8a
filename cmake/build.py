"""Configures, builds and installs into python/tile_ops: cmake/build.py FOLDER [CMake options]. Also used by
setup.py."""

import importlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import terminal

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS_A_STEP = 2.5  # seconds of one core per build step; the end of a build prints this figure


def tool(name: str) -> str:
    """Returns the program of the PyPI package of that name, otherwise the one on PATH."""
    try:
        module = importlib.import_module(name)
        folder = getattr(module, "CMAKE_BIN_DIR", None) or getattr(module, "BIN_DIR", None)
    except ImportError:
        folder = None
    found = shutil.which(name, path=folder) if folder else None
    found = found or shutil.which(name)
    if not found:
        sys.exit(f"{name} is not installed; run `{sys.executable} -m pip install {name}`")
    return found


def tell(steps: int, jobs: int) -> None:
    """Prints the number of steps and the expected time of a long build."""
    if steps >= 20:
        minutes = max(1, round(steps * SECONDS_A_STEP / min(jobs, os.cpu_count() or 1) / 60))
        terminal.say(f"tile_ops: {steps} steps with {jobs} jobs, about {minutes} minutes on an idle machine")


def ninja(command: list[str], steps: int, hidden: bool) -> None:
    """Runs the command. hidden: pip hides the output, so every tenth of the steps is reported on the terminal."""
    if not hidden:
        subprocess.run(command, check=True)
        return
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    tenths, began = 0, time.monotonic()
    for line in process.stdout:
        sys.stdout.write(line)
        done = re.match(r"\[(\d+)/(\d+)\]", line)
        if done and steps >= 20 and int(done[1]) * 10 // int(done[2]) > tenths:
            tenths = int(done[1]) * 10 // int(done[2])
            terminal.say(f"tile_ops: {done[1]} of {done[2]} steps, {time.monotonic() - began:.0f} s")
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)


def build_targets(folder: pathlib.Path, options: list[str], targets: list[str], hidden: bool = False) -> None:
    cmake = tool("cmake")
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count())
    configure = [cmake, "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    configure += [f"-DTileOps_PYTHON={sys.executable}", "--log-level=WARNING", *options]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    command = [cmake, "--build", str(folder), "-j", jobs, "--target", *targets]
    planned = subprocess.run([*command, "--", "-n"], capture_output=True, text=True).stdout  # ninja() reports errors
    steps = max((int(total) for total in re.findall(r"^\[\d+/(\d+)\]", planned, re.MULTILINE)), default=0)
    tell(steps, int(jobs))
    began = time.monotonic()
    ninja(command, steps, hidden)
    if steps >= 20:
        seconds = time.monotonic() - began
        terminal.say(f"tile_ops: built in {seconds:.0f} s, {seconds * int(jobs) / steps:.1f} s of a core for each step")


def build(folder: pathlib.Path, prefix: pathlib.Path, options: list[str], hidden: bool = False) -> None:
    tests = ["cpp_tests"] if any(option.startswith("-DTILE_OPS_TESTS") for option in options) else []
    build_targets(folder, options, ["all", *tests], hidden)
    install = [tool("cmake"), "--install", str(folder), "--prefix", str(prefix)]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        build(ROOT / sys.argv[1], ROOT / "python" / "tile_ops", sys.argv[2:])
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
