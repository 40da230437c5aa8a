"""reduce and scan with a region: the order of the elements, every grouping of the axis, yields of any value."""

import math

import pytest
import torch
from prims.ir_programs import DTYPES, run, same
from random_meaning import FLOATS
from tile_ops import _C

SHAPES = [
    (1,),
    (2,),
    (7,),
    (33,),
    (1000,),
    (4096,),
    (3, 17),
    (17, 3),
    (300, 40),
    (600, 33),
    (5, 1030),
    (2, 300, 19),
    (2, 3, 70),
]
AXES = [(shape, axis) for shape in SHAPES for axis in range(len(shape))]


def load(name, array, dtype, shape):
    pad = "0.0" if dtype in FLOATS else "0"
    return f"%{name}: {dtype}{list(shape)} = load %{array}{', %z' * len(shape)} {{pad={pad}, shape={list(shape)}, steps={list(shape)}}}"


def program(kind, dtypes, shape, axis, region):
    """The body, over operands %a, %b, … and results after them, and the results' shape."""
    n, out = len(dtypes), list(shape) if kind == "scan" else [s for k, s in enumerate(shape) if k != axis]
    lines = [load(f"t{k}", chr(97 + k), dtype, shape) for k, dtype in enumerate(dtypes)]
    results = ", ".join(f"%r{k}: {dtype}{out or ''}" for k, dtype in enumerate(dtypes))
    arguments = ", ".join([f"%x{k}: {d}" for k, d in enumerate(dtypes)] + [f"%y{k}: {d}" for k, d in enumerate(dtypes)])
    operands = ", ".join(f"%t{k}" for k in range(n))
    lines.append(f"{results} = {kind} {operands} {{axis={axis}}} ({arguments}) {{\n{region}\n}}")
    for k, dtype in enumerate(dtypes):
        lines.append(f"%w{k}: {dtype}{out or [1]} = reshape %r{k} {{shape={out or [1]}}}")
        lines.append(f"store %{chr(97 + n + k)}, %w{k}{', %z' * max(len(out), 1)} {{steps={out or [1]}}}")
    return "\n".join(lines), out or [1]


def combined(kind, operands, axis, region):
    """The results, which are the same with and without passes."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    body, out = program(kind, [names[x.dtype] for x in operands], operands[0].shape, axis, region)
    return run(body, [*operands, *(torch.zeros(out, dtype=x.dtype) for x in operands)])[len(operands) :]


# A map x -> a x + b after another: associative, but the order matters. Integers wrap.
MAPS = """%p: i64 = mul %x0, %y0
%q: i64 = mul %y0, %x1
%s: i64 = add %q, %y1
yield %p, %s"""


@pytest.mark.parametrize("kind", ["reduce", "scan"])
@pytest.mark.parametrize("shape, axis", AXES, ids=str)
def test_the_order_of_the_axis(kind, shape, axis):
    a, b = (torch.randint(-(2**31), 2**31, shape) * 2 + 1 for _ in range(2))
    factors, offsets = [a.select(axis, 0)], [b.select(axis, 0)]
    for k in range(1, shape[axis]):
        factors.append(factors[-1] * a.select(axis, k))
        offsets.append(offsets[-1] * a.select(axis, k) + b.select(axis, k))
    got = combined(kind, [a, b], axis, MAPS)
    for result, steps in zip(got, (factors, offsets)):
        want = torch.stack(steps, axis) if kind == "scan" else steps[-1]
        assert torch.equal(result.reshape(want.shape), want)


@pytest.mark.parametrize("dtype", ["i8", "u16", "i32", "i64", "f16", "f32", "f64"])
@pytest.mark.parametrize("shape, axis", AXES, ids=str)
def test_extremes_of_every_dtype(dtype, shape, axis):
    x = torch.randint(0, 120, shape).to(DTYPES[dtype])
    (got,) = combined("reduce", [x], axis, f"%p: {dtype} = maximum %x0, %y0\n%q: {dtype} = maximum %p, %y0\nyield %q")
    same(got.flatten(), x.double().amax(axis).flatten())


@pytest.mark.parametrize("kind", ["reduce", "scan"])
@pytest.mark.parametrize("shape, axis", AXES, ids=str)
def test_yields_that_are_no_results(kind, shape, axis):
    """The first element, the last, the last again, and a constant."""
    x = torch.randn(shape)
    got = combined(kind, [x] * 4, axis, "%p: f32 = constant {dtype=f32, value=2.5}\nyield %x0, %y1, %y1, %p")
    first, last = x.select(axis, 0), x.select(axis, -1)
    if kind == "reduce":
        fixed = torch.full_like(first, 2.5) if shape[axis] > 1 else first
        wanted = [first, last, last, fixed]
    else:
        fixed = torch.full_like(x, 2.5)
        fixed.select(axis, 0).copy_(first)
        wanted = [first.unsqueeze(axis).expand(shape), x, x, fixed]
    for result, want in zip(got, wanted):
        same(result.flatten(), want.flatten())


LOGSUMEXP = """%m: T = maximum %x0, %y0
%p: T = sub %x0, %m
%q: T = sub %y0, %m
%s: T = exp %p
%u: T = exp %q
%v: T = add %s, %u
%w: T = log %v
%r: T = add %m, %w
yield %r"""


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("shape, axis", AXES, ids=str)
def test_logsumexp(dtype, shape, axis, passes):
    x = 3 * torch.randn(shape, dtype=DTYPES[dtype])
    body, out = program("reduce", [dtype], shape, axis, LOGSUMEXP.replace("T", dtype))
    got = torch.zeros(out, dtype=x.dtype)
    text = f"kernel k(%a: array<{dtype},{x.dim()}>, %b: array<{dtype},{got.dim()}>) {{\n%z: i32 = constant {{dtype=i32, value=0}}\n{body}\n}}"
    _C.run_ir(text, (1, 1, 1), [x, got], passes)
    error = (got.double().flatten() - x.double().logsumexp(axis).flatten()).abs().max().item()
    # Each level of a tree rounds to the last place of results below 16; up to 16 elements are a chain.
    assert error <= 16 * 8 * torch.finfo(x.dtype).eps * max(1, math.log2(shape[axis]))


def test_an_outer_scalar():
    x = torch.randint(0, 100, (40, 64))
    body = f"""{load("t", "a", "i64", (40, 64))}
%s: i64 = load_offset %c, %one {{pad=0}}
%r: i64[40] = reduce %t {{axis=1}} (%x: i64, %y: i64) {{
  %p: i64 = maximum %x, %y
  %q: i64 = maximum %p, %s
  yield %q
}}
store %b, %r, %z {{steps=[40]}}"""
    _, got, _ = run(body, [x, torch.zeros(40, dtype=torch.int64), torch.tensor([7, 93])])
    same(got, x.amax(1).clamp(min=93))
