"""Tiles that a kernel stores where it loaded them: read in place, where nothing else reads them, or else copied."""

import pytest
import torch
from tile_ops import _C

pytestmark = pytest.mark.usefixtures("fused_loops")

LOAD = "load %x, %b {pad=0.0, shape=[512], steps=[512]}"
# The middle of a kernel over tiles of x, which also writes y; the new x and y.
CASES = {
    "update": (
        f"""
  %t: T[512] = {LOAD}
  %u: T[512] = mul %t, %t
  %v: T[512] = add %u, %t
  store %x, %v, %b {{steps=[512]}}
  store %y, %u, %b {{steps=[512]}}""",
        lambda x: (x * x + x, x * x),
    ),
    "the old value is stored elsewhere, afterwards": (
        f"""
  %t: T[512] = {LOAD}
  %u: T[512] = mul %t, %t
  store %x, %u, %b {{steps=[512]}}
  store %y, %t, %b {{steps=[512]}}""",
        lambda x: (x * x, x),
    ),
    "a step reads it that is not stored there": (
        f"""
  %t: T[512] = {LOAD}
  %u: T[512] = mul %t, %t
  store %x, %u, %b {{steps=[512]}}
  %s: T = reduce_sum %u {{axes=[0]}}
  %w: T[512] = broadcast %s {{shape=[512]}}
  %v: T[512] = mul %w, %t
  store %y, %v, %b {{steps=[512]}}""",
        lambda x: (x * x, blocks_of(x, lambda t: (t * t).sum() * t)),
    ),
    "all of it before any of it": (
        f"""
  %t: T[512] = {LOAD}
  %s: T = reduce_sum %t {{axes=[0]}}
  %w: T[512] = broadcast %s {{shape=[512]}}
  %v: T[512] = add %t, %w
  store %x, %v, %b {{steps=[512]}}
  store %y, %w, %b {{steps=[512]}}""",
        lambda x: (blocks_of(x, lambda t: t + t.sum()), blocks_of(x, lambda t: t.sum().expand_as(t))),
    ),
    "stored twice": (
        f"""
  %t: T[512] = {LOAD}
  %u: T[512] = mul %t, %t
  store %x, %u, %b {{steps=[512]}}
  %v: T[512] = add %u, %t
  store %x, %v, %b {{steps=[512]}}
  store %y, %t, %b {{steps=[512]}}""",
        lambda x: (x * x + x, x),
    ),
}


def blocks_of(x, f):
    return torch.cat([f(chunk) for chunk in x.split(512)])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype, word", [(torch.float32, "f32"), (torch.float64, "f64")])
