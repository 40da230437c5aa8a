"""Operands that a kernel keeps packed: one matrix read by a loop over k and by a single product."""

import pytest
import torch
from threads import with_torch_threads
from tile_ops import _C

LOOP = """
  %total: f32[64,64] = for %0, %iterations, %1, %zeros (%k: i32, %sum: f32[64,64]) {
    %x: bf16[64,256] = load %a, %i, %k {pad=0.0, shape=[64,256], steps=[64,256]}
    %y: bf16[256,64] = load %b, %k, %j {pad=0.0, shape=[256,64], steps=[256,64]}
    %next: f32[64,64] = mma %x, %y, %sum
    yield %next
  }
  store %out, %total, %i, %j {steps=[64,64]}
"""
WHOLE = """
  %wide: bf16[64,512] = load %a, %i, %0 {pad=0.0, shape=[64,512], steps=[64,512]}
  %high: bf16[512,64] = load %b, %0, %j {pad=0.0, shape=[512,64], steps=[512,64]}
  %product: f32[64,64] = mma %wide, %high, %zeros
  store %again, %product, %i, %j {steps=[64,64]}
"""
TEXT = """
kernel both(%a: array<bf16,2>, %b: array<bf16,2>, %out: array<f32,2>, %again: array<f32,2>) {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %iterations: i32 = constant {dtype=i32, value=2}
  %zero: f32 = constant {dtype=f32, value=0.0}
  %zeros: f32[64,64] = broadcast %zero {shape=[64,64]}
  PRODUCTS
}
"""


@pytest.mark.parametrize("products", [LOOP + WHOLE, WHOLE + LOOP], ids=["loop first", "whole first"])
def test_blocks_of_k_and_all_of_k_are_packed_separately(products):
    torch.manual_seed(0)
    a, b = (torch.randint(-4, 5, shape).bfloat16() for shape in ((128, 512), (512, 128)))
    out, again = torch.full((128, 128), 7.0), torch.full((128, 128), 7.0)
    _C.run_ir(TEXT.replace("PRODUCTS", products), (2, 2, 1), [a, b, out, again])
    want = a.float() @ b.float()  # whole numbers: exact in any order
    assert torch.equal(out, want)
    assert torch.equal(again, want)


def products():
    """Returns products of whole numbers, which are exact in any order.

    Threads share them or do not, x is kept packed or is not, and they are of two matrices or of many."""
    ops = torch.ops.tile

    def integers(*shape):
        return torch.randint(-4, 5, shape).float()

    for m, n, k in ((300, 700, 1100), (130, 1030, 2100), (1030, 300, 4500), (200, 300, 64)):
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            x, y = integers(m, k).to(dtype), integers(k, n).to(dtype)
            call = lambda x=x, y=y: ops.matmul(x, y, out_dtype=torch.float64)  # noqa: E731
            yield f"{m} x {n} x {k} {dtype}", call, x.double() @ y.double()
    x, y = integers(3, 200, 1024), integers(3, 1024, 300)
    yield "batch", lambda: ops.matmul(x, y), x @ y
    rows, gate, up = integers(260, 2048), integers(2048, 520), integers(2048, 520)
    yield "two", lambda: ops.gated_matmul(rows, gate, up, activation="none"), (rows @ gate) * (rows @ up)


def test_threads_share_operands():
    torch.manual_seed(1)
    for name, call, want in products():
        for results in with_torch_threads((1, 2, 7, 16), lambda call=call: [call() for _ in range(3)]):
            for result in results:
                assert torch.equal(result.double(), want.double()), name
