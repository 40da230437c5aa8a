"""1 + tanh(x) in one step: near its exact value also where tanh is near -1, the same bits by both ways of computing."""

import pytest
import torch
from tile_ops import _C

SIZE = 4096
TEXT = """
kernel k(%x: array<f32,1>, %y: array<f32,1>) {
  %b: i32 = bid {axis=0}
  %one: f32 = constant {dtype=f32, value=1.0}
  %ones: f32[4096] = broadcast %one {shape=[4096]}
  %a: f32[4096] = load %x, %b {pad=0.0, shape=[4096], steps=[4096]}
  %t: f32[4096] = tanh %a
  %s: f32[4096] = SUM
  store %y, %s, %b {steps=[4096]}
}
"""
FORMS = {"left": "add %ones, %t", "right": "add %t, %ones"}


def results(text, x, assembled):
    y = torch.full_like(x, 7.0)
    _C.assemble_fused_loops(assembled)
    try:
        _C.run_ir(text, (len(x) // SIZE, 1, 1), [x, y], True)
    finally:
        _C.assemble_fused_loops(True)
    return y


def numbers():
    wide = torch.randn(SIZE) * torch.exp2(torch.randint(-40, 8, (SIZE,)).float())
    ends = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 43.0, -43.6, -43.7, -51.0, -52.5, 3e38, -3e38, 1e-45])
    return torch.cat([wide, torch.randn(SIZE) * 3, ends.repeat(SIZE)[:SIZE]])


@pytest.mark.parametrize("form", FORMS)
def test_values(form):
    x = numbers()
    text = TEXT.replace("SUM", FORMS[form])
    got = results(text, x, True)
    assert torch.equal(got.view(torch.int32), results(text, x, False).view(torch.int32))
    exact = 2 / (1 + torch.exp(-2 * x.double()))
    ulp = (exact.abs().log2().floor().exp2() * 2.0**-23).clamp_min(2.0**-149)
    same = (got == exact) | (got.isnan() & exact.isnan())
    assert (same | ((got.double() - exact).abs() <= 2.5 * ulp)).all()


def test_a_tanh_with_other_readers_is_not_fused():
    x = numbers()
    text = TEXT.replace("SUM", "add %t, %ones").replace("store %y, %s", "%d: f32[4096] = sub %s, %t\n  store %y, %d")
    got = results(text, x, True)
    assert torch.equal(got.view(torch.int32), results(text, x, False).view(torch.int32))
    t = torch.tanh(x[:SIZE].double()).float()
    assert torch.allclose(got[:SIZE], (1 + t) - t, rtol=0, atol=3e-7)
