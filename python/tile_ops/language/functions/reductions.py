"""Reductions over axes, arg reductions and running sums."""

from ..core import checks, dtypes
from ..core.checks import normal_axis, operand
from ..core.errors import TileTypeError
from ..core.modes import EXACT, RoundingMode
from .operands import flushed, require_flush, require_mode
from ..core.registry import language_function
from ..core.values import Strict, shown

_mode = checks.optional(checks.member(RoundingMode))


def _axes(_, value):
    """Accepts None, a constant integer or a tuple of them."""
    if value is None:
        return None
    items = value if isinstance(value, tuple) else (value,)
    numbers = []
    for item in items:
        item = item.value if isinstance(item, Strict) else item
        if isinstance(item, bool) or not isinstance(item, int):
            raise TileTypeError(f"Expected an integer constant or a tuple of them, but given value has type {shown(value)}")
        numbers.append(int(item))
    return tuple(numbers)


def _normal(axes, rank):
    if axes is None:
        return tuple(range(rank))
    found = []
    for axis in axes:
        axis = normal_axis(axis, rank)
        if axis in found:
            raise TileTypeError(f"Repeated reduction axis {axis}")
        found.append(axis)
    return tuple(sorted(found))


def _operand(emitter, x):
    """Returns a tile in the dtype of its sum: bools become int32."""
    x = emitter.tile(x)
    if not x.dtype.arithmetic:
        raise TileTypeError(f"Non-arithmetic dtype {x.dtype} is unsupported for reduction; convert with astype()")
    return emitter.cast(x, dtypes.int32) if x.dtype is dtypes.bool_ else x


def _kept(emitter, reduced, shape, axes, keepdims):
    if not keepdims:
        return reduced
    return emitter.reshape(reduced, tuple(1 if axis in axes else extent for axis, extent in enumerate(shape)))


def _reduce(translator, name, x, axis, keepdims, mode=None, flush=False):
    emitter = translator.emitter
    x = _operand(emitter, x)
    axes = _normal(axis, x.ndim)
    require_mode(name, mode, EXACT, x.dtype)
    require_flush(flush, x.dtype)
    x = flushed(emitter, x, flush)
    if not axes:
        return x
    reduced = emitter.emit("reduce_" + name, x, axes=axes)
    return flushed(emitter, _kept(emitter, reduced, x.shape, axes, keepdims), flush)


@language_function
def sum_(
    translator,
    x: operand,
    /,
    axis: _axes = None,
    *,
    keepdims: checks.flag = False,
    rounding_mode: _mode = None,
    flush_to_zero: checks.flag = False,
):
    """Returns the sum over axes, by default all."""
    return _reduce(translator, "sum", x, axis, keepdims, rounding_mode, flush_to_zero)


@language_function
def prod(
    translator,
    x: operand,
    /,
    axis: _axes = None,
    *,
    keepdims: checks.flag = False,
    rounding_mode: _mode = None,
    flush_to_zero: checks.flag = False,
):
    """Returns the product over axes, by default all."""
    return _reduce(translator, "prod", x, axis, keepdims, rounding_mode, flush_to_zero)


def _extremum(translator, name, x, axis, keepdims, flush, propagate_nan):
    emitter = translator.emitter
    made = _reduce(translator, name, x, axis, keepdims, None, flush)
    x = _operand(emitter, x)
    axes = _normal(axis, x.ndim)
    if not propagate_nan or x.dtype.category != dtypes.FLOAT or not axes:
        return made
    found = _kept(emitter, emitter.emit("reduce_any", emitter.emit("isnan", x), axes=axes), x.shape, axes, keepdims)
    return emitter.emit("where", found, emitter.constant(float("nan"), x.dtype, made.shape), made)


