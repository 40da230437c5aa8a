"""Counted loops for a GPU whose index comes near the last number of its dtype."""

import emulate
import torch
from emulate import same_on_both
from prims.test_structured import DTYPES
from test_shapes import kernel, values
from tile_ops import _C

LOOPS = [
    ("u8", 0, 250, 100),
    ("u8", 0, 255, 1),
    ("u8", 200, 100, 100),
    ("i8", -100, 120, 90),
    ("u16", 0, 65530, 30000),
    ("i32", 2147483000, 2147483647, 400),
    ("i32", -2147483648, 2147483647, 2000000000),
    ("u32", 0, 4000000000, 3000000000),
]
STRIDE = 1500000000  # of the indices of loops that load ahead


def test_the_index_does_not_wrap():
    """Its values one after the other, with a step that is known and one that is not."""
    cases, expected = [], []
    for dtype, low, high, step in LOOPS:
        for known in (True, False):
            bounds = [
                f"%m{i}: i32 = constant {{dtype=i32, value={i}}}\n%n{i}: array<{dtype},0> = index %a, %m{i}\n"
                f"%{name}: {dtype} = load %n{i} {{pad=0, shape=[], steps=[]}}"
                for i, name in enumerate(("low", "high", "step"))
            ]
            if known:
                bounds[2] = f"%step: {dtype} = constant {{dtype={dtype}, value={step}}}"
            body = (
                "\n".join(bounds)
                + f"""
%one: i32 = constant {{dtype=i32, value=1}}
%iterations: i32 = for %low, %high, %step, %z (%j: {dtype}, %iteration: i32) {{
  %k: i64 = astype %j {{dtype=i64}}
  %t: i64[1] = broadcast %k {{shape=[1]}}
  store %b, %t, %iteration {{steps=[1]}}
  %next: i32 = add %iteration, %one
  yield %next
}}"""
            )
            for passes in (True, False):
                arguments = [torch.tensor([low, high, step], dtype=DTYPES[dtype]), torch.full((256,), -1)]
                cases.append(emulate.Case(kernel([(dtype, 1), ("i64", 1)], body), (1, 1, 1), arguments, passes))
                indices = torch.tensor(range(low, high, step), dtype=torch.int64)
                expected.append(torch.cat([indices, torch.full((256 - len(indices),), -1)]))
    for case, indices, report in zip(cases, expected, emulate.run(cases)):
        assert report is None, f"{report}\n{case.program['text']}"
        assert torch.equal(case.arguments[1], indices), f"{case.arguments[1]}\n{case.program['text']}"
        again = [case.arguments[0], torch.full((256,), -1)]
        _C.run_ir(case.text, case.grid, again, case.passes)
        assert torch.equal(again[1], indices)


def prefetch(dtype, shape, body):
    """A loop over 0 and 2 * STRIDE, which are tile 0 and 1 of arrays; the index that would come next wraps to a place
    far off."""
    return f"""%low: u32 = constant {{dtype=u32, value=0}}
%high: u32 = constant {{dtype=u32, value=4000000000}}
%step: u32 = constant {{dtype=u32, value={2 * STRIDE}}}
%stride: u32 = constant {{dtype=u32, value={STRIDE}}}
%two: u32 = constant {{dtype=u32, value=2}}
%zero: {dtype} = constant {{dtype={dtype}, value={"0.0" if dtype == "f32" else "0"}}}
%none: {dtype}{shape} = broadcast %zero {{shape={shape}}}
%sums: {dtype}{shape} = for %low, %high, %step, %none (%j: u32, %acc: {dtype}{shape}) {{
  %rest: u32 = mod %j, %stride
  %quotient: u32 = floordiv %j, %stride
  %half: u32 = floordiv %quotient, %two
  %at: u32 = add %half, %rest
{body}
  yield %sum
}}"""


def test_nothing_is_loaded_after_the_last_iteration():
    shape = "[1, 64]"
    body = prefetch(
        "i32",
        shape,
        f"""  %x: i32{shape} = load %a, %at, %z {{in_bounds=1, pad=0, shape={shape}, steps={shape}}}
  %sum: i32{shape} = add %acc, %x""",
    )
    text = kernel([("i32", 2), ("i32", 2)], f"{body}\nstore %b, %sums, %z, %z {{steps={shape}}}")
    x, out = torch.arange(128, dtype=torch.int32).reshape(2, 64), torch.zeros(1, 64, dtype=torch.int32)
    same_on_both([(text, (1, 1, 1), [x, out])])
    assert torch.equal(out, x.sum(0, keepdim=True).int())


def test_stages_end_with_the_loop():
    body = prefetch(
        "f32",
        "[16, 16]",
        """  %x: bf16[16, 16] = load %a, %z, %at {pad=0.0, shape=[16, 16], steps=[16, 16]}
  %y: bf16[16, 16] = load %b, %at, %z {pad=0.0, shape=[16, 16], steps=[16, 16]}
  %sum: f32[16, 16] = mma %x, %y, %acc""",
    )
    text = kernel([("bf16", 2), ("bf16", 2), ("f32", 2)], f"{body}\nstore %c, %sums, %z, %z {{steps=[16, 16]}}")
    x, y, out = values("bf16", 16, 32), values("bf16", 32, 16), torch.zeros(16, 16)
    same_on_both([(text, (1, 1, 1), [x, y, out])])
    assert torch.equal(out, x.float() @ y.float())


def test_a_branch_next_to_a_product_reads_its_buffer():
    """The ring's buffers are not taken early then: the branch reads behind the product."""
    x, y, w = values("bf16", 16, 256), values("bf16", 256, 16), values("bf16", 16, 16)
    sums, last = torch.zeros(16, 16), torch.zeros(16, 16)
    text = kernel(
        [("bf16", 2), ("bf16", 2), ("bf16", 2), ("f32", 2), ("f32", 2)],
        """%o: i32 = constant {dtype=i32, value=1}
%n: i32 = constant {dtype=i32, value=16}
%g: i32 = constant {dtype=i32, value=9}
%f: f32 = constant {dtype=f32, value=0.0}
%none: f32[16, 16] = broadcast %f {shape=[16, 16]}
%m: bf16[16, 16] = load %c, %z, %z {pad=0.0, shape=[16, 16], steps=[16, 16]}
%r: f32[16, 16] = for %z, %n, %o, %none (%k: i32, %acc: f32[16, 16]) {
  %x: bf16[16, 16] = load %a, %z, %k {pad=0.0, shape=[16, 16], steps=[16, 16]}
  %y: bf16[16, 16] = load %b, %k, %z {pad=0.0, shape=[16, 16], steps=[16, 16]}
  %s: f32[16, 16] = mma %x, %y, %acc
  %h: bool = eq %k, %g
  if %h () {
    %p: f32[16, 16] = mma %x, %m, %none
    store %e, %p, %z, %z {steps=[16, 16]}
    yield
  } () {
    yield
  }
  yield %s
}
store %d, %r, %z, %z {steps=[16, 16]}""",
    )
    same_on_both([(text, (1, 1, 1), [x, y, w, sums, last])])
    assert torch.equal(sums, x.float() @ y.float())
    assert torch.equal(last, x[:, 144:160].float() @ w.float())
