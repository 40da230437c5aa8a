"""How large a tile may be."""

import math

from .errors import TileTypeError

MOST_ELEMENTS = 2**27  # as csrc/ir/type.h has it


def require_size(what, shape):
    """Error: what has this shape has too many elements."""
    count = math.prod(shape)
    if count > MOST_ELEMENTS:
        raise TileTypeError(f"{what} has {count} elements; a tile has at most {MOST_ELEMENTS}, make it smaller")
