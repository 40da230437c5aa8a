"""Floats with a mode, bit for bit: rounded in a direction, NaN that wins, subnormals flushed; and what casts do with
what does not fit."""

import itertools
import math
import random

import pytest
import torch
from exact_rounding import CASTS, FORMATS, MODES, cast, expected
from random_meaning import FLOATS, HELD, INTEGERS

from tile_ops import _C

COUNT = 1003
OPERANDS = {"add": 2, "sub": 2, "mul": 2, "div": 2, "fma": 3, "sqrt": 1}


def run(steps, operands, result):
    """Statements of Tile IR over %x, %y, %z, the last of which gives %r; a type is a dtype's name, in tiles of 256."""
    names = {dtype: name for name, dtype in {"bool": torch.bool, **HELD, **INTEGERS}.items()}
    types = [names[t.dtype] for t in [*operands, result]]
    arrays = ", ".join(f"%{'abcd'[i]}: array<{name},1>" for i, name in enumerate(types[:-1]))
    loads = [
        f"%{'xyzw'[i]}: {name}[256] = load %{'abcd'[i]}, %i "
        f"{{pad={'0.0' if name[0] in 'fb' and name != 'bool' else '0'}, shape=[256], steps=[256]}}"
        for i, name in enumerate(types[:-1])
    ]
    lines = "\n".join([*loads, *(step.replace(" =", "[256] =", 1) for step in steps)])
    text = (
        f"kernel k({arrays}, %o: array<{types[-1]},1>) {{\n%i: i32 = bid {{axis=0}}\n{lines}\n"
        "store %o, %r, %i {steps=[256]}\n}\n"
    )
    _C.run_ir(text, ((len(result) + 255) // 256, 1, 1), [*operands, result])
    return result


def same(got, expected_values, *operands):
    """Equal bits, but for those of NaN."""
    want = torch.tensor(expected_values, dtype=torch.float64).to(got.dtype)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[got.dtype.itemsize]
    wrong = ~((got.view(bits) == want.view(bits)) | (got.isnan() & want.isnan()))
    assert not wrong.any(), [
        (*(float(t[i]).hex() for t in operands), float(got[i]).hex(), float(want[i]).hex())
        for i in wrong.nonzero()[:5, 0].tolist()
    ]


def corners(dtype):
    """Zeros, limits, numbers next to 1, subnormals."""
    digits, least, largest = FORMATS[dtype]
    eps, tiny = 2.0 ** (1 - digits), math.ldexp(1.0, least)
    normal = math.ldexp(1.0, least + digits - 1)
    positive = [
        0.0,
        tiny,
        3 * tiny,
        normal - tiny,
        normal,
        normal * (1 + eps),
        eps,
        1.0,
        1 + eps,
        1 - eps / 2,
        1.5,
        3.0,
        1 / eps + 1,
        largest / 2,
        largest,
        math.inf,
    ]
    return [sign * x for x in positive for sign in (1, -1)][:31] + [math.nan]


def operands_of(dtype, count, seed):
    """Every pair of corners, then random values: of all sizes, near each other, halves of a unit."""
    draw, digits, values = random.Random(seed), FORMATS[dtype][0], []
    for x, y in draw.sample(list(itertools.product(corners(dtype), corners(dtype))), 700):
        values.append([x, y, draw.choice([-x * y, *corners(dtype)])])
    while len(values) < COUNT:
        x, y = (
            draw.choice([1, -1]) * math.ldexp(draw.getrandbits(digits), draw.choice([-3, 0, 2, digits, -digits]))
            for _ in range(2)
        )
        values.append([x, draw.choice([y, y, -x, x / 2, math.ldexp(x, -digits)]), draw.choice([-x * y, y, 1.0])])
    draw.shuffle(values)
    return [torch.tensor(column, dtype=torch.float64).to(FLOATS[dtype]) for column in zip(*values)][:count]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", OPERANDS)
def test_directed(name, dtype, mode):
    operands = operands_of(dtype, OPERANDS[name], f"{name} {dtype}")
    names = ["%x", "%y", "%z"][: len(operands)]
    if dtype in ("f32", "f64"):
        steps = [f"%r: {dtype} = {name}_{mode} {', '.join(names)}"]
    else:  # as the language does
        steps = [f"%w{n[1]}: f32 = astype {n} {{dtype=f32}}" for n in names]
        steps += [
            f"%w: f32 = {name}_{mode} {', '.join(f'%w{n[1]}' for n in names)}",
            f"%r: {dtype} = astype_{mode} %w {{dtype={dtype}}}",
        ]
    got = run(steps, operands, torch.zeros(COUNT, dtype=FLOATS[dtype]))
    same(got, [expected(name, mode, dtype, *values) for values in zip(*(t.tolist() for t in operands))], *operands)


# Products join sums that round to nearest, zeros vanish: not here.
@pytest.mark.parametrize("product,sum", [("mul_rp", "add_rm"), ("mul", "add_rz"), ("mul_rz", "add")])
def test_directed_ops_keep_their_rounding_among_others(product, sum):
    zeros = ["%k: f32 = sub_rz %x, %x", "%r: f32 = add_rm %s, %k"]
    steps = [f"%p: f32 = {product} %x, %y", f"%s: f32 = {sum} %p, %z", *zeros]
    generator = torch.Generator().manual_seed(3)
    x, y, z = (torch.rand(COUNT, generator=generator) - 0.5 for _ in range(3))
    got = run(steps, [x, y, z], torch.zeros(COUNT))

    def value(name, a, b):
        operation, _, mode = name.partition("_")
        if mode:
            return torch.tensor([expected(operation, mode, "f32", *v) for v in zip(a.tolist(), b.tolist())])
        return a * b if operation == "mul" else a + b

    same(got, value(sum, value(product, x, y), z).tolist(), x, y, z)


def test_constants_are_not_folded_to_nearest():
    text = """kernel k(%o: array<f32,1>) {
%i: i32 = bid {axis=0}
%one: f32 = constant {dtype=f32, value=1.0}
%three: f32 = constant {dtype=f32, value=3.0}
%q: f32 = div_rp %one, %three
%d: f32 = div_rz %one, %three
%e: f32 = sub_rm %q, %d
%r: f32[4] = broadcast %e {shape=[4]}
store %o, %r, %i {steps=[4]}
}
"""
    result = torch.zeros(4)
    _C.run_ir(text, (1, 1, 1), [result])
    assert result.tolist() == [2.0**-25] * 4


def test_a_difference_with_itself_is_minus_zero_downward():
    x = torch.rand(COUNT)
    for mode in MODES:
        got = run([f"%r: f32 = sub_{mode} %x, %x"], [x], torch.ones(COUNT))
        same(got, [-0.0 if mode == "rm" else 0.0] * COUNT)


@pytest.mark.parametrize(
    "target, mode",
    [(target, mode) for target in ("f16", "bf16", "tf32", "f32", "f64") for mode in CASTS if (target, mode) != ("bf16", "ra")],
)
@pytest.mark.parametrize("source", HELD)
def test_directed_casts(source, target, mode):
    if source == target:
        return
    if source in FORMATS:
        x = operands_of(source, 1, f"cast {source}")[0].double()
        digits, least, largest = FORMATS[target]
        edges = [largest * f for f in (1, 1 + 2.0**-digits, 1 - 2.0**-digits / 3, 1.5)]
        edges += [math.ldexp(f, least) for f in (0.25, 0.5, 0.75, 1.5, 2.0**digits - 0.5)]
        halves = [(1 + (2 * n + 1) * 2.0**-digits) * 2.0**e for n in (0, 1, 6) for e in (-20, 0, 3)]
        edges += [half * f for half in halves for f in (1, 1 - 2.0**-45, 1 + 2.0**-45)]
        edges = [sign * e for e in edges if math.isfinite(e) for sign in (1, -1)]
        x[: len(edges)] = torch.tensor(edges, dtype=torch.float64)
        x[200:400] = torch.rand(200, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) * 2.0 ** (least + 8)
        x = x.to(HELD[source])
    else:
        x = torch.arange(COUNT, dtype=torch.int64).to(torch.uint8).view(HELD[source])
    out = target if target != "tf32" else "f32"
    steps = [f"%{'r' if out == target else 'w'}: {target} = astype_{mode} %x {{dtype={target}}}"]
    if out != target:
        steps.append("%r: f32 = astype %w {dtype=f32}")
    got = run(steps, [x], torch.zeros(COUNT, dtype=FLOATS[out]))
    same(got, [cast(v, target, mode) for v in x.double().tolist()], x.double())


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTEGERS)
def test_casts_of_what_integers_do_not_hold(source, target):
    limits = torch.iinfo(INTEGERS[target])
    values = [
        math.nan,
        math.inf,
        -math.inf,
        3.99,
        -3.99,
        0.5,
        -0.5,
        -0.0,
        float(limits.max),
        float(limits.min),
        torch.finfo(FLOATS[source]).max,
        torch.finfo(FLOATS[source]).min,
        127.5,
        128.0,
        -129.0,
        255.9,
        256.0,
    ]
    x = torch.tensor(values, dtype=torch.float64).to(FLOATS[source])
    got = run([f"%r: {target} = astype %x {{dtype={target}}}"], [x], torch.zeros(len(x), dtype=INTEGERS[target]))
    assert got.tolist() == [
        0 if math.isnan(v) else limits.max if v >= limits.max else limits.min if v <= limits.min else math.trunc(v)
        for v in x.tolist()
    ]


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_casts_of_integers_wrap(source, target):
    limits, bits = torch.iinfo(INTEGERS[source]), torch.iinfo(INTEGERS[target]).bits
    values = [limits.min, limits.min + 1, 0, 1, 100, limits.max - 1, limits.max]
    x = torch.tensor([v - 2**64 if v >= 2**63 else v for v in values]).to(INTEGERS[source])
    steps = [f"%r: {target} = astype %x {{dtype={target}}}"]
    got = run(
        steps if source != target else [f"%r: {target} = bitwise_or %x, %x"], [x], torch.zeros(len(x), dtype=INTEGERS[target])
    )
    wrapped = [v % 2**bits for v in values]
    assert [v % 2**bits for v in got.tolist()] == wrapped


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS])
def test_bool_is_not_zero(source):
    dtype = {**FLOATS, **INTEGERS}[source]
    values = [0.0, -0.0, 1e-7, -2.0, math.nan, math.inf] if source in FLOATS else [0, 1, 100, torch.iinfo(dtype).max % 2**63]
    x = torch.tensor(values, dtype=torch.float64 if source in FLOATS else torch.int64).to(dtype)
    got = run(["%r: bool = astype %x {dtype=bool}"], [x], torch.zeros(len(x), dtype=torch.bool))
    assert got.tolist() == [v != 0 for v in x.double().tolist()]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["minimum_nan", "maximum_nan"])
