"""Elementwise functions of the language against torch: every dtype, promotion, constants, rounding modes."""

import itertools
import math
import operator

import pytest
import tile_ops.language as tl
import torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
SIZE = 37


def mapped(function, count):
    """A kernel that applies a function of the language to tiles of `count` arrays."""

    @tl.kernel
    def unary(x, out):
        tl.store(out, tl.bid(0), function(tl.load(x, tl.bid(0), 16)).astype(out.dtype))

    @tl.kernel
    def binary(x, y, out):
        tl.store(out, tl.bid(0), function(tl.load(x, tl.bid(0), 16), tl.load(y, tl.bid(0), 16)).astype(out.dtype))

    return unary if count == 1 else binary


def values(dtype, low=-4.0, high=4.0):
    if dtype == torch.bool:
        return torch.rand(SIZE) < 0.5
    if dtype.is_floating_point:
        return (torch.rand(SIZE, dtype=torch.float64) * (high - low) + low).to(dtype)
    low = max(0, int(low)) if dtype in UNSIGNED else int(low)
    return torch.randint(low, int(high) + 1, (SIZE,)).to(dtype)


def run(function, arguments, dtype):
    out = torch.zeros(arguments[0].shape).to(dtype)
    mapped(function, len(arguments))[3](*arguments, out)
    return out


def close(got, want, ulps=8):
    if not got.dtype.is_floating_point:
        return torch.testing.assert_close(got.to(torch.int64), want.to(torch.int64), rtol=0, atol=0)
    eps = torch.finfo(got.dtype).eps
    return torch.testing.assert_close(got.double(), want.double(), rtol=ulps * eps, atol=ulps * eps, equal_nan=True)


UNARY = {
    "exp": (torch.exp, -3, 3), "exp2": (torch.exp2, -3, 3), "expm1": (torch.expm1, -1, 1), "log": (torch.log, 0.1, 9),
    "log2": (torch.log2, 0.1, 9), "log1p": (torch.log1p, -0.9, 4), "sqrt": (torch.sqrt, 0, 9), "rsqrt": (torch.rsqrt, 0.1, 9),
    "sin": (torch.sin, -3, 3), "cos": (torch.cos, -3, 3), "tan": (torch.tan, -1, 1), "asin": (torch.asin, -1, 1),
    "acos": (torch.acos, -1, 1), "atan": (torch.atan, -4, 4), "sinh": (torch.sinh, -2, 2), "cosh": (torch.cosh, -2, 2),
    "tanh": (torch.tanh, -3, 3), "erf": (torch.erf, -3, 3), "sigmoid": (torch.sigmoid, -4, 4),
    "silu": (torch.nn.functional.silu, -4, 4), "floor": (torch.floor, -4, 4), "ceil": (torch.ceil, -4, 4),
    "round": (torch.round, -4, 4), "trunc": (torch.trunc, -4, 4), "abs": (torch.abs, -4, 4), "negative": (torch.neg, -4, 4),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    reference, low, high = UNARY[name]
    x = values(dtype, low, high)
    close(run(getattr(tl, name), [x], dtype), reference(x.double()))


@pytest.mark.parametrize("name", ["exp", "sqrt", "sin", "rsqrt"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int64])
def test_unary_of_integers_is_float32(name, dtype):
    x = values(dtype, 1, 5)
    close(run(getattr(tl, name), [x], torch.float32), UNARY[name][0](x.float()))


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_kinds_of_numbers(name, dtype):
    x = torch.tensor([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan]).to(dtype)
    close(run(getattr(tl, name), [x], torch.bool), getattr(torch, name)(x))


ARITHMETIC = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, torch.uint8])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name, dtype):
    x, y = values(dtype), values(dtype)
    exact = (lambda t: t.double()) if dtype.is_floating_point else (lambda t: t)
    close(run(getattr(tl, name), [x, y], dtype), ARITHMETIC[name](exact(x), exact(y)), ulps=1)


@pytest.mark.parametrize("dtype", UNSIGNED[1:])
def test_arithmetic_of_unsigned_integers_wraps(dtype):
    x, y = values(dtype), values(dtype)
    width = torch.iinfo(dtype).bits
    got = run(tl.sub, [x, y], dtype).to(torch.int64)
    assert ((got - (x.to(torch.int64) - y.to(torch.int64))) % (1 << min(width, 62)) == 0).all()
    close(run(tl.negative, [run(tl.negative, [x], dtype)], dtype), x)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.int64])
