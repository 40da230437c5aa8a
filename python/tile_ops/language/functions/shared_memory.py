"""Accesses to memory that other blocks change: loads and stores with a memory order."""

from ..core import checks, dtypes
from .elements import ADDED, SCOPES, WORDS, inside, updated
from ..core.errors import TileTypeError
from ..core.modes import MemoryOrder, MemoryScope
from ..core.registry import language_function


def require_order(what, order, scope, allowed):
    """Checks a memory order and its scope; returns True if it requests more than a plain access."""
    if order not in allowed:
        raise TileTypeError(f"Invalid memory order for {what}: {order.value}")
    if order is MemoryOrder.WEAK and scope is not MemoryScope.NONE:
        raise TileTypeError(f"{what}: a weak access cannot specify a memory scope, got {scope.value}")
    if order is not MemoryOrder.WEAK and scope is MemoryScope.NONE:
        raise TileTypeError(f"{what}: memory order {order.value} requires a memory scope")
    return order is not MemoryOrder.WEAK


def _element_tiles(translator, index, shape, steps):
    """Returns the index of each element of a tile along each axis, int64."""
    emitter, tiles = translator.emitter, []
    for axis, (each, extent, step) in enumerate(zip(index, shape, steps)):
        indices = emitter.emit("arange", dtype="i64", size=extent)
        first = emitter.emit("mul", emitter.as_dtype(each, dtypes.int64), emitter.constant(step, dtypes.int64))
        indices = emitter.emit("add", indices, emitter.broadcast(first, (extent,)))
        indices = emitter.reshape(indices, (1,) * axis + (extent,) + (1,) * (len(shape) - axis - 1))
        tiles.append(emitter.broadcast(indices, shape))
    return tiles


def ordered_load(translator, array, index, shape, pad, order, scope):
    """Loads a tile whose elements are each read atomically."""
    emitter = translator.emitter
    tiles = _element_tiles(translator, index, shape, shape)
    values = emitter.emit("atomic_load", array, *tiles, order=order.value, scope=SCOPES[scope])
    if pad == 0 and str(pad) == "0.0":
        return values
    return emitter.emit("where", inside(translator, array, tiles), values, emitter.constant(pad, array.dtype, shape))


def ordered_store(translator, array, index, tile, order, scope):
    """Stores a tile, each element atomically."""
    tiles = _element_tiles(translator, index, tile.shape, tile.shape)
    translator.emitter.emit("atomic_store", array, tile, *tiles, order=order.value, scope=SCOPES[scope])


def _changes(name, allowed, doc, exact):
    def change(translator, view: checks.view, index: checks.index, update: checks.operand, /):
        if len(index) != view.array.ndim:
            raise TileTypeError(f"Index size {len(index)} does not match the tiled view rank {view.array.ndim}")
        if view.dtype not in allowed:
            raise TileTypeError(
                f"Unsupported array dtype {view.dtype} for atomic_store_{name}; it takes {', '.join(map(str, allowed))}"
            )
        emitter, shape = translator.emitter, view.tile_shape or (1,) * view.array.ndim
        tile = emitter.broadcast(updated(emitter, view.array, update, exact), shape, f"atomic_store_{name}")
        if name == "add":
            emitter.emit("add_tile", view.array, tile, *map(emitter.tile, index), steps=view.traversal_steps)
            return
        tiles = _element_tiles(translator, index, shape, view.traversal_steps)
        emitter.emit(f"atomic_{name}", view.array, tile, *tiles, order="relaxed", scope="device")

    change.__name__, change.__doc__ = f"atomic_store_{name}", doc
    return language_function(change)


VIEW_CHANGES = {
    f"atomic_store_{name}": _changes(
        name, ADDED if name == "add" else WORDS, doc + " Elements outside the array are dropped.", name in ("and", "or", "xor")
    )
    for name, doc in (
        ("add", "Adds a tile to the elements at an index, each at once."),
        ("max", "Replaces each element by the larger of it and the tile's, at once."),
        ("min", "Replaces each element by the smaller of it and the tile's, at once."),
        ("and", "Replaces each element by its bitwise and with the tile's, at once."),
        ("or", "Replaces each element by its bitwise or with the tile's, at once."),
        ("xor", "Replaces each element by its exclusive or with the tile's, at once."),
    )
}
