"""Builds examples/cpp as a user would, with find_package: build(folder, targets) returns the library's path."""

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

import tile_ops
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "examples" / "cpp"
FOLDER = pathlib.Path(os.environ.get("TILE_OPS_BUILD_DIR") or ROOT / "build" / "dev") / "examples"


def program(name: str) -> str:
    sibling = pathlib.Path(sys.executable).with_name(name)
    return str(sibling) if sibling.exists() else name


def run(*command) -> None:
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}")


def build(folder=FOLDER, targets=("tile_examples", "train", "saxpy"), source=SOURCE) -> pathlib.Path:
    """Configures once, builds what has changed, and returns the first target's library. RuntimeError with the messages
    of CMake and the compiler."""
    options = [f"-DCMAKE_PREFIX_PATH={tile_ops.cmake_prefix_path};{torch.utils.cmake_prefix_path}"]
    options += [f"-DCMAKE_MAKE_PROGRAM={program('ninja')}"]
    if torch.version.cuda:
        options.append("-DFIND_TORCH=OFF")
    if shutil.which("ccache"):
        options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # One process at a time, because parallel parts of the test suite build in one folder.
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(program("cmake"), "-S", source, "-B", folder, "-G", "Ninja", *options)
        run(program("cmake"), "--build", folder, "--target", *targets)
    return folder / f"lib{targets[0]}.so"


def load(name="tile_examples") -> pathlib.Path:
    """Builds a library and registers its operators: torch.ops.examples, or torch.ops.kernels for tile_kernels."""
    library = build(targets=(name,))
    torch.ops.load_library(str(library))
    return library


if __name__ == "__main__":
    print(build(*sys.argv[1:2]))
