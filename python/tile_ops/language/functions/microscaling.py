"""Matrix products whose operands have a scale for each group of elements."""

from ..core import dtypes
from ..core.checks import operand
from ..core.errors import TileTypeError, TileUnsupportedFeatureError
from ..core.registry import language_function
from ..core.values import shown
from .products import batched, require_sum

_NARROW = (dtypes.float8_e4m3fn, dtypes.float8_e5m2)


@language_function
def mma_scaled(translator, x: operand, x_scale: operand, y: operand, y_scale: operand, /, acc: operand):
    """Returns acc + the sum over k of x[i, k] xs[i, k // B] y[k, j] ys[k // B, j], with B = K / K_s = 32.

    The formats are those of OCP Microscaling Formats 1.0. A uint8 scale holds the bits of a float8_e8m0fnu.
    """
    tiles = [translator.emitter.tile(each) for each in (x, x_scale, y, y_scale, acc)]
    for tile, name in zip(tiles, ("x", "x_scale", "y", "y_scale", "acc")):
        if tile.ndim not in (2, 3):
            raise TileTypeError(f"Expect shape of `{name}` to be 2D or 3D, got {shown(tile)}")
    for tile in (tiles[0], tiles[2]):
        if tile.dtype not in _NARROW:
            raise TileUnsupportedFeatureError(
                f"mma_scaled: operands of {tile.dtype} are not supported; use float8_e4m3fn or float8_e5m2"
            )
    for tile in (tiles[1], tiles[3]):
        if tile.dtype not in (dtypes.float8_e8m0fnu, dtypes.uint8):
            raise TileTypeError(f"mma_scaled: scales are {tile.dtype}; expected float8_e8m0fnu, or uint8, its bits")
    if tiles[4].dtype is not dtypes.float32:
        raise TileTypeError(f"Unsupported acc dtype {tiles[4].dtype} for mma_scaled; use float32")
    *operands, acc = tiles
    require_sum(operands[0], operands[2], acc)
    return translator.emitter.emit("mma_scaled", *batched(translator, "mma_scaled", operands, acc), acc)
