"""Translates loops: the regions of for and while, and the names that they carry."""

import ast

from ..core import checks
from ..core.errors import TileSyntaxError, TileTypeError
from ..core.values import Conflict, Range, shown
from . import ranges
from .control import LEFT, Control, Returned
from .joins import Scalar, conflict, fits, is_defined, layout_of, met, tiles_of, types_of, value_of, ways_of
from .liveness import live_behind
from .loop_state import Loop, Tried, Widened
from .memory import Memory
from .scope import Binding
from .source import assigned, holds


def _hidden(depth):
    """Returns the names of two variables that a loop with a return carries: whether it returned, and the value."""
    return f"<returned {depth}>", f"<value {depth}>"


class Loops(Control):
    """The part of the translator that translates loops."""

    def _carried(self, node):
        """Returns the names that a loop assigns and that have a value before it."""
        names = self.scope.names
        return [name for name in assigned([node]) if name in names and is_defined(names[name].value)]

    def _wanted(self, node):
        """Returns the names without a value before the loop that it assigns and that may be read after it."""
        names, live = self.scope.names, live_behind(self.scope.source.node, node)
        return [name for name in assigned([node]) if name in live and not (name in names and is_defined(names[name].value))]

    def _zeros(self, layout):
        """Returns zeros as the tiles of a layout, for paths on which nothing reads them."""
        return [self.emitter.constant(0, dtype, shape) for dtype, shape in types_of(layout)]

    def _initial(self, loop, before):
        """Returns the tiles that the loop carries into the first iteration."""
        each = zip(loop.names, loop.layouts)
        tiles = [tile for name, layout in each for tile in tiles_of(self.emitter, layout, before[name].value)]
        return tiles + [tile for _, layout in loop.outs() for tile in self._zeros(layout)]

    def _begin(self, loop, tiles):
        loop.begun, tiles = tiles, iter(tiles)
        for name, layout in zip(loop.names, loop.layouts):
            self.scope.bind(name, value_of(self.emitter, layout, tiles), self.scope.names[name].line)
        loop.arguments = list(tiles)

    def _types(self, loop):
        return [each for layout in loop.all_layouts() for each in types_of(layout)]

    def _current(self, loop, before, gives):
        """Returns the tiles to carry on, from the current names. gives: the live-outs are taken from the names, too, instead
        of the tiles that the iteration began with. Error: a type has changed."""
        tiles = []
        for name, layout in zip(loop.names, loop.layouts):
            now = self.scope.names[name]
            if not is_defined(now.value):
                raise TileTypeError(
                    now.value.message if isinstance(now.value, Conflict) else f"`{name}` may be undefined at the loop's end"
                )
            if not fits(layout, now.value, loop.mark):
                self._widen(loop, name, now, before)
            tiles += tiles_of(self.emitter, layout, now.value)
        if not gives:
            return tiles + loop.arguments
        if loop.tried:
            loop.tried.note(self.scope.names, loop.mark)
        for name, layout in loop.outs():
            value = self.scope.names[name].value
            if not fits(layout, value, loop.mark):
                raise TileTypeError(f"`{name}` is {shown(value)} on only one path out of the loop; assign it before the loop")
            tiles += tiles_of(self.emitter, layout, value)
        return tiles

    def _widen(self, loop, name, now, before):
        """Lets a loop carry more arrays or functions for a name. Error: its type changed in another respect."""
        at = loop.names.index(name)
        layout = met(loop.layouts[at], now.value, loop.mark)
        if layout is None:
            raise TileTypeError(
                conflict(name, before[name], now)
                + "; a loop carries a name with one type: begin with zeros() or full() of that type"
            )
        if ways_of(layout) > Memory.most:
            raise TileTypeError(
                f"`{name}` is a slice of itself in each iteration of a loop; slice an array that no iteration changes"
            )
        loop.layouts[at] = layout
        raise Widened(loop)

    def _settled(self, loop, before, translate):
        """Returns translate(), which is repeated as long as an iteration adds arrays or functions to the carried names."""
        scope, node, exits, loops = self.scope, self.node, self.scope.exits, len(self.scope.loops)
        expected, noted = list(self.expected), len(self.noted)
        while True:
            try:
                return translate()
            except Widened as more:
                if more.loop is not loop:
                    raise
            self.scope, self.node = scope, node
            scope.names, scope.exits = dict(before), exits
            self.expected = list(expected)
            del scope.loops[loops:], self.noted[noted:]
            if loop.tried:
                loop.tried.begin()

    def _close(self, node, loop, before, results):
        """Binds the names after a loop: the carried names and the live-outs; other names that it assigned are undefined."""
        results = iter(results)
        self.scope.names = dict(before)
        self.scope.undefine(name for name in assigned([node]) if name not in loop.names)
        for name, layout in (*zip(loop.names, loop.layouts), *loop.given.items()):
            value = layout if isinstance(layout, Conflict) else value_of(self.emitter, layout, results)
            self.scope.names[name] = Binding(value, node.lineno)

    def _body(self, node, loop, before, end):
        """Translates a loop's body; `end` emits the operation that ends it."""
        scope, exits = self.scope, self.scope.exits
        scope.loops.append((loop, before))
        way = self.block(node.body)
        self.scope = scope  # if all paths jump, it may be the scope of a context manager
        scope.loops.pop()
        scope.exits = exits
        if way is not LEFT:
            self.node = node
            end(self._current(loop, before, loop.counter is not None))

    def leave_with(self, value):
        """Translates return. In a loop it is a break that sets the two variables of _hidden."""
        if not self.scope.loops:
            self.leave_contexts()
            return Returned(value)
        loop, _ = self.scope.loops[-1]
        returned, kept_value = _hidden(len(self.scope.loops) - 1)
        self.scope.bind(returned, True, self.node.lineno)
        if loop.tried:
            loop.tried.returned.append((value, loop.mark))
        else:
            self.scope.bind(kept_value, value, self.node.lineno)
        return self.jump(True, returns=True)

    def jump(self, leaves, returns=False):
        """Translates break or continue."""
        self.leave_contexts()
        loop, before = self.scope.loops[-1]
        first = []
        if loop.counter:
            first = [loop.index if leaves else loop.counter.next(loop.index)]
        if loop.tried and not returns:
            loop.tried.leaves |= leaves
        gives, self.left = not returns and (leaves or loop.counter is not None), loop
        self.emitter.results("break" if leaves else "continue", first + self._current(loop, before, gives))
        return LEFT

    def unreached(self):
        """Ends the unreachable block after an if whose sides both jump: each block must end in a jump or a yield."""
        first = [self.left.index] if self.left.counter else []
        self.emitter.results("break", [*first, *self.left.begun])

    def _exit_unless(self, goes_on, loop, before):
        """Leaves the loop at the beginning of an iteration if the condition is false."""
        emitter = self.emitter
        stay, leave = emitter.block([])[0], emitter.block([])[0]
        with emitter.inside(stay):
            emitter.results("yield", [])
        with emitter.inside(leave):
            first = [loop.index] if loop.counter else []
            emitter.results("break", first + self._current(loop, before, False))
        if loop.tried:
            loop.tried.leaves = True
        emitter.results("if", [goes_on], (stay, leave))

    def _try(self, node, wanted, translate):
        """Returns the Tried of a loop: a trial by `translate`, unless the trial of an outer loop already made it."""
        if self.expected and self.expected[0].node is node:
            return self.expected.pop(0)
        tried, scope, before = Tried(node, wanted), self.scope, self.scope.snapshot()
        outer = self.noted, self.expected, self.trying
        self.noted.append(tried)
        self.noted, self.expected, self.trying = tried.loops, [], True
        try:
            with self.emitter.inside(self.emitter.block([])[0]):
                translate(tried)
        finally:
            self.noted, self.expected, self.trying = outer
        self.scope, self.node, scope.names = scope, node, before
        return tried

    def _after_trying(self, node, tried, translate):
        """Translates the loop itself; in the trial of an outer loop, which needs only types, binds zeros instead."""
        if not self.trying:
            expected, self.expected = self.expected, list(tried.loops)
            try:
                translate()
            finally:
                self.expected = expected
        elif tried.loop:
            loop = tried.loop
            loop.given, loop.tried = tried.given or {}, None
            zeros = [tile for layout in loop.all_layouts() for tile in self._zeros(layout)]
            self._close(node, loop, self.scope.snapshot(), zeros)

    def counted(self, node, values):
        """Translates for target in range."""
        self.emitter.require_straight("Loops")
        names, name = self.scope.names, node.target.id
        if name in names and not fits(Scalar(ranges.index_dtype(values), ()), names[name].value, None):
            del names[name]
        wanted = self._wanted(node) if ranges.surely_iterates(values) else []
        if not wanted:
            return self._counted(node, values)
        tried = self._try(node, wanted, lambda tried: self._counted(node, values, tried))
        return self._after_trying(node, tried, lambda: self._counted(node, values, given=tried.given))

    def _counted(self, node, values, tried=None, given=None):
        emitter, scope, name = self.emitter, self.scope, node.target.id
        counter = ranges.Counter(self, values)
        before, mark = scope.snapshot(), self.mark()
        names = self._carried(node)
        layouts = [layout_of(scope.names[each].value, mark) for each in names]
        loop = Loop(names, layouts, mark, given or {}, counter=counter, tried=tried)
        jumps = holds(node.body, (ast.Break, ast.Continue), into_loops=False)

        def translate():
            initial = self._initial(loop, before)
            block, (index, *tiles) = emitter.block([(counter.dtype, ()), *self._types(loop)])
            loop.index = index
            with emitter.inside(block):
                self._begin(loop, tiles)
                if jumps:
                    self._exit_unless(counter.goes_on(index), loop, before)
                scope.bind(name, counter.number(index), node.lineno)
                if jumps:
                    self._body(node, loop, before, lambda tiles: emitter.results("continue", [counter.next(index), *tiles]))
                else:
                    self._body(node, loop, before, lambda tiles: emitter.results("yield", tiles))
            return initial, block

        initial, block = self._settled(loop, before, translate)
        if tried:
            tried.loop = loop
        elif jumps:
            self._close(node, loop, before, emitter.results("loop", [counter.start, *initial], (block,))[1:])
        else:
            bounds = counter.start, counter.stop, counter.step
            self._close(node, loop, before, emitter.results("for", [*bounds, *initial], (block,)))

    def endless(self, node, returns=False):
        """Translates while. returns: the loop contains a return. Then returns (a tile that is true if it returned, the
        value, True if the loop can also end otherwise); None: no return is reachable."""
        self.emitter.require_straight("Loops")
        scope, line = self.scope, node.lineno
        wanted = self._wanted(node)
        wanted = wanted if wanted and self._always(node) else []
        if not returns and not wanted:
            return self._while(node, [])
        flag, kept_value = _hidden(len(scope.loops))
        if returns:
            scope.bind(flag, False, line)
        hidden = [flag] if returns else []
        tried = self._try(node, wanted, lambda tried: self._while(node, hidden, tried))
        if tried.loop and not tried.leaves and not tried.returned:
            raise TileSyntaxError("`while True` needs a way out; add a break")
        if not returns:
            return self._after_trying(node, tried, lambda: self._while(node, [], given=tried.given))
        if not tried.returned:  # the return may be in a branch that a constant excludes
            del scope.names[flag]
            self._after_trying(node, tried, lambda: self._while(node, [], given=tried.given))
            scope.names.pop(flag, None)
            return None
        layout = tried.layout_of_returned()
        scope.bind(kept_value, value_of(self.emitter, layout, iter(self._zeros(layout))), line)
        self._after_trying(node, tried, lambda: self._while(node, [flag, kept_value], given=tried.given))
        returned, value = scope.names.pop(flag).value, scope.names.pop(kept_value).value
        return self.emitter.tile(returned), value, tried.leaves

    def _always(self, node):
        """Returns True if the condition of a while is known to be true."""
        if isinstance(node.test, ast.Constant):
            return bool(node.test.value)
        names = assigned([node])
        if any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node.test)):
            return False
        with self.emitter.inside(self.emitter.block([])[0]):
            return bool(self.known_truth(self.value(node.test)))

    def _while(self, node, more, tried=None, given=None):
        emitter, scope = self.emitter, self.scope
        before, mark, names = scope.snapshot(), self.mark(), self._carried(node) + more
        layouts = [layout_of(scope.names[each].value, mark) for each in names]
        loop = Loop(names, layouts, mark, given or {}, tried=tried)

        def translate():
            """Returns (the initial tiles, the block); None: the loop never runs, and the block is not used."""
            initial = self._initial(loop, before)
            block, tiles = emitter.block(self._types(loop))
            with emitter.inside(block):
                self._begin(loop, tiles)
                test = self.value(node.test)
                known = self.known_truth(test)
                if known is False:
                    scope.names = dict(before)
                    return None
                if known and not holds(node.body, ast.Break, into_loops=False) and not holds(node.body, ast.Return):
                    raise TileSyntaxError("`while True` needs a way out; add a break")
                if known is None:
                    self._exit_unless(self.condition(test), loop, before)
                self._body(node, loop, before, lambda tiles: emitter.results("continue", tiles))
            return initial, block

        made = self._settled(loop, before, translate)
        if tried:
            tried.loop = loop if made else None
        elif made:
            self._close(node, loop, before, emitter.results("loop", made[0], (made[1],)))

    def iterated(self, node):
        """Returns the Range of a for."""
        values = self.value(node.iter)
        if not isinstance(values, Range):
            raise TileTypeError(f"Expected a range to iterate over, got {shown(values)}; unroll a tuple with static_iter()")
        for each in (values.start, values.stop, values.step):
            checks.range_bound(each)
        return values
