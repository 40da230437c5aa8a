"""Arithmetic, comparisons, bit operations and selection, on tiles and constants."""

import math
import operator

from ..core import checks, dtypes
from ..core.checks import operand
from ..core.emit import promoted
from ..core.errors import TileTypeError
from ..core.modes import EXACT, RoundingMode
from .operands import all_constant, folded, require_arithmetic, require_flush, require_mode, rounded, unified
from ..core.registry import language_function
from ..core.values import Strict, Tile, constant_of, dtype_of, is_constant, is_loose, shown

_mode = checks.optional(checks.member(RoundingMode))


def _no_two_bools(name, values):
    if all(dtype_of(value) is dtypes.bool_ for value in values):
        raise TileTypeError(f"{name} does not support bool; convert with astype()")


def _binary(translator, name, primitive, python, x, y, rounding_mode=None, flush_to_zero=False, modes=()):
    values = (x, y)
    if all_constant(values):
        if not all(is_loose(value) for value in values):
            _no_two_bools(name, values)
        return folded(name, python, values)
    _no_two_bools(name, values)
    tiles, dtype = unified(translator, name, values)
    require_mode(name, rounding_mode, modes, dtype)
    require_flush(flush_to_zero, dtype)
    return rounded(translator.emitter, primitive, tiles, dtype, rounding_mode, flush_to_zero)


@language_function
def add(translator, x: operand, y: operand, /, *, rounding_mode: _mode = None, flush_to_zero: checks.flag = False):
    """Returns x + y."""
    return _binary(translator, "add", "add", operator.add, x, y, rounding_mode, flush_to_zero, EXACT)


@language_function
def sub(translator, x: operand, y: operand, /, *, rounding_mode: _mode = None, flush_to_zero: checks.flag = False):
    """Returns x - y."""
    return _binary(translator, "sub", "sub", operator.sub, x, y, rounding_mode, flush_to_zero, EXACT)


@language_function
def mul(translator, x: operand, y: operand, /, *, rounding_mode: _mode = None, flush_to_zero: checks.flag = False):
    """Returns x * y."""
    return _binary(translator, "mul", "mul", operator.mul, x, y, rounding_mode, flush_to_zero, EXACT)


def _as_float(dtype):
    return dtype if dtype.category == dtypes.FLOAT else dtypes.float32


def _floating(translator, name, values):
    """Returns operands in a float dtype: integers and bools become float32."""
    dtype = promoted(values) or dtypes.float32
    require_arithmetic(name, dtype)
    return unified(translator, name, values, _as_float(dtype))


@language_function
def truediv(translator, x: operand, y: operand, /, *, rounding_mode: _mode = None, flush_to_zero: checks.flag = False):
    """Returns x / y; integers are divided in float32."""
    if all_constant((x, y)):
        return folded("truediv", operator.truediv, (x, y), _as_float)
    tiles, dtype = _floating(translator, "truediv", (x, y))
    require_mode("truediv", rounding_mode, (*EXACT, RoundingMode.FULL, RoundingMode.APPROX), dtype)
    require_flush(flush_to_zero, dtype)
    return rounded(translator.emitter, "div", tiles, dtype, rounding_mode, flush_to_zero)


@language_function
def floordiv(translator, x: operand, y: operand, /):
    """Returns x // y, rounded to minus infinity. An integer divided by 0 gives any value."""
    return _binary(translator, "floordiv", "floordiv", operator.floordiv, x, y)


@language_function
def mod(translator, x: operand, y: operand, /):
    """Returns x % y, with the sign of y. An integer modulo 0 gives any value."""
    return _binary(translator, "mod", "mod", operator.mod, x, y)


