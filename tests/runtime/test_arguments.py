"""A launch with other arguments than the kernel has parameters, or a kernel of a struct that no launch can fill, does
not compile, and the compiler says why."""

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
STRUCTS = """
#include "runtime/kernel.h"
#include "tile.h"
using namespace tile;
template <class Array, class Tile>
struct Parameters {{ Array x; std::optional<Tile> factor; int rows = 4; }};
template <class Array, class Tile>
struct Other {{ Array x; int rows; }};
struct Plain {{ Array x; int rows; }};
template <class Array>
struct Reference {{ const Array& x; }};
template <class Array>
struct Unknown {{ Array x; std::map<int, int> table; }};
static void named(const Parameters<Array, Tile>& of) {{}}
static void plain(const Plain& of) {{}}
static void reference(const Reference<Array>& of) {{}}
static void unknown(const Unknown<Array>& of) {{}}
void run(ArrayArgument x) {{ static Kernel kernel("kernel", {launch}); }}
"""


def compiled(text: str, tmp_path: pathlib.Path) -> subprocess.CompletedProcess:
    source = tmp_path / "copy.cpp"
    source.write_text(text)
    compiler = shutil.which("g++") or shutil.which("clang++")
    command = [compiler, "-std=c++20", "-fsyntax-only", "-I", str(ROOT / "csrc"), str(source)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    "launch, error",
    [
        ("named); kernel.launch({1}, {.x = x, .factor = 2.0f}", None),
        ("named); kernel.launch({1}, {.factor = 2.0f}", "LaunchedArray"),  # x is missing
        ("named); kernel.launch({1}, {.x = x, .row = 4}", "row"),
        ("named); kernel.launch({1}, {.x = 4}", "LaunchedArray"),
        ("named); kernel.launch({1}, 4", "a launch takes a struct for a struct"),
        ("named); kernel.launch({1}, Other<ArrayArgument, float>{x, 4}", "as many fields as the kernel's has"),
        ("plain); kernel.launch({1}, {x, 4}", "is a template of these types, and of types alone, so"),
        ("reference); kernel.launch({1}, {x}", "a kernel's struct holds its fields by value"),
        ("unknown); kernel.launch({1}, {x, {}}", "a kernel's parameter is an Array, a Tile"),
    ],
)
def test_structs(launch, error, tmp_path):
    done = compiled(STRUCTS.format(launch=launch), tmp_path)
    assert (done.returncode == 0) is (error is None), done.stderr
    assert error is None or error in done.stderr


@pytest.mark.parametrize("arguments, fits", [("x, x, 4", True), ("x, x", False), ("x, x, 4, 4", False)])
def test_number_of_arguments(arguments, fits, tmp_path):
    done = compiled(SOURCE.format(arguments=arguments), tmp_path)
    assert (done.returncode == 0) is fits, done.stderr
    assert ("launch: give one argument for each parameter of the kernel" in done.stderr) is not fits
