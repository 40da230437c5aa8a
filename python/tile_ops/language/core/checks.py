"""Checks for parameters of language functions: each takes (translator, value) and returns the value, or raises an error
that says what is expected."""

import enum

from . import dtypes
from .errors import TileTypeError, TileValueError
from .sizes import require_size
from .values import Array, Conflict, Strict, Tile, TiledView, Undefined, constant_of, is_constant, is_loose, shown, to_load


def array(_, value):
    if not isinstance(value, Array):
        raise TileTypeError(f"Expected an array, got {shown(value)}")
    return value


def view(_, value):
    if not isinstance(value, TiledView):
        raise TileTypeError(f"Expected a tiled view, got {shown(value)}")
    return value


def operand(_, value):
    """Accepts a tile, or a constant, which stays one."""
    if not (isinstance(value, Tile) or is_constant(value)):
        raise TileTypeError(f"Expected a tile or a scalar, got {shown(value)}{to_load(value)}")
    return value


def dtype(_, value):
    found = dtypes.known(value)
    if found is None:
        raise TileTypeError(f"Expected a dtype, got {shown(value)}")
    return found


def integer(_, value):
    """Accepts a constant integer."""
    if isinstance(value, Strict):
        value = value.value
    if isinstance(value, bool) or not isinstance(value, int):
        raise TileTypeError(f"Expected an integer constant, but given value has type {shown(value)}")
    return int(value)


def flag(_, value):
    """Accepts a constant bool."""
    if not isinstance(value, bool):
        raise TileTypeError(f"Expected a boolean constant, but given value has type {shown(value)}")
    return value


def latency(translator, value):
    if value is None:
        return None
    number = integer(translator, value)
    if not 1 <= number <= 10:
        raise TileValueError(f"Expected a latency from 1 to 10, got {number}")
    return number


def optional_flag(translator, value):
    return None if value is None else flag(translator, value)


def is_power_of_two(number):
    return number > 0 and number & (number - 1) == 0


def shape(translator, value):
    """Accepts a constant integer or a tuple of them; in a dialect that requires it, powers of two."""
    items = value if isinstance(value, tuple) else (value,)
    extents = []
    for item in items:
        item = constant_of(item) if isinstance(item, Strict) else item
        if isinstance(item, bool) or not isinstance(item, int):
            raise TileTypeError(f"Expected a constant integer tuple, got {shown(value)}")
        extents.append(int(item))
    for extent in extents:
        if translator.emitter.cutile and not is_power_of_two(extent):
            raise TileTypeError(f"extent {extent} of shape {tuple(extents)} is not a power of two")
        if extent < 1:
            raise TileTypeError(f"extent {extent} of shape {tuple(extents)} is below 1")
    require_size(f"shape {tuple(extents)}", extents)
    return tuple(extents)


def open_shape(translator, value):
    """Accepts a shape in which one extent may be -1."""
    items = value if isinstance(value, tuple) else (value,)
    opened = [item for item in items if isinstance(item, int) and not isinstance(item, bool) and item == -1]
    if len(opened) > 1:
        raise TileTypeError("Only one dimension can be -1")
    known = shape(translator, tuple(1 if item in opened and is_loose(item) else item for item in items))
    return tuple(-1 if is_loose(item) and item == -1 else extent for item, extent in zip(items, known))


def index(_, value):
    """Accepts a signed integer scalar or a tuple of them."""
    items = value if isinstance(value, tuple) else (value,)
    for item in items:
        if isinstance(item, Tile):
            good = item.shape == () and item.dtype.category == dtypes.INTEGER and item.dtype.signed
        else:
            number = constant_of(item) if is_constant(item) else None
            good = isinstance(number, int) and not isinstance(number, bool)
        if not good:
            raise TileTypeError(f"Expected a tuple of signed integers, got {shown(value)}")
    return items


def element_indices(translator, value):
    """Accepts an integer tile or a tuple of them."""
    items = value if isinstance(value, tuple) else (value,)
    for item in items:
        given = operand(translator, item)
        kind = given.dtype if isinstance(given, (Tile, Strict)) else dtypes.of_constant(given)
        if kind.category != dtypes.INTEGER:
            raise TileTypeError(f"Expected integer tiles, got {shown(value)}")
    return items


def mask(_, value):
    if value is None or isinstance(value, bool):
        return value
    if not (isinstance(value, (Tile, Strict)) and value.dtype is dtypes.bool_):
        raise TileTypeError(f"Expected a boolean tile, got {shown(value)}")
    return value


def member(kind):
    """Returns a check for members of an enumeration, or their values."""

    def check(_, value):
        if isinstance(value, kind):
            return value
        if isinstance(value, str) and not isinstance(value, enum.Enum):
            for each in kind:
                if each.value == value:
                    return each
        raise TileTypeError(f"Expected a {kind.__name__}, got {shown(value)}")

    return check


def optional(check):
    return lambda translator, value: None if value is None else check(translator, value)


def normal_axis(axis, rank, what="Axis"):
    """Returns an axis counted from 0; negative ones count from the end. Error: it is out of range."""
    if not -rank <= axis < rank:
        raise TileTypeError(f"{what} {axis} is out of range for rank {rank}")
    return axis % rank


def require_defined(name, value):
    """Returns the value of a name. Error: some path to here leaves it undefined, or two paths give it different types."""
    if isinstance(value, Undefined):
        raise TileTypeError(f"Use of potentially undefined variable `{name}`; assign it on every way to here")
    if isinstance(value, Conflict):
        raise TileTypeError(value.message)
    return value


def range_bound(value):
    if isinstance(value, Tile) and value.shape:
        raise TileTypeError(f"Expected a scalar, got {shown(value)}")
    kind = value.dtype if isinstance(value, (Tile, Strict)) else dtypes.of_constant(value) if is_loose(value) else None
    if kind is None or kind.category != dtypes.INTEGER or not kind.signed:
        raise TileTypeError(f"Expected a signed integer scalar, got {shown(value)}")
    return value
