"""Products of slices whose bounds the kernel reads from memory: the copy unit brings zeros from their end on, and stores nothing
there."""

import emulate
import pytest
import torch
from emulate import same_on_both
from test_shapes import kernel

BOUNDS = """%j: i32 = bid {axis=1}
%one: i32 = constant {dtype=i32, value=1}
%next: i32 = add %j, %one
%from: array<i32,0> = index %c, %j
%to: array<i32,0> = index %c, %next
%begin: i32 = load %from {pad=0, shape=[], steps=[]}
%start: i32 = maximum %begin, %z
%stop: i32 = load %to {pad=0, shape=[], steps=[]}
%rows: array<bf16,2> = slice %a, %start, %stop {axis=0}
%zero: f32 = constant {dtype=f32, value=0.0}
%zeros: f32[128,128] = broadcast %zero {shape=[128,128]}
"""
# Each group's rows times its matrix.
GROUPED = kernel(
    [("bf16", 2), ("bf16", 3), ("i32", 1), ("bf16", 2)],
    BOUNDS
    + """%matrix: array<bf16,2> = index %b, %j
%out: array<bf16,2> = slice %d, %start, %stop {axis=0}
%depth: i32 = dim %a {axis=1}
%step: i32 = constant {dtype=i32, value=64}
%trips: i32 = cdiv %depth, %step
%sum: f32[128,128] = for %z, %trips, %one, %zeros (%k: i32, %acc: f32[128,128]) {
%x: bf16[128,64] = load %rows, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}
%y: bf16[64,128] = load %matrix, %k, %z {pad=0.0, shape=[64,128], steps=[64,128]}
%m: f32[128,128] = mma %x, %y, %acc
yield %m
}
%r: bf16[128,128] = astype %sum {dtype=bf16}
store %out, %r, %i, %z {steps=[128,128]}""",
)
# The product of each group's transposed rows with its other rows.
SUMMED = kernel(
    [("bf16", 2), ("bf16", 2), ("i32", 1), ("bf16", 3)],
    BOUNDS
    + """%others: array<bf16,2> = slice %b, %start, %stop {axis=0}
%out: array<bf16,2> = index %d, %j
%length: i32 = sub %stop, %start
%step: i32 = constant {dtype=i32, value=64}
%trips: i32 = cdiv %length, %step
%sum: f32[128,128] = for %z, %trips, %one, %zeros (%k: i32, %acc: f32[128,128]) {
%x: bf16[64,128] = load %rows, %k, %i {pad=0.0, shape=[64,128], steps=[64,128]}
%xt: bf16[128,64] = permute %x {axes=[1,0]}
%y: bf16[64,128] = load %others, %k, %z {pad=0.0, shape=[64,128], steps=[64,128]}
%m: f32[128,128] = mma %xt, %y, %acc
yield %m
}
%r: bf16[128,128] = astype %sum {dtype=bf16}
store %out, %r, %i, %z {steps=[128,128]}""",
)
STARTS = [0, 70, 70, 71, 200, 264, 300]


def numbers(*shape):
    return (torch.rand(shape) < 0.2).bfloat16()


def on_warpgroup_instructions(case):
    assert case.program["path"] == "wgmma", case.program["why"]
    return case


@pytest.mark.parametrize("starts", [STARTS, [0, 90, 3000], [0, 300, 200], [-7, 100, 500]], ids=str)
def test_rows_of_groups(starts):
    """The last ones end behind the array, or before they begin, or are said to begin before the array."""
    bounds, groups = torch.tensor(starts, dtype=torch.int32), len(starts) - 1
    for text, others in ((GROUPED, numbers(groups, 72, 128)), (SUMMED, numbers(300, 128))):
        rows = numbers(300, 72 if text is GROUPED else 128)
        out = torch.full((300, 128) if text is GROUPED else (groups, 128, 128), 7).bfloat16()
        launch = text, (3 if text is GROUPED else 1, groups, 1), [rows, others, bounds, out]
        on_warpgroup_instructions(*same_on_both([launch], wgmma=True))
        out.fill_(7)
        same_on_both([launch])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_numbers_behind_a_slice_do_not_matter(bad):
    bounds = torch.tensor(STARTS, dtype=torch.int32)
    rows, others = numbers(300, 128), numbers(300, 128)
    expected = torch.stack([(rows[a:b].double().T @ others[a:b].double()).bfloat16() for a, b in zip(STARTS, STARTS[1:])])
    rows[70:71] = others[70:71] = rows[200:264] = others[200:264] = bad
    out = torch.zeros(6, 128, 128).bfloat16()
    case = emulate.Case(SUMMED, (1, len(STARTS) - 1, 1), [rows, others, bounds, out], wgmma=True)
    assert emulate.run([on_warpgroup_instructions(case)]) == [None]
    for group in (0, 1, 3, 5):
        assert torch.equal(out[group], expected[group])


def test_rows_far_apart_and_columns_that_no_tile_fills():
    """A map of rows of other strides than their width, and of an array of one row."""
    bounds = torch.tensor([0, 5, 40], dtype=torch.int32)
    for all_rows, width in ((40, 24), (1, 24)):
        rows = numbers(all_rows, 64)[:, :width]
        launch = GROUPED, (1, 2, 1), [rows, numbers(2, width, 104), bounds, torch.full((all_rows, 128), 7).bfloat16()[:, :104]]
        on_warpgroup_instructions(*same_on_both([launch], wgmma=True))
