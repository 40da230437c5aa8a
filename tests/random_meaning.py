"""Defines each primitive in torch: values are float64, int64 or bool tensors with a bound of their error.

The bound is None where every bit is known. Where it is infinite nothing is: an order of additions, a zero's sign."""

import math

import numpy
import torch
from tile_ops import _C

TABLE = _C.primitives()
FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
# Floats that are held, moved, converted and multiplied as matrices, but not computed with.
SMALL = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
HELD = {**FLOATS, **SMALL}
INTEGERS = {
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
}
DTYPES = {**HELD, **INTEGERS, "bool": torch.bool}


def bits(dtype):
    return DTYPES[dtype].itemsize * 8


def signed(dtype):
    return dtype.startswith("i")


def ordered(x, dtype):
    """Integers that compare as the values do: those of u64 are held as the bits of an int64."""
    return x ^ torch.iinfo(torch.int64).min if dtype == "u64" else x


def finished(x, e):
    """Returns the value and its error; no error is known if the value is NaN or the operand had none."""
    if e is None:
        return x, None
    return x, torch.where(x.isfinite(), e.nan_to_num(math.inf, math.inf), math.inf)


def unit(dtype):
    """Spacing of numbers relative to their size, and the least one."""
    info = torch.finfo(HELD[dtype])
    return info.eps, info.tiny * info.eps


def nearest(x, dtype):
    """In the dtype, by way of f32. Of f8e4m3, which has no infinity, too large is the largest; before torch 2.13 it was
    NaN there."""
    if dtype == "f64":
        return x
    x = x.float().clamp(-448, 448) if dtype == "f8e4m3" else x.float()
    return x.to(HELD[dtype]).double()


def rounded(x, e, dtype):
    """To the dtype; 16-bit floats are computed in f32 and rounded."""
    y = nearest(x, dtype)
    if e is None:
        return y, None
    eps, least = unit(dtype)
    e = e + eps * (y.abs() + e) + least
    return finished(y, torch.where(y.abs() + e < torch.finfo(HELD[dtype]).max, e, math.inf))


def wrapped(x, dtype):
    n = bits(dtype)
    if n == 64:
        return x
    x = x & ((1 << n) - 1)
    return x - ((x >> (n - 1)) << n) if signed(dtype) else x


def widened(x):
    """As the reference holds it."""
    return x if x.dtype == torch.bool else x.double() if x.is_floating_point() else x.to(torch.int64)


def error(e, like):
    return torch.zeros_like(like) if e is None else e


def either(*errors):
    """Returns True if any operand is not exact."""
    return any(e is not None for e in errors)


def cast(x, e, source, target):
    if target == source:
        return x, e
    if target == "bool":
        return x != 0, None
    if target in HELD:
        if source in HELD:
            return rounded(x, e, target)
        numbers = x.numpy().view(numpy.uint64) if source == "u64" else x.numpy()
        once = numpy.asarray(numbers.astype(numpy.float64 if target == "f64" else numpy.float32))
        return nearest(torch.from_numpy(once).double(), target), None
    if source not in HELD:
        return wrapped(x.to(torch.int64), target), None
    info = torch.iinfo(DTYPES[target])
    x = torch.where(x.isnan(), 0.0, x)
    high, low = x >= 2.0 ** (bits(target) - signed(target)), x <= float(info.min)
    inside = torch.where(high | low, 0.0, x).trunc()
    upper = inside >= 2.0**63  # of u64 alone
    inside = torch.where(upper, inside - 2.0**63, inside).to(torch.int64) ^ torch.where(upper, torch.iinfo(torch.int64).min, 0)
    return torch.where(high, -1 if target == "u64" else info.max, torch.where(low, info.min, inside)), None


def unsigned(x, function, *others):
    """A function of numpy's uint64."""
    return torch.from_numpy(numpy.asarray(function(*(t.numpy().view(numpy.uint64) for t in (x, *others)))).view(numpy.int64))


