"""Makes tiles and changes their shape and dtype."""

from ..core import checks, dtypes, exponents
from ..core.checks import normal_axis, operand
from ..core.errors import TileTypeError, TileValueError
from ..core.modes import CAST_SUFFIX, RoundingMode
from ..core.registry import language_function
from ..core.sizes import require_size
from ..core.values import Strict, Tile, constant_of, dtype_of, is_constant, is_loose, retyped, shape_of, shown, shown_shape


def _scalar(_, value):
    if not (isinstance(value, Tile) or is_constant(value)) or shape_of(value):
        raise TileTypeError(f"Expected a scalar or a 0D tile, got {shown(value)}")
    return value


@language_function
def full(translator, shape: checks.shape, fill_value: _scalar, dtype: checks.dtype):
    """Returns a tile of one value, which is converted to dtype."""
    emitter = translator.emitter
    return emitter.broadcast(emitter.as_dtype(fill_value, dtype), shape)


@language_function
def zeros(translator, shape: checks.shape, dtype: checks.dtype):
    """Returns a tile of zeros."""
    return translator.emitter.constant(0, dtype, shape)


@language_function
def ones(translator, shape: checks.shape, dtype: checks.dtype):
    """Returns a tile of ones."""
    return translator.emitter.constant(1, dtype, shape)


@language_function
def arange(translator, size: checks.integer, /, *, dtype: checks.dtype, start: _scalar = 0, step: _scalar = 1):
    """Returns start + step * (0, 1, ..., size - 1), computed in dtype: integers wrap, floats round."""
    if translator.emitter.cutile and not checks.is_power_of_two(size):
        raise TileTypeError(f"arange: size {size} must be power of 2")
    if size < 1:
        raise TileTypeError(f"arange: size {size} must be at least 1")
    require_size(f"arange: the tile of size {size}", (size,))
    if dtype in dtypes.OF_BITS:
        raise TileTypeError(f"arange: {dtype} is a non-arithmetic dtype; convert with astype()")
    emitter = translator.emitter
    indices = emitter.emit("arange", dtype=dtypes.require_ir(dtype), size=size)
    for primitive, value, neutral in (("mul", step, 1), ("add", start, 0)):
        if not (is_loose(value) and value == neutral):
            indices = emitter.emit(primitive, indices, emitter.broadcast(emitter.as_dtype(value, dtype), (size,)))
    return indices


def _nested(translator, value, dtype, position):
    """Returns a tile of a scalar or a nested tuple of them."""
    emitter = translator.emitter
    if type(value) is not tuple:
        if not (isinstance(value, Tile) or is_constant(value)) or shape_of(value):
            raise TileTypeError(f"Expected scalar elements at {position}, got {shown(value)}")
        return emitter.as_dtype(value, dtype)
    if not value or (emitter.cutile and not checks.is_power_of_two(len(value))):
        raise TileTypeError(f"Tuple length {len(value)} at {position} is not a power of 2")
    tiles = [_nested(translator, item, dtype, f"{position}[{at}]") for at, item in enumerate(value)]
    if len({tile.shape for tile in tiles}) > 1:
        raise TileTypeError(f"Tuple has non-uniform inner shapes at {position}")
    tiles = [emitter.reshape(tile, (1, *tile.shape)) for tile in tiles]
    while len(tiles) > 1:  # joins halves, so that the chain of joins is short
        pairs = [emitter.emit("cat", *tiles[at : at + 2], axis=0) for at in range(0, len(tiles) - 1, 2)]
        tiles = pairs + tiles[len(pairs) * 2 :]
    return tiles[0]


@language_function
def astile(translator, value, /, *, dtype: checks.dtype):
    """Returns a tile of a scalar or a nested tuple of scalars, converted to dtype."""
    return _nested(translator, value, dtype, "value")


