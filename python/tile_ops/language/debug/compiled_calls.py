"""Compiled calls: single calls of the language, each compiled as a kernel, so that they mean the same as in a kernel."""

import dataclasses

import torch

from ..._C import TileKernel
from ..core import dtypes
from ..core.emit import PURE, Emitter, value_of
from ..core.errors import TileError
from ..core.reads import Reads, noting
from ..core.values import Array, Method, RawMemory, Tile, TiledView, retyped
from ..functions.memory import load, store
from ..translator.translator import Translator
from .skeletons import Rebuilder, invoke


class _Noting(Emitter):
    effects = False

    def results(self, name, operands, blocks=(), **attributes):
        self.effects |= name not in PURE
        return super().results(name, operands, blocks, **attributes)


class _CallTranslator(Translator):
    """A translator whose location is the user's line that is running."""

    def __init__(self, builder, cutile, location):
        super().__init__(builder, cutile)
        self.emitter = _Noting(builder, self._location, cutile)
        self._running = location

    def _location(self):
        return (*self._running, 1) if self.scope is None else super()._location()

    def frame(self):
        if self.scope is not None:
            return super().frame()
        return {"function": "", "file": self._running[0], "line": self._running[1], "column": 1, "end": 1}

    def host_value(self, value):
        return value if isinstance(value, (Tile, Array)) else super().host_value(value)


def _storage(dtype):
    if dtype in dtypes.OF_BITS:
        return torch.uint8
    return torch.float32 if dtype is dtypes.tfloat32 else dtype.torch


@dataclasses.dataclass(frozen=True)
class _Made:
    """A leaf of a result: a stored tile, or an array (by its number among the arrays that the call returns)."""

    kind: str
    at: int
    dtype: object
    shape: object = None
    array: object = None


class CompiledCall(TileKernel):
    """body(translator, *arguments, **named) as a kernel. types: the types of the tiles that it returns."""

    def __init__(self, body, skeleton, leaves, location, cutile):
        self._body, self._skeleton, self._running, self._cutile = body, skeleton, location, cutile
        self._count, self.types, self.effects, self.result = len(leaves), None, False, None
        self._reads = Reads()
        name = getattr(body, "__name__", "call").strip("<>")
        self._bind(name, *location, "r" * len(leaves))
        self._ir(tuple(leaves), False)
        self._bind(name, *location, "r" * (len(leaves) + len(self.types)))

    def run(self, leaves):
        """Runs the kernel and returns the tensors of its results."""
        made = [torch.empty(shape or (1,), dtype=_storage(dtype), device="cpu") for dtype, shape in self.types]
        if self.effects or made:
            self.launch((1, 1, 1), *leaves, *made)
        return made

    def current(self):
        """Returns True if the Python state that its functions read is unchanged."""
        return self._reads.hold()

    def _translate(self, builder, described, arguments, _):
        with noting(self._reads):
            self._translated(builder, described)

    def _translated(self, builder, described):
        translator = _CallTranslator(builder, self._cutile, self._running)
        arrays = [value_of(each) for each in described]
        rebuilder = Rebuilder(translator, [(translator, each) for each in arrays[: self._count]], _loaded)
        arguments, named = rebuilder.rebuilt(self._skeleton)
        try:
            value = invoke(self._body, translator, arguments, named)
        except TileError as error:
            error.frames.clear()  # Python's own traceback has the location
            raise
        tiles, memory = [], []
        result = self._described(value, tiles, memory)
        if self.types is None:
            self.types, self.result = [(tile.dtype, tile.shape) for tile in tiles], result
            self.effects = translator.emitter.effects
            return
        for tile, array in zip(tiles, arrays[self._count :]):
            if tile.dtype is dtypes.tfloat32:
                tile = translator.emitter.cast(tile, dtypes.float32)
            tile = translator.emitter.reshape(tile, tile.shape or (1,))
            store.lower(translator, (array, (0,) * len(tile.shape), retyped(tile, array.dtype)), {})

    def _described(self, value, tiles, memory):
        """Returns the result with a _Made in place of each tile and array."""
        if isinstance(value, Tile):
            tiles.append(value)
            return _Made("tile", len(tiles) - 1, value.dtype, value.shape)
        if isinstance(value, Array):
            memory.append(value)
            return _Made("array", len(memory) - 1, value.dtype, value.ndim, value)
        if isinstance(value, TiledView):
            array = self._described(value.array, tiles, memory)
            return TiledView(array, value.tile_shape, value.traversal_steps, value.padding)
        if isinstance(value, RawMemory):
            return RawMemory(self._described(value.array, tiles, memory))
        if isinstance(value, Method):
            return Method(value.function, None)
        if type(value) is tuple:
            return tuple(self._described(each, tiles, memory) for each in value)
        return value


def _loaded(leaf, dtype, shape):
    """Returns the tile of a leaf, loaded from its array."""
    translator, array = leaf
    tile = load.lower(translator, (array, (0,) * array.ndim, shape or (1,)), {})
    tile = translator.emitter.reshape(retyped(tile, dtype), shape)
    return translator.emitter.cast(tile, dtype)


def is_made(value, kind):
    return isinstance(value, _Made) and value.kind == kind
