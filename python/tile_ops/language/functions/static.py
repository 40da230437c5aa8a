"""What runs while a kernel is compiled: static_eval, static_assert, static_iter, ensure_constant."""

import ast
import itertools

from ..core.debugging import debugging
from ..core.errors import TileError, TileStaticAssertionError, TileStaticEvalError, TileSyntaxError, TileTypeError
from ..core.registry import evaluating, language_function
from ..core.values import Array, Range, Strict, Tile, TiledView, constant_of, is_constant, shown, shown_shape

_MOST = 1000  # items of a static_iter


class SpecialForm:
    """A function of the language that takes its arguments' text; it is called directly, and by position alone."""

    language_value = True

    def __init__(self, function):
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
        self._function = function

    def __call__(self, *arguments, **_):
        if debugging.session:
            return debugging.session.language(self, arguments, {})
        raise RuntimeError("Device functions can only be called from device code.")

    def lower(self, translator, node):
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            raise TileSyntaxError(f"{self.__name__}() takes positional arguments only")
        return self._function(translator, *self._checked(node.args))

    def _checked(self, arguments):
        texts = {
            "static_eval": (1, 1, "a single expression"),
            "static_assert": (1, 2, "a condition and perhaps a message"),
        }
        least, most, what = texts.get(self.__name__, (1, 1, "a single iterable"))
        if not least <= len(arguments) <= most:
            raise TileSyntaxError(f"{self.__name__}() expects {what}")
        return arguments


class _Proxy:
    """A value of the running kernel inside of static_eval: its type, and operators that build an expression."""

    def __init__(self, translator, value):
        self._translator, self._value = translator, value

    def __getattr__(self, name):
        if name not in ("dtype", "shape", "ndim", "strides"):
            raise AttributeError(f"No such attribute '{name}' inside static_eval()")
        return proxied(self._translator, self._translator.attribute(self._value, name))

    def __repr__(self):
        if isinstance(self._value, Array):
            return f"<array[{self._value.dtype}, {self._value.ndim}]>"
        shape = (
            shown_shape(self._value.shape).replace(",", ", ")
            if len(self._value.shape) != 1
            else f"({self._value.shape[0]},)"
        )
        return f"<tile[{self._value.dtype}, {shape}]>"

    def __index__(self):
        raise TypeError("Symbolic tile has no concrete value and thus cannot be converted to an integer")

    __int__ = __index__

    def __iter__(self):
        raise TypeError(f"{self!r} has no items while the kernel is compiled; loop over range(...)")

    def __bool__(self):
        raise TypeError("Symbolic tile has no concrete value and thus cannot be converted to a boolean")

    __hash__ = object.__hash__


def _operators():
    def binary(node, swapped):
        def apply(self, other):
            values = (self._value, plain(other))
            values = values[::-1] if swapped else values
            return proxied(self._translator, self._translator.binary(node, *values))

        return apply

    def comparison(node):
        return lambda self, other: proxied(self._translator, self._translator.compared(node, self._value, plain(other)))

    names = {
        "add": ast.Add, "sub": ast.Sub, "mul": ast.Mult, "truediv": ast.Div, "floordiv": ast.FloorDiv, "mod": ast.Mod,
        "pow": ast.Pow, "matmul": ast.MatMult, "and": ast.BitAnd, "or": ast.BitOr, "xor": ast.BitXor, "lshift": ast.LShift,
        "rshift": ast.RShift,
    }  # fmt: skip
    for name, node in names.items():
        setattr(_Proxy, f"__{name}__", binary(node(), False))
        setattr(_Proxy, f"__r{name}__", binary(node(), True))
    for name, node in {"lt": ast.Lt, "le": ast.LtE, "gt": ast.Gt, "ge": ast.GtE, "eq": ast.Eq, "ne": ast.NotEq}.items():
        setattr(_Proxy, f"__{name}__", comparison(node()))
    _Proxy.__neg__ = lambda self: proxied(self._translator, self._translator.negated(self._value))


def proxied(translator, value):
    """A value of the kernel as Python's own code sees it."""
    if isinstance(value, Strict):
        return value.value
    if isinstance(value, (Tile, Array)):
        return _Proxy(translator, value)
    if type(value) is tuple:
        return tuple(proxied(translator, item) for item in value)
    if isinstance(value, Range) and all(is_constant(each) for each in (value.start, value.stop, value.step)):
        return range(*map(constant_of, (value.start, value.stop, value.step)))
    return value


