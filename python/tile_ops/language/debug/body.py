"""Prepares Python functions for a session: the same source and lines, with the kernel's builtins."""

import ast
import builtins
import copy
import functools
import types

from ..core.registry import HelperFunction
from ..translator.source import source_of


class _Rewriter(ast.NodeTransformer):
    """Turns `assert` and `not`, which work on whole tiles in a kernel, into calls. Line numbers are kept."""

    def visit_Assert(self, node):
        self.generic_visit(node)
        arguments = [node.test] if node.msg is None else [node.test, node.msg]
        call = ast.Call(ast.Name("__tile_assert__", ast.Load()), arguments, [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(ast.copy_location(call, node)), node))

    def visit_UnaryOp(self, node):
        self.generic_visit(node)
        if not isinstance(node.op, ast.Not):
            return node
        call = ast.Call(ast.Name("__tile_not__", ast.Load()), [node.operand], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))


def _rewritten(function):
    """Returns the code of a function with assert and not replaced; None if it contains neither."""
    node = source_of(function).node
    if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
        return None
    if not any(isinstance(each, ast.Assert) or isinstance(getattr(each, "op", None), ast.Not) for each in ast.walk(node)):
        return None
    node = _Rewriter().visit(copy.deepcopy(node))
    if isinstance(node, ast.Lambda):
        node = ast.copy_location(ast.Expr(node), node)
    else:
        node.decorator_list = []
    free = function.__code__.co_freevars
    if free:  # makes them free variables here too
        names = [ast.arg(name) for name in free]
        arguments = ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[])
        outer = ast.FunctionDef("__outer__", arguments, [node], [], None)
        tree = ast.Module([ast.copy_location(outer, node)], [])
    else:
        tree = ast.Module([node], [])
    code = compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec", dont_inherit=True)
    todo = [code]
    while todo:
        each = todo.pop()
        if each.co_name == function.__name__ and each.co_freevars == free:
            return each
        todo += [inner for inner in each.co_consts if isinstance(inner, types.CodeType)]
    return None


class Bodies:
    """The functions of a session. codes: the code objects of the functions that it prepared."""

    def __init__(self, session):
        self.codes, self._made, self._globals = set(), {}, {}
        self._builtins = {
            **vars(builtins),
            "range": session.range,
            "min": lambda *values: session.extreme(min, *values),
            "max": lambda *values: session.extreme(max, *values),
            "__tile_assert__": session.asserted,
            "__tile_not__": session.negated,
        }

    def of(self, function):
        """Returns the function with the kernel's builtins."""
        if isinstance(function, HelperFunction):
            function = function.function
        key = function.__code__, id(function.__globals__), tuple(map(id, function.__closure__ or ()))
        if key not in self._made:
            code = _rewritten(function) or function.__code__
            closure = function.__closure__
            if closure:
                closure = tuple(types.CellType(self._inner(each.cell_contents)) for each in closure)
            made = types.FunctionType(code, self._names(function), function.__name__, function.__defaults__, closure)
            made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
            self._made[key] = made, function  # keeps the function alive, whose ids are in the key
            self._note(code)
        return self._made[key][0]

    def _note(self, code):
        self.codes.add(code)
        for each in code.co_consts:
            if isinstance(each, types.CodeType):
                self._note(each)

    def _inner(self, value):
        if isinstance(value, functools.partial):
            return functools.partial(self._inner(value.func), *value.args, **value.keywords)
        if isinstance(value, functools._lru_cache_wrapper):
            inner = self._inner(value.__wrapped__)
            return value if inner is value.__wrapped__ else inner
        return self.of(value) if _is_users(value) else value

    def _names(self, function):
        """Returns the module's names, in which the user's functions are prepared too."""
        known = self._globals.get(id(function.__globals__))
        if known is None:
            known = self._globals[id(function.__globals__)] = {}
            known.update(function.__globals__, __builtins__=self._builtins)
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if known.get(name) is value and isinstance(value, _FUNCTIONS):
                known[name] = None  # ends a recursion
                known[name] = self._inner(value)
        return known


_FUNCTIONS = (types.FunctionType, functools.partial, functools._lru_cache_wrapper)


def _is_users(value):
    if not isinstance(value, types.FunctionType):
        return False
    try:
        source_of(value)
    except Exception:  # noqa: BLE001 a function without source is called unchanged
        return False
    return value.__module__.split(".")[0] not in ("torch", "tile_ops", "numpy")
