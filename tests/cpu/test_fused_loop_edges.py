"""Fused loops whose operands end at different columns: after the first end, many rows are computed at a time."""

import pytest
import torch
from tile_ops import _C

pytestmark = pytest.mark.usefixtures("fused_loops")

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


WEIGHED = """
kernel weighed(%x: array<{dtype},2>, %r: array<f32,2>, %rows: array<f32,2>, %columns: array<f32,2>, %one: array<f32,1>) {{
  %b: i32 = bid {{axis=0}}
  %0: i32 = constant {{dtype=i32, value=0}}
  %tx: {dtype}[32,64] = load %x, %b, %0 {{pad=0.5, shape=[32,64], steps=[32,64]}}
  %x32: f32[32,64] = astype %tx {{dtype=f32}}
  %tr: f32[32,1] = load %r, %b, %0 {{pad=-1.0, shape=[32,1], steps=[32,1]}}
  %wide: f32[32,64] = broadcast %tr {{shape=[32,64]}}
  %y: f32[32,64] = add %x32, %wide
  %square: f32[32,64] = mul %y, %y
  %along: f32[32] = reduce_{kind} %{value} {{axes=[1]}}
  %down: f32[64] = reduce_{kind} %{value} {{axes=[0]}}
  %all: f32 = reduce_{kind} %{value} {{axes=[0,1]}}
  %1: f32[1,32] = reshape %along {{shape=[1,32]}}
  %2: f32[1,64] = reshape %down {{shape=[1,64]}}
  %3: f32[1] = reshape %all {{shape=[1]}}
  store %rows, %1, %b, %0 {{steps=[1,32]}}
  store %columns, %2, %b, %0 {{steps=[1,64]}}
  store %one, %3, %b {{steps=[1]}}
}}
"""


@pytest.mark.parametrize("rows", [1, 24, 63, 64])
@pytest.mark.parametrize("columns", [1, 8, 33, 48, 63, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind, value", [("sum", "y"), ("sum", "square"), ("max", "y"), ("min", "square")])
def test_reductions_include_the_padding_outside_an_array(rows, columns, dtype, kind, value):
    blocks = (rows + 31) // 32
    x, r = torch.randn(rows, columns).to(dtype), torch.randn(rows, 1)
    y, added = torch.full((32 * blocks, 64), 0.5), torch.full((32 * blocks, 1), -1.0)
    y[:rows, :columns], added[:rows] = x.float(), r
    y = (y + added).reshape(blocks, 32, 64)
    tiles = (y * y if value == "square" else y).double()
    reduce = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}[kind]
    text = WEIGHED.format(dtype={torch.float32: "f32", torch.bfloat16: "bf16"}[dtype], kind=kind, value=value)
    along, down, one = torch.full((blocks, 32), 7.0), torch.full((blocks, 64), 7.0), torch.full((blocks,), 7.0)
    _C.run_ir(text, (blocks, 1, 1), [x, r, along, down, one], True)
    for got, want in [(along, reduce(tiles, 2)), (down, reduce(tiles, 1)), (one, reduce(tiles, (1, 2)))]:
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-3 if kind == "sum" else 0)