def test_division_of_floats_and_integers(dtype):
    x, y = values(dtype, 1, 9), values(dtype, 1, 5)
    close(run(tl.truediv, [x, y], dtype if dtype.is_floating_point else torch.float32), x.double() / y.double(), ulps=1)


@pytest.mark.parametrize("dtype", [*SIGNED, torch.uint8, torch.float32])
@pytest.mark.parametrize("signs", list(itertools.product((1, -1), repeat=2)))
def test_floor_division_and_remainder(dtype, signs):
    if dtype == torch.uint8:
        signs = (1, 1)
    x, y = values(dtype, 1, 9) * signs[0], values(dtype, 1, 5) * signs[1]
    close(run(tl.floordiv, [x, y], dtype), torch.floor_divide(x, y))
    close(run(tl.mod, [x, y], dtype), torch.remainder(x, y))
    if not dtype.is_floating_point:
        close(run(tl.cdiv, [x, y], dtype), -torch.floor_divide(-x.to(torch.int64), y.to(torch.int64)))


COMPARISONS = {"greater": torch.gt, "greater_equal": torch.ge, "less": torch.lt, "less_equal": torch.le, "equal":
torch.eq,
               "not_equal": torch.ne}  # fmt: skip


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, torch.uint8, torch.bool])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name, dtype):
    x, y = values(dtype, -2, 2), values(dtype, -2, 2)
    if dtype.is_floating_point:
        x[3] = y[5] = math.nan
    close(run(getattr(tl, name), [x, y], torch.bool), COMPARISONS[name](x, y))


@pytest.mark.parametrize("dtype", [*SIGNED, torch.uint8, torch.bool])
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(name, dtype):
    x, y = values(dtype, -100, 100), values(dtype, -100, 100)
    close(run(getattr(tl, name), [x, y], dtype), getattr(torch, name)(x, y))


@pytest.mark.parametrize("dtype", [*SIGNED, torch.uint8])
def test_shifts_and_complement(dtype):
    x, y = values(dtype, -100, 100), values(dtype, 0, 6)
    close(run(tl.bitwise_rshift, [x, y], dtype), x >> y)
    close(run(tl.bitwise_lshift, [x, y], dtype), x << y)
    close(run(tl.bitwise_not, [x], dtype), ~x)


