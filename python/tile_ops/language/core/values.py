"""The values of names while a kernel is translated. Python's own numbers, strings, tuples, dictionaries and functions
represent themselves; numbers are loose constants, which take the dtype of the other operand."""

import enum
import types

from .dtypes import DType, of_constant
from .errors import TileError


class Tile:
    """A value of the running kernel: dtype[shape]; a scalar has the shape ()."""

    __slots__ = ("number", "dtype", "shape")

    def __init__(self, number, dtype, shape):
        self.number, self.dtype, self.shape = number, dtype, shape

    @property
    def ndim(self):
        return len(self.shape)


class Strict:
    """A constant with a dtype, such as int16(5)."""

    __slots__ = ("value", "dtype")
    shape, ndim = (), 0

    def __init__(self, value, dtype):
        self.value, self.dtype = value, dtype


class Array:
    """An array that the kernel takes, or a view of one."""

    __slots__ = ("number", "dtype", "ndim", "wide", "extents", "strides", "origin")

    def __init__(self, number, dtype, ndim, wide=False, extents=None, strides=None, origin=None):
        self.number, self.dtype, self.ndim = number, dtype, ndim
        self.wide = wide  # shape and strides are int64, by annotation or because the launch's array requires it
        self.extents, self.strides = extents or {}, strides or {}  # the constant ones, by axis
        self.origin = origin  # for a slice: (array, axis, start, stop)


def of_one_width(arrays):
    """Returns the same arrays with one index width: int64 for all if any of them needs it."""
    if not any(each.wide for each in arrays):
        return tuple(arrays)
    return tuple(Array(a.number, a.dtype, a.ndim, True, a.extents, a.strides, a.origin) for a in arrays)


class ArrayList:
    """Arrays of one dtype and rank, chosen by an index."""

    __slots__ = ("items",)

    def __init__(self, items):
        self.items = items


class ArrayChoice:
    """The array at a run-time index; an operation on it becomes a branch for each array."""

    __slots__ = ("items", "index")

    def __init__(self, items, index):
        self.items, self.index = items, index

    @property
    def dtype(self):
        return self.items[0].dtype

    @property
    def ndim(self):
        return self.items[0].ndim


class TiledView:
    """An array divided into tiles."""

    __slots__ = ("array", "tile_shape", "traversal_steps", "padding")

    def __init__(self, array, tile_shape, traversal_steps, padding):
        self.array, self.tile_shape, self.traversal_steps, self.padding = array, tile_shape, traversal_steps, padding

    @property
    def dtype(self):
        return self.array.dtype

    def of(self, array):
        """Returns the same view of another array."""
        return TiledView(array, self.tile_shape, self.traversal_steps, self.padding)


