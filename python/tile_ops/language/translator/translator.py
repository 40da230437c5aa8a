"""Translator: turns the syntax tree of a kernel's function into Tile IR. This file translates expressions."""

import ast
import dataclasses
import enum
import types

from . import attributes, dictionary, enumerations
from ..core import advice, dtypes
from ..core.checks import require_defined
from ..functions.arithmetic import BINARY, SIGNS, bitwise_not, logical_not, negative, nonzero
from .calls import Calls
from .comparisons import Comparisons
from ..core.emit import Emitter
from ..core.errors import TileError, TileRecursionError, TileSyntaxError, TileTypeError
from ..core.reads import note_value
from .callables import wrapped_function
from ..functions.products import matmul
from ..functions.proxies import SYMBOLIC, Proxy
from .records import Record, require_frozen
from ..core.registry import HelperFunction, LanguageFunction
from .scope import Scope
from .statements import Statements
from ..functions.static import SpecialForm, items_of, static_iter
from ..functions.text import Text, formatted, joined_text
from .unsupported import unsupported_syntax
from ..core.values import LocalFunction, Partial, Range, Strict, Tile, constant_of, is_constant, is_loose, shown, to_load

_MODULE_LEVEL = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    type,
    LanguageFunction,
    HelperFunction,
    SpecialForm,
    dtypes.DType,
)
# The kernel's own values that static_eval may return.
_OF_KERNELS = (*SYMBOLIC, Strict, Range, Partial, Record)


