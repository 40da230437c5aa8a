"""Access to single elements of an array: gather, scatter, raw offsets and atomics."""

from ..core import checks, dtypes
from ..core.errors import TileTypeError
from .grid import extent
from ..core.modes import MemoryOrder, MemoryScope
from ..core.registry import language_function
from ..core.values import constant_of, dtype_of, is_constant, shape_of

_order = checks.member(MemoryOrder)
_scope = checks.member(MemoryScope)


def inside(translator, array, indices):
    """Returns True if index tiles of one shape are inside the array."""
    emitter = translator.emitter
    found = None
    for axis, index in enumerate(indices):
        wide = emitter.cast(index, dtypes.int64)
        high = emitter.broadcast(emitter.cast(emitter.tile(extent(translator, array, axis)), dtypes.int64), index.shape)
        for test in (emitter.emit("ge", wide, emitter.constant(0, dtypes.int64, index.shape)), emitter.emit("lt", wide, high)):
            found = test if found is None else emitter.emit("bitwise_and", found, test)
    return found


def _addressed(translator, operation, array, indices, mask):
    """Returns index tiles of one shape, and the mask in that shape or None."""
    emitter = translator.emitter
    if len(indices) != array.ndim:
        raise TileTypeError(f"Index size {len(indices)} does not match the array rank {array.ndim}")
    shape = emitter.common_shape(operation, indices)
    if mask is True:
        mask = None
    if mask is not None:
        mask = emitter.broadcast(emitter.tile(mask), shape, operation)
    return [emitter.broadcast(emitter.tile(index), shape, operation) for index in indices], mask, shape


def _padded(translator, array, read, bounds, mask, padding_value, shape):
    """Returns the result of `read` with a number as padding; where() inserts other padding."""
    emitter = translator.emitter
    number = constant_of(padding_value) if is_constant(padding_value) else None
    floats = array.dtype.category == dtypes.FLOAT and array.dtype not in dtypes.OF_BITS
    plain = number is not None and (number == 0 or floats)
    padding = emitter.implicit(padding_value, array.dtype)
    if plain:
        return read(float(dtypes.converted(number, array.dtype)) if number else float(number))
    if shape_of(padding) != shape:
        padding = emitter.broadcast(padding, shape, "padding_value")
    good = bounds()
    if mask is not None:
        good = mask if good is None else emitter.emit("bitwise_and", good, mask)
    values = read(0.0)
    return values if good is None else emitter.emit("where", good, values, padding)


@language_function
def gather(
    translator,
    array: checks.array,
    indices: checks.element_indices,
    /,
    *,
    mask: checks.mask = None,
    padding_value: checks.operand = 0,
    check_bounds: checks.flag = True,
    latency: checks.latency = None,
):
    """Returns elements at index tiles. Those outside of the array, or where the mask is false, are padding_value."""
    tiles, mask, shape = _addressed(translator, "gather", array, indices, mask)
    masks = [] if mask is None else [mask]

    def read(pad):
        return translator.emitter.emit("gather", array, *tiles, *masks, pad=pad)

    return _padded(translator, array, read, lambda: inside(translator, array, tiles), mask, padding_value, shape)


@language_function
def scatter(
    translator,
    array: checks.array,
    indices: checks.element_indices,
    value: checks.operand,
    /,
    *,
    mask: checks.mask = None,
    check_bounds: checks.flag = True,
    latency: checks.latency = None,
):
    """Writes elements at index tiles. Those outside of the array, or where the mask is false, are dropped."""
    emitter = translator.emitter
    tiles, mask, shape = _addressed(translator, "scatter", array, indices, mask)
    value = emitter.broadcast(emitter.implicit(value, array.dtype), shape, "scatter")
    emitter.emit("scatter", array, value, *tiles, *([] if mask is None else [mask]))


# Raw offsets.


def _offsets(translator, operation, offset, mask):
    emitter = translator.emitter
    (offset,) = checks.element_indices(translator, offset)
    tile = emitter.tile(offset)
    mask = None if mask is None or mask is True else emitter.broadcast(emitter.tile(mask), tile.shape, operation)
    return tile, mask


@language_function
def load_offset(
    translator,
    memory,
    offset,
    /,
    *,
    mask: checks.mask = None,
    padding_value: checks.operand = 0,
    latency: checks.latency = None,
):
    """Returns elements by their offset from the array's first one. Nothing keeps an offset within the array's memory."""
    tile, mask = _offsets(translator, "load_offset", offset, mask)
    masks = [] if mask is None else [mask]

    def read(pad):
        return translator.emitter.emit("load_offset", memory.array, tile, *masks, pad=pad)

    return _padded(translator, memory.array, read, lambda: None, mask, padding_value, tile.shape)


@language_function
def store_offset(
    translator, memory, offset, value: checks.operand, /, *, mask: checks.mask = None, latency: checks.latency = None
):
    """Writes elements by their offset from the array's first one. Offsets are not checked against the array's memory."""
    emitter = translator.emitter
    tile, mask = _offsets(translator, "store_offset", offset, mask)
    value = emitter.broadcast(emitter.implicit(value, memory.dtype), tile.shape, "store_offset")
    emitter.emit("store_offset", memory.array, value, tile, *([] if mask is None else [mask]))


# Atomics.

WORDS = (dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64)
_EXCHANGED = (*WORDS, dtypes.float32, dtypes.float64)
ADDED = (*_EXCHANGED, dtypes.float16, dtypes.bfloat16)
SCOPES = {MemoryScope.BLOCK: "block", MemoryScope.DEVICE: "device", MemoryScope.SYS: "system"}


