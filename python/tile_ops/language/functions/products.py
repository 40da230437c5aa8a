"""Matrix products."""

from ..core import checks, dtypes
from ..core.checks import operand
from ..core.emit import promoted
from ..core.errors import TileTypeError
from ..core.registry import language_function
from .shapes import astype
from ..core.values import shown, shown_shape

_F8 = (dtypes.float8_e4m3fn, dtypes.float8_e5m2)
_BYTES = (dtypes.int8, dtypes.uint8)
# Accumulator dtypes by the dtype of x; matmul uses the first one.
ACCUMULATORS = {
    dtypes.float16: (dtypes.float16, dtypes.float32),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float32,),
    dtypes.tfloat32: (dtypes.float32,),
    dtypes.float64: (dtypes.float64,),
    dtypes.float8_e4m3fn: (dtypes.float16, dtypes.float32),
    dtypes.float8_e5m2: (dtypes.float16, dtypes.float32),
    dtypes.int8: (dtypes.int32,),
    dtypes.uint8: (dtypes.int32,),
}


def _product_shape(x, y):
    """Returns the shape of x @ y, both with 2 or 3 axes; the batch axis is broadcast. Error: the shapes do not fit."""
    batches = [tile.shape[0] for tile in (x, y) if tile.ndim == 3]
    fits = x.shape[-1] == y.shape[-2] and (len(batches) < 2 or batches[0] == batches[1] or 1 in batches)
    if not fits:
        raise TileTypeError(f"Incompatible shapes for matrix mul: {shown_shape(x.shape)} and {shown_shape(y.shape)}")
    return ((max(batches),) if batches else ()) + (x.shape[-2], y.shape[-1])


def require_sum(x, y, acc):
    """Raises an error if the accumulator's shape is not that of x @ y."""
    shape = _product_shape(x, y)
    if acc.shape != shape:
        raise TileTypeError(f"Expect acc shape to be {shown_shape(shape)}, got {shown_shape(acc.shape)}")


def batched(translator, operation, tiles, acc):
    """Returns the operands broadcast to the accumulator's batch, if it has one."""
    batch = acc.shape[:-2]
    return [translator.emitter.broadcast(tile, batch + tile.shape[-2:], operation) for tile in tiles]


def _multiply(translator, x, y, acc):
    return translator.emitter.emit("mma", *batched(translator, "mma", (x, y), acc), acc)


def _require_pair(x, y):
    if x.dtype not in ACCUMULATORS:
        raise TileTypeError(f"Unsupported input dtype {x.dtype} for mma")
    if x.dtype is not y.dtype and not (x.dtype in _BYTES and y.dtype in _BYTES):
        raise TileTypeError(f"mma: x and y must have the same dtype unless they are int8/uint8, got {x.dtype} and {y.dtype}")


@language_function
def mma(translator, x: operand, y: operand, /, acc: operand, *, use_fast_acc: checks.flag = False):
    """Returns x @ y + acc, with acc's dtype. float32 is never rounded to tfloat32."""
    x, y, acc = (translator.emitter.tile(each) for each in (x, y, acc))
    for tile, name in ((x, "x"), (y, "y")):
        if tile.ndim not in (2, 3):
            raise TileTypeError(f"Expect shape of `{name}` to be 2D or 3D, got {shown(tile)}")
    _require_pair(x, y)
    if acc.dtype not in ACCUMULATORS[x.dtype]:
        raise TileTypeError(f"Unsupported acc dtype {acc.dtype} for {x.dtype}; use {ACCUMULATORS[x.dtype][-1]}")
    if use_fast_acc and x.dtype not in _F8:
        raise TileTypeError(f"use_fast_acc is only supported for fp8, got {x.dtype}")
    require_sum(x, y, acc)
    return _multiply(translator, x, y, acc)


@language_function
def matmul(translator, x: operand, y: operand, /):
    """Returns x @ y of 1, 2 or 3 axes by NumPy's rules. It adds in the accumulator of mma."""
    emitter = translator.emitter
    x, y = emitter.tile(x), emitter.tile(y)
    for tile in (x, y):
        if not 1 <= tile.ndim <= 3:
            raise TileTypeError(f"matmul: expected 1 to 3 axes, got {shown(tile)}")
    dtype = promoted([x, y])
    x, y = emitter.cast(x, dtype), emitter.cast(y, dtype)
    _require_pair(x, y)
    row, column = x.ndim == 1, y.ndim == 1
    x = emitter.reshape(x, (1, *x.shape)) if row else x
    y = emitter.reshape(y, (*y.shape, 1)) if column else y
    shape = _product_shape(x, y)
    made = _multiply(translator, x, y, emitter.constant(0, ACCUMULATORS[x.dtype][0], shape))
    made = astype.lower(translator, (made, dtype), {})
    return emitter.reshape(made, shape[:-2] + (() if row else shape[-2:-1]) + (() if column else shape[-1:]))
