"""Grids that are long along any axis: block numbers keep their meaning."""

import pytest
import torch
from tile_ops import _C

NUMBERED = """kernel numbered(%y: array<i32,3>) {
  %a: i32 = bid {axis=0}
  %b: i32 = bid {axis=1}
  %c: i32 = bid {axis=2}
  %m: i32 = num_blocks {axis=1}
  %n: i32 = num_blocks {axis=2}
  %r: i32 = mul %a, %m
  %s: i32 = add %r, %b
  %t: i32 = mul %s, %n
  %u: i32 = add %t, %c
  %v: i32[1,1,1] = broadcast %u {shape=[1,1,1]}
  store %y, %v, %a, %b, %c {steps=[1,1,1]}
}
"""


# A GPU's grid takes more than 65,535 blocks along its first axis alone.
@pytest.mark.parametrize("grid", [(70_000, 2, 3), (3, 70_000, 2), (2, 3, 70_000)])
def test_every_block_has_its_numbers(grid):
    y = torch.zeros(grid, dtype=torch.int32)
    _C.run_ir(NUMBERED, grid, [y])
    assert torch.equal(y, torch.arange(y.numel(), dtype=torch.int32).view(grid))
