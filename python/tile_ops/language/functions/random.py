"""Random numbers by Philox4x32-10: functions of a seed and of each element's number, the same on every device.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011."""

import math

from ..core import checks, dtypes
from ..core.checks import operand
from ..core.errors import TileTypeError
from ..core.registry import language_function
from ..core.values import dtype_of, shape_of, shown, shown_shape

_DIGITS = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


def _words(translator, name, shape, seed, offset, stream, wide, times=1, plus=0):
    """Returns a random word of 32 or 64 bits for each element n, from the number times * n + plus."""
    emitter, count = translator.emitter, math.prod(shape)
    for value, what in ((seed, "seed"), (offset, "offset"), (stream, "stream")):
        if dtype_of(value).category != dtypes.INTEGER:
            raise TileTypeError(f"{name}: {what} is {shown(value)}; expected an integer, cast it with astype()")
    number = emitter.as_dtype(offset, dtypes.uint64)
    if shape_of(offset):
        if shape_of(offset) != shape:
            raise TileTypeError(
                f"{name}: offset is {shown_shape(shape_of(offset))}, the result {shown_shape(shape)}; "
                "pass a number for each element, or a scalar"
            )
    else:
        indices = emitter.reshape(emitter.emit("arange", dtype="u64", size=count), shape)
        number = emitter.emit("add", emitter.broadcast(number, shape), indices)
    if times != 1:
        number = emitter.emit("mul", number, emitter.constant(times, dtypes.uint64, shape))
        number = emitter.emit("add", number, emitter.constant(plus, dtypes.uint64, shape))
    keys = [emitter.broadcast(emitter.as_dtype(value, dtypes.uint64), shape, name) for value in (seed, stream)]
    return emitter.emit("random_u64" if wide else "random_u32", *keys, number)


def _fraction(emitter, words, compute, bits):
    """Converts the highest bits of words to numbers in [0, 1), exactly."""
    wide = words.dtype is dtypes.uint64
    by = emitter.constant((64 if wide else 32) - bits, words.dtype, words.shape)
    whole = emitter.cast(emitter.emit("shift_right", words, by), dtypes.int64 if wide else dtypes.int32)
    return emitter.emit("mul", emitter.cast(whole, compute), emitter.constant(2.0**-bits, compute, words.shape))


def _require_floating(name, dtype):
    if dtype not in _DIGITS:
        raise TileTypeError(f"{name}: dtype is {dtype}; expected float16, bfloat16, float32 or float64")


@language_function
def random_bits(
    translator,
    shape: checks.shape,
    seed: operand,
    offset: operand = 0,
    *,
    dtype: checks.dtype = dtypes.uint32,
    stream: operand = 0,
):
    """Returns random bits, which are a function of (seed, stream, number of the element) alone.

    The elements are numbered offset, offset + 1, ... in row-major order; an integer tile as offset gives each element
    its number. Draws with one seed and number in different streams are independent.
    """
    if dtype not in (dtypes.uint32, dtypes.uint64):
        raise TileTypeError(f"random_bits: dtype is {dtype}; expected uint32 or uint64")
    return _words(translator, "random_bits", shape, seed, offset, stream, dtype is dtypes.uint64)


@language_function
def uniform(
    translator,
    shape: checks.shape,
    seed: operand,
    offset: operand = 0,
    *,
    dtype: checks.dtype = dtypes.float32,
    stream: operand = 0,
):
    """Returns numbers uniform on [0, 1), from the highest bits of random_bits. Every value is exact, and none is 1."""
    _require_floating("uniform", dtype)
    emitter, wide = translator.emitter, dtype is dtypes.float64
    words = _words(translator, "uniform", shape, seed, offset, stream, wide)
    return emitter.cast(_fraction(emitter, words, dtype if wide else dtypes.float32, _DIGITS[dtype]), dtype)


@language_function
def normal(
    translator,
    shape: checks.shape,
    seed: operand,
    offset: operand = 0,
    *,
    dtype: checks.dtype = dtypes.float32,
    stream: operand = 0,
):
    """Returns standard normal numbers by Box and Muller: sqrt(-2 log a) sin(pi b), a on (0, 1], b on [-1/2, 1/2]."""
    _require_floating("normal", dtype)
    emitter, wide = translator.emitter, dtype is dtypes.float64
    compute = dtypes.float64 if wide else dtypes.float32

    def scaled(tile, factor, summand=None):
        tile = emitter.emit("mul", emitter.cast(tile, compute), emitter.constant(factor, compute, shape))
        return tile if summand is None else emitter.emit("add", tile, emitter.constant(summand, compute, shape))

    if wide:
        first, second = (_words(translator, "normal", shape, seed, offset, stream, True, 2, at) for at in (0, 1))
        a = emitter.emit("add", _fraction(emitter, first, compute, 53), emitter.constant(2.0**-54, compute, shape))
        angle = scaled(emitter.cast(second, dtypes.int64), math.pi * 2.0**-64)
    else:
        words = _words(translator, "normal", shape, seed, offset, stream, True)
        a = scaled(emitter.cast(words, dtypes.uint32), 2.0**-32, 2.0**-33)
        high = emitter.emit("shift_right", words, emitter.constant(32, dtypes.uint64, shape))
        angle = scaled(emitter.cast(high, dtypes.int32), math.pi * 2.0**-32)
    radius = emitter.emit("sqrt", scaled(emitter.emit("log", a), -2.0))
    return emitter.cast(emitter.emit("mul", radius, emitter.emit("sin", angle)), dtype)
