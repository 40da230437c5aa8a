"""The size limit of a tile."""

import math

from .errors import TileTypeError

MOST_ELEMENTS = 2**27  # most_tile_elements of csrc/ir/type.h


def require_size(what, shape):
    """Raises an error if a shape has too many elements; what: the name of its owner in the error."""
    count = math.prod(shape)
    if count > MOST_ELEMENTS:
        raise TileTypeError(f"{what} has {count} elements; a tile has at most {MOST_ELEMENTS}, make it smaller")