class RawMemory:
    """The elements of an array, addressed by their offset from the first one."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array

    @property
    def dtype(self):
        return self.array.dtype

    @staticmethod
    def of(array):
        return RawMemory(array)


class Range:
    """range(start, stop, step) of scalars of the running kernel."""

    __slots__ = ("start", "stop", "step")

    def __init__(self, start, stop, step):
        self.start, self.stop, self.step = start, stop, step


class Method:
    """A language function bound to its first argument, such as tile.astype."""

    __slots__ = ("function", "owner")

    def __init__(self, function, owner):
        self.function, self.owner = function, owner


class Partial:
    """A function with bound arguments, as functools.partial makes one."""

    __slots__ = ("function", "arguments", "named")

    def __init__(self, function, arguments, named):
        self.function, self.arguments, self.named = function, arguments, named


class LocalFunction:
    """A def or lambda in the kernel: its source, and the scope in which it was made."""

    __slots__ = ("name", "node", "scope", "defaults", "named_defaults")

    def __init__(self, name, node, scope, defaults, named_defaults):
        self.name, self.node, self.scope, self.defaults, self.named_defaults = (name, node, scope, defaults, named_defaults)


class FunctionChoice:
    """One of several functions, chosen by an index at run time; a call branches over all of them."""

    __slots__ = ("items", "index")

    def __init__(self, items, index):
        self.items, self.index = items, index


class Undefined:
    """A name that is not assigned on some path."""

    __slots__ = ()


class Conflict:
    """A name whose values on different paths have different types."""

    __slots__ = ("message",)

    def __init__(self, message):
        self.message = message


def memory_of(value):
    """Returns the array or choice of arrays of a value that is memory or a view of it; None for other values."""
    if isinstance(value, (TiledView, RawMemory)):
        return value.array
    return value if isinstance(value, (Array, ArrayChoice)) else None


def over(value, array):
    """Returns the view `value` over another array; the array itself if `value` is an array."""
    return value.of(array) if isinstance(value, (TiledView, RawMemory)) else array


def is_loose(value):
    """Returns True for a Python number: a constant without a dtype. That includes members of an IntEnum or another
    enumeration of numbers."""
    return isinstance(value, (bool, int, float))


def is_constant(value):
    return is_loose(value) or isinstance(value, Strict)


def constant_of(value):
    """Returns the Python number of a constant."""
    return value.value if isinstance(value, Strict) else value


def as_python(value, error):
    """Returns a constant of the kernel as Python's own object. error(part) makes the error for a part that is not one."""
    if isinstance(value, Strict):
        return value.value
    if type(value) is tuple:
        return tuple(as_python(each, error) for each in value)
    if value is None or is_loose(value) or isinstance(value, (str, enum.Enum, DType)):
        return value
    raise error(value)


def dtype_of(value):
    return value.dtype if isinstance(value, (Tile, Strict)) else of_constant(value)


def shape_of(value):
    return value.shape if isinstance(value, Tile) else ()


def shown_shape(shape):
    return "(" + ",".join(map(str, shape)) + ")"


def to_load(*values):
    """Returns the hint of an error about memory, or an enumeration's member, in place of a value."""
    if any(isinstance(each, (Array, ArrayChoice, TiledView)) for each in values):
        return "; load() a tile of it first"
    return "; use the .value of the member" if any(isinstance(each, enum.Enum) for each in values) else ""


def shown(value):
    """Returns the type of a value as errors write it."""
    if isinstance(value, (Tile, Strict)):
        return f"Tile[{value.dtype},{shown_shape(value.shape)}]"
    if is_loose(value):
        try:
            return f"Tile[{of_constant(value)},()]"
        except TileError:
            return "int"
    if isinstance(value, Array):
        return f"Array[{value.dtype},{value.ndim}]"
    if isinstance(value, (ArrayList, ArrayChoice)):
        return "List[" + shown(value.items[0]) + "]" if isinstance(value, ArrayList) else shown(value.items[0])
    if isinstance(value, TiledView):
        return f"TiledView[{value.dtype},{shown_shape(value.tile_shape)}]"
    if isinstance(value, RawMemory):
        return f"RawArrayMemory[{value.dtype}]"
    if isinstance(value, tuple):
        return f"Tuple[{','.join(map(shown, value))}]"
    if type(value) is dict:
        return f"Dict[{','.join(f'{key!r}:{shown(item)}' for key, item in value.items())}]"
    if isinstance(value, DType):
        return "DType"
    if isinstance(value, (types.FunctionType, LocalFunction, Method, Partial, FunctionChoice)):
        return "Function"
    if value is None:
        return "None"
    return getattr(value, "kind", type(value)).__name__


def retyped(value, dtype):
    """Returns a value of the same type in Tile IR as a value of the dtype."""
    if value.dtype is dtype or value.dtype.ir != dtype.ir:
        return value
    if isinstance(value, Tile):
        return Tile(value.number, dtype, value.shape)
    return Array(value.number, dtype, value.ndim, value.wide, value.extents, value.strides, value.origin)