def test_nan_wins(name, dtype):
    x, y = operands_of(dtype, 2, "nan")
    x[:3], y[:3] = torch.tensor([math.nan, 1, math.nan]), torch.tensor([-math.inf, math.nan, math.nan])
    got = run([f"%r: {dtype} = {name} %x, %y"], [x, y], torch.zeros(COUNT, dtype=FLOATS[dtype]))
    want = (torch.minimum if name == "minimum_nan" else torch.maximum)(x, y)
    assert torch.equal(got.isnan(), x.isnan() | y.isnan()) and torch.equal(got.nan_to_num(7), want.nan_to_num(7))


@pytest.mark.parametrize("dtype", FLOATS)
def test_signs_and_finiteness(dtype):
    (x,) = operands_of(dtype, 1, "sign")
    got = run([f"%r: {dtype} = sign %x"], [x], torch.ones(COUNT, dtype=FLOATS[dtype]))
    same(got, [v if v == 0 or math.isnan(v) else math.copysign(1, v) for v in x.tolist()], x)
    got = run(["%r: bool = isfinite %x"], [x], torch.zeros(COUNT, dtype=torch.bool))
    assert torch.equal(got, x.isfinite())


@pytest.mark.parametrize("dtype", INTEGERS)
def test_signs_of_integers(dtype):
    limits = torch.iinfo(INTEGERS[dtype])
    values = [limits.min, -1 if limits.min else 5, 0, 1, limits.max if limits.max < 2**63 else -1]
    x = torch.tensor(values).to(INTEGERS[dtype])
    got = run([f"%r: {dtype} = sign %x"], [x], torch.zeros(5, dtype=INTEGERS[dtype]))
    assert got.tolist() == ([-1, -1, 0, 1, 1] if limits.min else [0, 1, 0, 1, 1])


