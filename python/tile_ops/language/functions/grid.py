"""Blocks of the grid, and the number of tiles of an array."""

from ..core import checks, dtypes
from .arithmetic import cdiv
from ..core.checks import normal_axis
from ..core.errors import TileTypeError, TileValueError
from ..core.registry import language_function
from ..core.values import is_constant, shown


def _grid_axis(translator, value):
    axis = checks.integer(translator, value)
    if axis not in (0, 1, 2):
        raise TileTypeError(f"Axis must be 0, 1, or 2, got {axis}")
    return axis


@language_function
def bid(translator, axis: _grid_axis):
    """Returns the index of this block along an axis of the grid."""
    return translator.emitter.emit("bid", axis=axis)


@language_function
def num_blocks(translator, axis: _grid_axis):
    """Returns the number of blocks along an axis of the grid."""
    return translator.emitter.emit("num_blocks", axis=axis)


def extent(translator, array, axis):
    """Returns an extent of an array: a constant if it is known, otherwise a scalar of the running kernel."""
    if axis in array.extents:
        return array.extents[axis]
    wide = {"dtype": dtypes.int64.ir} if array.wide else {}
    return translator.emitter.emit("dim", array, axis=axis, **wide)


def shape_of_array(translator, array):
    return tuple(extent(translator, array, axis) for axis in range(array.ndim))


def strides_of_array(translator, array):
    """Returns the distance in elements between neighbours along each axis."""
    dtype = dtypes.int64 if array.wide else dtypes.int32
    emitter, made = translator.emitter, []
    for axis in range(array.ndim):
        known = array.strides.get(axis)
        made.append(emitter.cast(emitter.emit("stride", array, axis=axis), dtype) if known is None else known)
    return tuple(made)


def axis_order(order, rank):
    """Returns the axes in the order that an access requests: "C", "F" or a permutation."""
    if isinstance(order, str):
        if order not in ("C", "F"):
            raise TileTypeError(f"Expected 'C' or 'F', got {order!r}")
        return tuple(range(rank)) if order == "C" else tuple(reversed(range(rank)))
    if not isinstance(order, tuple) or not all(isinstance(axis, int) and not isinstance(axis, bool) for axis in order):
        raise TileTypeError(f"Expected 'C' or 'F' or a tuple of axes, got {shown(order)}")
    if sorted(order) != list(range(rank)):
        raise TileTypeError(f"Axis order must be a permutation of {tuple(range(rank))}, got {order}")
    return order


@language_function
def num_tiles(translator, array: checks.array, /, axis: checks.integer, shape: checks.shape, order="C"):
    """Returns the number of tiles of a shape along an axis of an array, rounded up. Shape () counts elements."""
    shape = shape or (1,) * array.ndim
    if len(shape) != array.ndim:
        raise TileTypeError(f"num_tiles: shape of {len(shape)} extents does not match the array rank {array.ndim}")
    return tiles_along(translator, array, axis, axis_order(order, array.ndim), shape)


def tiles_along(translator, array, axis, order, steps):
    """Returns the number of tiles along an axis of an array whose axes are reordered; an array of rank 0 is one tile."""
    if array.ndim == 0 and axis in (0, -1):
        return translator.emitter.constant(1, dtypes.int32)
    axis = normal_axis(axis, array.ndim)
    return cdiv.lower(translator, (extent(translator, array, order[axis]), steps[axis]), {})


@language_function
def assume_divisible_by(translator, x: checks.operand, divisor: checks.integer):
    """Returns x. The caller promises that x is a multiple of divisor."""
    if divisor < 1:
        raise TileValueError(f"assume_divisible_by: the divisor is {divisor}; it must be positive")
    return x if is_constant(x) else translator.emitter.tile(x)


@language_function
def grid_dependency_control_wait(translator):
    """Does nothing: launches of one stream run in order. It is there for programs written for cuTile."""


@language_function
def grid_dependency_control_launch_dependents(translator):
    """Does nothing: launches of one stream run in order. It is there for programs written for cuTile."""
