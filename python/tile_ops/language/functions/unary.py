"""Functions of one number, one row each."""

import math

from ..core import checks, dtypes
from ..core.checks import operand
from ..core.errors import TileTypeError
from ..core.modes import EXACT, RoundingMode
from .operands import folded, require_arithmetic, require_flush, require_mode, rounded, unified
from ..core.registry import language_function
from ..core.values import dtype_of, is_constant

_mode = checks.optional(checks.member(RoundingMode))
_FLOAT_MODES = (RoundingMode.FULL, RoundingMode.APPROX)


def _float_of(dtype):
    return dtype if dtype.category == dtypes.FLOAT else dtypes.float32


def _unary(name, python, doc, modes=(), flushes=False, integers=True):
    """Makes a function of floats. integers: they and bools are converted to float32; otherwise they are an error."""

    def run(translator, x, rounding_mode=None, flush_to_zero=False):
        dtype = dtype_of(x)
        if not integers and dtype.category != dtypes.FLOAT:
            raise TileTypeError(f"{name}: Integer inputs are not supported, got {dtype}; they are whole already")
        if is_constant(x):
            return folded(name, python, (x,), _float_of)
        require_arithmetic(name, dtype)
        require_mode(name, rounding_mode, modes, _float_of(dtype))
        require_flush(flush_to_zero, _float_of(dtype))
        tile = translator.emitter.cast(x, _float_of(dtype))
        return rounded(translator.emitter, name, [tile], tile.dtype, rounding_mode, flush_to_zero)

    # The signature contains only the supported options.
    if modes and flushes:

        def function(translator, x: operand, /, *, rounding_mode: _mode = None, flush_to_zero: checks.flag = False):
            return run(translator, x, rounding_mode, flush_to_zero)

    elif modes:

        def function(translator, x: operand, /, *, rounding_mode: _mode = None):
            return run(translator, x, rounding_mode)

    elif flushes:

        def function(translator, x: operand, /, *, flush_to_zero: checks.flag = False):
            return run(translator, x, flush_to_zero=flush_to_zero)

    else:

        def function(translator, x: operand, /):
            return run(translator, x)

    function.__name__, function.__doc__ = name, doc
    return language_function(function)


def _rsqrt(x):
    return 1 / math.sqrt(x)


exp = _unary("exp", math.exp, "Returns e ** x.", _FLOAT_MODES)
exp2 = _unary("exp2", lambda x: 2.0**x, "Returns 2 ** x.", flushes=True)
expm1 = _unary("expm1", math.expm1, "Returns e ** x - 1, accurate for small x.")
log = _unary("log", math.log, "Returns the natural logarithm of x.")
log2 = _unary("log2", math.log2, "Returns the logarithm of x to base 2.")
log1p = _unary("log1p", math.log1p, "Returns log(1 + x), accurate for small x.")
sqrt = _unary("sqrt", math.sqrt, "Returns the square root of x.", (*EXACT, RoundingMode.APPROX), flushes=True)
rsqrt = _unary("rsqrt", _rsqrt, "Returns 1 / sqrt(x).", flushes=True)
sin = _unary("sin", math.sin, "Returns the sine of x radians.")
cos = _unary("cos", math.cos, "Returns the cosine of x radians.")
tan = _unary("tan", math.tan, "Returns the tangent of x radians.")
asin = _unary("asin", math.asin, "Returns the angle whose sine is x.")
acos = _unary("acos", math.acos, "Returns the angle whose cosine is x.")
atan = _unary("atan", math.atan, "Returns the angle whose tangent is x.")
sinh = _unary("sinh", math.sinh, "Returns the hyperbolic sine of x.")
cosh = _unary("cosh", math.cosh, "Returns the hyperbolic cosine of x.")
tanh = _unary("tanh", math.tanh, "Returns the hyperbolic tangent of x.", _FLOAT_MODES)
erf = _unary("erf", math.erf, "Returns the error function of x.")
sigmoid = _unary("sigmoid", lambda x: 1 / (1 + math.exp(-x)), "Returns 1 / (1 + e ** -x).")
silu = _unary("silu", lambda x: x / (1 + math.exp(-x)), "Returns x * sigmoid(x).")
floor = _unary("floor", lambda x: float(math.floor(x)), "Returns the largest whole number that is not above x.", integers=False)
ceil = _unary("ceil", lambda x: float(math.ceil(x)), "Returns the least whole number that is not below x.", integers=False)
round_ = _unary("round", lambda x: float(round(x)), "Returns the nearest whole number, halves to even.", integers=False)
trunc = _unary("trunc", lambda x: float(math.trunc(x)), "Returns x without the digits after the point.", integers=False)


@language_function
def abs_(translator, x: operand, /):
    """Returns the absolute value of x."""
    if is_constant(x):
        return folded("abs", abs, (x,))
    require_arithmetic("abs", x.dtype)
    return translator.emitter.emit("abs", x) if x.dtype.category == dtypes.FLOAT or x.dtype.signed else x


def _predicate(name, python, doc):
    def predicate(translator, x: operand, /):
        if dtype_of(x).category != dtypes.FLOAT:
            raise TileTypeError(f"{name}: expected a float, got {dtype_of(x)}")
        if is_constant(x):
            return folded(name, python, (x,), lambda _: dtypes.bool_)
        require_arithmetic(name, x.dtype)
        return translator.emitter.emit(name, x)

    predicate.__name__, predicate.__doc__ = name, doc
    return language_function(predicate)


isnan = _predicate("isnan", math.isnan, "Returns True where x is a NaN.")
isinf = _predicate("isinf", math.isinf, "Returns True where x is infinite.")
isfinite = _predicate("isfinite", math.isfinite, "Returns True where x is a finite number.")


@language_function
def fma(translator, x: operand, y: operand, z: operand, /):
    """Returns x * y + z, rounded once."""
    tiles, dtype = unified(translator, "fma", (x, y, z))
    if dtype.category != dtypes.FLOAT:
        raise TileTypeError(f"fma: expected floats, got {dtype}")
    return translator.emitter.emit("fma", *tiles)
