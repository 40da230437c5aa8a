"""Moves tiles from and to memory: load, store, tiled views, slices, advanced indexing."""

from ..core import checks, dtypes
from ..core.errors import TileTypeError, TileUnsupportedFeatureError, TileValueError
from .grid import axis_order, tiles_along
from ..core.modes import PADDING, MemoryOrder, MemoryScope, PaddingMode
from ..core.registry import language_function
from .shared_memory import ordered_load, ordered_store, require_order
from ..core.values import Array, Tile, TiledView, constant_of, is_constant, shown, shown_shape

_padding = checks.member(PaddingMode)
_order = checks.member(MemoryOrder)
_scope = checks.member(MemoryScope)


def require_rank(index, rank):
    if len(index) != rank:
        raise TileTypeError(f"Index size {len(index)} does not match the array rank {rank}")


def pad_of(dtype, mode):
    if dtype in dtypes.OF_BITS and mode not in (PaddingMode.UNDETERMINED, PaddingMode.ZERO):
        raise TileUnsupportedFeatureError(f"{dtype} is not padded with {mode.value}; load its bits as uint8, and use where()")
    return PADDING[mode] if dtype.category == dtypes.FLOAT else 0.0


def ordered(translator, array, order):
    """Returns the array with its axes in an order."""
    axes = axis_order(order, array.ndim)
    if axes == tuple(range(array.ndim)):
        return array
    made = translator.emitter.emit("permute_array", array, axes=axes)
    return Array(
        made.number,
        array.dtype,
        array.ndim,
        array.wide,
        *({i: known[a] for i, a in enumerate(axes) if a in known} for known in (array.extents, array.strides)),
    )


def _load(emitter, array, index, shape, steps, mode):
    indices = [emitter.tile(each) for each in index]
    return emitter.emit("load", array, *indices, shape=shape, steps=steps, pad=pad_of(array.dtype, mode))


@language_function
def load(
    translator,
    array: checks.array,
    /,
    index: checks.index,
    shape: checks.shape,
    *,
    order="C",
    padding_mode: _padding = PaddingMode.UNDETERMINED,
    check_bounds: checks.flag = True,
    latency: checks.latency = None,
    allow_tma: checks.optional_flag = None,
    memory_order: _order = MemoryOrder.WEAK,
    memory_scope: _scope = MemoryScope.NONE,
):
    """Returns the tile at an index. Elements outside of the array are padding.

    order: the order of the array's axes, "C", "F" or a permutation; index and shape refer to the permuted array.
    padding_mode: the value of elements outside of the array.
    latency, allow_tma, check_bounds: accepted as hints; they do not change the result.
    """
    shared = require_order(
        "tile_load", memory_order, memory_scope, (MemoryOrder.WEAK, MemoryOrder.RELAXED, MemoryOrder.ACQUIRE)
    )
    array = ordered(translator, array, order)
    require_rank(index, array.ndim)
    if shape and len(shape) != array.ndim:
        raise TileTypeError(f"load: shape {shown_shape(shape)} does not match the array rank {array.ndim}")
    extents = shape or (1,) * array.ndim
    if shared:
        pad = pad_of(array.dtype, padding_mode)
        tile = ordered_load(translator, array, index, extents, pad, memory_order, memory_scope)
    else:
        tile = _load(translator.emitter, array, index, extents, extents, padding_mode)
    return translator.emitter.reshape(tile, shape)


@language_function
def store(
    translator,
    array: checks.array,
    /,
    index: checks.index,
    tile: checks.operand,
    *,
    order="C",
    check_bounds: checks.flag = True,
    latency: checks.latency = None,
    allow_tma: checks.optional_flag = None,
    memory_order: _order = MemoryOrder.WEAK,
    memory_scope: _scope = MemoryScope.NONE,
):
    """Writes a tile at an index. Elements outside of the array are dropped.

    order: the order of the array's axes, "C", "F" or a permutation; index refers to the permuted array.
    latency, allow_tma, check_bounds: accepted as hints; they do not change the result.
    """
    shared = require_order(
        "tile_store", memory_order, memory_scope, (MemoryOrder.WEAK, MemoryOrder.RELAXED, MemoryOrder.RELEASE)
    )
    emitter = translator.emitter
    array = ordered(translator, array, order)
    require_rank(index, array.ndim)
    tile = emitter.implicit(tile, array.dtype)
    shape = tile.shape or (1,) * array.ndim
    if len(shape) != array.ndim:
        raise TileTypeError(f"store: the rank of {shown(tile)} does not match the array rank {array.ndim}")
    tile = emitter.reshape(tile, shape)
    if shared:
        return ordered_store(translator, array, index, tile, memory_order, memory_scope)
    return emitter.emit("store", array, tile, *map(emitter.tile, index), steps=shape)


@language_function(views=True)
def slice_(translator, array: checks.array, /, axis: checks.integer, start, stop):
    """Returns the part start <= index < stop of an axis. Loads and stores clip at its ends."""
    axis = checks.normal_axis(axis, array.ndim)
    for bound in (start, stop):
        checks.range_bound(bound)
    if is_constant(start) and is_constant(stop) and constant_of(stop) < constant_of(start):
        raise TileValueError(
            f"Slice stop must be greater than or equal to start, got {constant_of(start)} and {constant_of(stop)}"
        )
    return translator.emitter.slice(array, axis, start, stop)


