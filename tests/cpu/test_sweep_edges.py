"""Sweeps whose operands end at different columns: what lies behind the first end is worked on many rows at a time."""

import pytest
import torch
from tile_ops import _C

TEXT = """
kernel edges(%x: array<f32,2>, %y: array<f32,2>, %r: array<f32,2>, %s: array<f32,2>, %out: array<f32,1>, %all: array<f32,2>) {
  %b: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %tx: f32[256,64] = load %x, %b, %0 {pad=0.0, shape=[256,64], steps=[256,64]}
  %ty: f32[256,64] = load %y, %b, %0 {pad=0.0, shape=[256,64], steps=[256,64]}
  %tr: f32[256,1] = load %r, %b, %0 {pad=0.0, shape=[256,1], steps=[256,1]}
  %ts: f32[256,1] = load %s, %b, %0 {pad=0.0, shape=[256,1], steps=[256,1]}
  %wr: f32[256,64] = broadcast %tr {shape=[256,64]}
  %ws: f32[256,64] = broadcast %ts {shape=[256,64]}
  %c: f32[256,64] = neg %wr
  %d: f32[256,64] = exp %ws
  %1: f32[256,64] = add %ty, %c
  %2: f32[256,64] = mul %1, %d
  %3: f32[256,64] = add %2, %tx
  %sum: f32[256] = reduce_sum %3 {axes=[1]}
  store %out, %sum, %b {steps=[256]}
  store %all, %3, %b, %0 {steps=[256,64]}
}
"""


@pytest.fixture(params=["assembled", "interpreted"], autouse=True)
def sweeps(request):
    _C.assemble_sweeps(request.param == "assembled")
    yield
    _C.assemble_sweeps(True)


@pytest.mark.parametrize("rows", [1, 24, 200, 255, 256, 300])
@pytest.mark.parametrize("columns", [(50, 64), (64, 64), (1, 63), (33, 2)])
def test_operands_of_different_widths(rows, columns):
    narrow, wide = columns
    x, y, r, s = torch.randn(rows, narrow), torch.randn(rows, wide), torch.randn(rows, 1), torch.randn(rows, 1)
    padded_x, padded_y = torch.zeros(rows, 64), torch.zeros(rows, 64)
    padded_x[:, :narrow], padded_y[:, :wide] = x, y
    want = (padded_y - r) * s.exp() + padded_x
    for passes in (False, True):
        out, everything = torch.full((rows,), 7.0), torch.full((rows, 64), 7.0)
        _C.run_ir(TEXT, ((rows + 255) // 256, 1, 1), [x, y, r, s, out, everything], passes)
        torch.testing.assert_close(everything, want, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(out, want.sum(1), rtol=1e-4, atol=1e-4)
