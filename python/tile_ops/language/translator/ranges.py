"""range(...) in kernels: its steps up and down, and how a loop counts through it."""

from ..core import checks, dtypes
from ..core.errors import TileTypeError, TileValueError
from ..core.values import Range, constant_of, dtype_of, is_constant
from ..functions.arithmetic import not_equal
from ..functions.text import assert_

ZERO_STEP = "range: the step must not be 0"


def bounds(values):
    """The Range of the arguments of range(...)."""
    if not 1 <= len(values) <= 3:
        raise TileTypeError(f"range() takes 1 to 3 arguments, got {len(values)}")
    start, stop, step = {1: (0, *values, 1), 2: (*values, 1), 3: values}[len(values)]
    for value in (start, stop, step):
        checks.range_bound(value)
    return Range(start, stop, step)


def zero_step():
    return TileValueError(f"{ZERO_STEP}; give one below or above it")


def made_range(translator, *values):
    """range(...) with Python's meaning. A step of 0 is an error: here where it is constant, else of the running kernel."""
    made = bounds(values)
    if is_constant(made.step) and constant_of(made.step) == 0:
        raise zero_step()
    if not is_constant(made.step) and not _counts_up(translator, made.step):
        assert_.lower(translator, (not_equal.lower(translator, (made.step, 0), {}), ZERO_STEP), {})
    return made


def index_dtype(values):
    """The dtype of a loop's index: int64 where a bound is, else int32."""
    wide = any(dtype_of(each) is dtypes.int64 for each in (values.start, values.stop, values.step))
    return dtypes.int64 if wide else dtypes.int32


def turns_surely(values):
    """Whether a range of constants has an item."""
    each = (values.start, values.stop, values.step)
    return all(map(is_constant, each)) and len(range(*map(constant_of, each))) > 0


def _counts_up(translator, step):
    if is_constant(step):
        return constant_of(step) > 0
    return step.number in translator.emitter.positive


class Counter:
    """A loop's count, which is always upward. start, stop, step: its tiles; number(index): the range's item then.

    Where a range falls, its items are counted by their complement: ~x rises as x falls, and does not overflow. Where
    only the running kernel knows, a mask of the step's sign chooses; int32 is counted as uint32 then, which also holds
    a step of -2**31."""

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
        if narrow:  # the least number is the first of uint32
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
        """index + step, or the bound where that would reach it: sums of indices do not wrap."""
        emit, unsigned = self._emitter.emit, {dtypes.int32: "u32", dtypes.int64: "u64"}.get(self.dtype)

        def bits(tile):
            return emit("bitcast", tile, dtype=unsigned) if unsigned else tile

        left = bits(emit("sub", self.stop, index))
        goes_on = emit("gt", left, bits(self.step))
        return emit("where", goes_on, emit("add", index, self.step), self.stop)
