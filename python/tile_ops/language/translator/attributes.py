"""Translates attributes, methods and items of values."""

import enum
import types

from ..functions import arithmetic, elements, memory
from ..core import advice, dtypes
from . import dictionary, enumerations, records
from ..core.errors import TileTypeError, TileValueError
from ..core.reads import is_fixed, note, note_item
from ..functions.grid import shape_of_array, strides_of_array
from .records import Record
from ..core.registry import FUNCTIONS, METHODS, LanguageFunction
from ..functions.shared_memory import VIEW_CHANGES
from ..core.values import (
    Array,
    ArrayChoice,
    ArrayList,
    Method,
    RawMemory,
    Strict,
    Tile,
    TiledView,
    constant_of,
    is_constant,
    shape_of,
    shown,
)

_ARRAY_METHODS = {"slice": memory.slice_, "tiled_view": memory.tiled_view}
_VIEW_METHODS = {"load": memory.view_load, "store": memory.view_store, "num_tiles": memory.view_num_tiles, **VIEW_CHANGES}
_OF_VIEWS = ("dtype", "tile_shape", "traversal_steps")


def _raw_memory(translator, array):
    return RawMemory(array)


_raw = LanguageFunction(_raw_memory, views=True)
_raw.__name__ = "get_raw_memory"


def _of_array(translator, array, name):
    if name in _ARRAY_METHODS:
        return Method(_ARRAY_METHODS[name], array)
    return {
        "dtype": lambda: array.dtype,
        "ndim": lambda: array.ndim,
        "shape": lambda: shape_of_array(translator, array),
        "strides": lambda: strides_of_array(translator, array),
        "get_raw_memory": lambda: Method(_raw, array),
    }.get(name, lambda: _none(translator, name, array))()


def _of_choice(translator, choice, name):
    if name not in ("shape", "strides"):
        return _of_array(translator, choice, name)
    of = shape_of_array if name == "shape" else strides_of_array
    function = LanguageFunction(lambda translator, array: of(translator, array))
    return function.lower(translator, (choice,), {})


_OF_TILES = ("dtype", "shape", "ndim")
_OF_ARRAYS = ("dtype", "ndim", "shape", "strides", "get_raw_memory", *_ARRAY_METHODS)


def _none(translator, name, owner):
    raise TileTypeError(missing(name, owner, translator.emitter.cutile))


def missing(name, owner, cutile):
    """Returns the message of the error about a missing attribute, with what to write instead."""
    return f"No such attribute '{name}' for object of type {shown(owner)}{_instead(name, owner, cutile)}"


def _instead(name, owner, cutile):
    module = advice.module_name(cutile)
    if isinstance(owner, (Array, ArrayChoice)):
        if name in ("size", "dim", "stride", "numel"):
            return f"; write {advice.written(name, module, 'array')}"
        if _takes(name, "array"):
            return f"; write {module}.{name}(array, ...)"
        if name in METHODS or _takes(name, "x") or name in advice.WRITTEN:
            return f"; load() a tile of it first{_of_values(name, module).replace(';', ', then', 1)}"
        return advice.meant(name, _OF_ARRAYS, "array.")
    if isinstance(owner, Tile) or is_constant(owner):
        return _of_values(name, module) or advice.meant(name, (*METHODS, *_OF_TILES), "tile.") or _meant(name, module)
    for kind, known in ((TiledView, (*_VIEW_METHODS, *_OF_VIEWS)), (RawMemory, (*elements.AT_OFFSETS, "dtype"))):
        if isinstance(owner, kind):
            return advice.meant(name, known)
    if isinstance(owner, (str, tuple)) and hasattr(type(owner), name):
        return f"; static_eval(value.{name}(...)) runs it while the kernel is compiled"
    return advice.meant(name, ("name", "value", *dir(type(owner)))) if isinstance(owner, enum.Enum) else ""


def _takes(name, first):
    """Returns True if the language has a function `name` whose first parameter is called `first`."""
    return name in FUNCTIONS and next(iter(FUNCTIONS[name].__signature__.parameters), None) == first


def _of_values(name, module):
    if name in METHODS:
        return f"; tile.{name}(...)"
    if _takes(name, "x"):
        return f"; write {module}.{name}(tile)"
    text = advice.written(name, module, "tile")
    return "" if text is None else f"; write {text}"


def _meant(name, module):
    functions = [each for each in FUNCTIONS if _takes(each, "x")]
    close = advice.meant(name, functions, f"{module}.")
    return close.replace("?", "(tile)?") if close else ""


def _note_read(owner, name):
    """Records the read of a name in a module or class."""
    if isinstance(owner, type):
        note("type", owner, name)
    elif name in vars(owner) or "__getattr__" not in vars(owner):
        note_item(vars(owner), name)
    elif not is_fixed(vars(owner)):
        note("attribute", owner, name)