def _host_cdiv(x, y):
    return -(-x // y)


@language_function(host=_host_cdiv)
def cdiv(translator, x: operand, y: operand, /):
    """Returns x / y of integers, rounded up. It may be called outside of kernels, too."""
    for value in (x, y):
        if dtype_of(value).category == dtypes.FLOAT:
            raise TileTypeError(f"cdiv: expected integers, got {dtype_of(value)}; use ceil(x / y)")
    return _binary(translator, "cdiv", "cdiv", _host_cdiv, x, y)


def _host_next_power_of_2(n):
    if not hasattr(n, "__index__"):
        raise TypeError(f"next_power_of_2: expected an integer, got {type(n).__name__}")
    return 1 << max(0, n.__index__() - 1).bit_length()


@language_function(host=_host_next_power_of_2)
def next_power_of_2(translator, n: operand):
    """Returns the smallest power of two that is at least n; 1 if n is below 1. It may be called outside of kernels, too."""
    if not is_constant(n):
        raise TileTypeError(f"next_power_of_2() expects a constant, got {shown(n)}; give it outside, as a Constant parameter")
    if dtype_of(n).category == dtypes.FLOAT:
        raise TileTypeError(f"next_power_of_2: expected an integer, got {dtype_of(n)}")
    return folded("next_power_of_2", _host_next_power_of_2, (n,))


@language_function(host=divmod)
def divmod_(translator, x: operand, y: operand, /):
    """Returns (x // y, x % y) of integers."""
    if any(dtype_of(value).category == dtypes.FLOAT for value in (x, y)) and not all_constant((x, y)):
        raise TileTypeError("divmod() is not implemented for floating point values; use // and %")
    return floordiv.lower(translator, (x, y), {}), mod.lower(translator, (x, y), {})


@language_function(host=pow)
def pow_(translator, x: operand, y: operand, /):
    """Returns x ** y; one of them is a float. An integer exponent keeps the dtype of a float base."""
    if all_constant((x, y)):
        if not all(is_loose(value) for value in (x, y)):
            _no_two_bools("pow", (x, y))
        return folded("pow", operator.pow, (x, y))
    _no_two_bools("pow", (x, y))
    tiles, dtype = unified(translator, "pow", (x, y))
    if dtype.category != dtypes.FLOAT:
        raise TileTypeError(
            f"pow: expected a float base or exponent, got {dtype_of(x)} and {dtype_of(y)}; convert with astype()"
        )
    return translator.emitter.emit("pow", *tiles)


@language_function
def atan2(translator, x: operand, y: operand, /):
    """Returns the angle of the point (y, x), from -pi to pi."""
    if all_constant((x, y)):
        return folded("atan2", math.atan2, (x, y), _as_float)
    return translator.emitter.emit("atan2", *_floating(translator, "atan2", (x, y))[0])


def _extremum(translator, name, python, x, y, flush_to_zero, propagate_nan):
    if all_constant((x, y)):
        return folded(name, python, (x, y))
    _no_two_bools(name, (x, y))
    tiles, dtype = unified(translator, name, (x, y))
    require_flush(flush_to_zero, dtype)
    primitive = name + "_nan" if propagate_nan and dtype.category == dtypes.FLOAT else name
    return rounded(translator.emitter, primitive, tiles, dtype, None, flush_to_zero)


@language_function
def maximum(translator, x: operand, y: operand, /, *, flush_to_zero: checks.flag = False, propagate_nan: checks.flag = False):
    """Returns the larger of x and y. A NaN is ignored unless propagate_nan is True."""
    return _extremum(translator, "maximum", max, x, y, flush_to_zero, propagate_nan)


@language_function
def minimum(translator, x: operand, y: operand, /, *, flush_to_zero: checks.flag = False, propagate_nan: checks.flag = False):
    """Returns the smaller of x and y. A NaN is ignored unless propagate_nan is True."""
    return _extremum(translator, "minimum", min, x, y, flush_to_zero, propagate_nan)


@language_function
def negative(translator, x: operand, /):
    """Returns -x. Unsigned integers wrap, bools become int32."""
    if is_constant(x):
        return folded("negative", operator.neg, (x,), lambda dtype: dtypes.int32 if dtype is dtypes.bool_ else dtype)
    require_arithmetic("negative", x.dtype)
    emitter = translator.emitter
    if x.dtype is dtypes.bool_:
        x = emitter.cast(x, dtypes.int32)
    if x.dtype.category == dtypes.INTEGER and not x.dtype.signed:
        return emitter.emit("sub", emitter.constant(0, x.dtype, x.shape), x)
    return emitter.emit("neg", x)


def _compare(name, primitive, python, doc):
    def compare(translator, x: operand, y: operand, /):
        if all_constant((x, y)):
            return bool(python(constant_of(x), constant_of(y)))
        tiles, dtype = unified(translator, name, (x, y))
        if dtype is dtypes.bool_ and primitive not in ("eq", "ne"):
            tiles = [translator.emitter.cast(tile, dtypes.uint8) for tile in tiles]
        return translator.emitter.emit(primitive, *tiles)

    compare.__name__, compare.__doc__ = name, doc
    return language_function(compare)


greater = _compare("greater", "gt", operator.gt, "Returns x > y.")
greater_equal = _compare("greater_equal", "ge", operator.ge, "Returns x >= y.")
less = _compare("less", "lt", operator.lt, "Returns x < y.")
less_equal = _compare("less_equal", "le", operator.le, "Returns x <= y.")
equal = _compare("equal", "eq", operator.eq, "Returns x == y.")
not_equal = _compare("not_equal", "ne", operator.ne, "Returns x != y; a NaN differs from everything.")


def _bits(name, python, doc):
    def bits(translator, x: operand, y: operand, /):
        for value in (x, y):
            if dtype_of(value).category == dtypes.FLOAT:
                raise TileTypeError(f"Bitwise operations require integers, got {dtype_of(value)}")
        if all_constant((x, y)):
            return folded(name, python, (x, y))
        kinds = {value.dtype for value in (x, y) if isinstance(value, (Tile, Strict))}
        loose = [value for value in (x, y) if is_loose(value)]
        if len(kinds) > 1 or any(isinstance(value, bool) != (kinds == {dtypes.bool_}) for value in loose):
            raise TileTypeError(f"Bitwise operands must have same data type, got {dtype_of(x)} and {dtype_of(y)}")
        return translator.emitter.emit(name, *unified(translator, name, (x, y))[0])

    bits.__name__, bits.__doc__ = name, doc
    return language_function(bits)


bitwise_and = _bits("bitwise_and", operator.and_, "Returns x & y of integers or bools of one dtype.")
bitwise_or = _bits("bitwise_or", operator.or_, "Returns x | y of integers or bools of one dtype.")
bitwise_xor = _bits("bitwise_xor", operator.xor, "Returns x ^ y of integers or bools of one dtype.")


@language_function
def bitwise_not(translator, x: operand, /):
    """Returns ~x of an integer and `not x` of a bool tile."""
    dtype = dtype_of(x)
    if dtype.category == dtypes.FLOAT:
        raise TileTypeError(f"Bitwise operations require integers, got {dtype}")
    if is_constant(x):
        if dtype is dtypes.bool_:
            raise TileTypeError("bitwise_not: a constant bool has no ~; write `not`")
        return folded("bitwise_not", operator.invert, (x,))
    return translator.emitter.emit("logical_not" if dtype is dtypes.bool_ else "bitwise_not", x)


def _shift(name, primitive, python, doc):
    def shift(translator, x: operand, y: operand, /):
        for value in (x, y):
            if dtype_of(value).category != dtypes.INTEGER:
                raise TileTypeError(f"Bitwise shift requires an integer, got {dtype_of(value)}")
        if all_constant((x, y)):
            return folded(name, python, (x, y))
        return translator.emitter.emit(primitive, *unified(translator, name, (x, y))[0])

    shift.__name__, shift.__doc__ = name, doc
    return language_function(shift)


bitwise_lshift = _shift("bitwise_lshift", "shift_left", operator.lshift, "Returns x << y of integers.")
bitwise_rshift = _shift(
    "bitwise_rshift", "shift_right", operator.rshift, "Returns x >> y of integers; the sign of a signed one moves in."
)


def nonzero(translator, value):
    """value != 0 as a bool tile."""
    value = translator.emitter.tile(value)
    if value.dtype is dtypes.bool_:
        return value
    require_arithmetic("condition", value.dtype)
    return translator.emitter.emit("ne", value, translator.emitter.constant(0, value.dtype, value.shape))


@language_function
def where(translator, cond: operand, x: operand, y: operand, /):
    """Returns x where cond is not zero, and y elsewhere."""
    emitter = translator.emitter
    if is_constant(cond) and all_constant((x, y)) and not all(map(is_loose, (x, y))):
        return folded("where", lambda x, y: x if constant_of(cond) else y, (x, y))
    dtype = promoted([x, y]) or promoted([emitter.tile(x), emitter.tile(y)])
    tiles = emitter.together("where", [nonzero(translator, cond), emitter.as_dtype(x, dtype), emitter.as_dtype(y, dtype)])
    return emitter.emit("where", *tiles)


@language_function(method=True)
def detach(translator, x: operand, /):
    """Returns x, which derivatives by the compiler take for a constant.

    Serves numbers that results depend on only by rounding, such as the maximum that a softmax subtracts: their gradients and
    tangents would cost time and add up to nothing.
    """
    return x if is_constant(x) else translator.emitter.emit("detach", translator.emitter.tile(x))


@language_function
def logical_not(translator, x: operand, /):
    """Returns x == 0."""
    if is_constant(x):
        return not constant_of(x)
    return translator.emitter.emit("logical_not", nonzero(translator, x))


# Python's operators, by the name of their syntax-tree node.
BINARY = {
    "Add": add, "Sub": sub, "Mult": mul, "Div": truediv, "FloorDiv": floordiv, "Mod": mod, "Pow": pow_,
    "BitAnd": bitwise_and, "BitOr": bitwise_or, "BitXor": bitwise_xor, "LShift": bitwise_lshift, "RShift": bitwise_rshift,
}  # fmt: skip
COMPARE = {"Gt": greater, "GtE": greater_equal, "Lt": less, "LtE": less_equal, "Eq": equal, "NotEq": not_equal}
SIGNS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "MatMult": "@", "BitAnd": "&",
    "BitOr": "|", "BitXor": "^", "LShift": "<<", "RShift": ">>", "Gt": ">", "GtE": ">=", "Lt": "<", "LtE": "<=", "Eq": "==",
    "NotEq": "!=", "USub": "-", "UAdd": "+", "Invert": "~", "Not": "not",
}  # fmt: skip
