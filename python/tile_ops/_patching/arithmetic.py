"""Computes each chain of sums and products in a forward by one kernel: `x * (1 + scale) + shift` is three of torch's.

The text of a chain is rewritten to a call, `self.tile_chain("a * (1 + b) + c", x, scale, shift)`, which decides each time who computes
it. Only calls without gradients are ours: with gradients our operator would keep all of its inputs, and torch few of them.
"""

import ast
import hashlib
import inspect
import linecache
import threading
import types

import torch

from .. import _operators
from . import direct, source_rewrite

is_dynamo_compiling = torch.compiler.is_dynamo_compiling
CALL = "tile_chain"  # the method, and the parameter of functions that a forward calls
FUNCTION = "tile_function_"  # begins the names of the methods for these functions
LEAST_ELEMENTS = 2**15  # of the largest tensor: below that a launch takes as long as torch's
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
# Methods that change no tensor, and may be called before the arithmetic to their left.
_PURE = {
    "contiguous", "expand", "expand_as", "flatten", "float", "permute", "reshape", "size", "squeeze", "to", "transpose", "type_as",
    "unflatten", "unsqueeze", "view",
}  # fmt: skip
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"

_plain, _calls, _lock = {}, {}, threading.Lock()  # by text: a function; by text and types of its values: a call, or None


def _is_pure(node):
    """Returns True if it makes no difference when an expression is computed."""
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and not (isinstance(each.func, ast.Attribute) and each.func.attr in _PURE):
            return False
        if isinstance(each, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return False
    return True


class _Chain:
    """An expression of sums, differences, products and quotients. leaves: its other parts, in the order in which they are computed.
    is_one is False if there is a text or a list in it, or if a part would be computed in another order."""

    def __init__(self, node):
        self.leaves, self.operations, self.is_one = [], 0, True
        self._names = {}
        self.text = self._text(node)
        self.is_one = self.is_one and self.operations > 1 and 0 < len(self.leaves) <= len(_LETTERS)

    def _text(self, node):
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = self._text(node.left), self._text(node.right)
            self.operations += 1
            return f"({left} {_OPERATORS[type(node.op)]} {right})"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return f"(-{self._text(node.operand)})"
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return f"({node.value!r})"
        kinds = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Starred)
        self.is_one = self.is_one and not isinstance(node, kinds) and (not self.operations or _is_pure(node))
        key = ast.dump(node) if isinstance(node, ast.Name) else id(node)
        if key not in self._names:
            self._names[key] = len(self.leaves)
            self.leaves.append(node)
        return _LETTERS[self._names[key] % len(_LETTERS)]


class _Chains(ast.NodeTransformer):
    """Replaces chains, and calls of the functions with these names. own: the name of the module, or None in a function."""

    def __init__(self, own, functions):
        self.own, self.functions, self.found = own, functions, False

    def visit_nested(self, node):
        return node

    # In nested scopes names may differ.
    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_nested
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_nested

    def _method(self, name):
        return ast.Attribute(ast.Name(self.own, ast.Load()), name, ast.Load()) if self.own else ast.Name(name, ast.Load())

    def visit_BinOp(self, node):
        chain = _Chain(node)
        if not chain.is_one:
            return self.generic_visit(node)
        self.found = True
        _known(chain.text, len(chain.leaves))
        leaves = [self.visit(each) for each in chain.leaves]
        made = ast.Call(self._method(CALL), [ast.Constant(chain.text), *leaves], [])
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id in self.functions:
            self.found = True
            node.func = ast.copy_location(self._method(FUNCTION + node.func.id), node.func)
            ast.fix_missing_locations(node)
        return self.generic_visit(node)


def _known(text, count):
    """Makes the function of a text of sums and products. Its source is kept where the compiler of expressions looks for it."""
    if text in _plain:
        return
    source, file = f"def chain({', '.join(_LETTERS[:count])}):\n    return {text}\n", f"<tile_ops chain {text}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    space = {}
    exec(compile(source, file, "exec"), space)
    _plain[text] = space["chain"]


def change(functions=(), method=True):
    """Returns a change for source_rewrite: chains become calls of CALL, and so do calls of the functions with these names. method:
    whether those are methods of the module; otherwise CALL is a parameter that the function gets."""

    def changed(function, code):
        own = code.co_varnames[0] if method else None
        names = {own} if method else {CALL}
        if any(
            isinstance(each, ast.Name) and each.id in names and not isinstance(each.ctx, ast.Load)
            for each in ast.walk(function)
        ):
            return False
        if not method:
            function.args.kwonlyargs.append(ast.copy_location(ast.arg(CALL), function))
            function.args.kw_defaults.append(None)
        chains = _Chains(own, set(functions) - set(code.co_varnames))
        function.body = [chains.visit(statement) for statement in function.body]
        return chains.found

    return changed


def _functions(forward):
    """Returns {name: the same function with its chains replaced} for the functions of a forward's file that it calls."""
    inner = inspect.unwrap(forward)
    found = {}
    for name in inner.__code__.co_names:
        function = inner.__globals__.get(name)
        if (
            type(function) is not types.FunctionType
            or function.__module__ != inner.__module__
            or hasattr(function, "__wrapped__")
        ):
            continue
        made = source_rewrite.changed(function, [change(method=False)])
        if made is not None and not made.__closure__:
            made.__kwdefaults__ = {**(function.__kwdefaults__ or {}), CALL: chain}
            found[name] = made
    return found


def methods(forward):
    """Returns what a class needs for the change of this forward: {name: static method}; empty if there is no chain."""
    if not source_rewrite.is_known(forward):
        return {}
    functions = _functions(forward)
    if source_rewrite.changed(forward, [change(functions)]) is None:
        return {}
    return {CALL: staticmethod(chain)} | {FUNCTION + name: staticmethod(each) for name, each in functions.items()}


def chain(text, *values):
    """Computes a chain of the values, by one kernel of ours if all tensors are plain and no gradient is wanted."""
    if not is_dynamo_compiling():
        result = _at_once(text, values)
        if result is not NotImplemented:
            return result
    return _plain[text](*values)


def _at_once(text, values):
    kinds = (text, *map(type, values))
    call = _calls.get(kinds, kinds)
    if call is kinds:
        call = _made(kinds)
    if call is None:
        return NotImplemented
    tensors = [each for each in values if type(each) in _TENSORS]
    if max(each.numel() for each in tensors) < LEAST_ELEMENTS:
        return NotImplemented
    if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        return NotImplemented
    return call(None, *values)


def _made(kinds):
    """Returns the call for a text and the types of its values, None if it is not ours for those."""
    text, *types_ = kinds
    with _lock:
        if kinds not in _calls:
            known = all(each in (*_TENSORS, int, float) for each in types_) and any(each in _TENSORS for each in types_)
            _calls[kinds] = _registered(text, types_) if known else None
    return _calls[kinds]


def _registered(text, types_):
    declared = ["Tensor" if each in _TENSORS else "float" for each in types_]
    name = "chain_" + hashlib.sha256(f"{text} {declared}".encode()).hexdigest()[:16]
    if not hasattr(torch.ops.tile_chains, name):
        arguments = ", ".join(f"{kind} {letter}" for kind, letter in zip(declared, _LETTERS))
        _operators.elementwise(f"tile_chains::{name}({arguments}) -> Tensor")(_plain[text])
    return direct.operator(f"tile_chains::{name}", len(types_))
