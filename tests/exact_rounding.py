"""Arithmetic of floats rounded in a direction, exactly: in fractions of whole numbers."""

import math
from fractions import Fraction

import torch

# Significant bits, the exponent of the least number, and the largest number.
FORMATS = {
    "f16": (11, -24, 65504.0),
    "bf16": (8, -133, float.fromhex("0x1.fep127")),
    "tf32": (11, -136, float.fromhex("0x1.ffcp127")),
    "f32": (24, -149, torch.finfo(torch.float32).max),
    "f64": (53, -1074, torch.finfo(torch.float64).max),
}
MODES = ["rz", "rm", "rp"]
CASTS = [*MODES, "ra"]  # ra: to nearest, halves away from zero


def away(mode, negative):
    """Returns True if the mode makes what does not fit larger in size."""
    return mode == ("rm" if negative else "rp")


def floor_log2(x):
    """Returns the floor of the binary logarithm of a positive fraction."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def rounded(x, dtype, mode, root=False):
    """A fraction, or its square root where so said, that is not 0."""
    digits, least, largest = FORMATS[dtype]
    negative, size = x < 0, abs(x)
    exponent = floor_log2(size)
    unit = max((exponent // 2 if root else exponent) - digits + 1, least)
    scaled = size / Fraction(2) ** (2 * unit if root else unit)
    units = math.isqrt(math.floor(scaled)) if root else math.floor(scaled)
    units += (
        scaled - units >= Fraction(1, 2)
        if mode == "ra"
        else away(mode, negative) and (units * units if root else units) != scaled
    )
    try:
        result = math.ldexp(units, unit)
    except OverflowError:
        result = math.inf
    if result > largest:
        result = math.inf if mode == "ra" or away(mode, negative) else largest
    return -result if negative else result


def cast(x, dtype, mode):
    return rounded(Fraction(x), dtype, mode) if x and math.isfinite(x) else x


def negative(x):
    return math.copysign(1.0, x) < 0


def total(x, y, product_sign, dtype, mode):
    """The sum of two fractions; of zeros x has the sign that is said, y its own."""
    exact = x + Fraction(y)
    if exact:
        return rounded(exact, dtype, mode)
    both = x == 0 and y == 0 and product_sign == negative(y)
    return -0.0 if (product_sign if both else mode == "rm") else 0.0


def of_infinite(name, x, y, z):
    """Where an operand is infinite or no number no rounding is left to do."""
    if name in ("add", "sub"):
        return x + (y if name == "add" else -y)
    if name == "div":
        if math.isinf(y):
            return math.nan if math.isinf(x) else math.copysign(0.0, x) * math.copysign(1.0, y)
        return x * math.copysign(1.0, y)
    if math.isfinite(x) and math.isfinite(y):
        return x * y if name == "mul" else z
    return x * y + (z if name == "fma" else 0)


def expected(name, mode, dtype, x, y=1.0, z=0.0):
    """The result as a float."""
    operands = {"sqrt": [x], "fma": [x, y, z]}.get(name, [x, y])
    if any(map(math.isnan, operands)):
        return math.nan
    if name == "sqrt":
        return x if x == 0 else math.nan if x < 0 else x if x == math.inf else rounded(Fraction(x), dtype, mode, True)
    if not all(map(math.isfinite, operands)):
        return of_infinite(name, x, y, z)
    sign = negative(x) != negative(y)
    if name == "div":
        if y == 0:
            return math.nan if x == 0 else -math.inf if sign else math.inf
        return rounded(Fraction(x) / Fraction(y), dtype, mode) if x else -0.0 if sign else 0.0
    if name == "mul":
        exact = Fraction(x) * Fraction(y)
        return rounded(exact, dtype, mode) if exact else -0.0 if sign else 0.0
    if name == "fma":
        return total(Fraction(x) * Fraction(y), z, sign, dtype, mode)
    return total(Fraction(x), -y if name == "sub" else y, negative(x), dtype, mode)