def test_not_of_bools():
    x = values(torch.bool)
    close(run(lambda t: ~t, [x], torch.bool), ~x)
    close(run(lambda t: not t, [x], torch.bool), ~x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_pow_and_atan2(dtype):
    x, y = values(dtype, 0.5, 3), values(dtype, -2, 2)
    close(run(tl.pow, [x, y], dtype), x.double() ** y.double(), ulps=16)
    close(run(tl.atan2, [y, x], dtype), torch.atan2(y.double(), x.double()))
    close(run(lambda t: t**2, [y], dtype), y.double() ** 2)


def test_nan_in_extrema():
    x, y = torch.tensor([math.nan, 1.0, 2.0, math.nan]), torch.tensor([1.0, math.nan, 3.0, math.nan])
    close(run(tl.maximum, [x, y], torch.float32), torch.fmax(x, y))
    close(run(lambda x, y: tl.minimum(x, y, propagate_nan=True), [x, y], torch.float32), torch.minimum(x, y))


@pytest.mark.parametrize("mode", ["RZ", "RM", "RP"])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_directed_rounding_brackets_the_exact_value(name, mode, dtype):
    x, y = values(dtype, 1, 3), values(dtype, 1, 3)
    function, rounding = getattr(tl, name), tl.RoundingMode[mode]
    got = run(lambda x, y: function(x, y, rounding_mode=rounding), [x, y], dtype).double()
    exact = getattr(operator, name)(x.double(), y.double())
    low = mode == "RM" or mode == "RZ"
    positive = exact > 0
    if mode == "RZ":
        assert (torch.where(positive, got <= exact, got >= exact)).all()
    else:
        assert (got <= exact if low else got >= exact).all()
    assert ((got - exact).abs() <= exact.abs() * torch.finfo(dtype).eps).all()


def test_flush_to_zero():
    x = torch.tensor([1e-39, -1e-39, 1e-20, 2.0])
    got = run(lambda x, y: tl.mul(x, y, flush_to_zero=True), [x, torch.ones(4)], torch.float32)
    assert got.tolist() == [0.0, -0.0, torch.tensor(1e-20).item(), 2.0]
    assert math.copysign(1, got[1].item()) == -1


PROMOTION = [
    (torch.int8, torch.int32, torch.int32), (torch.int64, torch.float16, torch.float16),
    (torch.bool, torch.int8, torch.int8),
    (torch.bfloat16, torch.float32, torch.float32), (torch.float32, torch.float64, torch.float64),
    (torch.uint8, torch.uint16, torch.uint16),
    (torch.bool, torch.bfloat16, torch.bfloat16),
]  # fmt: skip


@pytest.mark.parametrize("x, y, result", PROMOTION)
def test_promotion(x, y, result):
    def check(a, b):
        tl.static_assert((a + b).dtype == result)
        return (a + b).astype(tl.float32)

    a, b = values(x, 0, 3), values(y, 0, 3)
    want = (a.double() + b.double()).to(result).float()
    close(run(check, [a, b], torch.float32), want)
    close(run(check, [b, a], torch.float32), want)


CONSTANTS = [
    (torch.int8, 1, torch.int8), (torch.int8, 1.5, torch.float32), (torch.float16, 1.5, torch.float16),
    (torch.bool, 1, torch.int32), (torch.float64, 1, torch.float64), (torch.bfloat16, True, torch.bfloat16),
    (torch.uint8, 255, torch.uint8),
]  # fmt: skip


@pytest.mark.parametrize("dtype, constant, result", CONSTANTS)
def test_a_loose_constant_takes_a_dtype(dtype, constant, result):
    def check(t):
        tl.static_assert((t + constant).dtype == result)
        return (t + constant).astype(tl.float32)

    x = values(dtype, 0, 3)
    want = (x.double() + float(constant)).to(result).float()
    close(run(check, [x], torch.float32), (x.float() + 255) % 256 if dtype == torch.uint8 else want)


def test_strict_constants():
    def check(t):
        tl.static_assert(tl.int8(300) == 44 and tl.int8(1.5) == 1 and tl.bool_(2) == True)  # noqa: E712
        tl.static_assert(tl.int8(100) + tl.int8(100) == -56)
        tl.static_assert(tl.float16(1e9) == math.inf)
        tl.static_assert((1).astype(tl.int64).dtype == tl.int64)
        return t + tl.int64(1)

    x = values(torch.int32)
    close(run(check, [x], torch.int64), x + 1)


@pytest.mark.parametrize("source, target", list(itertools.product([*FLOATS, *SIGNED, torch.uint8, torch.bool], repeat=2)))
def test_astype(source, target):
    x = values(source, 0, 9)
    close(run(lambda t: t.astype(target), [x], target), x.to(target), ulps=1)


@pytest.mark.parametrize(
    "source, target", [(torch.float32, torch.int32), (torch.float16, torch.int16), (torch.int64, torch.float64)]
)
def test_bitcast(source, target):
    x = values(source)
    close(run(lambda t: tl.bitcast(t, target), [x], target), x.view(target))


def test_where():
    x, y = values(torch.float32), values(torch.float32)
    close(run(lambda x, y: tl.where(x > y, x, 0), [x, y], torch.float32), torch.where(x > y, x, 0))
    close(run(lambda x, y: tl.where(x, 1, 2), [x, y], torch.int32), torch.where(x != 0, 1, 2))


def test_operators_of_python():
    x, y = values(torch.int32, 1, 9), values(torch.int32, 1, 5)

    def every(a, b):
        return -a + +b - a * b // 3 % 5 + (a & 3 | b ^ 1) + (a << 1 >> 1) + divmod(a, b)[1] + abs(-a) + min(a, b) + max(a, 3)

    want = -x + y - x * y // 3 % 5 + (x & 3 | y ^ 1) + (x << 1 >> 1) + x % y + x + torch.minimum(x, y) + torch.clamp(x, min=3)
    close(run(every, [x, y], torch.int32), want)


def test_chained_comparisons_and_bools():
    @tl.kernel
    def chained(out, n: int, s: float):
        a = 1 if 0 < n <= 5 < 9 else 0
        b = 2 if n > 3 and s < 1.0 or n == 100 else 0
        c = 4 if not n else 0
        tl.store(out, 0, a + b + c)

    for n, s in itertools.product((0, 2, 5, 7, 100), (0.5, 2.0)):
        out = torch.zeros(1, dtype=torch.int32)
        chained[1](out, n, s)
        assert out.item() == (0 < n <= 5) + 2 * (n > 3 and s < 1 or n == 100) + 4 * (not n)
