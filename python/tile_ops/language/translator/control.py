"""Control flow: regions of ifs and loops, and what they make of the names they assign."""

import ast
import dataclasses

from ..core import checks, dtypes
from ..core.errors import TileSyntaxError, TileTypeError
from .joins import Scalar, conflict, differing, fits, is_defined, joined, kept, layout_of, tiles_of, types_of, value_of
from .joins import ways_of, widened
from .memory import Memory
from .scope import Binding
from .source import assigned, holds
from ..core.values import Conflict, Range, Undefined, shown


def _hidden(depth):
    """Names that a loop with a return carries: whether it did, and what."""
    return f"<returned {depth}>", f"<value {depth}>"


LEFT = object()  # a way that ends in break or continue


@dataclasses.dataclass
class Returned:
    """A way that ends in return."""

    value: object


@dataclasses.dataclass
class _Side:
    block: int
    result: object
    names: dict

    @property
    def left(self):
        return self.result is LEFT


@dataclasses.dataclass
class _Loop:
    """names that it carries with their layouts; of a counted one that jumps the index, its bound and step."""

    names: list
    layouts: list
    counter: tuple = ()
    found: object = None  # a list: values that it returns are noted there, to know their type


class _Widened(Exception):
    """A turn of a loop has another array where the loop carries one: the loop is translated again, with both."""

    def __init__(self, loop):
        self.loop = loop


