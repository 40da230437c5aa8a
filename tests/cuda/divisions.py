"""How products are divided into tiles and parts: what tests ask for instead of the estimates' choice."""

import contextlib
import ctypes
import pathlib

import tile_ops

OTHERS, THIN = -1, 1  # kernels of few rows are not used, or are wherever they can be


@contextlib.contextmanager
def divided(parts=0, thin=0, tile=(0, 0, 0), at_once=0, copied_bytes=0, pairs=0):
    """Sets ForcedDivision of tile_ops/products/tiles.h, which explains the numbers, for a with block. Products have so many
    parts where their inner extent has as many tiles."""
    library = ctypes.CDLL(str(pathlib.Path(tile_ops.__file__).parent / "lib" / "libtile_ops.so"))
    choice = (ctypes.c_int64 * 8).in_dll(library, "_ZN4tile15forced_divisionE")
    choice[:] = parts, *tile, thin, at_once, copied_bytes, pairs
    try:
        yield
    finally:
        choice[:] = [0] * 8
