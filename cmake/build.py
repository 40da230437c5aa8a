"""Configures, builds and installs into python/tile_ops: cmake/build.py FOLDER [CMake options]. Also used by
setup.py."""

import importlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tool(name: str) -> str:
    """The program of the PyPI package of that name, else the one on PATH."""
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


def build_targets(folder: pathlib.Path, options: list[str], targets: list[str]) -> None:
    cmake = tool("cmake")
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count()))
    configure = [cmake, "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}"]
    configure += [f"-DTileOps_PYTHON={sys.executable}", "--log-level=WARNING", *options]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", str(folder), "-j", jobs, "--target", *targets], check=True)


def build(folder: pathlib.Path, prefix: pathlib.Path, options: list[str]) -> None:
    tests = ["cpp_tests"] if any(option.startswith("-DTILE_OPS_TESTS") for option in options) else []
    build_targets(folder, options, ["all", *tests])
    install = [tool("cmake"), "--install", str(folder), "--prefix", str(prefix)]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        build(ROOT / sys.argv[1], ROOT / "python" / "tile_ops", sys.argv[2:])
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