@language_function(views=True)
def tiled_view(
    translator,
    array: checks.array,
    /,
    tile_shape: checks.shape,
    *,
    padding_mode: _padding = PaddingMode.UNDETERMINED,
    traversal_steps=None,
):
    """Returns the array divided into tiles. Tile i begins at i * step; a step is by default the tile's extent."""
    if tile_shape and len(tile_shape) != array.ndim:
        raise TileTypeError(f"Expected shape length to be {array.ndim}, got {len(tile_shape)}")
    steps = tile_shape or (1,) * array.ndim
    if traversal_steps is not None:
        steps = traversal_steps if isinstance(traversal_steps, tuple) else (traversal_steps,)
        steps = tuple(checks.integer(translator, step) for step in steps)
        if len(steps) != array.ndim:
            raise TileTypeError(f"Expected traversal_steps length to be {array.ndim}, got {len(steps)}")
        for step in steps:
            if step < 1:
                raise TileTypeError(f"element {step} of traversal_steps {steps} is not positive")
    return TiledView(array, tile_shape, steps, padding_mode)


def _view_rank(view, index):
    if len(index) != view.array.ndim:
        raise TileTypeError(f"Index size {len(index)} does not match the tiled view rank {view.array.ndim}")


@language_function
def view_load(
    translator,
    view: checks.view,
    /,
    index: checks.index,
    *,
    check_bounds: checks.flag = True,
    latency: checks.latency = None,
    allow_tma: checks.optional_flag = None,
):
    """Returns the tile at an index."""
    _view_rank(view, index)
    shape = view.tile_shape or (1,) * view.array.ndim
    tile = _load(translator.emitter, view.array, index, shape, view.traversal_steps, view.padding)
    return translator.emitter.reshape(tile, view.tile_shape)


@language_function
def view_store(
    translator,
    view: checks.view,
    /,
    index: checks.index,
    tile: checks.operand,
    *,
    check_bounds: checks.flag = True,
    latency: checks.latency = None,
    allow_tma: checks.optional_flag = None,
):
    """Writes a tile at an index. Elements outside of the array are dropped."""
    _view_rank(view, index)
    emitter = translator.emitter
    shape = view.tile_shape or (1,) * view.array.ndim
    tile = emitter.broadcast(emitter.implicit(tile, view.dtype), shape, "store")
    emitter.emit("store", view.array, tile, *map(emitter.tile, index), steps=view.traversal_steps)


@language_function
def view_num_tiles(translator, view: checks.view, /, axis: checks.integer):
    """Returns the number of tiles along an axis of the view."""
    return tiles_along(translator, view.array, axis, range(view.array.ndim), view.traversal_steps)


class Slice:
    """Names the elements start, start + 1, ... of an axis, for load_advanced_indexing and store_advanced_indexing.

    start: an integer scalar.
    length: the number of elements, a constant integer.
    """

    def __init__(self, start, length):
        self.start, self.length = start, length


def _rows(translator, array, indices):
    """Returns the indexed axis, its rows, each axis' extent, and the other axes' starts."""
    if not isinstance(indices, tuple) or len(indices) != array.ndim:
        raise TileTypeError(f"the index {shown(indices)} does not match array rank {array.ndim}; give one entry an axis")
    if array.ndim < 2:
        raise TileTypeError(f"expected an array of rank 2 or more, got {shown(array)}; use gather")
    tiles = [axis for axis, each in enumerate(indices) if not isinstance(each, Slice)]
    if len(tiles) != 1:
        raise TileTypeError(f"exactly one index must be a 1D integer Tile, the others Slice, got {len(tiles)}")
    axis = tiles[0]
    rows = indices[axis]
    if not isinstance(rows, Tile) or rows.ndim != 1 or rows.dtype.category != dtypes.INTEGER:
        raise TileTypeError(f"expected a 1D integer Tile, got {shown(rows)}")
    shape, starts = [], []
    for each in indices:
        if isinstance(each, Slice):
            length = checks.integer(translator, each.length)
            shape.extend(checks.shape(translator, length))
            starts.append(translator.emitter.tile(checks.index(translator, each.start)[0]))
        else:
            shape.extend(rows.shape)
    return axis, rows, tuple(shape), starts


@language_function
def load_advanced_indexing(
    translator,
    array: checks.array,
    indices,
    /,
    *,
    padding_mode: _padding = PaddingMode.UNDETERMINED,
    latency: checks.latency = None,
    allow_tma: checks.optional_flag = None,
):
    """Returns a tile of rows at indices. One entry is an integer tile of one axis, the others are Slice(start, length)."""
    axis, rows, shape, starts = _rows(translator, array, indices)
    steps = (1,) * array.ndim
    return translator.emitter.emit(
        "gather_rows", array, rows, *starts, axis=axis, shape=shape, steps=steps, pad=pad_of(array.dtype, padding_mode)
    )


@language_function
def store_advanced_indexing(
    translator,
    array: checks.array,
    indices,
    tile: checks.operand,
    /,
    *,
    latency: checks.latency = None,
    allow_tma: checks.optional_flag = None,
):
    """Writes a tile to rows at indices, which have the form of load_advanced_indexing."""
    axis, rows, shape, starts = _rows(translator, array, indices)
    tile = translator.emitter.implicit(tile, array.dtype)
    if tile.shape != shape:
        raise TileTypeError(f"store_advanced_indexing: {shown(tile)} does not have the indices' shape {shown_shape(shape)}")
    translator.emitter.emit("scatter_rows", array, tile, rows, *starts, axis=axis, steps=(1,) * array.ndim)
