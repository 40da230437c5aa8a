"""Errors for Python syntax that kernels do not support, each with the replacement."""

import torch

from ..core import advice
from ..core.errors import TileSyntaxError, UnsupportedCallError
from ..core.registry import FUNCTIONS

_TUPLE = "write a tuple"
_GENERATED = "write tuple(... for ... in static_iter(...))"
_NAMED = "assign in a statement of its own"
_ASYNC = "kernels run as they are launched; leave async and await out"
_SYNTAX = {
    "Match": "write if and elif",
    "AsyncFunctionDef": _ASYNC,
    "AsyncFor": _ASYNC,
    "AsyncWith": _ASYNC,
    "Await": _ASYNC,
    "Nonlocal": "return the value, and assign it where the function is called",
    "Global": "kernels cannot change what is outside of them; pass an array, and store into it",
    "List": _TUPLE,
    "Set": _TUPLE,
    "ListComp": _GENERATED,
    "SetComp": _GENERATED,
    "DictComp": "write dict(tuple((key, value) for ... in static_iter(...)))",
    "Yield": "return a tuple",
    "YieldFrom": "return a tuple",
    "NamedExpr": _NAMED,
    "Import": "import at the top of the file",
    "ImportFrom": "import at the top of the file",
    "Raise": "use assert_(condition, message), or static_assert() for constants",
    "Try": "nothing raises in a kernel; test with if",
    "TryStar": "nothing raises in a kernel; test with if",
    "Delete": "leave the name as it is; what is not used costs nothing",
    "Starred": "name each item",
}
_CALLS = {
    "enumerate": "loop over range(...), or over static_iter(enumerate(...))",
    "zip": "loop over range(...), or over static_iter(zip(...))",
    "map": "write tuple(f(x) for x in static_iter(...))",
    "filter": "write tuple(x for x in static_iter(...) if ...)",
    "list": _TUPLE,
    "set": _TUPLE,
    "isinstance": "compare x.dtype, x.ndim or x.shape",
    "type": "compare x.dtype, x.ndim or x.shape",
    "sum": "add the items with +, or use the sum() of the language for a tile",
    "round": "use the round() of the language for a tile, or static_eval(round(...)) for constants",
    "open": "print() writes what a kernel finds",
    "super": "call the base class's method by its name",
}


def unsupported_syntax(node):
    """Returns the error for a statement or expression."""
    name = type(node).__name__
    fix = _SYNTAX.get(name)
    return TileSyntaxError(f"Unsupported syntax: {name}{'; ' if fix else ''}{fix or ''}")


def unsupported_call(callee, module):
    """Returns the error for a call of an unsupported Python function. module: the language's name in messages."""
    name = callee.__name__
    fix = _CALLS.get(name)
    library = (callee.__module__ or "torch").split(".")[0]
    written = advice.written(name, module, "tile")
    if fix is None and library == "tile_ops":
        fix = "it is called outside of kernels"
    elif fix is None and library in ("torch", "numpy") and written is not None:
        fix = f"write {written}"
    elif fix is None and library in ("torch", "numpy") and name in FUNCTIONS:
        fix = f"use {module}.{name}() on a tile"
    elif fix is None and name in FUNCTIONS:
        fix = f"use {module}.{name}(), or static_eval({name}(...)) for constants"
    elif fix is None and getattr(torch, name, None) is callee:
        fix = "call it outside of the kernel, and pass the tensor"
    elif fix is None:
        fix = f"static_eval({name}(...)) runs it while the kernel is compiled, on constants"
    return UnsupportedCallError(f"{name}() is not supported in device code; {fix}")
