"""Products of bf16 tiles that the kernel computes: read by products alone, or by others too."""

import pytest
import torch
from tile_ops import _C

pytestmark = pytest.mark.usefixtures("fused_loops")

HEAD = """
kernel computed(%x: array<bf16,2>, %s: array<f32,2>, %b: array<bf16,2>, %out: array<f32,2>, %more: array<f32,2>) {{
  %0: i32 = constant {{dtype=i32, value=0}}
  %zero: f32 = constant {{dtype=f32, value=0.0}}
  %tx: bf16[{m},{k}] = load %x, %0, %0 {{pad=0.0, shape=[{m},{k}], steps=[{m},{k}]}}
  %ts: f32[{m},1] = load %s, %0, %0 {{pad=0.0, shape=[{m},1], steps=[{m},1]}}
  %w: f32[{m},{k}] = broadcast %ts {{shape=[{m},{k}]}}
  %x32: f32[{m},{k}] = astype %tx {{dtype=f32}}
  %y: f32[{m},{k}] = mul %x32, %w
  %p: bf16[{m},{k}] = astype %y {{dtype=bf16}}
  %tb: bf16[{k},{n}] = load %b, %0, %0 {{pad=0.0, shape=[{k},{n}], steps=[{k},{n}]}}
  %zeros: f32[{m},{n}] = broadcast %zero {{shape=[{m},{n}]}}
"""
PRODUCT = """
  %c: f32[{m},{n}] = mma %p, %tb, %zeros
  store %out, %c, %0, %0 {{steps=[{m},{n}]}}
"""
# pᵀ x, and other readers of p's numbers than products: the fused loop itself, another one, a function of a view.
MORE = {
    "": "",
    "transposed": """
  %pt: bf16[{k},{m}] = permute %p {{axes=[1, 0]}}
  %square: f32[{k},{k}] = broadcast %zero {{shape=[{k},{k}]}}
  %d: f32[{k},{k}] = mma %pt, %tx, %square
  store %more, %d, %0, %0 {{steps=[{k},{k}]}}
""",
    "stored": """
  %p32: f32[{m},{k}] = astype %p {{dtype=f32}}
  store %more, %p32, %0, %0 {{steps=[{m},{k}]}}
""",
    "seen later": """
  %d: f32[{m}] = reduce_sum %c {{axes=[1]}}
  %d1: f32[{m},1] = reshape %d {{shape=[{m},1]}}
  %dw: f32[{m},{k}] = broadcast %d1 {{shape=[{m},{k}]}}
  %p32: f32[{m},{k}] = astype %p {{dtype=f32}}
  %sum: f32[{m},{k}] = add %p32, %dw
  store %more, %sum, %0, %0 {{steps=[{m},{k}]}}
""",
}


def close(got, want, sizes):
    """Sums of products whose magnitudes add up to `sizes`."""
    assert ((got.double() - want).abs() <= 2e-6 * sizes + 1e-30).all()


# Extents of the array: whole tiles, rows and columns that end within a tile, odd depths.
@pytest.mark.parametrize("more", MORE)
@pytest.mark.parametrize(
    "tile, rows, depth",
    [
        ((64, 64, 32), 64, 64),
        ((64, 64, 32), 41, 50),
        ((64, 64, 32), 1, 33),
        ((32, 4, 16), 32, 4),
        ((16, 128, 16), 16, 127),
        ((16, 2, 1), 7, 1),
    ],
)
def test_products_of_computed_tiles(more, tile, rows, depth):
    m, k, n = tile
    torch.manual_seed(rows)
    x, s, b = torch.randn(rows, depth).bfloat16(), torch.randn(rows, 1), torch.randn(k, n).bfloat16()
    x[0, 0] = 1e-39  # denormal, as its product is
    p = torch.zeros(m, k, dtype=torch.bfloat16)
    p[:rows, :depth] = (x.float() * s).bfloat16()
    padded = torch.zeros(m, k, dtype=torch.bfloat16)
    padded[:rows, :depth] = x
    out = torch.full((m, n), 7.0)
    others = torch.full((k, k) if more == "transposed" else (m, k), 7.0)
    _C.run_ir((HEAD + PRODUCT + MORE[more] + "}}").format(m=m, k=k, n=n), (1, 1, 1), [x, s, b, out, others])
    sizes = p.double().abs() @ b.double().abs()
    close(out, p.double() @ b.double(), sizes)
    if more == "transposed":
        close(others, p.T.double() @ padded.double(), p.T.double().abs() @ padded.double().abs())
    if more == "stored":
        assert torch.equal(others, p.float())
    if more == "seen later":
        close(others, p.double() + out.double().sum(1, keepdim=True), n * sizes.sum(1, keepdim=True) + p.abs())


def test_nan_and_infinity_stay_in_their_row():
    m, k, n = 32, 64, 16
    x, s, b = torch.randn(m, k).bfloat16(), torch.ones(m, 1), torch.randn(k, n).bfloat16()
    s[3], s[5], x[5] = float("nan"), float("inf"), x[5].abs() + 1
    b[:, 0] = b[:, 0].abs() + 1
    out = torch.full((m, n), 7.0)
    _C.run_ir((HEAD + PRODUCT + "}}").format(m=m, k=k, n=n), (1, 1, 1), [x, s, b, out, out])
    assert out[3].isnan().all() and out[5, 0] == float("inf")
    rest = [row for row in range(m) if row not in (3, 5)]
    assert out[rest].isfinite().all()
