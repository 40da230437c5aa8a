"""Values of names at control-flow joins: after an if, around a loop. A layout says how values are split into tiles and
rebuilt."""

import types

from ..core import dtypes
from ..core.registry import HelperFunction, LanguageFunction
from ..core.values import Conflict, FunctionChoice, LocalFunction, Method, Strict, Tile, Undefined
from ..core.values import dtype_of, is_constant, is_loose, memory_of, retyped, shown
from .memory import Memory, facts_of, picked
from .parts import composite_of
from .records import Record


class Same:
    """A layout: the value itself, which is the same on all paths."""

    def __init__(self, value):
        self.value = value


class Scalar:
    """A layout: a tile of a dtype and shape."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = dtype, shape


class Parts:
    """A layout of a value that parts.composite_of() splits: the layouts of its parts."""

    def __init__(self, composite, items, before):
        self.composite, self.items, self._before = composite, items, before

    def of(self, value):
        """Returns the parts of another value with the same structure; None: its structure differs."""
        other = composite_of(value, self._before)
        return other.parts if other and other.key == self.composite.key else None


def kept(value, before):
    """Returns the layout in which a value leaves a region: tiles as tiles, constants unchanged. before: the region's Mark."""
    if isinstance(value, Tile):
        return Scalar(value.dtype, value.shape)
    if memory_of(value) is not None:
        return Memory(value, before.newest)
    if isinstance(value, FunctionChoice):
        return Functions([kept(item, before) for item in value.items], before)
    return _layout(value, [kept(part, before) for part in _parts(value, before)], before)


def layout_of(value, before):
    """Returns the layout in which a loop carries a value: constants, also in tuples and records, become tiles."""
    if is_constant(value):
        return Scalar(dtype_of(value), ())
    if type(value) is tuple or isinstance(value, Record):
        return _layout(value, [layout_of(part, before) for part in _parts(value, before)], before)
    return kept(value, before)


def _parts(value, before):
    composite = composite_of(value, before)
    return composite.parts if composite else ()


def _layout(value, items, before):
    """Returns the layout of a value from those of its parts. A closure with parts is never Same: they may change later."""
    if all(isinstance(item, Same) for item in items) and not (items and isinstance(value, LocalFunction)):
        return Same(value)
    return Parts(composite_of(value, before), items, before)


def _equal_constants(x, y):
    try:
        return x is y or (type(x) is type(y) and bool(x == y))
    except Exception:  # noqa: BLE001 a user's __eq__
        return False


def joined(x, y, before):
    """Returns the layout that joins value x of one path and y of another; None: they cannot be joined."""
    if memory_of(x) is not None:
        return Memory(x, before.newest).met(y)
    if x is y:
        return Same(x)
    if isinstance(x, Strict) and isinstance(y, Strict):
        return Same(x) if x.dtype is y.dtype and x.value == y.value else _tiles(x, y)
    if is_loose(x) and is_loose(y) and type(x) is type(y) and x == y:
        return Same(x)
    if (isinstance(x, Tile) or is_constant(x)) and (isinstance(y, Tile) or is_constant(y)):
        return _tiles(x, y)
    one, other = composite_of(x, before), composite_of(y, before)
    if one and other and one.key == other.key:
        items = [joined(a, b, before) for a, b in zip(one.parts, other.parts)]
        if None not in items:
            return _layout(x, items, before)
    elif _equal_constants(x, y):
        return Same(x)
    return Functions([], before).met(x).met(y) if may_be_chosen(x) and may_be_chosen(y) else None


def _tiles(x, y):
    first, second = layout_of(x, None), layout_of(y, None)
    return first if first.dtype is second.dtype and first.shape == second.shape else None


def met(layout, value, before):
    """Returns the layout that joins a layout with one more value; None: they cannot be joined."""
    if isinstance(layout, (Memory, Functions)):
        return layout.met(value)
    if isinstance(layout, Same):
        return joined(layout.value, value, before)
    if isinstance(layout, Parts):
        parts = layout.of(value)
        items = [met(item, part, before) for item, part in zip(layout.items, parts)] if parts is not None else [None]
        if None not in items:
            return Parts(layout.composite, items, before)
        may = may_be_chosen(layout.composite.value) and may_be_chosen(value)
        return Functions([layout], before).met(value) if may else None
    return layout if fits(layout, value, before) else None


def fits(layout, value, before):
    """Returns True if the layout can carry a value."""
    if isinstance(layout, (Memory, Functions)):
        return layout.fits(value)
    if isinstance(layout, Same):
        both = joined(layout.value, value, before)
        return both is not None and not types_of(both)
    if isinstance(layout, Parts):
        parts = layout.of(value)
        return parts is not None and all(fits(item, part, before) for item, part in zip(layout.items, parts))
    if not (isinstance(value, Tile) or is_constant(value)):
        return False
    return dtype_of(value) is layout.dtype and (value.shape if isinstance(value, Tile) else ()) == layout.shape


