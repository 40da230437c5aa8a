"""Views of arrays: a printed access names the array itself, and what the views have fixed, cut and reordered."""

import dataclasses

from .expressions import ATOM, Expression


@dataclasses.dataclass
class View:
    """An array seen through views.

    text: the array, or a slice of it. order: its axes as the view has them. fixed: indices of the first of these.
    """

    text: str
    dtype: object
    order: tuple
    fixed: tuple = ()

    @property
    def rank(self):
        return len(self.order) - len(self.fixed)

    def axis(self, axis):
        """Returns the array's axis of one of the view."""
        return self.order[len(self.fixed) + axis]

    def indexed(self, index):
        return dataclasses.replace(self, fixed=(*self.fixed, *index))

    def sliced(self, axis, start, stop):
        return dataclasses.replace(self, text=f"{self.text}.slice({self.axis(axis)}, {start.text}, {stop.text})")

    def permuted(self, axes):
        lead = len(self.fixed)
        return dataclasses.replace(self, order=(*self.order[:lead], *(self.order[lead + axis] for axis in axes)))

    def plain(self):
        return self.order == tuple(range(len(self.order)))

    def in_order(self, items):
        """Returns items for the view's axes, the fixed ones too, in the order of the array's axes."""
        made = [None] * len(self.order)
        for axis, item in zip(self.order, items, strict=True):
            made[axis] = item
        return tuple(made)

    def elements(self, index):
        """Returns the texts of an index of elements, in the order of the array's axes."""
        return self.in_order([each.text for each in (*self.fixed, *index)])


def tuple_text(items):
    items = list(map(str, items))
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


@dataclasses.dataclass
class Tiles:
    """The tiles of a view: how an access names them, and what becomes of the tile."""

    view: View
    shape: tuple  # of the tile
    steps: tuple

    def __post_init__(self):
        ones = (1,) * len(self.view.fixed)
        self.whole, self.whole_steps = ones + self.shape, ones + self.steps
        self.ordered = self.whole == self.whole_steps

    def index(self, index):
        """Returns the texts of an index, and the keyword of the order."""
        items = [each.text for each in (*self.view.fixed, *index)]
        if not self.ordered and not self.view.plain():
            items = self.view.in_order(items)
        order = f", order={self.view.order}" if self.ordered and not self.view.plain() else ""
        return tuple_text(items), order

    def stored_shape(self):
        """Returns the shape in which the tile is in memory."""
        return self.whole if self.ordered else self.view.in_order(self.whole)

    def tiled(self, printer, padding=""):
        shape = printer.shape(self.view.in_order(self.whole))
        steps = self.view.in_order(self.whole_steps)
        more = f", traversal_steps={printer.shape(steps)}" if steps != self.view.in_order(self.whole) else ""
        return f"{self.view.text}.tiled_view({shape}{more}{padding})"

    def loaded(self, printer, text):
        """Returns the expression of the tile, given the text of what is in memory."""
        made = Expression(text, ATOM, self.view.dtype, self.stored_shape())
        if not self.ordered and not self.view.plain():
            axes = self.view.order
            made = Expression(f"{made.text}.permute({axes})", ATOM, made.dtype, self.whole)
        return printer.reshaped(made, self.shape)

    def stored(self, printer, tile):
        """Returns the expression of a tile as it is in memory."""
        made = printer.reshaped(tile, self.whole)
        if not self.ordered and not self.view.plain():
            axes = self.view.in_order(range(len(self.view.order)))
            made = Expression(f"{made.atom}.permute({axes})", ATOM, made.dtype, self.stored_shape())
        return made
