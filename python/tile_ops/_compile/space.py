"""Chooses the tile of a kernel: which axes it covers, which ones the grid has, and which ones a loop walks."""

import dataclasses

CPU_ELEMENTS = 16384  # of a tile: its values stay in the first cache
GPU_ELEMENTS = 4096
WHOLE_ROW = 16384  # longer rows are walked in a loop


@dataclasses.dataclass
class Space:
    """A tile has two dimensions. `first` and `second` are the axes of them; a reduction sums over dimension `reduced`.

    Dimensions of one axis are cut into tiles of `shape`. A dimension of several axes is whole: `shape` is the product of
    `extents`. Numbers are positions in the list of axes.
    """

    blocks: list  # axes of which a block has one index
    loops: list  # axes that a block walks one index at a time, outside of the walk along the reduced dimension
    dims: tuple  # (axes of dimension 0, axes of dimension 1)
    extents: tuple  # for each dimension, the tile's extent along each of its axes
    reduced: int | None  # which dimension is reduced
    walked: bool  # a loop walks the reduced dimension

    @property
    def shape(self):
        def product(extents):
            total = 1
            for extent in extents:
                total *= extent
            return total

        return product(self.extents[0]), product(self.extents[1])


def power(n):
    return 1 << max(0, n - 1).bit_length()


def _fastest(axes, rows):
    """Returns the axis along which most arrays are contiguous; the last one if none is."""
    votes = [sum(row[i] == 1 for row in rows) for i in range(len(axes))]
    best = max(range(len(axes)), key=lambda i: (votes[i], i))
    return best if votes[best] else len(axes) - 1


def choose(axes, rows, hints, reduced, whole, is_gpu, is_static):
    """Returns the Space of a kernel.

    rows: the strides of each array along the axes; hints: their likely extents; reduced: which axes are reduced; whole: the
    reduced axes fit a tile; is_static: which extents are known.
    """
    elements = GPU_ELEMENTS if is_gpu else CPU_ELEMENTS
    points = [i for i in range(len(axes)) if not reduced[i]]
    sums = [i for i in range(len(axes)) if reduced[i]]

    def exact(i):
        return power(hints[i]) if is_gpu or not is_static[i] else hints[i]

    if not sums:
        if not axes:
            return Space([], [], ([], []), ((), ()), None, False)
        column = _fastest(axes, rows)
        others = [i for i in points if i != column]
        columns = min(power(hints[column]), elements if not others else elements // 4)
        row = None
        if others:
            # An axis along which other arrays are contiguous, else the nearest one.
            crossed = [i for i in others if any(each[i] == 1 for each in rows)]
            row = crossed[-1] if crossed else others[-1]
            if crossed and hints[column] >= 64 and hints[row] >= 64:
                columns = min(columns, 64)
        many = min(power(hints[row]), max(1, elements // columns)) if others else 1
        if row is not None and row in [i for i in others if any(each[i] == 1 for each in rows)]:
            many = min(many, 64)
        dims = ([row] if others else [], [column])
        return Space([i for i in points if i not in (row, column)], [], dims, ((many,) if others else (), (columns,)), None, False)
    fastest = _fastest(axes, rows)
    across = fastest in points and all(row[sums[-1]] != 1 for row in rows)
    row = (fastest if across else points[-1]) if points else None
    if whole:
        inner, loops = list(sums), []
        extents = tuple(exact(i) for i in sums)
        size = 1
        for extent in extents:
            size *= extent
    else:
        inner, loops = [sums[-1]], sums[:-1]
        size = min(power(hints[sums[-1]]), 64 if across else 1024 if is_gpu else 4096)
        extents = (size,)
    if row is None:
        many = ()
    else:
        most = max(1, elements // max(size, 1))
        many = (min(power(hints[row]), most if across else min(most, 64)),)
    rowed = [row] if row is not None else []
    dims, extents = ((inner, rowed), (extents, many)) if across else ((rowed, inner), (many, extents))
    blocks = [i for i in points if i != row]
    return Space(blocks, loops, dims, extents, 0 if across else 1, not whole)
