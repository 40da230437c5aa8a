"""Emitter: makes operations of Tile IR at the source location that is being translated."""

import contextlib
import re

from ..._C import primitives
from . import dtypes, exponents
from .errors import TileInternalError, TileSyntaxError, TileTypeError, TileUnsupportedFeatureError, TileValueError
from .sizes import require_size
from .values import Array, Strict, Tile, constant_of, dtype_of, is_constant, retyped, shape_of, shown, shown_shape, to_load

_KINDS = {TypeError: TileTypeError, ValueError: TileValueError, NotImplementedError: TileUnsupportedFeatureError}
# Primitives that neither access memory nor print.
PURE = {
    name
    for name, row in primitives().items()
    if not {"reads", "writes", "barrier", "effect", "terminator"} & set(row["traits"])
}
# Integer primitives: True if the result is above 0, from the attributes and from which operands are known to be above 0.
# Overflow is ignored: the exact sum or product of positive numbers is positive.
_POSITIVE = {
    "num_blocks": lambda attributes, known: True,
    "constant": lambda attributes, known: type(attributes["value"]) is int and attributes["value"] > 0,
    "add": lambda attributes, known: all(known),
    "mul": lambda attributes, known: all(known),
    "cdiv": lambda attributes, known: all(known),
    "minimum": lambda attributes, known: all(known),
    "maximum": lambda attributes, known: any(known),
}
_LOCATION = re.compile(r"^[^\s:]+:\d+(:\d+)?: ")


