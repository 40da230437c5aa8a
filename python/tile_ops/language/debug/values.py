"""Values of names while a kernel is debugged: tiles with their tensors, arrays and views."""

import ast

import torch

from ..core import dtypes
from ..core.debugging import debugging
from ..core.errors import TileTypeError
from ..core.registry import METHODS
from ..core.values import Strict, Tile, shown
from ..translator.attributes import missing
from ..translator.ranges import index_dtype


class DebugTile(Tile):
    """A concrete tile. tensor: a copy of its elements as a torch tensor."""

    __slots__ = ("held",)

    def __init__(self, held, dtype, shape):
        super().__init__(None, dtype, shape)
        self.held = held

    @property
    def tensor(self):
        return self._elements().clone()

    def _elements(self):
        bits = self.dtype in dtypes.OF_BITS
        return (self.held.view(self.dtype.torch) if bits else self.held).reshape(self.shape)

    def _scalar(self):
        if self.shape:
            raise TileTypeError(
                f"Expected a scalar, got {shown(self)}; combine the elements of a condition with & and |, "
                "compare in a chain by two comparisons, and write not as tl.logical_not()"
            )
        return self._elements().item()

    def __bool__(self):
        return bool(self._scalar())

    def __index__(self):
        if self.dtype.category == dtypes.FLOAT:
            raise TypeError(f"{shown(self)} is not an integer")
        return int(self._scalar())

    def __int__(self):
        raise TileTypeError(f"int() expects a constant argument, got {shown(self)}; use astype()")

    def __float__(self):
        raise TileTypeError(f"float() expects a constant argument, got {shown(self)}; use astype()")

    def __iter__(self):
        raise TypeError(f"{shown(self)} is not iterable")

    def __getattr__(self, name):
        if name in METHODS and debugging.session:
            return debugging.session.bound(METHODS[name], self)
        cutile = bool(debugging.session) and debugging.session.kernel._dialect
        raise AttributeError(missing(name, self, cutile))

    def __repr__(self):
        return f"{shown(self)} {self._elements()!r}"

    def __str__(self):
        return str(self._elements() if self.shape else self._elements().item())

    def __format__(self, spec):
        return format(self._elements().item(), spec) if not self.shape else str(self)

    __hash__ = object.__hash__


class DebugConstant(Strict):
    """A constant with a dtype, such as tl.int16(5)."""

    __slots__ = ()

    def __bool__(self):
        return bool(self.value)

    def __index__(self):
        return self.value.__index__()

    def __int__(self):
        return int(self.value)

    def __float__(self):
        return float(self.value)

    def __repr__(self):
        return f"{self.dtype}({self.value!r})"

    __hash__ = object.__hash__


class _Memory:
    """The base of values whose attributes the translator provides."""

    __slots__ = ()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return debugging.session.attribute(self, name)


class DebugArray(_Memory):
    """An array. root: its tensor, or None if a call returned it: then `made` is the call, and the array's number among
    its results."""

    __slots__ = ("root", "dtype", "ndim", "wide", "extents", "known_strides", "made")

    def __init__(self, root, dtype, ndim, wide=False, extents=(), known_strides=(), made=None):
        self.root, self.dtype, self.ndim, self.wide = root, dtype, ndim, wide
        self.extents, self.known_strides, self.made = tuple(extents), tuple(known_strides), made

    def __repr__(self):
        return f"Array[{self.dtype},{self.ndim}]" + ("" if self.root is None else f" {self.root!r}")


class DebugView(_Memory):
    """An array divided into tiles."""

    __slots__ = ("array", "tile_shape", "traversal_steps", "padding")

    def __init__(self, array, tile_shape, traversal_steps, padding):
        self.array, self.tile_shape, self.traversal_steps, self.padding = array, tile_shape, traversal_steps, padding

    @property
    def dtype(self):
        return self.array.dtype

    def __repr__(self):
        return f"TiledView[{self.dtype},{self.tile_shape}] of {self.array!r}"


class DebugRaw(_Memory):
    """The elements of an array by their offset from the first one."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array

    @property
    def dtype(self):
        return self.array.dtype

    def __repr__(self):
        return f"RawArrayMemory[{self.dtype}] of {self.array!r}"


class DebugList:
    """A list of arrays."""

    def __init__(self, items):
        self.items = tuple(items)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

    def __repr__(self):
        return f"List of {self.items!r}"


class DebugRange:
    """range(...): iterating gives scalars of the dtype of a kernel loop's index; static_iter gets Python's integers."""

    def __init__(self, values):
        self.plain = range(*(each.__index__() for each in (values.start, values.stop, values.step)))
        self._dtype = index_dtype(values)

    def __iter__(self):
        for number in self.plain:
            yield DebugTile(torch.tensor([number], dtype=self._dtype.torch, device="cpu"), self._dtype, ())

    def __repr__(self):
        return repr(self.plain)


def _operators():
    def binary(node, swapped):
        def apply(self, other):
            values = (other, self) if swapped else (self, other)
            return debugging.session.operator(node, *values)

        return apply

    names = {
        "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "floordiv": ast.FloorDiv, "mod": ast.Mod,
        "pow": ast.Pow, "matmul": ast.MatMult, "and": ast.BitAnd, "or": ast.BitOr, "xor": ast.BitXor,
        "lshift": ast.LShift, "rshift": ast.RShift,
    }  # fmt: skip
    compared = {"lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE, "eq": ast.Eq, "ne": ast.NotEq}
    unary = {"neg": ast.USub, "pos": ast.UAdd, "invert": ast.Invert}
    for kind in (DebugTile, DebugConstant):
        for name, node in names.items():
            setattr(kind, f"__{name}__", binary(node, False))
            setattr(kind, f"__r{name}__", binary(node, True))
        for name, node in compared.items():
            setattr(kind, f"__{name}__", binary(node, False))
        for name, node in unary.items():
            setattr(kind, f"__{name}__", lambda self, node=node: debugging.session.operator(node, self))
        kind.__abs__ = lambda self: debugging.session.builtin(abs, self)
        kind.__divmod__ = lambda self, other: debugging.session.builtin(divmod, self, other)
        kind.__rdivmod__ = lambda self, other: debugging.session.builtin(divmod, other, self)
        kind.__getitem__ = lambda self, index: debugging.session.item(self, index)


_operators()