class Control:
    """The part of the translator that knows regions."""

    def branch(self, condition, ways, what):
        """An if of the running kernel. ways: two functions that translate its sides; the value that they join in, or
        LEFT."""
        scope, emitter, sides = self.scope, self.emitter, []
        emitter.require_straight("Branching")
        before, node, exits, newest = scope.snapshot(), self.node, scope.exits, emitter.newest
        for way in ways:
            block, _ = emitter.block([])
            with emitter.inside(block):
                result = way()
            sides.append(_Side(block, result, scope.names))
            scope.names, scope.exits = dict(before), exits
            self.node = node
        live = [side for side in sides if not side.left]
        merged = self._merged(before, live, newest)
        result = self._joined_result(live, what, newest)
        for side in live:
            with emitter.inside(side.block):
                tiles = [
                    tile
                    for _, layout, values in merged
                    for tile in tiles_of(emitter, layout, values[live.index(side)].value)
                ]
                if result:
                    tiles += tiles_of(emitter, result, _result(side))
                emitter.results("yield", tiles)
        results = iter(emitter.results("if", [condition], tuple(side.block for side in sides)))
        for name, layout, values in merged:
            scope.names[name] = Binding(value_of(emitter, layout, results), max(each.line for each in values))
        if not live:
            return LEFT
        value = value_of(emitter, result, results)
        return Returned(value) if any(isinstance(side.result, Returned) for side in live) else value

    def _merged(self, before, live, newest):
        """[(name, layout, a binding for each live side)] of the names that changed; the others are settled at once."""
        merged = []
        for name in {name: None for side in live for name in side.names}:
            values = [side.names.get(name, Binding(Undefined(), 0)) for side in live]
            if all(each is before.get(name) for each in values):
                continue
            layout = self._meeting(name, values, newest)
            if isinstance(layout, (Undefined, Conflict)):
                self.scope.names[name] = Binding(layout, values[-1].line)
            else:
                merged.append((name, layout, values))
        return merged

    def _meeting(self, name, values, newest):
        for each in values:
            if not is_defined(each.value):
                return each.value
        first, last = values[0], values[-1]
        if len(values) == 1:
            layout = kept(first.value, newest)
        else:
            layout = joined(first.value, last.value, newest)
        return Conflict(conflict(name, first, last)) if layout is None else layout

    def _joined_result(self, live, what, newest):
        if not live:
            return None
        results = [_result(side) for side in live]
        layout = kept(results[0], newest) if len(results) == 1 else joined(*results, newest)
        if layout is None:
            name = "Type of return value" if what is None else f"Type of `{what}`"
            ways = f"{shown(results[0])} vs. {shown(results[1])}{differing(*results)}"
            raise TileTypeError(f"{name} depends on path taken: {ways}")
        return layout

    def chosen(self, condition, ways, what):
        """The value of one of two expressions."""
        return self.branch(condition, ways, what)

    # Loops.

    def _carried(self, node):
        """Names that a loop assigns and that have a value before it."""
        names = self.scope.names
        return [name for name in assigned([node]) if name in names and is_defined(names[name].value)]

    def _initial(self, loop, before):
        """What it carries into the first turn."""
        each = zip(loop.names, loop.layouts)
        return [tile for name, layout in each for tile in tiles_of(self.emitter, layout, before[name].value)]

    def _begin(self, loop, tiles):
        tiles = iter(tiles)
        for name, layout in zip(loop.names, loop.layouts):
            self.scope.bind(name, value_of(self.emitter, layout, tiles), self.scope.names[name].line)

    def _current(self, loop, before):
        """What is carried on, from the names as they are; an error where a type has changed."""
        tiles = []
        for name, layout in zip(loop.names, loop.layouts):
            now = self.scope.names[name]
            if not is_defined(now.value):
                raise TileTypeError(
                    now.value.message
                    if isinstance(now.value, Conflict)
                    else f"`{name}` may be undefined at the loop's end"
                )
            if not fits(layout, now.value):
                self._widen(loop, name, now, before)
            tiles += tiles_of(self.emitter, layout, now.value)
        return tiles

    def _widen(self, loop, name, now, before):
        """Lets a loop carry more arrays for a name. Error: its type has changed otherwise."""
        at = loop.names.index(name)
        layout = widened(loop.layouts[at], now.value)
        if layout is None:
            raise TileTypeError(
                conflict(name, before[name], now)
                + "; a loop carries a name with one type: begin with zeros() or full() of that type"
            )
        if ways_of(layout) > Memory.most:
            raise TileTypeError(
                f"`{name}` is a slice of itself in each turn of a loop; slice an array that no turn changes"
            )
        loop.layouts[at] = layout
        raise _Widened(loop)

    def _settled(self, loop, before, translate):
        """What `translate` gives; again as long as a turn adds arrays to what the loop carries."""
        scope, node, exits, loops = self.scope, self.node, self.scope.exits, len(self.scope.loops)
        while True:
            try:
                return translate()
            except _Widened as more:
                if more.loop is not loop:
                    raise
            self.scope, self.node = scope, node
            scope.names, scope.exits = dict(before), exits
            del scope.loops[loops:]

    def _close(self, node, loop, before, results):
        """Names behind a loop: what it carried, and nothing that only it assigned."""
        results = iter(results)
        self.scope.names = dict(before)
        for name, layout in zip(loop.names, loop.layouts):
            self.scope.names[name] = Binding(value_of(self.emitter, layout, results), node.lineno)
        self.scope.undefine(name for name in assigned([node]) if name not in loop.names)

    def _turn(self, node, loop, before, end):
        """A loop's body; `end`: the operation that ends it."""
        exits = self.scope.exits
        self.scope.loops.append((loop, before))
        way = self.block(node.body)
        self.scope.loops.pop()
        self.scope.exits = exits
        if way is not LEFT:
            self.node = node
            end(self._current(loop, before))

    def _next(self, loop):
        """index + step, or the bound where that would reach it: sums of indices do not wrap."""
        if not loop.counter:
            return []
        emit = self.emitter.emit
        index, stop, step = loop.counter
        left = emit("bitcast", emit("sub", stop, index), dtype="u32")
        goes_on = emit("gt", left, emit("bitcast", step, dtype="u32"))
        return [emit("where", goes_on, emit("add", index, step), stop)]

    def leave_with(self, value):
        """return: of a loop a way out that is told by two names of its own."""
        if not self.scope.loops:
            self.leave_contexts()
            return Returned(value)
        loop, _ = self.scope.loops[-1]
        returned, kept_value = _hidden(len(self.scope.loops) - 1)
        self.scope.bind(returned, True, self.node.lineno)
        if loop.found is not None:
            loop.found.append(value)
        else:
            self.scope.bind(kept_value, value, self.node.lineno)
        return self.jump(True)

    def jump(self, leaves):
        """break or continue."""
        self.leave_contexts()
        loop, before = self.scope.loops[-1]
        first = list(loop.counter[:1]) if leaves else self._next(loop)
        self.emitter.results("break" if leaves else "continue", first + self._current(loop, before))
        return LEFT

    def _exit_unless(self, goes_on, loop, before):
        """Leaves the loop, at the beginning of a turn, where the condition is false."""
        emitter = self.emitter
        stay, leave = emitter.block([])[0], emitter.block([])[0]
        with emitter.inside(stay):
            emitter.results("yield", [])
        with emitter.inside(leave):
            emitter.results("break", list(loop.counter[:1]) + self._current(loop, before))
        emitter.results("if", [goes_on], (stay, leave))

    def counted(self, node, values):
        """for target in range."""
        self.emitter.require_straight("Loops")
        emitter, scope, name = self.emitter, self.scope, node.target.id
        bounds = [emitter.cast(emitter.tile(each), dtypes.int32) for each in (values.start, values.stop, values.step)]
        before = scope.snapshot()
        names = self._carried(node)
        if name in names and not fits(Scalar(dtypes.int32, ()), scope.names[name].value):
            names.remove(name)
        loop = _Loop(names, [layout_of(scope.names[each].value, emitter.newest) for each in names])
        jumps = holds(node.body, (ast.Break, ast.Continue), into_loops=False)

        def translate():
            initial = self._initial(loop, before)
            types = [(dtypes.int32, ())] + [each for layout in loop.layouts for each in types_of(layout)]
            block, (index, *tiles) = emitter.block(types)
            with emitter.inside(block):
                self._begin(loop, tiles)
                if jumps:
                    loop.counter = (index, bounds[1], bounds[2])
                    self._exit_unless(emitter.emit("lt", index, bounds[1]), loop, before)
                scope.bind(name, index, node.lineno)
                if jumps:
                    self._turn(node, loop, before, lambda tiles: emitter.results("continue", self._next(loop) + tiles))
                else:
                    self._turn(node, loop, before, lambda tiles: emitter.results("yield", tiles))
            if jumps:
                return emitter.results("loop", [bounds[0], *initial], (block,))[1:]
            return emitter.results("for", [*bounds, *initial], (block,))

        self._close(node, loop, before, self._settled(loop, before, translate))

    def endless(self, node, returns=False):
        """while condition. returns: it holds a return; whether it did, a tile, and the value."""
        self.emitter.require_straight("Loops")
        if not returns:
            return self._while(node, [], None)
        line, scope = node.lineno, self.scope
        flag, kept_value = _hidden(len(scope.loops))
        scope.bind(flag, False, line)
        outer, found, newest = scope.snapshot(), [], self.emitter.newest
        self._while(node, [flag], found, inserted=False)  # to know the value's type
        scope.names, self.node = outer, node
        layout = layout_of(found[0] if found else None, newest)
        for value in found:
            layout = widened(layout, value)
            if layout is None:
                ways = f"{shown(found[0])} vs. {shown(value)}{differing(found[0], value)}"
                raise TileTypeError(f"Type of return value depends on path taken: {ways}")
        zeros = iter([self.emitter.constant(0, dtype, shape) for dtype, shape in types_of(layout)])
        scope.bind(kept_value, value_of(self.emitter, layout, zeros), line)
        self._while(node, [flag, kept_value], None)
        returned, value = scope.names.pop(flag).value, scope.names.pop(kept_value).value
        return self.emitter.tile(returned), value

    def _while(self, node, more, found, inserted=True):
        emitter, scope = self.emitter, self.scope
        before, names = scope.snapshot(), self._carried(node) + more
        loop = _Loop(names, [layout_of(scope.names[each].value, emitter.newest) for each in names], found=found)

        def translate():
            """(its initial tiles, its block); None: it never runs, and nothing takes the block."""
            initial = self._initial(loop, before)
            block, tiles = emitter.block([each for layout in loop.layouts for each in types_of(layout)])
            with emitter.inside(block):
                self._begin(loop, tiles)
                test = self.value(node.test)
                known = self.known_truth(test)
                if known is False:
                    scope.names = before
                    return None
                if known and not holds(node.body, ast.Break, into_loops=False) and not holds(node.body, ast.Return):
                    raise TileSyntaxError("`while True` needs a way out; add a break")
                if known is None:
                    self._exit_unless(self.condition(test), loop, before)
                self._turn(node, loop, before, lambda tiles: emitter.results("continue", tiles))
            return initial, block

        made = self._settled(loop, before, translate)
        if inserted and made:
            self._close(node, loop, before, emitter.results("loop", made[0], (made[1],)))

    def iterated(self, node):
        """The range of a for."""
        values = self.value(node.iter)
        if not isinstance(values, Range):
            raise TileTypeError(
                f"Expected a range to iterate over, got {shown(values)}; unroll a tuple with static_iter()"
            )
        for each in (values.start, values.stop, values.step):
            checks.range_bound(each)
        return values


def _result(side):
    return side.result.value if isinstance(side.result, Returned) else side.result