class Emitter:
    """Wraps a builder of Tile IR. `location` returns file, line and column of the code that is being translated."""

    def __init__(self, builder, location, cutile):
        self._builder, self._location, self._last = builder, location, None
        self.newest = -1  # number of the newest value
        self.positive = set()  # numbers of values that are known to be above 0
        self.region = None  # the region's kind, "reduction" or "scan", in the function of one
        self.cutile = cutile  # true in the dialect whose extents are powers of two

    def _call(self, function, *arguments):
        location = self._location()
        if location != self._last:
            self._builder.at(*location)
            self._last = location
        try:
            return function(*arguments)
        except tuple(_KINDS) as error:
            raise _KINDS[type(error)](_LOCATION.sub("", str(error))) from None
        except RuntimeError as error:
            raise TileInternalError(_LOCATION.sub("", str(error))) from None

    def results(self, name, operands, blocks=(), **attributes):
        """Emits an operation and returns all its results."""
        if self.region:
            self._require_value(name)
        numbers = tuple(each.number for each in operands)
        made = self._values(self._call(self._builder.op, name, numbers, attributes, blocks))
        if name in _POSITIVE and _POSITIVE[name](attributes, [number in self.positive for number in numbers]):
            self.positive.update(each.number for each in made)
        # Results have the bit dtype of the operands, except those of operations with blocks, whose dtype the caller
        # sets.
        for dtype in () if blocks else {each.dtype for each in operands}.intersection(dtypes.OF_BITS):
            made = tuple(retyped(each, dtype) for each in made)
        return made

    def _values(self, described):
        made = tuple(map(value_of, described))
        if made:
            self.newest = made[-1].number
        return made

    def emit(self, name, *operands, **attributes):
        """Emits an operation and returns its result, or None if it has none."""
        results = self.results(name, operands, **attributes)
        return results[0] if results else None

    def block(self, types):
        """Makes a block for a region with arguments of the types [(dtype, shape)]; returns its number and the
        arguments."""
        number, arguments = self._call(self._builder.block, tuple((dtype.ir, shape) for dtype, shape in types))
        return number, tuple(retyped(each, dtype) for each, (dtype, _) in zip(self._values(arguments), types))

    @contextlib.contextmanager
    def inside(self, block):
        """Appends operations to the block inside the `with`."""
        self._builder.enter(block)
        try:
            yield
        finally:
            self._builder.leave()

    @contextlib.contextmanager
    def only_values(self, region):
        """Allows only operations that compute values inside the `with`, as in the function of a reduction."""
        self.region = region
        try:
            yield
        finally:
            self.region = None

    def require_straight(self, what):
        """Raises an error in the function of a reduction or scan. what: "Branching" or "Loops"."""
        if self.region:
            verb = "is" if what == "Branching" else "are"
            raise TileSyntaxError(f"{what} inside {self.region} body {verb} not supported; use where()")

    def _require_value(self, name):
        if name in ("reduce", "scan", "argmax", "argmin") or name.startswith("reduce_"):
            raise TileSyntaxError("Nested scan/reduction is not supported")
        if not PURE.issuperset((name,)):
            raise TileSyntaxError(f"Operations with memory effects are not supported inside {self.region} body: {name}")

    # Constants and conversions.

    def constant(self, value, dtype, shape=()):
        """Returns a tile of one number, which is converted as an explicit cast does."""
        value = dtypes.converted(value, dtype)
        if dtype in dtypes.OF_BITS:
            bits = self.constant(dtypes.bits_of(value, dtype), dtypes.uint8, shape)
            return retyped(bits, dtype)
        if dtype.category != dtypes.FLOAT:
            value = int(value) - (1 << 64) if value >= 1 << 63 else int(value)
        return self.broadcast(self.emit("constant", dtype=dtypes.require_ir(dtype), value=value), shape)

    def tile(self, value):
        """Returns a value as a tile; loose constants take their default dtype."""
        if isinstance(value, Tile):
            return value
        if is_constant(value):
            return self.constant(constant_of(value), dtype_of(value))
        raise TileTypeError(f"Expected a tile or a scalar, got {shown(value)}{to_load(value)}")

    def cast(self, tile, dtype):
        """Casts a tile explicitly."""
        if tile.dtype is dtype:
            return tile
        if tile.dtype in dtypes.OF_BITS:
            tile = exponents.widened(self, tile)
        if dtype in dtypes.OF_BITS:
            return exponents.narrowed(self, tile, dtype, None)
        return self.emit("astype", tile, dtype=dtypes.require_ir(dtype))

    def as_dtype(self, value, dtype):
        """Casts a tile or constant explicitly."""
        return self.cast(value, dtype) if isinstance(value, Tile) else self.constant(constant_of(value), dtype)

    def reshape(self, tile, shape):
        return tile if tile.shape == shape else self.emit("reshape", tile, shape=shape)

    def broadcast(self, tile, shape, operation="broadcast_to"):
        """Broadcasts a tile by NumPy's rules. Error: it does not broadcast to the shape."""
        if tile.shape == shape:
            return tile
        lead = len(shape) - len(tile.shape)
        if lead < 0 or any(x not in (1, y) for x, y in zip(tile.shape, shape[lead:])):
            raise TileTypeError(f"{operation}: {shown_shape(tile.shape)} is not broadcastable to {shown_shape(shape)}")
        if tile.shape:
            tile = self.reshape(tile, (1,) * lead + tile.shape)
        return tile if tile.shape == shape else self.emit("broadcast", tile, shape=shape)

    def common_shape(self, operation, values):
        """Returns the shape that values broadcast to."""
        shapes = [shape_of(value) for value in values]
        rank = max(map(len, shapes), default=0)
        common = [1] * rank
        for shape in shapes:
            for axis, extent in enumerate(shape, rank - len(shape)):
                if extent != 1 and common[axis] not in (1, extent):
                    texts = " and ".join(map(shown_shape, shapes))
                    raise TileTypeError(
                        f"{operation}: shapes {texts} are not broadcastable; extents must be equal or 1, counted from the last axis"
                    )
                common[axis] = max(common[axis], extent)
        require_size(f"{operation}: the common shape {shown_shape(common)}", common)
        return tuple(common)

    def together(self, operation, values):
        """Broadcasts tiles to one shape; each keeps its dtype."""
        shape = self.common_shape(operation, values)
        return [self.broadcast(self.tile(value), shape, operation) for value in values]

    def slice(self, array, axis, start, stop):
        """Returns the part start <= index < stop of an axis; start and stop are tiles or constants."""
        extents = {key: value for key, value in array.extents.items() if key != axis}
        if is_constant(start) and is_constant(stop):
            extents[axis] = constant_of(stop) - constant_of(start)
        made = self.emit("slice", array, self.tile(start), self.tile(stop), axis=axis)
        origin = array, axis, start, stop
        return Array(made.number, array.dtype, array.ndim, array.wide, extents, array.strides, origin)

    def implicit(self, value, dtype):
        """Converts implicitly, as a store does: upward only. Errors: a lower category, or a number that does not fit."""
        if isinstance(value, Tile) or isinstance(value, Strict):
            try:
                allowed = dtypes.promote(value.dtype, dtype) is dtype
            except TileTypeError:
                allowed = False
            if not allowed:
                raise TileTypeError(f"cannot implicitly cast {value.dtype} to {dtype}; convert with astype()")
            return self.as_dtype(value, dtype)
        if not is_constant(value):
            raise TileTypeError(f"Expected a tile or a scalar, got {shown(value)}{to_load(value)}")
        own = dtypes.of_constant(value)
        if dtype is dtypes.bool_:
            if value not in (0, 1):
                raise TileValueError(f"{value} is out of range of bool_")
        elif own.category > dtype.category:
            raise TileTypeError(f"cannot implicitly cast {own} to {dtype}; convert with astype()")
        elif dtype.category == dtypes.INTEGER and not dtypes.fits(value, dtype):
            raise TileValueError(f"{value} is out of range of {dtype}; convert with astype()")
        return self.constant(value, dtype)


def value_of(described):
    """Returns the Tile or Array for the builder's description of a value."""
    number, dtype, shape, *far = described
    dtype = dtypes.of_ir(dtype)
    return Array(number, dtype, shape, any(far)) if isinstance(shape, int) else Tile(number, dtype, shape)


def promoted(values):
    """Returns the dtype that operands promote to; loose constants adapt. None: all are loose."""
    typed = [value for value in values if not is_constant(value) or isinstance(value, Strict)]
    for value in values:
        if not (is_constant(value) or isinstance(value, Tile)):
            raise TileTypeError(f"Expected a tile or a scalar, got {shown(value)}{to_load(value)}")
    if not typed:
        return None
    dtype = typed[0].dtype
    for value in typed[1:]:
        dtype = dtypes.promote(dtype, value.dtype)
    for value in values:
        if isinstance(value, (Tile, Strict)):
            continue
        own = dtypes.of_constant(value)
        if own.category > dtype.category:
            dtype = own
        elif own.category == dtype.category == dtypes.INTEGER and not dtypes.fits(value, dtype):
            raise TileValueError(f"Integer constant {value} is out of range of {dtype}; convert the tile with astype()")
        elif not dtype.arithmetic:
            raise TileTypeError(f"Implicit promotion of {own} and {dtype} is not supported; convert one with astype()")
    return dtype
