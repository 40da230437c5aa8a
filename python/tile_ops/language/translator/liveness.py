"""Liveness: the names that a function may read after each of its loops before it assigns them again."""

import ast
import functools

from .source import COMPREHENSIONS, read_in

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def live_behind(function, loop):
    """Returns the names that are live after a loop in a function or in one nested in it."""
    return _behind(function).get(loop, frozenset())


@functools.lru_cache(maxsize=None)
def _behind(function):
    found = {}
    for each in ast.walk(function):
        if isinstance(each, ast.FunctionDef):
            found |= _Liveness(each).behind
    return found


def _read(node):
    """Returns the names that an expression reads, including those of functions in it, which may be called at once."""
    if node is None:
        return frozenset()
    if isinstance(node, _FUNCTIONS):
        return frozenset(read_in(node)) | _defaults(node)
    if isinstance(node, ast.Name):
        return frozenset([node.id]) if isinstance(node.ctx, ast.Load) else frozenset()
    inner = frozenset().union(*map(_read, ast.iter_child_nodes(node)))
    if isinstance(node, COMPREHENSIONS):
        inner -= frozenset().union(*(_stored(each.target) for each in node.generators)) - _read(node.generators[0].iter)
    return inner


def _defaults(node):
    return frozenset().union(*map(_read, [*node.args.defaults, *node.args.kw_defaults]))


def _stored(node):
    return frozenset(each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))


class _Liveness:
    """Goes backwards through a function's statements, from the names live after each to those live before it."""

    def __init__(self, function):
        self.behind, self._loops = {}, []
        nested = [each for each in ast.walk(function) if isinstance(each, _FUNCTIONS) and each is not function]
        self._called = frozenset(name for each in nested for name in read_in(each))  # at an unknown time
        self._block(function.body, frozenset())

    def _block(self, statements, live):
        for statement in reversed(statements):
            live = getattr(self, "_" + type(statement).__name__, self._plain)(statement, live)
        return live

    def _plain(self, node, live):
        return (live - _stored(node)) | _read(node)

    def _AugAssign(self, node, live):
        return live | _read(node.value) | _stored(node.target)

    def _If(self, node, live):
        return self._block(node.body, live) | self._block(node.orelse, live) | _read(node.test)

    def _For(self, node, live):
        return self._loop(node, live, _read(node.iter), _stored(node.target))

    def _While(self, node, live):
        return self._loop(node, live, frozenset(), frozenset()) | _read(node.test)

    def _loop(self, node, live, read, stored):
        self.behind[node] = self.behind.get(node, frozenset()) | live | self._called
        ended = self._block(node.orelse, live)
        head = ended | (_read(node.test) if isinstance(node, ast.While) else frozenset())
        while True:
            self._loops.append((live, head))
            live_in = self._block(node.body, head) - stored
            self._loops.pop()
            if live_in <= head:
                return head | read
            head |= live_in

    def _Break(self, node, live):
        return self._loops[-1][0]

    def _Continue(self, node, live):
        return self._loops[-1][1]

    def _Return(self, node, live):
        return _read(node.value)

    def _With(self, node, live):
        live = self._block(node.body, live)
        for item in reversed(node.items):
            stored = _stored(item.optional_vars) if item.optional_vars else frozenset()
            live = (live - stored) | _read(item.context_expr)
        return live

    def _Try(self, node, live):
        live = self._block(node.finalbody, live)
        handled = frozenset().union(*(self._block(each.body, live) for each in node.handlers))
        return self._block(node.body, self._block(node.orelse, live)) | handled

    def _FunctionDef(self, node, live):
        return (live - {node.name}) | _defaults(node)

    def _Match(self, node, live):
        return live | _read(node)