def integer(name, dtype, x, y=None):
    """An elementwise primitive of integers."""
    if name in ("floordiv", "mod", "cdiv"):
        if dtype == "u64":
            quotient = unsigned(x, numpy.floor_divide, torch.where(y == 0, 1, y))
        else:
            safe = torch.where((y == 0) | (y == -1), 1, y)
            quotient = torch.where(y == -1, -x, torch.floor_divide(x, safe))
        if name == "mod":
            return wrapped(torch.where(y == 0, 0, x - quotient * y), dtype)
        if name == "cdiv":
            quotient = quotient + (wrapped(quotient * y, dtype) != x).long()
        return wrapped(torch.where(y == 0, 0, quotient), dtype)
    if name in ("shift_left", "shift_right"):
        n, out = bits(dtype), (y < 0) | (y >= bits(dtype))
        if name == "shift_left":
            return wrapped(torch.where(out, 0, x << torch.where(out, 0, y)), dtype)
        if dtype == "u64":
            return torch.where(out, 0, unsigned(x, numpy.right_shift, torch.where(out, 0, y)))
        return x >> torch.where(out, n - 1 if signed(dtype) else 63, y)
    result = {
        "neg": lambda: -x,
        "abs": lambda: x.abs(),
        "bitwise_not": lambda: ~x,
        "add": lambda: x + y,
        "sub": lambda: x - y,
        "mul": lambda: x * y,
        "minimum": lambda: torch.where(ordered(x, dtype) < ordered(y, dtype), x, y),
        "maximum": lambda: torch.where(ordered(x, dtype) > ordered(y, dtype), x, y),
        "bitwise_and": lambda: x & y,
        "bitwise_or": lambda: x | y,
        "bitwise_xor": lambda: x ^ y,
    }[name]()
    return wrapped(result, dtype)


def boolean(name, x, y=None):
    return ~x if name == "logical_not" else {"bitwise_and": x & y, "bitwise_or": x | y, "bitwise_xor": x ^ y}[name]


PREDICATES = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
# Functions of float operands with errors: each changes no faster than its operand.
GENTLE = {"sin", "cos", "tanh", "sigmoid", "atan", "abs", "neg"}


def function(name, dtype, x, e):
    """A function that is rounded: right to the row's bound inside the row's range."""
    row = TABLE[name]
    y = eval(row["reference"], {"torch": torch}, {"x": x})
    eps, least = unit(dtype)
    bound = (row["ulp"] + 1) * (eps * y.abs() + least) + error(e, x)
    return rounded(*finished(y, torch.where((x >= row["low"]) & (x <= row["high"]), bound, math.inf)), dtype)


def function_of_two(name, dtype, x, y):
    """pow or atan2 of exact operands. Nothing is known where the value is infinite or none, nor where a zero's sign
    decides."""
    z = eval(TABLE[name]["reference"], {"torch": torch}, {"x": x, "y": y})
    eps, least = unit(dtype)
    unknown = (x == 0) & (y <= 0)
    return rounded(*finished(z, torch.where(unknown, math.inf, (TABLE[name]["ulp"] + 1) * (eps * z.abs() + least))), dtype)


def floating(name, dtype, x, ex, y=None, ey=None):
    """An elementwise primitive of floats."""
    known = not either(ex, ey)
    eps, _ = unit(dtype)
    if name in ("neg", "abs"):
        return (-x if name == "neg" else x.abs()), ex
    if name == "sqrt":  # torch's own is an ulp off
        with numpy.errstate(invalid="ignore"):
            return rounded(torch.from_numpy(numpy.asarray(numpy.sqrt(x.numpy()))), None, dtype)
    if name in ("floor", "ceil", "round", "trunc"):
        return getattr(torch, name)(x), None
    if name in ("minimum", "maximum"):
        z = (torch.fmin if name == "minimum" else torch.fmax)(x, y)
        return z, None if known else finished(z, torch.maximum(error(ex, x), error(ey, y)))[1]
    if name in ("add", "sub"):
        z = x + y if name == "add" else x - y
        return rounded(z, None if known else error(ex, x) + error(ey, y), dtype)
    if name == "mul":
        ex, ey = (None, None) if known else (error(ex, x), error(ey, y))
        return rounded(x * y, None if known else x.abs() * ey + y.abs() * ex + ex * ey, dtype)
    if name == "div":
        return rounded(x / y, None, dtype)
    if name == "mod":
        return rounded(torch.remainder(x, y), None, dtype)
    if name == "floordiv":
        kind = torch.float64 if dtype == "f64" else torch.float32
        return rounded(torch.floor_divide(x.to(kind), y.to(kind)).double(), None, dtype)
    raise KeyError(name)


