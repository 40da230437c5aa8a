"""Reductions and scans with a user's function."""

from ..core import checks, dtypes
from ..core.errors import TileTypeError
from ..core.registry import language_function
from ..core.values import Tile, is_constant, shown


def _tiles(translator, name, x):
    items = x if type(x) is tuple else (x,)
    if not items:
        raise TileTypeError(f"{name}: expected a tile or a tuple of tiles, got {shown(x)}")
    for item in items:
        checks.operand(translator, item)
    tiles = translator.emitter.together(name, items)
    for tile in tiles:
        if not tile.dtype.arithmetic:
            raise TileTypeError(f"Non-arithmetic dtype {tile.dtype} is unsupported for reduction; convert with astype()")
    return tiles


def _returned(translator, dtype, value):
    """Returns a value of the function as the operand's dtype."""
    if is_constant(value) or (isinstance(value, Tile) and value.shape == ()):
        if isinstance(value, Tile) and dtypes.promote(value.dtype, dtype) is not dtype:
            raise TileTypeError(f"the function returned an unexpected dtype {value.dtype}; expected {dtype}")
        return translator.emitter.as_dtype(value, dtype)
    raise TileTypeError(f"the function returned {shown(value)}; expected a scalar of {dtype}")


def _combined(translator, name, primitive, x, axis, func, identity, attributes):
    emitter, tiles = translator.emitter, _tiles(translator, name, x)
    if isinstance(func, Tile) or is_constant(func) or func is None:
        raise TileTypeError(f'Invalid argument "func" of {name}(): Expected a function, got {shown(func)}')
    identities = identity if type(identity) is tuple else (identity,)
    if len(identities) != len(tiles) or not all(map(is_constant, identities)):
        raise TileTypeError(f"{name}: expected {len(tiles)} constant identities, got {shown(identity)}")
    block, arguments = emitter.block([(tile.dtype, ()) for tile in tiles] * 2)
    with emitter.inside(block), emitter.only_values("reduction" if name == "reduce" else "scan"):
        made = translator.call(func, tuple(arguments), {})
        made = made if type(made) is tuple else (made,)
        if len(made) != len(tiles):
            raise TileTypeError(f"{name}: the function returned {len(made)} values for {len(tiles)} tiles")
        yielded = [_returned(translator, tile.dtype, value) for tile, value in zip(tiles, made)]
    with emitter.inside(block):
        emitter.results("yield", yielded)
    results = emitter.results(primitive, tiles, (block,), axis=axis, **attributes)
    return tiles, results


@language_function
def reduce(translator, x, /, axis: checks.integer, func, identity, *, keepdims: checks.flag = False):
    """Reduces an axis by an associative function. x is a tile or a tuple of N tiles.

    func: it takes 2N scalars, first those of the earlier elements, and returns N.
    identity: the neutral constant of func, or N of them.
    """
    rank = max(len(tile.shape) for tile in _tiles(translator, "reduce", x))
    axis = checks.normal_axis(axis, rank)
    tiles, results = _combined(translator, "reduce", "reduce", x, axis, func, identity, {})
    if keepdims:
        shape = tuple(1 if at == axis else extent for at, extent in enumerate(tiles[0].shape))
        results = tuple(translator.emitter.reshape(result, shape) for result in results)
    return results if type(x) is tuple else results[0]


@language_function
def scan(translator, x, /, axis: checks.integer, func, identity, *, reverse: checks.flag = False):
    """Returns the combination of all elements up to each one along an axis, or from it on with `reverse`.

    func, identity: as those of reduce.
    """
    rank = max(len(tile.shape) for tile in _tiles(translator, "scan", x))
    axis = checks.normal_axis(axis, rank)
    _, results = _combined(translator, "scan", "scan", x, axis, func, identity, {"reverse": int(reverse)})
    return results if type(x) is tuple else results[0]