@language_function(method=True)
def reshape(translator, x: operand, /, shape: checks.open_shape):
    """Returns the elements of x, in row-major order, in another shape; one extent may be -1."""
    emitter = translator.emitter
    x = emitter.tile(x)
    count, rest = 1, 1
    for extent in x.shape:
        count *= extent
    for extent in shape:
        rest *= extent if extent != -1 else 1
    if -1 in shape and count % rest == 0:
        shape = tuple(count // rest if extent == -1 else extent for extent in shape)
        rest = count
    if rest != count:
        raise TileTypeError(f"Cannot reshape {x.shape} to {shape}; the element counts must be equal")
    return emitter.reshape(x, shape)


@language_function(method=True)
def item(translator, x: operand, /):
    """Returns the one element of a tile as a scalar."""
    return reshape.lower(translator, (x, ()), {})


@language_function
def expand_dims(translator, x: operand, /, axis: checks.integer):
    """Returns x with one more axis of extent 1. Negative axes count from the end of the result."""
    x = translator.emitter.tile(x)
    axis = normal_axis(axis, x.ndim + 1)
    return translator.emitter.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


@language_function
def broadcast_to(translator, x: operand, /, shape: checks.shape):
    """Repeats axes of extent 1 and adds leading axes, by NumPy's rules."""
    return translator.emitter.broadcast(translator.emitter.tile(x), shape)


def _axes(_, value):
    items = value if isinstance(value, tuple) else (value,)
    return tuple(checks.integer(None, item) for item in items)


@language_function(method=True)
def permute(translator, x: operand, /, axes: _axes):
    """Returns x with its axes in another order."""
    x = translator.emitter.tile(x)
    if len(axes) != x.ndim or sorted(normal_axis(axis, x.ndim) for axis in axes) != list(range(x.ndim)):
        raise TileTypeError(f"permute: axes {axes} are no permutation of the axes of {shown(x)}")
    return translator.emitter.emit("permute", x, axes=tuple(axis % x.ndim for axis in axes)) if x.ndim else x


@language_function(method=True)
def transpose(
    translator, x: operand, /, axis0: checks.optional(checks.integer) = None, axis1: checks.optional(checks.integer) = None
):
    """Swaps two axes. A tile of two axes needs no arguments."""
    x = translator.emitter.tile(x)
    if (axis0 is None) != (axis1 is None):
        raise TileTypeError("transpose axes must either both be specified or both be None")
    if x.ndim < 2:
        raise TileTypeError(f"transpose: {shown(x)} has fewer than two axes")
    if axis0 is None:
        if x.ndim > 2:
            raise TileTypeError("`axes` must be specified for tile with more than 2 dimensions")
        axis0, axis1 = 0, 1
    first, second = normal_axis(axis0, x.ndim), normal_axis(axis1, x.ndim)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return translator.emitter.emit("permute", x, axes=tuple(order))


@language_function
def cat(translator, tiles, /, axis: checks.integer):
    """Joins two tiles along an axis."""
    if not isinstance(tiles, tuple):
        raise TileTypeError(f'Invalid argument "tiles" of cat(): Expected a tuple of tiles, got {shown(tiles)}')
    if len(tiles) > 2:
        raise TileTypeError(f"cat() supports at most 2 tiles, got {len(tiles)}")
    made = [translator.emitter.tile(operand(translator, tile)) for tile in tiles]
    if len(made) == 1:
        return made[0]
    x, y = made
    axis = normal_axis(axis, x.ndim)
    fits = x.ndim == y.ndim and x.shape[:axis] + x.shape[axis + 1 :] == y.shape[:axis] + y.shape[axis + 1 :]
    if not fits or x.dtype is not y.dtype:
        raise TileTypeError(
            f"cat: {shown(x)} and {shown(y)} do not join along axis {axis}; dtypes and other extents must be equal"
        )
    if translator.emitter.cutile and not checks.is_power_of_two(x.shape[axis] + y.shape[axis]):
        raise TileTypeError(f"cat: the joined extent {x.shape[axis] + y.shape[axis]} is not a power of two")
    return translator.emitter.emit("cat", x, y, axis=axis)


def _sub_index(emitter, index, counts):
    """Returns indices of a sub-tile; constant ones are checked."""
    for each, count in zip(index, counts):
        if is_constant(each) and not 0 <= constant_of(each) < count:
            raise TileValueError(f"index {constant_of(each)} is out of bounds: there are {count} sub-tiles along that axis")
    return [emitter.tile(each) for each in index]


@language_function(method=True)
def extract(translator, x: operand, /, index: checks.index, shape: checks.shape):
    """Returns the sub-tile of a shape at an index. Shape () is one element."""
    emitter = translator.emitter
    x = emitter.tile(x)
    extents = shape or (1,) * x.ndim
    if len(extents) != x.ndim or len(index) != x.ndim:
        raise TileTypeError(
            f"extract: shape {shape} and an index of {len(index)} do not fit {shown(x)}; give one of each an axis"
        )
    for extent, part in zip(x.shape, extents):
        if extent % part:
            raise TileTypeError(f"extract: {shown_shape(x.shape)} is not divisible by {shown_shape(extents)}")
    indices = _sub_index(emitter, index, [extent // part for extent, part in zip(x.shape, extents)])
    return emitter.emit("extract", x, *indices, shape=shape)


@language_function(method=True)
def insert(translator, x: operand, /, index: checks.index, value: operand):
    """Returns x with the sub-tile at an index replaced by value."""
    emitter = translator.emitter
    x, value = emitter.tile(x), emitter.tile(value)
    if value.dtype is not x.dtype:
        raise TileTypeError(f"Cannot insert a tile of dtype {value.dtype} into one of {x.dtype}; convert with astype()")
    part = value.shape or (1,) * x.ndim
    if len(part) != x.ndim or len(index) != x.ndim:
        raise TileTypeError(f"insert: the rank of {shown(value)} does not match the tile rank {x.ndim}")
    for extent, size in zip(x.shape, part):
        if extent % size:
            raise TileTypeError(f"insert: {shown_shape(x.shape)} is not divisible by {shown_shape(part)}")
    indices = _sub_index(emitter, index, [extent // size for extent, size in zip(x.shape, part)])
    return emitter.emit("insert", x, emitter.reshape(value, part), *indices)


def _rounds(source, target, mode):
    """Returns True if a cast between floats supports the mode."""
    narrow = source.bitwidth <= 16 and source.category == dtypes.FLOAT
    wide = target in (dtypes.float64, dtypes.float32)
    if target in dtypes.OF_BITS:
        return mode in (RoundingMode.RZ, RoundingMode.RP)
    if mode is RoundingMode.RN:
        return True
    if mode is RoundingMode.RZ:
        return wide or target in (dtypes.tfloat32, dtypes.float16, dtypes.bfloat16)
    if mode in (RoundingMode.RM, RoundingMode.RP, RoundingMode.RA):
        half_away = mode is RoundingMode.RA and target is dtypes.tfloat32
        return wide or half_away or (target is dtypes.float16 and narrow)
    return False


@language_function(method=True)
def astype(
    translator, x: operand, dtype: checks.dtype, /, *, rounding_mode: checks.optional(checks.member(RoundingMode)) = None
):
    """Returns x in another dtype. Floats become integers by truncation, integers wrap, and floats round to nearest even.

    A conversion to bool_ is x != 0.
    """
    emitter, source = translator.emitter, dtype_of(x)
    if rounding_mode is not None:
        if source.category != dtypes.FLOAT or dtype.category != dtypes.FLOAT:
            raise TileTypeError(f"rounding_mode is only valid for float to float conversions, not {source} to {dtype}")
        if not _rounds(source, dtype, rounding_mode):
            raise TileTypeError(f"rounding_mode={rounding_mode} is not supported for conversion from {source} to {dtype}")
    if dtype in dtypes.OF_BITS and source is not dtype:
        number = emitter.constant(constant_of(x), dtypes.float64) if is_constant(x) else x
        return exponents.narrowed(emitter, number, dtype, rounding_mode)
    if is_constant(x):
        dtypes.require_ir(dtype)
        return Strict(dtypes.converted(constant_of(x), dtype), dtype)
    if source in dtypes.OF_BITS and source is not dtype:
        x = exponents.widened(emitter, x)
    exact = dtype is dtypes.float64 or (dtype is dtypes.float32 and source is not dtypes.float64)
    if rounding_mode in CAST_SUFFIX and source is not dtype and not exact:
        return emitter.emit("astype" + CAST_SUFFIX[rounding_mode], x, dtype=dtypes.require_ir(dtype))
    return emitter.cast(x, dtype)


def converted(translator, dtype, *arguments, **named):
    """Translates a call of a dtype: float32(x), float32(), float32("-inf")."""
    if len(arguments) > 1 or named:
        raise TileTypeError(f"{dtype}() takes one argument, got {len(arguments) + len(named)}")
    value = arguments[0] if arguments else 0
    if isinstance(value, str) and not is_loose(value):
        try:
            value = float(value) if dtype.category == dtypes.FLOAT else int(value)
        except ValueError:
            kind = "number" if dtype.category == dtypes.FLOAT else "whole number"
            raise TileValueError(f"{dtype}(): the string {value!r} is not a {kind}") from None
    return astype.lower(translator, (value, dtype), {})


@language_function
def bitcast(translator, x: operand, /, dtype: checks.dtype):
    """Returns the bits of x as another dtype of equal width."""
    emitter = translator.emitter
    x = emitter.tile(x)
    if dtypes.bool_ in (x.dtype, dtype):
        raise TileTypeError(f"bitcast: cannot reinterpret {x.dtype} as {dtype}; bool_ has no bits of its own")
    if x.dtype.bitwidth != dtype.bitwidth:
        raise TileTypeError(f"bitcast: the bit width is different: {x.dtype} and {dtype}")
    ir = dtypes.require_ir(dtype)
    return retyped(x if x.dtype.ir == ir else emitter.emit("bitcast", x, dtype=ir), dtype)


@language_function
def pack_to_bytes(translator, x: operand, /):
    """Returns the bytes of a tile in row-major order, little-endian, as a uint8 tile of one axis."""
    x = translator.emitter.tile(x)
    if x.dtype is dtypes.bool_:
        raise TileTypeError("cannot pack_to_bytes from a bool_ tile; convert it to uint8")
    return retyped(translator.emitter.emit("pack_to_bytes", x), dtypes.uint8)


@language_function
def unpack_from_bytes(translator, x: operand, /, dtype: checks.dtype):
    """Undoes pack_to_bytes, and returns a tile of one axis."""
    x = translator.emitter.tile(x)
    if dtype is dtypes.bool_:
        raise TileTypeError("cannot unpack_from_bytes to a bool_ tile; unpack to uint8")
    if x.dtype is not dtypes.uint8:
        raise TileTypeError(f"unpack_from_bytes requires uint8 tile, got {shown(x)}")
    if x.ndim != 1:
        raise TileTypeError(f"unpack_from_bytes requires a 1D tile, got {shown(x)}")
    if x.shape[0] * 8 % dtype.bitwidth:
        raise TileTypeError(f"unpack_from_bytes: {x.shape[0]} bytes are not divisible by the {dtype.bitwidth // 8} of {dtype}")
    return retyped(translator.emitter.emit("unpack_from_bytes", x, dtype=dtypes.require_ir(dtype)), dtype)
