"""Rows at computed indices that only products read: copied ahead of a loop, on the emulator against the CPU."""

import re

import pytest
import torch
from emulate import same_on_both

# A product of %x [64, 32 a tile] and rows of %w, whose numbers are in %at, added up over %n tiles.
TEXT = """kernel k(%x: array<TYPE,2>, %w: array<TYPE,2>, %at: array<i32,1>, %out: array<f32,2>, %n: i32) {
%z: i32 = constant {dtype=i32, value=0}
%one: i32 = constant {dtype=i32, value=1}
%none: f32 = constant {dtype=f32, value=0.0}
%zs: f32[64,COLUMNS] = broadcast %none {shape=[64,COLUMNS]}
%two: i32 = constant {dtype=i32, value=2}
%twos: i32[32] = broadcast %two {shape=[32]}
%r: f32[64,COLUMNS] = for %z, %n, %one, %zs (%k: i32, %acc: f32[64,COLUMNS]) {
  %a: TYPE[64,32] = load %x, %z, %k {pad=0.0, shape=[64,32], steps=[64,32]}
  %i: i32[32] = load %at, %k {pad=0, shape=[32], steps=[32]}
  %j: i32[32] = sub %i, %twos
  %b: TYPE[32,COLUMNS] = gather_rows %w, %j, %z {axis=0, pad=0.0, shape=[32,COLUMNS], steps=[1,COLUMNS]}
MORE
  yield %s
}
store %out, %r, %z, %z {steps=[64,COLUMNS]}
}
"""
ONE = "  %s: f32[64,COLUMNS] = mma %a, %b, %acc"
# Rows of other lengths are copied by other threads: the same index tile could not serve both without moves.
TWO = """  %c: TYPE[32,16] = gather_rows %w, %j, %one {axis=0, pad=0.0, shape=[32,16], steps=[1,16]}
  %y: TYPE[64,16] = load %x, %z, %z {pad=0.0, shape=[64,16], steps=[64,16]}
  %t: TYPE[16,32] = permute %c {axes=[1,0]}
  %zt: f32[64,32] = broadcast %none {shape=[64,32]}
  %u: f32[64,32] = mma %y, %t, %zt
  %v: TYPE[64,32] = astype %u {dtype=TYPE}
  %m: f32[64,COLUMNS] = mma %a, %b, %acc
  %s: f32[64,COLUMNS] = mma %v, %b, %m"""
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64}


def launch_of(dtype, columns, more, tiles, width):
    text = TEXT.replace("MORE", more).replace("COLUMNS", str(columns)).replace("TYPE", dtype)
    rows = torch.randperm(50).int().repeat(3)[: 32 * max(tiles, 1)]  # of 48, 2 of them outside at each end
    x, w = (torch.randint(-3, 4, shape).to(DTYPES[dtype]) for shape in ((64, 32 * max(tiles, 1)), (46, width)))
    return text, (1, 1, 1), [x, w, rows, torch.zeros(64, columns), tiles]


@pytest.mark.parametrize("dtype, columns, width", [("bf16", 64, 64), ("f16", 128, 120), ("bf16", 64, 60)])
@pytest.mark.parametrize("tiles", [0, 1, 4])
def test_rows_are_copied_ahead(dtype, columns, width, tiles):
    (case,) = same_on_both([launch_of(dtype, columns, ONE, tiles, width)])
    text = case.program["text"]
    # Rows of 120 bytes begin at no multiple of 16.
    assert ("copy_rows_async<" in text) == (width != 60), text
    assert "mma_sync" in text or "mma_iteration" in text


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_rows_of_two_lengths_have_index_tiles_of_their_own(dtype):
    (case,) = same_on_both([launch_of(dtype, 64, TWO, 3, 64)])
    text = case.program["text"]
    assert text.count("  copy_rows_async<") == 2 and "copy_async_wait<1>" in text and "// moves" not in text, text


# Sums of several threads' elements are indices: threads could not exchange them where copies are issued.
MOVED = """  %f: i32[32,32] = load %more, %z, %k {pad=0, shape=[32,32], steps=[32,32]}
  %j: i32[32] = reduce_sum %f {axes=[1]}
"""


def test_rows_whose_indices_would_move_are_copied_when_they_are_read():
    text, grid, arguments = launch_of("bf16", 64, ONE, 3, 64)
    more = torch.zeros(32, 96, dtype=torch.int32)
    more.view(32, 3, 32)[:, :, 7] = arguments[2].view(3, 32).T
    before, _, behind = text.partition("  %i: i32[32] = load")
    text = (before + MOVED + behind.partition("%twos\n")[2]).replace("%n: i32)", "%n: i32, %more: array<i32,2>)")
    (case,) = same_on_both([(text, grid, [*arguments, more])])
    source = case.program["text"]
    assert re.search(r"copy_rows_async<.*, true, ", source), source


@pytest.mark.slow  # compiles more kernels for the emulator
@pytest.mark.parametrize("tiles", [1, 3])
def test_rows_of_float32(tiles):
    same_on_both([launch_of("f32", 64, ONE, tiles, 64)])
