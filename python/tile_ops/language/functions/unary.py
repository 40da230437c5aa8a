"""Functions of one number: a row each."""

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
    """A function of floats. integers: they and bools become float32, else they are refused."""

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

    # The signature says which options there are.
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


exp = _unary("exp", math.exp, "e ** x.", _FLOAT_MODES)
exp2 = _unary("exp2", lambda x: 2.0**x, "2 ** x.", flushes=True)
expm1 = _unary("expm1", math.expm1, "e ** x - 1, also where x is small.")
log = _unary("log", math.log, "The natural logarithm.")
log2 = _unary("log2", math.log2, "The logarithm to base 2.")
log1p = _unary("log1p", math.log1p, "log(1 + x), also where x is small.")
sqrt = _unary("sqrt", math.sqrt, "The square root.", (*EXACT, RoundingMode.APPROX), flushes=True)
rsqrt = _unary("rsqrt", _rsqrt, "1 / sqrt(x).", flushes=True)
sin = _unary("sin", math.sin, "The sine of x radians.")
cos = _unary("cos", math.cos, "The cosine of x radians.")
tan = _unary("tan", math.tan, "The tangent of x radians.")
asin = _unary("asin", math.asin, "The angle whose sine is x.")
acos = _unary("acos", math.acos, "The angle whose cosine is x.")
atan = _unary("atan", math.atan, "The angle whose tangent is x.")
sinh = _unary("sinh", math.sinh, "The hyperbolic sine.")
cosh = _unary("cosh", math.cosh, "The hyperbolic cosine.")
tanh = _unary("tanh", math.tanh, "The hyperbolic tangent.", _FLOAT_MODES)
erf = _unary("erf", math.erf, "The error function.")
sigmoid = _unary("sigmoid", lambda x: 1 / (1 + math.exp(-x)), "1 / (1 + e ** -x).")
silu = _unary("silu", lambda x: x / (1 + math.exp(-x)), "x * sigmoid(x).")
floor = _unary("floor", lambda x: float(math.floor(x)), "The largest whole number that is not above x.", integers=False)
ceil = _unary("ceil", lambda x: float(math.ceil(x)), "The least whole number that is not below x.", integers=False)
round_ = _unary("round", lambda x: float(round(x)), "The nearest whole number, halves to even.", integers=False)
trunc = _unary("trunc", lambda x: float(math.trunc(x)), "x without what stands behind the point.", integers=False)


@language_function
def abs_(translator, x: operand, /):
    """The absolute value, in x's dtype."""
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


isnan = _predicate("isnan", math.isnan, "Whether x is a NaN, bool_.")
isinf = _predicate("isinf", math.isinf, "Whether x is infinite, bool_.")
isfinite = _predicate("isfinite", math.isfinite, "Whether x is a number, bool_.")


@language_function
def fma(translator, x: operand, y: operand, z: operand, /):
    """x * y + z, rounded once."""
    tiles, dtype = unified(translator, "fma", (x, y, z))
    if dtype.category != dtypes.FLOAT:
        raise TileTypeError(f"fma: expected floats, got {dtype}")
    return translator.emitter.emit("fma", *tiles)
