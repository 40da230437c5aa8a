"""The state of a loop while it is translated, and the results of its trial translation, which is discarded."""

import dataclasses

from ..core.errors import TileTypeError
from ..core.values import Conflict, shown
from .joins import conflict, differing, is_defined, kept, layout_of, met


@dataclasses.dataclass
class Loop:
    """State of a loop. names: the carried names, with their layouts; mark: the beginning; given: names defined only on
    paths out of the loop."""

    names: list
    layouts: list
    mark: object
    given: dict = dataclasses.field(default_factory=dict)  # names with their layouts, or a Conflict
    counter: object = None  # a ranges.Counter
    index: object = None
    begun: list = ()  # the tiles that an iteration begins with, without the index
    arguments: list = ()  # the tiles among them that carry `given`
    tried: object = None  # the Tried, while this is the trial translation

    def outs(self):
        return [(name, layout) for name, layout in self.given.items() if not isinstance(layout, Conflict)]

    def all_layouts(self):
        return [*self.layouts, *(layout for _, layout in self.outs())]


class Tried:
    """The results of the trial translation of a loop. wanted: names that may be live-outs."""

    def __init__(self, node, wanted):
        self.node, self.wanted = node, wanted
        self.loop = None  # None if the loop never runs
        self.loops = []  # the Tried of each nested loop, in order
        self.begin()

    def begin(self):
        self.leaves = False  # True if the loop can end other than by a return
        self.given, self._first, self.returned = None, None, []

    def note(self, names, mark):
        """Notes a path out of the loop: keeps the names that this path and all earlier ones define."""
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
        """Returns the layout of the returned values. Error: they have different types."""
        layout = layout_of(*self.returned[0])
        for value, mark in self.returned[1:]:
            layout = met(layout, value, mark)
            if layout is None:
                first = self.returned[0][0]
                ways = f"{shown(first)} vs. {shown(value)}{differing(first, value)}"
                raise TileTypeError(f"Type of return value depends on path taken: {ways}")
        return layout


class Widened(Exception):
    """Raised if an iteration gives a carried name another array or function: the loop is then translated again with
    both."""

    def __init__(self, loop):
        self.loop = loop