def ways_of(layout):
    """Returns the largest number of alternatives of an array in the layout."""
    if isinstance(layout, Memory):
        return len(layout.bounds)
    return max(map(ways_of, getattr(layout, "items", ())), default=0)


def types_of(layout):
    """Returns the types of a layout's tiles as [(dtype, shape)]."""
    if isinstance(layout, (Memory, Functions)):
        return layout.types()
    if isinstance(layout, Scalar):
        return [(layout.dtype, layout.shape)]
    return [each for item in getattr(layout, "items", ()) for each in types_of(item)]


def tiles_of(emitter, layout, value):
    """Returns the tiles of a value that fits the layout; constants are emitted here."""
    if isinstance(layout, (Memory, Functions)):
        return layout.tiles(emitter, value)
    if isinstance(layout, Same):
        return []
    if isinstance(layout, Parts):
        return [each for item, part in zip(layout.items, layout.of(value)) for each in tiles_of(emitter, item, part)]
    return [emitter.tile(value)]


def value_of(emitter, layout, tiles):
    """Returns the value of a layout; `tiles` is an iterator over its tiles."""
    if isinstance(layout, (Memory, Functions)):
        return layout.value(emitter, tiles)
    if isinstance(layout, Same):
        return layout.value
    if isinstance(layout, Parts):
        return layout.composite.make([value_of(emitter, item, tiles) for item in layout.items])
    return retyped(next(tiles), layout.dtype)


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, LanguageFunction, HelperFunction, LocalFunction, Method)


def may_be_chosen(value):
    """Returns True for a function and for a choice of functions."""
    return isinstance(value, (*_FUNCTIONS, FunctionChoice))


class Functions:
    """A layout of one of several functions, with an index and the values that each reads from scopes that have ended."""

    most = 16

    def __init__(self, items, before):
        self.items, self._before = items, before

    def _of(self, item, function):
        """Returns the layout that joins an item with a function; None: they are different functions."""
        if isinstance(item, Same) and item.value is function:
            return item
        one = item.composite if isinstance(item, Parts) else composite_of(item.value, self._before)
        other = composite_of(function, self._before)
        if not one or not other or one.key != other.key:
            return None
        items = item.items if isinstance(item, Parts) else [Same(part) for part in one.parts]
        items = [met(each, part, self._before) for each, part in zip(items, other.parts)]
        return None if None in items else Parts(one, items, self._before)

    def met(self, value):
        if not may_be_chosen(value):
            return None
        made = list(self.items)
        for function in _choice(value).items:
            for at, item in enumerate(made):
                both = self._of(item, function)
                if both:
                    made[at] = both
                    break
            else:
                made.append(kept(function, self._before))
        return Functions(made, self._before) if len(made) <= self.most else None

    def _index(self, function):
        """Returns the index of the item that fits a function; None: no item fits."""
        found = (at for at, item in enumerate(self.items) if fits(item, function, self._before))
        return next(found, None)

    def fits(self, value):
        if not may_be_chosen(value):
            return False
        indices = [self._index(function) for function in _choice(value).items]
        return None not in indices and len(set(indices)) == len(indices)

    def types(self):
        return [(dtypes.int32, ()), *(each for item in self.items for each in types_of(item))]

    def tiles(self, emitter, value):
        choice = _choice(value)
        indices = [self._index(function) for function in choice.items]
        made = [picked(emitter, choice, indices, dtypes.int32)]
        for at, item in enumerate(self.items):
            if at in indices:
                made += tiles_of(emitter, item, choice.items[indices.index(at)])
            else:
                made += [emitter.constant(0, dtype, shape) for dtype, shape in types_of(item)]
        return made

    def value(self, emitter, tiles):
        index = next(tiles)
        return FunctionChoice(tuple(value_of(emitter, item, tiles) for item in self.items), index)


def _choice(value):
    return value if isinstance(value, FunctionChoice) else FunctionChoice((value,), None)


def differing(x, y):
    """Returns the text that an error adds if two types have the same text."""
    x, y = memory_of(x), memory_of(y)
    if x is None or y is None or shown(x) != shown(y):
        return ""
    one, other = (facts_of(getattr(each, "items", (each,))[0]) for each in (x, y))
    for name, a, b in zip(("extents", "strides"), one[2:], other[2:]):
        if a != b:
            texts = " vs. ".join(str(each) if each else "none" for each in (a, b))
            return f"; their constant {name}, by axis, differ: {texts}"
    return ""


def conflict(name, x, y):
    """Returns the error for a name with a Binding x on one path and y on another."""
    ways = " vs. ".join(f"{shown(each.value)} (line {each.line})" for each in (x, y))
    return f"Type of `{name}` depends on path taken: {ways}{differing(x.value, y.value)}"


def is_defined(value):
    return not isinstance(value, (Undefined, Conflict))