def fma(dtype, x, y, z, ex, ey, ez):
    ex, ey, ez = error(ex, x), error(ey, y), error(ez, z)
    eps, least = unit(dtype)
    bound = eps * (x * y).abs() + least + x.abs() * ey + y.abs() * ex + ex * ey + ez
    return rounded(*finished(x * y + z, bound), dtype)


def reduced(name, dtype, x, e, axes):
    """A named reduction; sums of floats are known up to their order."""
    count = math.prod(x.shape[a] for a in axes)
    if name in ("reduce_any", "reduce_all"):
        return (torch.any if name == "reduce_any" else torch.all)(x, axes), None
    if name in ("reduce_max", "reduce_min"):
        worst = -math.inf if name == "reduce_max" else math.inf
        pick = torch.amax if name == "reduce_max" else torch.amin
        if dtype not in FLOATS:
            return ordered(pick(ordered(x, dtype), axes), dtype), None
        y = torch.where(x.isnan().int().amin(axes).bool(), math.nan, pick(torch.where(x.isnan(), worst, x), axes))
        return finished(y, None if e is None else e.amax(axes))
    if dtype not in FLOATS:
        if name == "reduce_sum":
            return wrapped(x.sum(axes), dtype), None
        for axis in sorted(axes, reverse=True):
            x = x.prod(axis)
        return wrapped(x, dtype), None
    accumulator = "f64" if dtype == "f64" else "f32"
    eps, least = unit(accumulator)
    e = error(e, x)
    if name == "reduce_sum":
        size = (x.abs() + e).sum(axes)
        bound = e.sum(axes) + (count + 1) * (eps * size + least)
        most = torch.finfo(FLOATS[accumulator]).max
        return rounded(*finished(x.sum(axes), torch.where(size < most, bound, math.inf)), dtype)
    y, up, down = x, (x.abs() + e).clamp_min(1), (x.abs() - e).clamp(0, 1)
    for axis in sorted(axes, reverse=True):
        y, up, down = y.prod(axis), up.prod(axis), down.prod(axis)
    relative = (e / x.abs()).nan_to_num(0.0).sum(axes) + (count + 1) * (eps if dtype == accumulator else unit(dtype)[0])
    inside = (up < torch.finfo(FLOATS[dtype]).max) & ((down > torch.finfo(FLOATS[dtype]).tiny) | (y == 0)) & (relative < 0.1)
    return rounded(*finished(y, torch.where(inside, 2 * relative * y.abs(), math.inf)), dtype)


def best(name, dtype, x, axis):
    """argmax and argmin: the first of equals, NaN skipped; of NaN alone 0."""
    x = ordered(x, dtype)
    there = ~x.isnan() if x.is_floating_point() else torch.ones_like(x, dtype=torch.bool)
    if name == "argmax":
        top = torch.where(there, x, -math.inf if x.is_floating_point() else torch.iinfo(x.dtype).min).amax(axis, keepdim=True)
    else:
        top = torch.where(there, x, math.inf if x.is_floating_point() else torch.iinfo(x.dtype).max).amin(axis, keepdim=True)
    return (there & (x == top)).int().argmax(axis)


def product(acc_dtype, x, y, acc, ex, ey, ea):
    if acc_dtype == "i32":
        return wrapped(x @ y + acc, "i32"), None
    eps, least = unit(acc_dtype)
    ex, ey, ea = error(ex, x), error(ey, y), error(ea, acc)
    size = x.abs() @ y.abs() + acc.abs()
    bound = ex @ y.abs() + x.abs() @ ey + ex @ ey + ea + (x.shape[-1] + 2) * (eps * size + least)
    most = torch.finfo(FLOATS[acc_dtype]).max
    return rounded(*finished(x @ y + acc, torch.where(size < most, bound, math.inf)), acc_dtype)
