"""What is known of a loop while it is translated, and what a translation of it for nothing has shown."""

import dataclasses

from ..core.errors import TileTypeError
from ..core.values import Conflict, shown
from .joins import conflict, differing, is_defined, kept, layout_of, met


@dataclasses.dataclass
class Loop:
    """names that it carries with their layouts; mark: where it begins; given: those that only its ways out have."""

    names: list
    layouts: list
    mark: object
    given: dict = dataclasses.field(default_factory=dict)  # names with their layouts, or a Conflict
    counter: object = None  # a ranges.Counter
    index: object = None
    begun: list = ()  # the tiles that a turn begins with, without the index
    arguments: list = ()  # those of them that stand for `given`
    tried: object = None  # a Tried, where the loop is translated for that alone

    def outs(self):
        return [(name, layout) for name, layout in self.given.items() if not isinstance(layout, Conflict)]

    def all_layouts(self):
        return [*self.layouts, *(layout for _, layout in self.outs())]


class Tried:
    """What one translation of a loop for nothing has shown. wanted: names that it may give."""

    def __init__(self, node, wanted):
        self.node, self.wanted = node, wanted
        self.loop = None  # None: it never runs
        self.loops = []  # the same of loops in it, in their order
        self.begin()

    def begin(self):
        self.leaves = False  # other than by a return
        self.given, self._first, self.returned = None, None, []

    def note(self, names, mark):
        """A way out: what it gives as well as those before."""
        now = {name: names[name] for name in self.wanted if name in names and is_defined(names[name].value)}
        if self.given is None:
            self.given, self._first = {name: kept(each.value, mark) for name, each in now.items()}, now
            return
        for name, layout in list(self.given.items()):
            if name not in now:
                del self.given[name]
            elif not isinstance(layout, Conflict):
                both = met(layout, now[name].value, mark)
                self.given[name] = both or Conflict(conflict(name, self._first[name], now[name]))

    def layout_of_returned(self):
        """Error: what its returns give is of several types."""
        layout = layout_of(*self.returned[0])
        for value, mark in self.returned[1:]:
            layout = met(layout, value, mark)
            if layout is None:
                first = self.returned[0][0]
                ways = f"{shown(first)} vs. {shown(value)}{differing(first, value)}"
                raise TileTypeError(f"Type of return value depends on path taken: {ways}")
        return layout


class Widened(Exception):
    """A turn of a loop has another array where the loop carries one: the loop is translated again, with both."""

    def __init__(self, loop):
        self.loop = loop