class Translator(Statements, Calls, Comparisons):
    """Translates one kernel. `emitter` makes the operations; `scope` has the names of the current function."""

    def __init__(self, builder, cutile):
        self.scope, self.node, self.depth = None, None, 0
        self.classes = {}  # by class statement: the captured values, and the class
        self.trying, self.noted, self.expected = False, [], []  # state of loops.Loops
        self.emitter = Emitter(builder, self._location, cutile)

    def _location(self):
        if self.node is None:
            return self.scope.source.file, self.scope.source.node.lineno, 1
        return self.scope.source.file, self.node.lineno, self.scope.source.columns(self.node)[0]

    def frame(self):
        """Returns the current location, for errors."""
        node = self.node or self.scope.source.node
        first, end = self.scope.source.columns(node)
        return {"function": self.scope.name, "file": self.scope.source.file, "line": node.lineno, "column": first, "end": end}

    def value(self, node):
        """Returns the value of an expression. If it raises, `node` stays at the innermost one."""
        outer, self.node = self.node, node
        method = getattr(self, "_" + type(node).__name__, None)
        if method is None:
            raise unsupported_syntax(node)
        value = method(node)
        self.node = outer
        return value

    def _Constant(self, node):
        if isinstance(node.value, (bytes, complex)):
            raise TileSyntaxError(
                f"Unsupported syntax: a constant of type {type(node.value).__name__}; kernels know bool, int, float and str"
            )
        return node.value

    def _Name(self, node):
        value, host = self.scope.find(node.id)
        return self.host_value(value) if host else require_defined(node.id, value)

    def host_value(self, value):
        """Returns a Python value as a value of the kernel. Error: it cannot be one."""
        if isinstance(value, Proxy):
            return value._value
        if isinstance(value, _OF_KERNELS):
            return value
        note_value(value)
        if (
            type(value).__module__ == "numpy"
            and getattr(getattr(value, "dtype", None), "kind", "") in tuple("biuf")
            and not value.shape
        ):
            dtype = dtypes.known(value.dtype)
            return Strict(value.item(), dtype) if dtype is not None else value.item()
        if value is None or is_loose(value) or isinstance(value, (str, enum.Enum, *_MODULE_LEVEL)):
            return value
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            require_frozen(type(value))
            fields = {field.name: self.host_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return Record(type(value), fields)
        if value is Ellipsis or isinstance(value, slice) or dtypes.known(value) is not None:
            return value
        if type(value) is tuple:
            return tuple(self.host_value(item) for item in value)
        if getattr(value, "language_value", False):
            return value
        function = wrapped_function(self, value)
        if function is not None:
            return function
        name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise TileTypeError(f"Cannot create constant from value of type {name}; pass it as an argument of the kernel")

    def _Attribute(self, node):
        return self.attribute(self.value(node.value), node.attr)

    def attribute(self, owner, name):
        return attributes.attribute(self, owner, name)

    def item(self, owner, index):
        return attributes.item(self, owner, index)

    def _Tuple(self, node):
        return self.listed(node.elts)

    def listed(self, nodes):
        """Returns the values of a tuple's items or of a call's arguments, with *items unpacked."""
        items = []
        for each in nodes:
            if not isinstance(each, ast.Starred):
                items.append(self.value(each))
                continue
            value = self.value(each.value)
            if type(value) is not tuple:
                raise TileTypeError(f"Expected a tuple after *, got {shown(value)}")
            items.extend(value)
        return tuple(items)

    def _Dict(self, node):
        made = {}
        for key, each in zip(node.keys, node.values):
            name = None if key is None else dictionary.key(self.value(key))
            value = self.value(each)
            if key is not None:
                made[name] = value
            elif type(value) is dict:
                made.update(value)
            else:
                raise TileTypeError(f"Expected a dictionary after **, got {shown(value)}")
        return made

    def _BinOp(self, node):
        return self.binary(node.op, self.value(node.left), self.value(node.right))

    def binary(self, operator, x, y):
        name = type(operator).__name__
        if type(x) is tuple and type(y) is tuple and name == "Add":
            return x + y
        if isinstance(x, (str, Text)) and isinstance(y, (str, Text)) and name == "Add":
            return x + y if isinstance(x, str) and isinstance(y, str) else joined_text(self, x, y)
        if type(x) is dict and type(y) is dict and name == "BitOr":
            return x | y
        if isinstance(x, enum.Flag) and isinstance(y, enum.Flag) and name in ("BitAnd", "BitOr", "BitXor"):
            return enumerations.combined(name, x, y)
        if name == "Mult" and tuple in (type(x), type(y)):
            items, count = (x, y) if type(x) is tuple else (y, x)
            if is_constant(count) and isinstance(constant_of(count), int):
                return items * constant_of(count)
            if isinstance(count, Tile) and count.shape == ():
                raise TileTypeError(f"A tuple is repeated a constant number of times, not {shown(count)}")
        for value in (x, y):
            if not (isinstance(value, Tile) or is_constant(value)):
                raise TileTypeError(f"Unsupported operand types for {SIGNS[name]}: {shown(x)} and {shown(y)}{to_load(x, y)}")
        return (matmul if name == "MatMult" else BINARY[name]).lower(self, (x, y), {})

    def _UnaryOp(self, node):
        return self.signed(node.op, self.value(node.operand))

    def signed(self, operator, x):
        name = type(operator).__name__
        if name == "Invert" and isinstance(x, enum.Flag):
            return ~x
        if name == "Not":
            return logical_not.lower(self, (x,), {}) if isinstance(x, Tile) else not self.known_truth(x)
        if not (isinstance(x, Tile) or is_constant(x)):
            raise TileTypeError(f"Unsupported operand type for {SIGNS[name]}: {shown(x)}{to_load(x)}")
        if name == "UAdd":
            return x
        return (negative if name == "USub" else bitwise_not).lower(self, (x,), {})

    def known_truth(self, value):
        """Returns the truth of a compile-time value; None for a value of the running kernel."""
        if isinstance(value, Tile):
            self._require_condition(value)
            return None
        if is_constant(value):
            return bool(constant_of(value))
        if value is None or isinstance(value, (str, tuple, dict, enum.Enum)):
            return bool(value)
        raise TileTypeError(f"Expected a scalar, got {shown(value)}")

    def condition(self, value):
        """Returns a scalar of the running kernel as bool."""
        return nonzero(self, self._require_condition(value))

    def _require_condition(self, value):
        if isinstance(value, Tile) and value.shape:
            m = advice.module_name(self.emitter.cutile)
            raise TileTypeError(
                f"Expected a scalar, got {shown(value)}; {m}.where(condition, x, y) chooses for each element, and "
                f"{m}.max(condition) or {m}.min(condition) is true where any or all are"
            )
        return value

    def _BoolOp(self, node):
        stops = isinstance(node.op, ast.Or)  # the truth value that ends the evaluation

        def rest(values):
            first = self.value(values[0])
            if len(values) == 1:
                return first
            known = self.known_truth(first)
            if known is not None:
                return (known if is_loose(first) else first) if known == stops else rest(values[1:])

            def other():
                value = rest(values[1:])
                truth = self.known_truth(value)
                return self.condition(value) if truth is None else truth

            ways = (lambda: True, other) if stops else (other, lambda: False)
            return self.chosen(self.condition(first), ways, "and/or")

        value = rest(node.values)
        return bool(value) if is_loose(value) else value

    def _IfExp(self, node):
        test = self.value(node.test)
        known = self.known_truth(test)
        if known is not None:
            return self.value(node.body if known else node.orelse)
        return self.chosen(
            self.condition(test), (lambda: self.value(node.body), lambda: self.value(node.orelse)), "x if c else y"
        )

    def _Subscript(self, node):
        owner = self.value(node.value)
        return self.item(owner, self._index(node.slice))

    def _index(self, node):
        if isinstance(node, ast.Slice):
            return slice(*(None if part is None else self.value(part) for part in (node.lower, node.upper, node.step)))
        if isinstance(node, ast.Tuple):
            if any(isinstance(item, ast.Starred) for item in node.elts):
                return self.listed(node.elts)
            return tuple(self._index(item) for item in node.elts)
        return self.value(node)

    def _GeneratorExp(self, node):
        raise TileSyntaxError("Unsupported syntax: a generator; write tuple(x for a in static_iter(...))")

    def generated(self, node):
        """Returns the items of the generator in tuple(...)."""
        made, outer = [], self.scope
        targets = [each.id for clause in node.generators for each in ast.walk(clause.target) if isinstance(each, ast.Name)]
        inner = Scope(outer.name, outer.source, None, outer, targets)

        def run(clauses):
            if not clauses:
                made.append(self.value(node.elt))
                return
            clause = clauses[0]
            if not self.is_static_iter(clause.iter):
                module = "ct" if self.emitter.cutile else "tl"
                raise TileSyntaxError(f"All iterables in a tuple comprehension must be wrapped in {module}.static_iter()")
            if clause is node.generators[0]:
                self.scope = outer  # Python evaluates the first iterable in the outer scope
            items = items_of(self, clause.iter)
            self.scope = inner
            for item in items:
                self.assign(clause.target, item)
                tests = [self.known_truth(self.value(test)) for test in clause.ifs]
                if None in tests:
                    raise TileTypeError("if-conditions must be statically known in a tuple comprehension")
                if all(tests):
                    run(clauses[1:])

        try:
            run(node.generators)
        finally:
            self.scope, inner.open = outer, False
        return tuple(made)

    def is_static_iter(self, node):
        """Returns True if an expression is static_iter(...)."""
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, (ast.Name, ast.Attribute))
            and self.value(node.func) is static_iter
        )

    def _JoinedStr(self, node):
        return formatted(self, node)

    def _Lambda(self, node):
        return self.local_function("<lambda>", node)

    def local_function(self, name, node):
        defaults = [self.value(each) for each in node.args.defaults]
        named = [None if each is None else self.value(each) for each in node.args.kw_defaults]
        return LocalFunction(name, node, self.scope, defaults, named)

    def run_kernel(self, scope, body):
        """Translates the kernel's own body: statements, or the expression of a lambda. Errors get its position."""
        self.scope = scope
        try:
            if isinstance(body, list):
                self.body(body)
            else:
                self.require_nothing(self.value(body))
        except TileError as error:
            error.frames.insert(0, self.frame())
            raise
        except RecursionError:
            error = TileRecursionError("Calls are nested too deeply; a recursion needs an end that constants decide")
            error.frames.append(self.frame())
            raise error from None