@language_function
def max_(
    translator,
    x: operand,
    /,
    axis: _axes = None,
    *,
    keepdims: checks.flag = False,
    flush_to_zero: checks.flag = False,
    propagate_nan: checks.flag = False,
):
    """Returns the largest element over axes, by default all. A NaN is skipped unless propagate_nan is True."""
    return _extremum(translator, "max", x, axis, keepdims, flush_to_zero, propagate_nan)


@language_function
def min_(
    translator,
    x: operand,
    /,
    axis: _axes = None,
    *,
    keepdims: checks.flag = False,
    flush_to_zero: checks.flag = False,
    propagate_nan: checks.flag = False,
):
    """Returns the smallest element over axes, by default all. A NaN is skipped unless propagate_nan is True."""
    return _extremum(translator, "min", x, axis, keepdims, flush_to_zero, propagate_nan)


def _arg(translator, name, x, axis, keepdims, propagate_nan):
    emitter = translator.emitter
    x = _operand(emitter, x)
    axes = tuple(range(x.ndim)) if axis is None else (normal_axis(axis, x.ndim),)
    shape = x.shape
    if axis is None:
        x = emitter.reshape(x, (_count(shape),))
    along = 0 if axis is None else axes[0]
    index = emitter.emit(name, x, axis=along)
    if propagate_nan and x.dtype.category == dtypes.FLOAT:
        nans = emitter.emit("isnan", x)
        first = emitter.emit("argmax", emitter.cast(nans, dtypes.int32), axis=along)
        index = emitter.emit("where", emitter.emit("reduce_any", nans, axes=(along,)), first, index)
    return _kept(emitter, index, shape, axes, keepdims)


def _count(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


@language_function
def argmax(
    translator,
    x: operand,
    /,
    axis: checks.optional(checks.integer) = None,
    *,
    keepdims: checks.flag = False,
    propagate_nan: checks.flag = False,
):
    """Returns the first index of the largest element; without an axis, in row-major order of all elements."""
    return _arg(translator, "argmax", x, axis, keepdims, propagate_nan)


@language_function
def argmin(
    translator,
    x: operand,
    /,
    axis: checks.optional(checks.integer) = None,
    *,
    keepdims: checks.flag = False,
    propagate_nan: checks.flag = False,
):
    """Returns the first index of the smallest element; without an axis, in row-major order of all elements."""
    return _arg(translator, "argmin", x, axis, keepdims, propagate_nan)


def _running(translator, name, primitive, x, axis, reverse, mode, flush):
    """Emits a scan with one primitive; 16-bit floats are computed in float32 and rounded once."""
    emitter = translator.emitter
    x = _operand(emitter, x)
    axis = normal_axis(axis, x.ndim)
    require_mode(name, mode, EXACT, x.dtype)
    require_flush(flush, x.dtype)
    dtype = x.dtype
    wide = dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype
    x = flushed(emitter, emitter.cast(x, wide), flush)
    block, (total, one) = emitter.block([(wide, ()), (wide, ())])
    with emitter.inside(block):
        emitter.emit("yield", emitter.emit(primitive, total, one))
    (made,) = emitter.results("scan", [x], (block,), axis=axis, reverse=int(reverse))
    return flushed(emitter, emitter.cast(made, dtype), flush)


@language_function
def cumsum(
    translator,
    x: operand,
    /,
    axis: checks.integer = 0,
    *,
    reverse: checks.flag = False,
    rounding_mode: _mode = None,
    flush_to_zero: checks.flag = False,
):
    """Returns the sums up to each element along an axis, or from it on with `reverse`."""
    return _running(translator, "cumsum", "add", x, axis, reverse, rounding_mode, flush_to_zero)


@language_function
def cumprod(
    translator,
    x: operand,
    /,
    axis: checks.integer = 0,
    *,
    reverse: checks.flag = False,
    rounding_mode: _mode = None,
    flush_to_zero: checks.flag = False,
):
    """Returns the products up to each element along an axis, or from it on with `reverse`."""
    return _running(translator, "cumprod", "mul", x, axis, reverse, rounding_mode, flush_to_zero)
