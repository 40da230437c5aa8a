"""Control flow of the interpreter, as Tile IR text."""

import torch
from tile_ops import _C

BREAKS = """
kernel leave(%x: array<f32,1>, %out: array<f32,1>, %iterations: array<i32,1>) {
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  %limit: i32 = constant {dtype=i32, value=LIMIT}
  %t: f32[5] = load %x, %zero {pad=0.0, shape=[5], steps=[5]}
  %end: i32 = loop %zero (%n: i32) {
    %early: f32[5] = neg %t
    %stop: bool = ge %n, %limit
    if %stop () {
      break %n
    } () {
      yield
    }
    %late: f32[5] = mul %early, %t
    store %out, %late, %n {steps=[5]}
    %next: i32 = add %n, %one
    continue %next
  }
  %r: i32[1] = reshape %end {shape=[1]}
  store %iterations, %r, %zero {steps=[1]}
}
"""


def test_statements_after_a_break_do_not_run():
    x = torch.arange(1.0, 6.0)
    for limit in range(4):
        for passes in (False, True):
            out, iterations = torch.full((15,), 7.0), torch.full((1,), -1, dtype=torch.int32)
            _C.run_ir(BREAKS.replace("LIMIT", str(limit)), (1, 1, 1), [x, out, iterations], passes)
            assert iterations.item() == limit
            assert torch.equal(out[: 5 * limit], (-x * x).repeat(limit))
            assert (out[5 * limit :] == 7).all()


CARRIES = """
kernel carry(%out: array<i32,1>) {
  %low: i32 = constant {dtype=i32, value=0}
  %high: i32 = constant {dtype=i32, value=3}
  %one: i32 = constant {dtype=i32, value=1}
  %none: i32[4] = broadcast %low {shape=[4]}
  %last: i32, %before: i32[4] = for %low, %high, %one, %low, %none (%i: i32, %s: i32, %t: i32[4]) {
    %wide: i32[4] = broadcast %s {shape=[4]}
    %next: i32 = add %i, %high
    yield %next, %wide
  }
  store %out, %before, %low {steps=[4]}
}
"""


def test_a_carried_tile_keeps_the_scalar_that_it_was_made_of():
    for passes in (False, True):
        out = torch.full((4,), -1, dtype=torch.int32)
        _C.run_ir(CARRIES, (1, 1, 1), [out], passes)
        assert out.tolist() == [4] * 4
