"""What a name stands for where ways meet: after an if, around a loop. Values are taken apart into tiles and put
together again by their layout."""

from ..core import dtypes
from ..core.errors import TileTypeError
from ..core.values import retyped
from .memory import Memory, facts_of
from .records import Record
from ..core.values import Conflict, Strict, Tile, Undefined, dtype_of, is_constant, is_loose, memory_of, shown


class Same:
    """A layout: the value itself, the same on all ways."""

    def __init__(self, value):
        self.value = value


class Scalar:
    """A layout: a tile of a dtype and shape."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape


class Items:
    """A layout: a tuple of layouts."""

    def __init__(self, items):
        self.items = items


class Fields:
    """A layout: a frozen dataclass's fields."""

    def __init__(self, kind, items):
        self.kind, self.items = kind, items


def kept(value, newest):
    """How what one way gives leaves its region: tiles as tiles, constants as they are. newest: the value that was made
    last before the region."""
    if isinstance(value, Tile):
        return layout_of(value, newest)
    if type(value) is tuple:
        return Items([kept(item, newest) for item in value])
    if isinstance(value, Record):
        return Fields(value.kind, {name: kept(each, newest) for name, each in value.fields.items()})
    return Same(value) if memory_of(value) is None else Memory(value, newest)


def layout_of(value, newest):
    """How a loop carries a value: constants become tiles of their own dtype."""
    if isinstance(value, Tile) or is_constant(value):
        return Scalar(dtype_of(value), value.shape if isinstance(value, Tile) else ())
    if type(value) is tuple:
        return Items([layout_of(item, newest) for item in value])
    if isinstance(value, Record):
        return Fields(value.kind, {name: layout_of(each, newest) for name, each in value.fields.items()})
    return Same(value) if memory_of(value) is None else Memory(value, newest)


def _equal_constants(x, y):
    try:
        return x is y or (type(x) is type(y) and bool(x == y))
    except Exception:  # noqa: BLE001 a user's __eq__
        return False


def joined(x, y, newest):
    """The layout of what is x on one way and y on another; None: they do not meet."""
    if memory_of(x) is not None:
        return Memory(x, newest).met(y)
    if x is y:
        return Same(x)
    if isinstance(x, Strict) and isinstance(y, Strict):
        return Same(x) if x.dtype is y.dtype and x.value == y.value else _tiles(x, y)
    if is_loose(x) and is_loose(y) and type(x) is type(y) and x == y:
        return Same(x)
    if (isinstance(x, Tile) or is_constant(x)) and (isinstance(y, Tile) or is_constant(y)):
        return _tiles(x, y)
    if type(x) is tuple and type(y) is tuple and len(x) == len(y):
        items = [joined(a, b, newest) for a, b in zip(x, y)]
        return None if None in items else Items(items)
    if isinstance(x, Record) and isinstance(y, Record) and x.kind is y.kind:
        fields = {name: joined(each, y.fields[name], newest) for name, each in x.fields.items()}
        return None if None in fields.values() else Fields(x.kind, fields)
    return Same(x) if _equal_constants(x, y) else None


def _tiles(x, y):
    first, second = layout_of(x, None), layout_of(y, None)
    return first if first.dtype is second.dtype and first.shape == second.shape else None


def fits(layout, value):
    """Whether a value can be carried so."""
    if isinstance(layout, Memory):
        return layout.fits(value)
    if isinstance(layout, Same):
        return _equal_constants(layout.value, value)
    if isinstance(layout, Items):
        return type(value) is tuple and len(value) == len(layout.items) and all(map(fits, layout.items, value))
    if isinstance(layout, Fields):
        if not isinstance(value, Record) or value.kind is not layout.kind:
            return False
        return all(fits(item, value.fields[name]) for name, item in layout.items.items())
    if not (isinstance(value, Tile) or is_constant(value)):
        return False
    own = layout_of(value, None)
    return own.dtype is layout.dtype and own.shape == layout.shape


def widened(layout, value):
    """A layout that a value fits because memory may be more arrays; None: there is none."""
    if isinstance(layout, Memory):
        return layout.met(value)
    if isinstance(layout, Items) and type(value) is tuple and len(value) == len(layout.items):
        items = list(map(widened, layout.items, value))
        return None if None in items else Items(items)
    if isinstance(layout, Fields) and isinstance(value, Record) and value.kind is layout.kind:
        fields = {name: widened(item, value.fields[name]) for name, item in layout.items.items()}
        return None if None in fields.values() else Fields(layout.kind, fields)
    return layout if fits(layout, value) else None


def ways_of(layout):
    """How many ways of being what they are its arrays have, at most."""
    if isinstance(layout, Memory):
        return len(layout.bounds)
    parts = layout.items.values() if isinstance(layout, Fields) else getattr(layout, "items", ())
    return max(map(ways_of, parts), default=0)


def types_of(layout):
    """The tiles of a layout as [(dtype, shape)]."""
    if isinstance(layout, Memory):
        return layout.types()
    if isinstance(layout, Same):
        return []
    if isinstance(layout, Items):
        return [each for item in layout.items for each in types_of(item)]
    if isinstance(layout, Fields):
        return [each for item in layout.items.values() for each in types_of(item)]
    return [(layout.dtype, layout.shape)]


def tiles_of(emitter, layout, value):
    """The tiles of a value that fits the layout; constants are made here."""
    if isinstance(layout, Memory):
        return layout.tiles(emitter, value)
    if isinstance(layout, Same):
        return []
    if isinstance(layout, Items):
        return [each for item, part in zip(layout.items, value) for each in tiles_of(emitter, item, part)]
    if isinstance(layout, Fields):
        return [each for name, item in layout.items.items() for each in tiles_of(emitter, item, value.fields[name])]
    return [emitter.tile(value)]


def value_of(emitter, layout, tiles):
    """The value of an iterator over such tiles."""
    if isinstance(layout, Memory):
        return layout.value(emitter, tiles)
    if isinstance(layout, Same):
        return layout.value
    if isinstance(layout, Items):
        return tuple(value_of(emitter, item, tiles) for item in layout.items)
    if isinstance(layout, Fields):
        fields = {name: value_of(emitter, item, tiles) for name, item in layout.items.items()}
        return Record(layout.kind, fields)
    return retyped(next(tiles), layout.dtype)


def differing(x, y):
    """What an error adds where two types look alike."""
    x, y = memory_of(x), memory_of(y)
    if x is None or y is None or shown(x) != shown(y):
        return ""
    one, other = (facts_of(getattr(each, "items", (each,))[0]) for each in (x, y))
    for name, a, b in zip(("extents", "strides"), one[3:], other[3:]):
        if a != b:
            texts = " vs. ".join(str(each) if each else "none" for each in (a, b))
            return f"; their constant {name}, by axis, differ: {texts}"
    return ""


def conflict(name, x, y):
    """The error of a name that is x, a Binding, on one way and y on another."""
    ways = " vs. ".join(f"{shown(each.value)} (line {each.line})" for each in (x, y))
    return f"Type of `{name}` depends on path taken: {ways}{differing(x.value, y.value)}"


def require_defined(name, value):
    if isinstance(value, Undefined):
        raise TileTypeError(f"Use of potentially undefined variable `{name}`; assign it on every way to here")
    if isinstance(value, Conflict):
        raise TileTypeError(value.message)
    return value


def is_defined(value):
    return not isinstance(value, (Undefined, Conflict))


def scalar_bool(value):
    """Whether a value is a bool scalar of the running kernel."""
    return isinstance(value, Tile) and value.dtype is dtypes.bool_ and value.shape == ()
