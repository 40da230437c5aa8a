"""Converts values of a kernel to objects that plain Python code can use inside of static_eval, and back."""

import ast
import contextlib
import functools

from ..core.errors import TileStaticEvalError, TileTypeError
from ..core.registry import evaluating
from ..core.values import (
    Array,
    ArrayChoice,
    ArrayList,
    FunctionChoice,
    LocalFunction,
    Method,
    Range,
    RawMemory,
    Strict,
    Tile,
    TiledView,
    constant_of,
    is_constant,
    shown,
)


class Proxy:
    """A value of the running kernel inside of static_eval: its attributes, and operators that emit operations."""

    def __init__(self, translator, value):
        self._translator, self._value = translator, value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return proxied(self._translator, self._translator.attribute(self._value, name))
        except TileTypeError as error:
            raise AttributeError(error.message) from None

    def __call__(self, *_, **__):
        name = getattr(self._value, "name", None) or getattr(getattr(self._value, "function", None), "__name__", None)
        if name is None:
            raise TypeError(f"'{shown(self._value)}' object is not callable")
        raise TileStaticEvalError(
            f"{name}() cannot be called inside {evaluating.function}(); call the result of static_eval({name})"
        )

    def __getitem__(self, index):
        return proxied(self._translator, self._translator.item(self._value, plain(index)))

    def __len__(self):
        if isinstance(self._value, ArrayList):
            return len(self._value.items)
        raise TypeError(f"object of type {shown(self._value)} has no len()")

    def __repr__(self):
        value = self._value
        if isinstance(value, (Array, ArrayChoice)):
            first = value.items[0] if isinstance(value, ArrayChoice) else value
            return f"<array[{value.dtype}, {_shape([first.extents.get(axis, '?') for axis in range(first.ndim)])}]>"
        return f"<tile[{value.dtype}, {_shape(value.shape)}]>" if isinstance(value, Tile) else f"<{shown(value)}>"

    def __index__(self):
        raise TypeError("Symbolic tile has no concrete value and thus cannot be converted to an integer")

    __int__ = __index__

    def __float__(self):
        raise TypeError("Symbolic tile has no concrete value and thus cannot be converted to a float")

    def __iter__(self):
        if isinstance(self._value, ArrayList):
            return (proxied(self._translator, item) for item in self._value.items)
        raise TypeError(f"{self!r} has no items while the kernel is compiled; loop over range(...)")

    def __bool__(self):
        raise TypeError("Symbolic tile has no concrete value and thus cannot be converted to a boolean")

    __hash__ = object.__hash__


def _shape(extents):
    return f"({', '.join(map(str, extents))}{',' if len(extents) == 1 else ''})"


def _operators():
    def binary(node, swapped):
        def apply(self, other):
            values = (self._value, plain(other))
            values = values[::-1] if swapped else values
            return proxied(self._translator, self._translator.binary(node, *values))

        return apply

    def comparison(node):
        return lambda self, other: proxied(self._translator, self._translator.compared(node, self._value, plain(other)))

    def unary(node):
        return lambda self: proxied(self._translator, self._translator.signed(node, self._value))

    def builtin(function, swapped=False):
        def apply(self, *others):
            values = (self._value, *map(plain, others))
            return proxied(self._translator, self._translator.call(function, values[::-1] if swapped else values, {}))

        return apply

    names = {
        "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "floordiv": ast.FloorDiv, "mod": ast.Mod,
        "pow": ast.Pow, "matmul": ast.MatMult, "and": ast.BitAnd, "or": ast.BitOr, "xor": ast.BitXor, "lshift": ast.LShift,
        "rshift": ast.RShift,
    }  # fmt: skip
    for name, node in names.items():
        setattr(Proxy, f"__{name}__", binary(node(), False))
        setattr(Proxy, f"__r{name}__", binary(node(), True))
    for name, node in {"lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE, "eq": ast.Eq, "ne": ast.NotEq}.items():
        setattr(Proxy, f"__{name}__", comparison(node()))
    for name, node in {"neg": ast.USub, "pos": ast.UAdd, "invert": ast.Invert}.items():
        setattr(Proxy, f"__{name}__", unary(node()))
    Proxy.__abs__, Proxy.__divmod__, Proxy.__rdivmod__ = builtin(abs), builtin(divmod), builtin(divmod, True)


SYMBOLIC = (Tile, Array, ArrayChoice, ArrayList, TiledView, RawMemory, Method, LocalFunction, FunctionChoice)


def proxied(translator, value):
    """Returns a value of the kernel as an object for plain Python code."""
    if isinstance(value, Strict):
        return value.value
    if isinstance(value, SYMBOLIC):
        return Proxy(translator, value)
    if type(value) is tuple:
        return tuple(proxied(translator, item) for item in value)
    if type(value) is dict:
        return {key: proxied(translator, item) for key, item in value.items()}
    if getattr(value, "record_kind", None) is not None:
        made = object.__new__(value.record_kind)
        for name, item in value.fields.items():
            object.__setattr__(made, name, proxied(translator, item))
        return made
    if isinstance(value, Range) and all(is_constant(each) for each in (value.start, value.stop, value.step)):
        return range(*map(constant_of, (value.start, value.stop, value.step)))
    return value


def plain(value):
    """Replaces the proxies in a Python object, also inside of tuples and dictionaries, by the kernel's values."""
    if isinstance(value, Proxy):
        return value._value
    if type(value) is tuple:
        return tuple(map(plain, value))
    return {key: plain(item) for key, item in value.items()} if type(value) is dict else value


@contextlib.contextmanager
def evaluation(translator, what):
    """Lets plain Python code inside the `with` block call functions of the language. what: its name in errors."""
    before = evaluating.function, evaluating.call
    evaluating.function, evaluating.call = what, functools.partial(_host_call, translator)
    try:
        yield
    finally:
        evaluating.function, evaluating.call = before


def _host_call(translator, function, arguments, named):
    """Calls a language function from plain Python code. Error: the function depends on more than its operands."""
    if not function.of_values:
        raise TileStaticEvalError(f"{function.__name__}() cannot be called inside {evaluating.function}()")
    given = tuple(map(plain, arguments)), {name: plain(each) for name, each in named.items()}
    return proxied(translator, function.lower(translator, *given))


_operators()