def attribute(translator, owner, name):
    """Translates owner.name."""
    if isinstance(owner, Array):
        return _of_array(translator, owner, name)
    if isinstance(owner, ArrayChoice):
        return _of_choice(translator, owner, name)
    if isinstance(owner, Record):
        return records.attribute(translator, owner, name)
    if isinstance(owner, enum.Enum):
        found = enumerations.attribute(translator, owner, name)
        if found is not enumerations.NONE:
            return found
    if isinstance(owner, Tile) or is_constant(owner):
        if name in METHODS:
            return Method(METHODS[name], owner)
        known = {
            "dtype": lambda: arithmetic.dtype_of(owner),
            "shape": lambda: shape_of(owner),
            "ndim": lambda: len(shape_of(owner)),
        }
        return known.get(name, lambda: _none(translator, name, owner))()
    for kind, methods, names in ((TiledView, _VIEW_METHODS, _OF_VIEWS), (RawMemory, elements.AT_OFFSETS, ("dtype",))):
        if isinstance(owner, kind):
            if name in methods:
                return Method(methods[name], owner)
            return getattr(owner, name) if name in names else _none(translator, name, owner)
    if isinstance(owner, (types.ModuleType, type)):
        _note_read(owner, name)
        if not hasattr(owner, name):
            what = owner.__name__ if isinstance(owner, types.ModuleType) else f"class {owner.__name__}"
            ours = what in ("tile_ops.language", "tile_ops.cutile")
            module = advice.module_name(what == "tile_ops.cutile")
            close = advice.of_module(name, dir(owner), module) if ours else advice.meant(name, dir(owner))
            raise TileTypeError(f"No such attribute '{name}' of {what}{close}")
        return translator.host_value(getattr(owner, name))
    if type(owner) is dict:
        found = dictionary.method(owner, name)
        if found is not None:
            return found
    if isinstance(owner, dtypes.DType) and name in ("name", "bitwidth"):
        raise TileTypeError(f"No such attribute '{name}' of a dtype inside a kernel; str(dtype) is its name")
    return _none(translator, name, owner)


def _sub(index):
    return index if isinstance(index, tuple) else (index,)


def item(translator, owner, index):
    """Translates owner[index]."""
    if isinstance(owner, (Array, ArrayChoice)):
        raise TileTypeError("Arrays are not directly subscriptable; use load, gather or slice")
    if isinstance(owner, ArrayList):
        if isinstance(index, Tile) and index.shape == () and index.dtype.category == dtypes.INTEGER:
            return ArrayChoice(owner.items, index)
        return _of_tuple(owner.items, index)
    if isinstance(owner, Record):
        found = records.special(owner, "__getitem__")
        if found is None:
            raise TileTypeError(f"{shown(owner)} is not subscriptable")
        return translator.call(found, (owner, index), {})
    if type(owner) is tuple:
        return _of_tuple(owner, index)
    if type(owner) is dict:
        return dictionary.item(owner, index)
    if isinstance(owner, type) and issubclass(owner, enum.Enum):
        return enumerations.item(owner, index)
    if isinstance(owner, Tile) or is_constant(owner):
        return _of_tile(translator, owner, _sub(index))
    raise TileTypeError(f"{shown(owner)} is not subscriptable")


def _of_tuple(owner, index):
    if isinstance(index, slice):
        parts = [None if part is None else constant_of(part) for part in (index.start, index.stop, index.step)]
        if any(isinstance(part, Tile) for part in parts):
            raise TileTypeError("Tuple indices must be constant; static_iter(range(...)) gives constants, and where() chooses")
        for part in parts:
            if part is not None and not isinstance(part, int):
                raise TileTypeError(f"A slice's bounds and step must be integers, got {shown(part)}")
        if parts[2] == 0:
            raise TileValueError("a slice's step must not be 0")
        return owner[slice(*parts)]
    if isinstance(index, Tile):
        raise TileTypeError("Tuple indices must be constant; static_iter(range(...)) gives constants, and where() chooses")
    number = index.value if isinstance(index, Strict) else index
    if not isinstance(number, int) or isinstance(number, bool):
        raise TileTypeError(f"Tuple indices must be integers or slices, not {shown(index)}")
    if not -len(owner) <= number < len(owner):
        raise TileTypeError(f"Tuple index {number} is out of range for {shown(owner)}")
    return owner[number]


def _of_tile(translator, owner, parts):
    """Translates an index of a tile. It may only add axes of extent 1: None, `:` and `...`."""
    shape = list(shape_of(owner))
    whole = slice(None)
    for part in parts:
        if not (part is None or part is Ellipsis or (isinstance(part, slice) and part == whole)):
            raise TileTypeError(
                "Directly indexing a tile is not supported; use extract(), or None, `:` and `...` to insert axes"
            )
    named = sum(isinstance(part, slice) for part in parts)
    if named > len(shape) or sum(part is Ellipsis for part in parts) > 1:
        raise TileTypeError(f"too many indices for {shown(owner)}")
    made, at = [], 0
    for part in (*parts, *([] if Ellipsis in parts else [Ellipsis])):
        if part is None:
            made.append(1)
            continue
        count = len(shape) - named if part is Ellipsis else 1
        made.extend(shape[at : at + count])
        at += count
    return translator.emitter.reshape(translator.emitter.tile(owner), tuple(made))
