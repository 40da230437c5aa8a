"""Splits the arguments of a call into a skeleton, a compile-time constant, and tensors as leaves."""

import dataclasses
import types

from ..arguments import constant_key
from ..arrays import tensor_of
from ..core import dtypes
from ..core.registry import LanguageFunction
from ..core.values import Array, ArrayList, RawMemory, Strict, TiledView
from ..translator.records import Record
from .values import DebugArray, DebugConstant, DebugList, DebugRaw, DebugTile, DebugView


def invoke(body, translator, arguments, named):
    """Returns the result of a call in a kernel. body: a language function, or another function of a translator and
    values."""
    if isinstance(body, LanguageFunction):
        return body.lower(translator, arguments, named)
    return body(translator, *arguments, **named)


class Flattener:
    """Collects the leaves. leaves: the tensors, in order."""

    def __init__(self):
        self.leaves = []

    def call(self, arguments, named):
        return tuple(map(self.skeleton, arguments)), tuple((name, self.skeleton(each)) for name, each in named.items())

    def skeleton(self, value):
        if isinstance(value, DebugTile):
            self.leaves.append(value.held)
            return ("tile", value.dtype, value.shape)
        if isinstance(value, DebugArray):
            return self._array(value)
        if isinstance(value, DebugView):
            return ("view", self._array(value.array), value.tile_shape, value.traversal_steps, value.padding)
        if isinstance(value, DebugRaw):
            return ("raw", self._array(value.array))
        if isinstance(value, DebugList):
            return ("list", tuple(map(self._array, value.items)))
        if isinstance(value, DebugConstant):
            return ("strict", constant_key("", value.value), _Held(value.value), value.dtype)
        if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () and dtypes.known(value.dtype):
            return ("strict", constant_key("", value.item()), _Held(value.item()), dtypes.known(value.dtype))
        if type(value) is tuple:
            return ("tuple", tuple(map(self.skeleton, value)))
        if type(value) is dict:
            return ("dict", tuple((key, self.skeleton(each)) for key, each in value.items()))
        if isinstance(value, slice):
            return ("slice", tuple(map(self.skeleton, (value.start, value.stop, value.step))))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = tuple((each.name, self.skeleton(getattr(value, each.name))) for each in dataclasses.fields(value))
            return ("record", type(value), fields)
        if isinstance(value, types.FunctionType) and value.__closure__:
            return ("function", _Held(value), tuple(self.skeleton(each.cell_contents) for each in value.__closure__))
        if isinstance(value, (bool, int, float)):
            return ("constant", constant_key("", value), _Held(value))
        return ("constant", None, value)

    def _array(self, array):
        if array.root is not None:
            self.leaves.append(tensor_of("", array.root))
            return ("array", array.dtype, array.ndim, array.wide, array.extents, array.known_strides)
        body, arguments, named, at = array.made
        return ("made", body, self.call(arguments, named), at)


class _Held:
    """A value whose key is the preceding item; functions compare by their code and module."""

    def __init__(self, value):
        self.value = value

    def _key(self):
        return (self.value.__code__, id(self.value.__globals__)) if isinstance(self.value, types.FunctionType) else 0

    def __eq__(self, other):
        return isinstance(other, _Held) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())


class Rebuilder:
    """Rebuilds values of a translator. loaded(leaf, dtype, shape) returns the tile of a leaf."""

    def __init__(self, translator, leaves, loaded):
        self._translator, self._leaves, self._loaded = translator, iter(leaves), loaded

    def rebuilt(self, skeleton):
        arguments, named = skeleton
        return tuple(map(self.value, arguments)), {name: self.value(each) for name, each in named}

    def value(self, skeleton):
        return getattr(self, "_" + skeleton[0])(*skeleton[1:])

    def _tile(self, dtype, shape):
        return self._loaded(next(self._leaves), dtype, shape)

    def _array(self, dtype, ndim, wide, extents, strides):
        plain = next(self._leaves)[1]
        return Array(plain.number, dtype, ndim, wide, dict(extents), dict(strides))

    def _made(self, body, call, at):
        arguments, named = self.rebuilt(call)
        return arrays_of(invoke(body, self._translator, arguments, named))[at]

    def _view(self, array, *rest):
        return TiledView(self.value(array), *rest)

    def _raw(self, array):
        return RawMemory(self.value(array))

    def _list(self, items):
        return ArrayList(tuple(map(self.value, items)))

    def _strict(self, _, held, dtype):
        return Strict(held.value, dtype)

    def _tuple(self, items):
        return tuple(map(self.value, items))

    def _dict(self, items):
        return {key: self.value(each) for key, each in items}

    def _slice(self, parts):
        return slice(*map(self.value, parts))

    def _record(self, kind, fields):
        return Record(kind, {name: self.value(each) for name, each in fields})

    def _function(self, held, cells):
        function = held.value
        made = tuple(types.CellType(self.value(each)) for each in cells)
        return types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, made)

    def _constant(self, _, value):
        return value.value if isinstance(value, _Held) else value


def arrays_of(value):
    """Returns the arrays in the result of a call, in order."""
    if isinstance(value, Array):
        return [value]
    if isinstance(value, (TiledView, RawMemory)):
        return arrays_of(value.array)
    if type(value) is tuple:
        return [array for each in value for array in arrays_of(each)]
    return []
