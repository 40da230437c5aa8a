"""Functions of results that are rounded to 16 bits: each 16-bit number, in vectors of ordinary and of all other
lanes."""

import pytest
import torch
from tile_ops import _C

TEXT = """
kernel k(%x: array<DTYPE,1>, %y: array<DTYPE,1>) {
  %b: i32 = bid {axis=0}
  %h: DTYPE[1024] = load %x, %b {pad=0.0, shape=[1024], steps=[1024]}
  %t: f32[1024] = astype %h {dtype=f32}
  BODY
  %r: DTYPE[1024] = astype %f {dtype=DTYPE}
  store %y, %r, %b {steps=[1024]}
}
"""
BODIES = {
    "one_plus_tanh": """  %one: f32 = constant {dtype=f32, value=1.0}
  %ones: f32[1024] = broadcast %one {shape=[1024]}
  %u: f32[1024] = tanh %t
  %f: f32[1024] = add %u, %ones
"""
}
FUNCTIONS = {
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "one_plus_tanh": lambda x: 2 / (1 + torch.exp(-2 * x)),
    "silu": lambda x: torch.where(x == -torch.inf, torch.nan, x * torch.sigmoid(x)),
}
# Dtype: a step of its last place at 1, its smallest number.
DTYPES = {torch.bfloat16: (2**-7, 2.0**-133), torch.float16: (2**-10, 2.0**-24)}


def results(name, x):
    y = torch.full_like(x, 7.0)
    body = BODIES.get(name, f"  %f: f32[1024] = {name} %t\n")
    text = TEXT.replace("  BODY\n", body).replace("DTYPE", {torch.bfloat16: "bf16", torch.float16: "f16"}[x.dtype])
    _C.run_ir(text, (len(x) // 1024, 1, 1), [x, y], True)
    return y


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_number(name, dtype):
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    x = x[torch.randperm(len(x))]  # ordinary ones and others side by side
    exact = FUNCTIONS[name](x.double())
    step, smallest = DTYPES[dtype]
    got = {}
    for assembled in (True, False):
        _C.assemble_fused_loops(assembled)
        try:
            for order in (torch.arange(len(x)), x.float().abs().sort().indices):  # these are sorted
                got[assembled, len(got) % 2] = y = torch.empty_like(x)
                y[order] = results(name, x[order])
        finally:
            _C.assemble_fused_loops(True)
    first = got.pop((True, 0))
    for other in got.values():
        assert torch.equal(first.view(torch.int16), other.view(torch.int16))
    rounded = exact.to(dtype)
    same = (first == rounded) | (first.isnan() & rounded.isnan())
    ulp = (exact.abs().log2().floor().exp2() * step).clamp_min(smallest)
    assert (same | ((first.double() - exact).abs() <= 0.52 * ulp)).all()
    assert torch.equal(first.isnan(), rounded.isnan())


def test_what_is_seen_in_full_is_exact():
    x = torch.linspace(-80, 80, 1024).bfloat16()
    text = (
        TEXT.replace("%y: array<DTYPE", "%y: array<f32")
        .replace("DTYPE", "bf16")
        .replace("  BODY\n", "  %f: f32[1024] = exp %t\n")
    )
    text = text.replace("  %r: bf16[1024] = astype %f {dtype=bf16}\n", "").replace("store %y, %r", "store %y, %f")
    y = torch.empty(1024)
    _C.run_ir(text, (1, 1, 1), [x, y], True)
    torch.testing.assert_close(y.double(), x.double().exp(), rtol=3e-7, atol=0)
