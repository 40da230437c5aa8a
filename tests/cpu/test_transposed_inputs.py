"""Fused loops with inputs that are contiguous along rows: machine code reads them from buffers of transposed squares."""

import pytest
import torch
from tile_ops import _C

pytestmark = pytest.mark.usefixtures("fused_loops")

TEXT = """
kernel transposed(%x: array<{dtype},2>, %y: array<f32,2>, %c: array<f32,2>, %all: array<{dtype},2>, %down: array<f32,2>,
    %along: array<f32,2>) {{
  %i: i32 = bid {{axis=0}}
  %j: i32 = bid {{axis=1}}
  %0: i32 = constant {{dtype=i32, value=0}}
  %tx: {dtype}[{r},{c}] = load %x, %i, %j {{pad={pad}, shape=[{r},{c}], steps=[{r},{c}]}}
  %ty: f32[{r},{c}] = load %y, %i, %j {{pad=0.0, shape=[{r},{c}], steps=[{r},{c}]}}
  %tc: f32[{r},1] = load %c, %i, %0 {{pad=0.0, shape=[{r},1], steps=[{r},1]}}
  %wide: f32[{r},{c}] = broadcast %tc {{shape=[{r},{c}]}}
  %x32: f32[{r},{c}] = astype %tx {{dtype=f32}}
  %1: f32[{r},{c}] = mul %ty, %wide
  %2: f32[{r},{c}] = add %x32, %1
  %3: {dtype}[{r},{c}] = astype %2 {{dtype={dtype}}}
  store %all, %3, %i, %j {{steps=[{r},{c}]}}
  %sum: f32[{c}] = reduce_sum %2 {{axes=[0]}}
  %4: f32[1,{c}] = reshape %sum {{shape=[1,{c}]}}
  store %down, %4, %i, %j {{steps=[1,{c}]}}
  %largest: f32[{r}] = reduce_max %2 {{axes=[1]}}
  %5: f32[{r},1] = reshape %largest {{shape=[{r},1]}}
  store %along, %5, %i, %j {{steps=[{r},1]}}
}}
"""
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def padded(x, rows, columns, pad):
    whole = torch.full((rows, columns), pad)
    whole[: x.shape[0], : x.shape[1]] = x
    return whole


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tile", [(32, 512), (128, 128), (17, 40), (64, 9), (1, 64), (5, 200)])
@pytest.mark.parametrize("sizes", [(1, 1), (31, 77), (100, 530)])
def test_transposed_inputs(dtype, tile, sizes):
    rows, columns = tile
    grid = [-(-size // extent) for size, extent in zip(sizes, tile)]
    whole = [count * extent for count, extent in zip(grid, tile)]
    narrow = max(1, sizes[1] - 3)  # of x, beyond which it has padding
    for pad in (0.0, 0.5):
        text = TEXT.format(dtype=dtype, r=rows, c=columns, pad=pad)
        x = torch.randn(narrow, sizes[0]).to(DTYPES[dtype]).t()
        y, c = torch.randn(sizes[1], sizes[0]).t(), torch.randn(sizes[0], 1)
        exact = padded(x.float(), *whole, pad) + padded(y, *whole, 0.0) * padded(c, whole[0], 1, 0.0)
        for passes in (False, True):
            everything = torch.full(sizes, 7.0, dtype=DTYPES[dtype])
            down, along = torch.full((grid[0], sizes[1]), 7.0), torch.full((sizes[0], grid[1]), 7.0)
            _C.run_ir(text, (*grid, 1), [x, y, c, everything, down, along], passes)
            want = exact[: sizes[0], : sizes[1]]
            torch.testing.assert_close(everything, want.to(everything.dtype), rtol=1e-5 if dtype == "f32" else 1e-2, atol=1e-5)
            sums = exact.view(grid[0], rows, -1).sum(1)[:, : sizes[1]]
            torch.testing.assert_close(down, sums, rtol=1e-4, atol=1e-4)
            largest = exact.view(whole[0], grid[1], columns).amax(2)[: sizes[0]]
            torch.testing.assert_close(along, largest, rtol=1e-5, atol=1e-5)