def _atomic_words(what, memory_order, memory_scope):
    if memory_order is MemoryOrder.WEAK:
        raise TileTypeError(f"Invalid memory order for {what}: weak")
    if memory_scope is MemoryScope.NONE:
        raise TileTypeError(f"{what}: memory order {memory_order.value} requires a memory scope")
    return {"order": memory_order.value, "scope": SCOPES[memory_scope]}


def updated(emitter, array, value, exact):
    """Returns a value as the array's elements. exact: it must already have the array's dtype, because its bits are
    used."""
    if exact and dtype_of(value) is not array.dtype:
        raise TileTypeError(
            f"Bitwise atomic read-modify-write operations require the update dtype ({dtype_of(value)}) to exactly match "
            f"the target dtype ({array.dtype}); convert with astype()"
        )
    return emitter.as_dtype(value, array.dtype) if exact else emitter.implicit(value, array.dtype)


def _changes(name, dtypes_, exact=False):
    """Returns run(translator, array, indices or an offset, mask, values, order, scope, more attributes), which returns
    the old values."""

    def run(translator, array, indices, mask, values, memory_order, memory_scope, **flat):
        emitter = translator.emitter
        what = "tile_atomic_cas" if name == "atomic_cas" else "tile_atomic_rmw"
        words = _atomic_words(what, memory_order, memory_scope)
        if array.dtype not in dtypes_:
            raise TileTypeError(f"Unsupported array dtype {array.dtype} for {name}; it takes {', '.join(map(str, dtypes_))}")
        if flat:
            offset, mask = _offsets(translator, f"{name}_offset", indices, mask)
            tiles, shape = [offset], offset.shape
        else:
            tiles, mask, shape = _addressed(translator, name, array, indices, mask)
        values = [emitter.broadcast(updated(emitter, array, each, exact), shape, name) for each in values]
        return emitter.emit(name, array, *values, *tiles, *([] if mask is None else [mask]), **words, **flat)

    return run


def _atomic(name, dtypes_, doc, compares=False, exact=False):
    """Returns the function at index tiles and the one at offsets."""
    run = _changes(name, dtypes_, exact)
    if compares:

        def atomic(
            translator,
            array: checks.array,
            indices: checks.element_indices,
            expected: checks.operand,
            desired: checks.operand,
            /,
            *,
            check_bounds: checks.flag = True,
            memory_order: _order = MemoryOrder.ACQ_REL,
            memory_scope: _scope = MemoryScope.DEVICE,
        ):
            return run(translator, array, indices, None, (expected, desired), memory_order, memory_scope)

        def at_offset(
            translator,
            memory,
            offset,
            expected: checks.operand,
            desired: checks.operand,
            /,
            *,
            mask: checks.mask = None,
            memory_order: _order = MemoryOrder.ACQ_REL,
            memory_scope: _scope = MemoryScope.DEVICE,
        ):
            return run(translator, memory.array, offset, mask, (expected, desired), memory_order, memory_scope, flat=1)

    else:

        def atomic(
            translator,
            array: checks.array,
            indices: checks.element_indices,
            update: checks.operand,
            /,
            *,
            check_bounds: checks.flag = True,
            memory_order: _order = MemoryOrder.ACQ_REL,
            memory_scope: _scope = MemoryScope.DEVICE,
        ):
            return run(translator, array, indices, None, (update,), memory_order, memory_scope)

        def at_offset(
            translator,
            memory,
            offset,
            update: checks.operand,
            /,
            *,
            mask: checks.mask = None,
            memory_order: _order = MemoryOrder.ACQ_REL,
            memory_scope: _scope = MemoryScope.DEVICE,
        ):
            return run(translator, memory.array, offset, mask, (update,), memory_order, memory_scope, flat=1)

    atomic.__name__, atomic.__doc__ = name, doc + " Elements outside the array are not changed."
    at_offset.__name__ = f"{name}_offset"
    at_offset.__doc__ = f"{doc} Indices are offsets from the array's first element."
    return language_function(atomic), language_function(at_offset)


atomic_cas, atomic_cas_offset = _atomic(
    "atomic_cas",
    _EXCHANGED,
    "Replaces an element by `desired` if it has the bits of `expected`, and returns the old values.",
    True,
)
atomic_xchg, atomic_xchg_offset = _atomic("atomic_xchg", _EXCHANGED, "Replaces elements by values, and returns the old values.")
atomic_add, atomic_add_offset = _atomic("atomic_add", ADDED, "Adds to elements, and returns the old values.")
atomic_max, atomic_max_offset = _atomic(
    "atomic_max", WORDS, "Replaces elements by the larger of element and value, and returns the old values."
)
atomic_min, atomic_min_offset = _atomic(
    "atomic_min", WORDS, "Replaces elements by the smaller of element and value, and returns the old values."
)
atomic_and, atomic_and_offset = _atomic(
    "atomic_and", WORDS, "Replaces elements by their bitwise and with values, and returns the old values.", exact=True
)
atomic_or, atomic_or_offset = _atomic(
    "atomic_or", WORDS, "Replaces elements by their bitwise or with values, and returns the old values.", exact=True
)
atomic_xor, atomic_xor_offset = _atomic(
    "atomic_xor", WORDS, "Replaces elements by their exclusive or with values, and returns the old values.", exact=True
)

# Methods of an array's raw memory.
AT_OFFSETS = {
    each.__name__: each
    for each in (
        load_offset,
        store_offset,
        atomic_cas_offset,
        atomic_xchg_offset,
        atomic_add_offset,
        atomic_max_offset,
        atomic_min_offset,
        atomic_and_offset,
        atomic_or_offset,
        atomic_xor_offset,
    )
}
