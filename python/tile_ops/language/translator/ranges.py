"""range(...) in kernels, with steps up and down, and the counter of a loop over it."""

from ..core import checks, dtypes
from ..core.errors import TileTypeError, TileValueError
from ..core.values import Range, constant_of, dtype_of, is_constant
from ..functions.arithmetic import not_equal
from ..functions.text import assert_

ZERO_STEP = "range: the step must not be 0"


def bounds(values):
    """Returns the Range for the arguments of range(...)."""
    if not 1 <= len(values) <= 3:
        raise TileTypeError(f"range() takes 1 to 3 arguments, got {len(values)}")
    start, stop, step = {1: (0, *values, 1), 2: (*values, 1), 3: values}[len(values)]
    for value in (start, stop, step):
        checks.range_bound(value)
    return Range(start, stop, step)


def zero_step():
    return TileValueError(f"{ZERO_STEP}; give one below or above it")


def made_range(translator, *values):
    """Translates range(...). A step of 0 is an error: at compile time if it is constant, else in the running kernel."""
    made = bounds(values)
    if is_constant(made.step) and constant_of(made.step) == 0:
        raise zero_step()
    if not is_constant(made.step) and not _counts_up(translator, made.step):
        assert_.lower(translator, (not_equal.lower(translator, (made.step, 0), {}), ZERO_STEP), {})
    return made


def index_dtype(values):
    """Returns the dtype of a loop's index: int64 if a bound or the step is int64, else int32."""
    wide = any(dtype_of(each) is dtypes.int64 for each in (values.start, values.stop, values.step))
    return dtypes.int64 if wide else dtypes.int32


def surely_iterates(values):
    """Returns True if a range is constant and not empty."""
    each = (values.start, values.stop, values.step)
    return all(map(is_constant, each)) and len(range(*map(constant_of, each))) > 0


def _counts_up(translator, step):
    if is_constant(step):
        return constant_of(step) > 0
    return step.number in translator.emitter.positive


class Counter:
    """A loop's counter, which always counts up. start, stop, step: its tiles; number(index): the item of the range.

    A falling range is counted by the complement of its items: ~x rises as x falls, and does not overflow. If the step's
    sign is unknown until run time, a mask made of the sign selects the direction; int32 is then counted as uint32, which
    can also hold the size of a step of -2**31."""

    def __init__(self, translator, values):
        emitter = self._emitter = translator.emitter
        self._translator, dtype = translator, index_dtype(values)
        self.dtype, self._way = dtype, None
        start, stop, step = values.start, values.stop, values.step
        falls = is_constant(step) and -constant_of(step) in range(1, 1 << (dtype.bitwidth - 1))
        if falls:
            self._way = "down"
            start, stop = (self._complement(each) for each in (start, stop))
            step = -constant_of(step)
        tiles = [emitter.cast(emitter.tile(each), dtype) for each in (start, stop, step)]
        if not falls and not _counts_up(translator, step):
            tiles = self._by_sign(*tiles)
        self.start, self.stop, self.step = tiles

    def _complement(self, value):
        if is_constant(value):
            return -1 - constant_of(value)
        return self._emitter.emit("sub", self._emitter.constant(-1, self.dtype), self._emitter.cast(value, self.dtype))

    def _by_sign(self, start, stop, step):
        emitter, narrow = self._emitter, self.dtype is dtypes.int32
        sign = emitter.emit("shift_right", step, emitter.constant(self.dtype.bitwidth - 1, self.dtype))
        size = emitter.emit("sub", emitter.emit("bitwise_xor", step, sign), sign)
        self._way = sign
        if narrow:  # flips the sign bit: the least int32 becomes 0
            self._way = emitter.emit("bitwise_xor", sign, emitter.constant(-(1 << 31), self.dtype))
        tiles = [emitter.emit("bitwise_xor", each, self._way) for each in (start, stop)] + [size]
        if narrow:
            self.dtype = dtypes.uint32
            tiles = [emitter.emit("bitcast", each, dtype="u32") for each in tiles]
        return tiles

    def number(self, index):
        emit = self._emitter.emit
        if self._way is None:
            return index
        if self._way == "down":
            return emit("sub", self._emitter.constant(-1, self.dtype), index)
        if self.dtype is dtypes.uint32:
            index = emit("bitcast", index, dtype="i32")
        return emit("bitwise_xor", index, self._way)

    def goes_on(self, index):
        return self._emitter.emit("lt", index, self.stop)

    def next(self, index):
        """Returns index + step, or the bound if the sum would reach it, so that the sum never overflows."""
        emit, unsigned = self._emitter.emit, {dtypes.int32: "u32", dtypes.int64: "u64"}.get(self.dtype)

        def bits(tile):
            return emit("bitcast", tile, dtype=unsigned) if unsigned else tile

        left = bits(emit("sub", self.stop, index))
        goes_on = emit("gt", left, bits(self.step))
        return emit("where", goes_on, emit("add", index, self.step), self.stop)