def flushed(x):
    return [math.copysign(0.0, v) if abs(v) < 2.0**-126 else v for v in x]


@pytest.mark.parametrize(
    "name", ["flush_subnormal", "add", "sub", "mul", "div", "sqrt", "rsqrt", "minimum", "maximum", "mul_rz"]
)
def test_subnormals_are_flushed(name):
    """Operands first, then the operation, then its result."""
    x, y = operands_of("f32", 2, "flush")
    operands = [x, y][: 1 if name in ("flush_subnormal", "sqrt", "rsqrt") else 2]
    names = ["%x", "%y"][: len(operands)]
    steps = [f"%f{n[1]}: f32 = flush_subnormal {n}" for n in names]
    plain = [f"%r: f32 = {name} {', '.join(names)}"]
    steps += [f"%w: f32 = {name} {', '.join(f'%f{n[1]}' for n in names)}", "%r: f32 = flush_subnormal %w"]
    got = run(steps, operands, torch.ones(COUNT))
    already = [torch.tensor(flushed(t.tolist()), dtype=torch.float64).float() for t in operands]
    same(got, flushed(run(plain, already, torch.ones(COUNT)).tolist()), *operands)
    assert not ((got != 0) & (got.abs() < 2.0**-126)).any()


def test_powers_of_two_are_flushed():
    x = torch.tensor([-125.0, -126.0, -126.5, -140.0, -149.0, -200.0])
    steps = ["%f: f32 = flush_subnormal %x", "%w: f32 = exp2 %f", "%r: f32 = flush_subnormal %w"]
    same(run(steps, [x], torch.ones(6)), [2.0**-125, 2.0**-126, 0, 0, 0, 0])
