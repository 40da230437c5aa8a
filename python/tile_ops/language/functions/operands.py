"""Shared by arithmetic functions: promotion and broadcasting of operands, constant folding, rounding modes."""

from ..core import dtypes
from ..core.emit import promoted
from ..core.errors import TileTypeError, TileValueError
from ..core.modes import SUFFIX, RoundingMode
from ..core.values import Strict, Tile, constant_of, is_constant, is_loose


def folded(name, function, values, result=None):
    """Computes a function of constants with Python's arithmetic, in the dtype of a strict constant if there is one.

    result: maps that dtype to the dtype of the result.
    """
    dtype = promoted(values)
    numbers = [constant_of(value) for value in values]
    if dtype is not None:
        numbers = [dtypes.converted(number, dtype) for number in numbers]
    try:
        value = function(*numbers)
    except (ZeroDivisionError, ValueError, OverflowError) as error:
        raise TileValueError(f"{name}: {error}, of the constants {', '.join(map(str, numbers))}") from None
    if dtype is None or not is_loose(value):
        return value
    dtype = result(dtype) if result else dtype
    return Strict(dtypes.converted(value, dtype), dtype)


def all_constant(values):
    return all(map(is_constant, values))


def require_arithmetic(name, dtype):
    if not dtype.arithmetic:
        raise TileTypeError(f"{name}: {dtype} is a non-arithmetic dtype; convert with astype() first")


def unified(translator, name, values, dtype=None):
    """Returns tiles of one dtype and shape, and that dtype."""
    emitter = translator.emitter
    if dtype is None:
        dtype = promoted(values) or promoted([emitter.tile(value) for value in values])
    require_arithmetic(name, dtype)
    for value in values:
        if isinstance(value, Tile):
            require_arithmetic(name, value.dtype)
    return emitter.together(name, [emitter.as_dtype(value, dtype) for value in values]), dtype


def require_mode(name, mode, allowed, dtype):
    """Checks a rounding mode. Errors: this function or this dtype does not have it."""
    if mode is None:
        return
    if mode not in allowed:
        raise TileTypeError(f"Rounding mode {mode.value} is not supported for {name}")
    if dtype.category != dtypes.FLOAT or not dtype.arithmetic:
        raise TileTypeError(f"Rounding mode can only be used for unrestricted float types, got {dtype}")
    if mode in (RoundingMode.FULL, RoundingMode.APPROX) and dtype is not dtypes.float32:
        raise TileTypeError(f"Rounding mode {mode.value} can only be used for float32 type, got {dtype}")


def require_flush(flush, dtype):
    if flush and dtype is not dtypes.float32:
        raise TileTypeError(f"Flush to zero can only be used for float32 type, got {dtype}")


def flushed(emitter, tile, flush):
    return emitter.emit("flush_subnormal", tile) if flush else tile


def rounded(emitter, primitive, tiles, dtype, mode, flush):
    """Emits a primitive of float tiles with a rounding mode; 16-bit floats are then rounded in the same direction."""
    suffix = SUFFIX.get(mode, "")
    tiles = [flushed(emitter, tile, flush) for tile in tiles]
    narrow = bool(suffix) and dtype.bitwidth == 16
    if narrow:
        tiles = [emitter.cast(tile, dtypes.float32) for tile in tiles]
    made = emitter.emit(primitive + suffix, *tiles)
    if narrow:
        made = emitter.emit("astype" + suffix, made, dtype=dtype.ir)
    return flushed(emitter, made, flush)