@pytest.mark.parametrize("size", [512, 1, 1300, 517])
def test_in_place(name, dtype, word, size):
    middle, meaning = CASES[name]
    text = (f"kernel k(%x: array<T,1>, %y: array<T,1>) {{\n  %b: i32 = bid {{axis=0}}{middle}\n}}\n").replace("T", word)
    for passes in (False, True):
        x, y = torch.randn(size, dtype=dtype), torch.zeros(size, dtype=dtype)
        want = meaning(x.clone())
        _C.run_ir(text, ((size + 511) // 512, 1, 1), [x, y], passes)
        torch.testing.assert_close((x, y), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype, word", [(torch.bfloat16, "bf16"), (torch.float16, "f16")])
def test_in_place_of_16_bits(dtype, word):
    """The cast leaves the tile in memory, too."""
    text = """
kernel k(%x: array<T,1>, %y: array<T,1>) {
  %b: i32 = bid {axis=0}
  %t: T[512] = load %x, %b {pad=0.0, shape=[512], steps=[512]}
  %w: f32[512] = astype %t {dtype=f32}
  %u: f32[512] = mul %w, %w
  %n: T[512] = astype %u {dtype=T}
  store %x, %n, %b {steps=[512]}
  %v: f32[512] = add %u, %w
  %m: T[512] = astype %v {dtype=T}
  store %y, %m, %b {steps=[512]}
}
""".replace("T", word)
    for passes in (False, True):
        x, y = torch.randn(1300).to(dtype), torch.zeros(1300, dtype=dtype)
        wide = x.float()
        _C.run_ir(text, (3, 1, 1), [x, y], passes)
        torch.testing.assert_close((x, y), ((wide * wide).to(dtype), (wide * wide + wide).to(dtype)))


def test_neighbours_are_not_in_place():
    """A store of one tile further: a loop that carries the first value along the array."""
    text = """
kernel k(%x: array<f32,1>) {
  %n: i32 = constant {dtype=i32, value=4}
  %one: i32 = constant {dtype=i32, value=1}
  %zero: i32 = constant {dtype=i32, value=0}
  for %zero, %n, %one (%i: i32) {
    %t: f32[16] = load %x, %i {pad=0.0, shape=[16], steps=[16]}
    %u: f32[16] = add %t, %t
    %j: i32 = add %i, %one
    store %x, %u, %j {steps=[16]}
    yield
  }
}
"""
    for passes in (False, True):
        x = torch.randn(80)
        want = torch.cat([x[:16] * 2**k for k in range(5)])
        _C.run_ir(text, (1, 1, 1), [x], passes)
        torch.testing.assert_close(x, want)


HALVES = """
kernel k(%x: array<T,2>, %y: array<T,1>) {
  %b: i32 = bid {axis=0}
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %p: array<T,1> = index %x, %zero
  %q: array<T,1> = index %x, %one
  %tp: T[512] = load %p, %b {pad=0.0, shape=[512], steps=[512]}
  %tq: T[512] = load %q, %b {pad=0.0, shape=[512], steps=[512]}
  %s: f32[512] = astype %tp {dtype=f32}
  %t: f32[512] = astype %tq {dtype=f32}MIDDLE
  %m: T[512] = astype %u {dtype=T}
  %n: T[512] = astype %v {dtype=T}
  store %p, %m, %b {steps=[512]}
  store %q, %n, %b {steps=[512]}
  store %y, %r, %b {steps=[512]}
}
"""
# The middle of a kernel that writes both rows of x; the new rows and y of the old ones, in float32.
BOTH = {
    "each of both": (
        """
  %u: f32[512] = mul %s, %t
  %v: f32[512] = add %s, %t
  %r: T[512] = astype %u {dtype=T}""",
        lambda s, t: (s * t, s + t, s * t),
    ),
    "they change places": (
        """
  %u: f32[512] = astype %tq {dtype=f32}
  %v: f32[512] = astype %tp {dtype=f32}
  %w: f32[512] = mul %s, %t
  %r: T[512] = astype %w {dtype=T}""",
        lambda s, t: (t, s, s * t),
    ),
    "one waits for a sum": (
        """
  %v: f32[512] = sub %s, %t
  %w: f32[512] = mul %s, %t
  %a: f32 = reduce_max %w {axes=[0]}
  %c: f32[512] = broadcast %a {shape=[512]}
  %u: f32[512] = add %c, %t
  %r: T[512] = astype %v {dtype=T}""",
        lambda s, t: ((s * t).amax() + t, s - t, s - t),
    ),
    "the old value is stored elsewhere": (
        """
  %u: f32[512] = mul %s, %t
  %v: f32[512] = mul %t, %t
  %w: f32[512] = mul %s, %s
  %r: T[512] = astype %w {dtype=T}""",
        lambda s, t: (s * t, t * t, s * s),
    ),
}


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("dtype, word", [(torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float16, "f16")])
@pytest.mark.parametrize("size", [512, 1300, 517, 3])
def test_halves_that_do_not_overlap(name, dtype, word, size):
    """Each half is made of both: all that reads them runs before, or with, what is stored."""
    middle, meaning = BOTH[name]
    text = HALVES.replace("MIDDLE", middle).replace("T", word)
    for passes in (False, True):
        x, y = torch.rand(2, size).to(dtype) + 1, torch.zeros(size, dtype=dtype)
        chunks = [meaning(*(row.float() for row in both.unbind())) for both in x.split(512, 1)]
        want = [torch.cat(each).to(dtype) for each in zip(*chunks)]
        _C.run_ir(text, ((size + 511) // 512, 1, 1), [x, y], passes)
        torch.testing.assert_close((x[0], x[1], y), tuple(want))