def plain(value):
    """The kernel's value of what Python's own code made."""
    if isinstance(value, _Proxy):
        return value._value
    return tuple(map(plain, value)) if type(value) is tuple else value


class _Names(dict):
    """The names that static_eval sees; a proxy is made where one is read."""

    def __init__(self, translator):
        scopes, scope = [], translator.scope
        while scope is not None:
            scopes.append(scope)
            scope = scope.outer
        function = scopes[-1].function
        super().__init__(function.__globals__)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            self[name] = cell.cell_contents
        for scope in reversed(scopes):
            self.update({name: proxied(translator, binding.value) for name, binding in scope.names.items()})


def evaluated(translator, node, what):
    """The value of an expression by Python itself."""
    if evaluating.function:
        raise TileStaticEvalError(f"{what}() cannot be used inside {evaluating.function}().")
    local = set(translator.scope.names)
    for each in ast.walk(node):
        if isinstance(each, ast.NamedExpr) and each.target.id in local:
            raise TileStaticEvalError(f"{what}() attempted to modify a local variable '{each.target.id}'")
        if isinstance(each, ast.Call) and isinstance(each.func, (ast.Name, ast.Attribute)):
            _refuse_nested(translator, each.func, what)
    code = compile(ast.Expression(node), translator.scope.source.file, "eval")
    evaluating.function = what
    try:
        return eval(code, _Names(translator))  # noqa: S307 the user's own text
    except TileError:
        raise
    except Exception as error:
        raise TileStaticEvalError(f"Exception was raised inside {what}() ({type(error).__name__}: {error})") from error
    finally:
        evaluating.function = None


def _refuse_nested(translator, function, what):
    try:
        callee = translator.value(function)
    except TileError:
        return
    if isinstance(callee, SpecialForm):
        raise TileStaticEvalError(f"{callee.__name__}() cannot be used inside {what}().")


@SpecialForm
def static_eval(translator, node):
    """The value of any Python expression of constants, computed while the kernel is compiled."""
    value = evaluated(translator, node, "static_eval")
    if isinstance(value, (list, dict, set)):
        raise TileTypeError(f"Cannot create constant from value of type {type(value).__name__}.")
    return (
        translator.host_value(plain(value)) if not isinstance(plain(value), (Tile, Array, TiledView)) else plain(value)
    )


@SpecialForm
def static_assert(translator, node, message=None):
    """Raises TileStaticAssertionError while the kernel is compiled unless a constant condition holds."""
    condition = translator.value(node)
    if isinstance(condition, Tile):
        raise TileTypeError("static_assert: the condition must be a compile-time constant; assert_() checks while it runs")
    if not isinstance(condition, bool):
        raise TileTypeError(f"static_assert: the condition must be a boolean, got {shown(condition)}")
    if condition:
        return None
    text = evaluated(translator, message, "static_assert") if message is not None else None
    raise TileStaticAssertionError(f"Static assertion failed: {text}" if text else "Static assertion failed")


@SpecialForm
def static_iter(translator, node):
    """The items of an iterable, each in a copy of the loop's body: `for i in static_iter(range(4))`."""
    raise TileSyntaxError("static_iter() is only allowed as iterable in a `for` loop")


def items_of(translator, node):
    """The items of the iterable of a static_iter(…)."""
    translator.node = node
    iterable = evaluated(translator, static_iter._checked(node.args)[0], "static_iter")
    try:
        items = list(itertools.islice(iter(iterable), _MOST + 1))
    except TypeError as error:
        raise TileTypeError(str(error)) from None
    if len(items) > _MOST:
        raise TileTypeError(f"Maximum number of iterations ({_MOST}) has been reached while unrolling static_iter()")
    made = []
    for place, item in enumerate(items):
        try:
            value = plain(item)
            made.append(value if isinstance(value, (Tile, Array, TiledView)) else translator.host_value(value))
        except TileError as error:
            raise TileTypeError(f"Invalid item #{place} of static_iter() iterable: {error.message}") from None
    return made


@language_function
def ensure_constant(translator, value, /):
    """The value, which must be known while the kernel is compiled."""
    if isinstance(value, (Tile, Array)):
        raise TileStaticAssertionError(f"the value of type {shown(value)} is not a compile-time constant")
    return value


_operators()
