"""Class statements in kernels: enumerations and frozen dataclasses. Python runs them while the kernel is compiled."""

import ast
import dataclasses
import enum

from ..core.errors import TileError, TileSyntaxError, TileTypeError
from ..functions.proxies import evaluation, proxied
from .joins import is_defined

_OUTER = "__class_of_a_kernel__"


def _captured(translator, node):
    """Returns {name: value} for the names in a class statement that are not globals."""
    found, scope = {}, translator.scope
    for name in dict.fromkeys(each.id for each in ast.walk(node) if isinstance(each, ast.Name)):
        try:
            value, host = scope.find(name)
        except TileSyntaxError:  # defined by the class itself
            continue
        if (not host or name in scope.free_names()) and is_defined(value):
            found[name] = value
    return found


def made(translator, node):
    """Returns the class of a class statement. Errors: Python's own, or kernels do not support the class."""
    captured = _captured(translator, node)
    known, kind = translator.classes.get(node, (None, None))
    if known is not None and known.keys() == captured.keys() and all(known[name] is captured[name] for name in known):
        return kind
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in captured], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    body = [node, ast.Return(ast.Name(node.name, ast.Load()))]
    outer = ast.copy_location(ast.FunctionDef(_OUTER, arguments, body, [], None), node)
    tree = ast.fix_missing_locations(ast.Module([outer], []))
    names = {}
    exec(compile(tree, translator.scope.source.file, "exec", dont_inherit=True), translator.scope.globals(), names)  # noqa: S102
    try:
        with evaluation(translator, f"class {node.name}"):
            kind = names[_OUTER](**{name: proxied(translator, value) for name, value in captured.items()})
    except TileError:
        raise
    except Exception as error:
        raise TileTypeError(f"class {node.name}: {type(error).__name__}: {error}") from error
    frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen
    if not (isinstance(kind, type) and (frozen or issubclass(kind, enum.Enum))):
        raise TileSyntaxError(
            f"Unsupported syntax: class {node.name}; a class made in a kernel is an enumeration or a frozen dataclass"
        )
    translator.classes[node] = captured, kind
    return kind
