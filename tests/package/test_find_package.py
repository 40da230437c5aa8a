"""find_package(TileOps), with and without find_package(Torch): a program that names nothing of ours has the
operators."""

import pathlib
import subprocess
import sys

import pytest
import tile_ops
import torch

pytestmark = pytest.mark.slow  # starts processes

LISTS = """
cmake_minimum_required(VERSION 3.22)
project(Consumer LANGUAGES CXX)
{find}
find_package(TileOps REQUIRED)
add_executable(consumer main.cpp)
target_link_libraries(consumer TileOps::tile_ops)
target_link_options(consumer PRIVATE -Wl,--as-needed)
add_library(kernels SHARED kernels.cpp)
target_link_libraries(kernels TileOps::tile_ops)
"""
# Only what is linked can be found: the program itself mentions no symbol of the library.
MAIN = """
#include <dlfcn.h>
#include <ir/dtype.h>
int main() { return dlsym(RTLD_DEFAULT, "tile_ops_anchor") ? 0 : 1; }
"""


def cmake(*arguments, **options):
    program = pathlib.Path(sys.executable).parent / "cmake"
    command = [str(program) if program.exists() else "cmake", *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def configure(folder: pathlib.Path, find: str, *flags: str):
    (folder / "CMakeLists.txt").write_text(LISTS.format(find=find))
    (folder / "main.cpp").write_text(MAIN)
    (folder / "kernels.cpp").write_text("")
    prefixes = f"-DCMAKE_PREFIX_PATH={tile_ops.cmake_prefix_path};{torch.utils.cmake_prefix_path}"
    return cmake("-S", folder, "-B", folder / "build", prefixes, *flags)


# A CUDA build of torch lets find_package(Torch) pass only where a CUDA toolkit is.
FINDS = [""] if torch.version.cuda else ["", "find_package(Torch REQUIRED)"]


@pytest.mark.parametrize("find", FINDS, ids=["alone", "after Torch"][: len(FINDS)])
def test_linked_program_loads_the_library(find, tmp_path):
    done = configure(tmp_path, find)
    assert done.returncode == 0, done.stdout
    done = cmake("--build", tmp_path / "build", "-v")
    assert done.returncode == 0, done.stdout
    done = subprocess.run([str(tmp_path / "build" / "consumer")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_program_with_a_cuda_build_of_torch_loads_its_library(tmp_path):
    """It is not linked with it: a library of kernels serves both builds of torch."""
    ours, root = pathlib.Path(torch.__file__).parent, tmp_path / "torch"
    (root / "lib").mkdir(parents=True)
    (root / "include").symlink_to(ours / "include")
    for library in (ours / "lib").iterdir():
        if library.name != "libtorch_cuda.so":
            (root / "lib" / library.name).symlink_to(library)
    (tmp_path / "cuda.cpp").write_text('#include <cstdio>\nstatic const int loaded = std::puts("loaded");\n')
    subprocess.run(["c++", "-shared", "-fPIC", tmp_path / "cuda.cpp", "-o", root / "lib/libtorch_cuda.so"], check=True)
    done = configure(tmp_path, "", f"-DTORCH_ROOT={root}")
    assert done.returncode == 0, done.stdout
    done = cmake("--build", tmp_path / "build")
    assert done.returncode == 0, done.stdout
    for name in ("consumer", "libkernels.so"):
        done = subprocess.run(["readelf", "-d", tmp_path / "build" / name], capture_output=True, text=True, check=True)
        assert "[libtorch_cpu.so]" in done.stdout and "libtorch_cuda" not in done.stdout
    done = subprocess.run([str(tmp_path / "build" / "consumer")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loaded") == 1


def test_other_torch_minor_is_refused(tmp_path):
    header = tmp_path / "torch" / "include" / "torch" / "headeronly" / "version.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define TORCH_VERSION_MAJOR 1\n#define TORCH_VERSION_MINOR 99\n#define TORCH_VERSION_PATCH 0\n")
    done = configure(tmp_path, "", f"-DTORCH_ROOT={tmp_path / 'torch'}")
    built = ".".join((pathlib.Path(tile_ops.__file__).parent / "lib/torch_version.txt").read_text().split(".")[:2])
    assert done.returncode != 0
    text = " ".join(done.stdout.split())
    assert f"TileOps was built for torch {built}, but {tmp_path / 'torch'} is torch 1.99; install torch {built} or" in text
