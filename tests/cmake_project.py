"""Configures and builds CMake projects as a user does, with a linker whose default is --as-needed."""

import pathlib
import shutil
import subprocess
import sys

import tile_ops
import torch

AS_NEEDED = [f"-DCMAKE_{kind}_LINKER_FLAGS=-Wl,--as-needed" for kind in ("EXE", "SHARED")]


def run(*command):
    """Runs a command and returns (exit status, output)."""
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def cmake(*arguments):
    program = pathlib.Path(sys.executable).parent / "cmake"
    return run(program if program.exists() else "cmake", *arguments)


def configured(folder, lists, *options):
    """Writes a CMakeLists.txt with these contents, and configures the project in folder/build."""
    (folder / "CMakeLists.txt").write_text(lists)
    prefixes = f"-DCMAKE_PREFIX_PATH={tile_ops.cmake_prefix_path};{torch.utils.cmake_prefix_path}"
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    return cmake("-S", folder, "-B", folder / "build", prefixes, *AS_NEEDED, *launcher, *options)
