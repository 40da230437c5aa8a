"""Chooses the tile of a kernel: which axes it covers, which ones the grid has, and which ones a loop walks."""

import dataclasses
import math

CPU_ELEMENTS = 16384  # of a tile: its values stay in the first cache
GPU_ELEMENTS = 4096
GPU_BLOCKS = 528  # four for each multiprocessor of an H100
ADDED_UP = 65536  # of a CPU's tile of whole rows of which nothing is kept but one reduction
WHOLE_ROW = 16384  # longer rows are walked in a loop
WHOLE_COLUMN = 64  # so are columns of arrays whose rows are contiguous
# Elements of a CPU's tile that walks rows, or columns: none are kept if they are only added up. Sums of shorter parts of rows
# are closer.
WALKED, KEPT = (262144, 262144), (4096, 65536)
COLUMNS = 512  # of these, which a tile has beside one another
COLUMNS_GPU = 32, 128  # on a GPU: fewer where blocks would be too few
ALL_COLUMNS = 1024  # on a CPU, so many are not divided: reads of whole rows have no gaps
VARYING, VARYING_GPU = 1024, 128  # a length that varies may be as long in later calls; a CPU skips what a tile has outside
SQUARE = 64  # on a GPU, the extents of a tile of arrays that are contiguous along two axes


@dataclasses.dataclass
class Space:
    """Positions of axes: those of the tile in two groups, of which one may be reduced, and the others.

    The first axis of a group may be cut into tiles; the others are whole.
    """

    blocks: list  # axes of which a block has one index
    loops: list  # axes that a block walks one index at a time, outside of the walk along the reduced dimension
    dims: tuple  # the outer group of axes, and the inner one
    extents: tuple  # for each group, the tile's extent along each of its axes
    reduced: int | None  # which group is reduced
    walked: bool  # a loop walks the reduced axis
    batch: dict = dataclasses.field(
        default_factory=dict
    )  # axes of the tile outside of both groups, which may be cut: its extents

    @property
    def covered(self):
        """The axes of the tile."""
        return (*self.batch, *self.dims[0], *self.dims[1])


def power(n):
    return 1 << max(0, n - 1).bit_length()


def _fastest(axes, rows):
    """Returns the axis along which most arrays are contiguous; the last one if none is."""
    votes = [sum(row[i] == 1 for row in rows) for i in range(len(axes))]
    best = max(range(len(axes)), key=lambda i: (votes[i], i))
    return best if votes[best] else len(axes) - 1


def _crossed(axes, rows, column):
    """Returns the axes along which some array that also varies along the columns is contiguous."""
    return [i for i in axes if any(row[i] == 1 and row[column] != 0 for row in rows)]


def _part(length, most, is_static):
    """Returns the extent of tiles that walk a length. If they divide it evenly, no element of a tile is outside."""
    count = -(-length // most)
    return length // count if is_static and length % count == 0 else min(power(length), most)


def choose(axes, rows, hints, reduced, whole, is_gpu, is_static, most_walked=WALKED, elements=None):
    """Returns the Space of a kernel.

    rows: the strides of each array along the axes; hints: their likely extents; reduced: which axes are reduced; whole: the
    reduced axes fit a tile; is_static: which extents are known; most_walked: elements of a CPU's tile that walks rows, or columns;
    elements: of others.
    """
    elements = GPU_ELEMENTS if is_gpu else elements or CPU_ELEMENTS
    least = VARYING_GPU if is_gpu else VARYING
    hints = [each if known else max(each, least) for each, known in zip(hints, is_static)]
    points = [i for i in range(len(axes)) if not reduced[i]]
    sums = [i for i in range(len(axes)) if reduced[i]]

    def exact(i):
        return power(hints[i]) if is_gpu or not is_static[i] else hints[i]

    def fill(candidates, budget):
        """Returns axes of one dimension, and their extents in a tile: whole ones, and at most one that is cut, outside."""
        chosen, extents = [], []
        for i in candidates:
            extent = exact(i)
            if extent > budget or not is_static[i]:
                if budget > 1 or not chosen:
                    chosen.insert(0, i)
                    extents.insert(0, max(1, min(power(hints[i]), power(budget + 1) // 2)))
                break
            chosen.insert(0, i)
            extents.insert(0, extent)
            budget //= extent
        return chosen, tuple(extents)

    if not sums:
        if not axes:
            return Space([], [], ([], []), ((), ()), None, False)
        column = _fastest(axes, rows)
        others = [i for i in points if i != column]
        crossed = _crossed(others, rows, column)
        if crossed and hints[column] >= 32 and hints[crossed[-1]] >= 32:
            second = fill([column], SQUARE if is_gpu else COLUMNS)
            first = fill([crossed[-1]], SQUARE if is_gpu else elements // second[1][0])
        else:
            second = fill([column], elements if not others else elements // 4)
            first = fill(reversed(others), elements // math.prod(second[1]))
        used = [*first[0], *second[0]]
        return Space([i for i in points if i not in used], [], (first[0], second[0]), (first[1], second[1]), None, False)
    fastest = _fastest(axes, rows)
    across = fastest in points and all(row[sums[-1]] != 1 for row in rows if row[fastest] != 0)
    if whole:
        inner, loops = list(sums), []
        extents = tuple(exact(i) for i in sums)
    else:
        inner, loops = [sums[-1]], sums[:-1]
        columns = hints[fastest]
        beside = columns if columns <= ALL_COLUMNS else COLUMNS
        if is_gpu:
            few, beside = COLUMNS_GPU
            while beside > few and math.prod(hints[i] for i in points) < GPU_BLOCKS * beside:
                beside //= 2
            extents = (min(power(hints[sums[-1]]), elements // beside if across else elements),)
        else:
            most = max(1, most_walked[1] // beside) if across else most_walked[0]
            extents = (_part(hints[sums[-1]], most, is_static[sums[-1]]),)
    most = max(1, elements // math.prod(extents))
    if across:
        most = beside if not whole and not is_gpu else min(most, COLUMNS)
    if is_gpu and not across:  # few rows are given to as many blocks as there are
        most = min(most, max(1, math.prod(hints[i] for i in points) // GPU_BLOCKS))
    others = fill([fastest] if across else reversed(points), most if across else min(most, 64))
    dims, shapes = ((inner, others[0]), (extents, others[1])) if across else ((others[0], inner), (others[1], extents))
    batch = {}
    many = elements // math.prod((*extents, *others[1]))
    if across and many > 1 and not is_gpu:  # few columns are too little work for a block
        batch = dict(zip(*fill([i for i in points if i not in others[0]][-1:], many)))
    blocks = [i for i in points if i not in others[0] and i not in batch]
    return Space(blocks, loops, dims, shapes, 0 if across else 1, not whole, batch)
