"""A launch with another number of arguments than the kernel has parameters does not compile, and the compiler says
why."""

import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = """
#include "runtime/kernel.h"
#include "tile.h"
static void copy(tile::Array x, tile::Array y, int size) {{
  y.tiled_view({{size}}).store({{tile::bid(0)}}, x.tiled_view({{size}}).load({{tile::bid(0)}}));
}}
tile::Kernel kernel("copy", copy);
void run(tile::ArrayArgument x) {{ kernel.launch({{1}}, {arguments}); }}
"""


@pytest.mark.parametrize("arguments, fits", [("x, x, 4", True), ("x, x", False), ("x, x, 4, 4", False)])
def test_number_of_arguments(arguments, fits, tmp_path):
    source = tmp_path / "copy.cpp"
    source.write_text(SOURCE.format(arguments=arguments))
    compiler = shutil.which("g++") or shutil.which("clang++")
    command = [compiler, "-std=c++20", "-fsyntax-only", "-I", str(ROOT / "csrc"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode == 0) is fits, done.stderr
    assert ("launch: give one argument for each parameter of the kernel" in done.stderr) is not fits
