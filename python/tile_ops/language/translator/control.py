"""Translates branches: the regions of an if, and the values of the names that they assign."""

import dataclasses

from ..core.errors import TileTypeError
from .joins import conflict, differing, is_defined, joined, kept, tiles_of, value_of
from .scope import Binding, Mark
from ..core.values import Conflict, Undefined, shown

LEFT = object()  # the result of a path that ends in break or continue


@dataclasses.dataclass
class Returned:
    """The result of a path that ends in return."""

    value: object


@dataclasses.dataclass
class _Side:
    """One side of a branch. scope: the scope that it ends in; names: the names of each scope that it may have changed."""

    block: int
    result: object
    scope: object
    names: dict

    @property
    def left(self):
        return self.result is LEFT


class Control:
    """The part of the translator that translates branches."""

    def mark(self):
        """Returns the Mark of a region that begins here."""
        return Mark(self.emitter.newest)

    def branch(self, condition, ways, what):
        """Translates an if of the running kernel. ways: two functions that translate its sides. Returns the value that
        joins those of the sides, or LEFT."""
        scope, emitter, sides = self.scope, self.emitter, []
        emitter.require_straight("Branching")
        before = [(each, each.snapshot(), each.exits) for each in scope.group]
        node, mark = self.node, self.mark()
        for way in ways:
            block, _ = emitter.block([])
            with emitter.inside(block):
                result = way()
            sides.append(_Side(block, result, self.scope, {each: each.names for each, *_ in before}))
            for each, names, exits in before:
                each.names, each.exits = dict(names), exits
            self.scope, self.node = scope, node
        live = [side for side in sides if not side.left]
        merged = [entry for each, names, _ in before for entry in self._merged(each, names, live, mark)]
        result = self._joined_result(live, what, mark)
        for side in live:
            with emitter.inside(side.block):
                tiles = [
                    tile
                    for _, _, layout, values in merged
                    for tile in tiles_of(emitter, layout, values[live.index(side)].value)
                ]
                if result:
                    tiles += tiles_of(emitter, result, _result(side))
                emitter.results("yield", tiles)
        results = iter(emitter.results("if", [condition], tuple(side.block for side in sides)))
        for each, name, layout, values in merged:
            line = max(value.line for value in values)
            each.names[name] = Binding(value_of(emitter, layout, results), line)
        if not live:
            self.unreached()
            return LEFT
        self.scope = live[0].scope
        value = value_of(emitter, result, results)
        return Returned(value) if any(isinstance(side.result, Returned) for side in live) else value

    def _merged(self, scope, before, live, mark):
        """Returns [(scope, name, layout, a binding for each live side)] for the scope's names that a side changed. Names
        without one value for all live sides are marked so at once."""
        merged = []
        for name in {name: None for side in live for name in side.names[scope]}:
            values = [side.names[scope].get(name, Binding(Undefined(), 0)) for side in live]
            if all(each is before.get(name) for each in values):
                continue
            layout = self._meeting(name, values, mark)
            if isinstance(layout, (Undefined, Conflict)):
                scope.names[name] = Binding(layout, values[-1].line)
            else:
                merged.append((scope, name, layout, values))
        return merged

    def _meeting(self, name, values, mark):
        for each in values:
            if not is_defined(each.value):
                return each.value
        first, last = values[0], values[-1]
        if len(values) == 1:
            layout = kept(first.value, mark)
        else:
            layout = joined(first.value, last.value, mark)
        return Conflict(conflict(name, first, last)) if layout is None else layout

    def _joined_result(self, live, what, mark):
        if not live:
            return None
        results = [_result(side) for side in live]
        layout = kept(results[0], mark) if len(results) == 1 else joined(*results, mark)
        if layout is None:
            name = "Type of return value" if what is None else f"Type of `{what}`"
            ways = f"{shown(results[0])} vs. {shown(results[1])}{differing(*results)}"
            raise TileTypeError(f"{name} depends on path taken: {ways}")
        return layout

    def chosen(self, condition, ways, what):
        """Returns the value of one of two expressions, chosen at run time."""
        return self.branch(condition, ways, what)


def _result(side):
    return side.result.value if isinstance(side.result, Returned) else side.result
