"""float8_e8m0fnu, a power of two that stores only its exponent: casts of its bits, which are u8 in Tile IR."""

from . import dtypes
from .errors import TileTypeError
from .modes import RoundingMode
from .values import retyped

_MODES = (RoundingMode.RZ, RoundingMode.RP)
_NAN, _LARGEST = 255, 254


def widened(emitter, tile):
    """Converts to float32, exactly: 2^(bits - 127)."""

    def constant(value):
        return emitter.constant(value, dtypes.uint32, tile.shape)

    bits = emitter.cast(retyped(tile, dtypes.uint8), dtypes.uint32)
    made = emitter.emit("shift_left", bits, constant(23))
    for wrong, right in ((0, 0x00400000), (_NAN, 0x7FC00000)):  # 2^-127 is subnormal
        made = emitter.emit("where", emitter.emit("eq", bits, constant(wrong)), constant(right), made)
    return emitter.emit("bitcast", made, dtype="f32")


def narrowed(emitter, tile, dtype, mode):
    """Rounds the absolute value, because there is no sign. Values beyond the limits are clamped."""
    if tile.dtype.category != dtypes.FLOAT:
        raise TileTypeError(f"a conversion from {tile.dtype} to {dtype} is not supported; convert to float32 first")
    if mode not in _MODES:
        raise TileTypeError(
            f"a conversion from {tile.dtype} to {dtype} has to name its mode, RoundingMode.RZ or RoundingMode.RP"
        )
    if tile.dtype is dtypes.float64:
        size = emitter.emit("abs", tile)
        tile = emitter.emit("astype_rz" if mode is RoundingMode.RZ else "astype_rp", size, dtype="f32")

    def constant(value):
        return emitter.constant(value, dtypes.uint32, tile.shape)

    tile = emitter.cast(tile, dtypes.float32)
    size = emitter.emit("bitwise_and", emitter.emit("bitcast", tile, dtype="u32"), constant(0x7FFFFFFF))
    units = size
    if mode is RoundingMode.RP:  # not at 2^-127, which is half of the value with exponent 1
        up = emitter.emit("add", size, constant(0x007FFFFF))
        units = emitter.emit("where", emitter.emit("gt", size, constant(0x00400000)), up, size)
    bits = emitter.emit("minimum", emitter.emit("shift_right", units, constant(23)), constant(_LARGEST))
    bits = emitter.emit("where", emitter.emit("gt", size, constant(0x7F800000)), constant(_NAN), bits)
    return retyped(emitter.cast(bits, dtypes.uint8), dtype)
