"""elementwise and reduction: operators of a few lines, whose kernels, shapes and gradients follow from expressions."""

import inspect
import types

from .. import _C, _sharding
from .._sharding.named import reduction_rule
from ..language.capture import Capture
from . import expressions
from .torch_op import TorchOp

_TYPES = {inspect.Parameter.empty: "Tensor", float: "float", int: "int", bool: "bool", str: "str"}
_KINDS = ("sum", "prod", "max", "min")


def _listed():
    return ", ".join(repr(each) for each in _KINDS)


def _schema_of(function, what):
    """Returns the schema of a function's signature; the namespace is the last name of its module."""
    parts, results = [], 1
    for name, parameter in inspect.signature(function).parameters.items():
        kind = parameter.annotation
        kind = {"float": float, "int": int, "bool": bool, "str": str}.get(kind, kind)
        if kind not in _TYPES and getattr(kind, "__name__", "") != "Tensor" and kind != "Tensor":
            raise TypeError(
                f"{what}: {function.__name__}: parameter '{name}' is {kind!r}; leave a tensor without, or write float, int, bool or str"
            )
        default = "" if parameter.default is parameter.empty else f"={_written(parameter.default)}"
        parts.append(f"{_TYPES.get(kind, 'Tensor')} {name}{default}")
    namespace = function.__module__.rpartition(".")[2].strip("_")
    return f"{namespace}::{function.__name__}({', '.join(parts)}) -> ({', '.join(['Tensor'] * results)})"


def _written(value):
    return f'"{value}"' if isinstance(value, str) else repr(value)


class _Expression(TorchOp):
    """An operator that _C makes from expressions."""

    def __init__(self, text, make, sharding, of_gradient=None):
        super().__init__(text, {"sharding": sharding})
        self._make, self._of_gradient = make, of_gradient

    def _register_sharding(self):
        super()._register_sharding()
        name = f"{self._schema.name}_backward"
        if self._of_gradient is None:
            self._register_gradient_sharding(name)
        else:
            _sharding.define(name, self._of_gradient)

    def _handle_of(self, replace, location):
        return self._make(self.schema_text, replace, *location)


def elementwise(schema=None):
    """Makes a torch operator from a function of scalars: @elementwise("ns::name(Tensor x, float a=1.0) -> Tensor").

    The function is written in tile_ops.language and gets tiles. It may use what works on each element alone. The derivative
    of the expression gives the gradient. @elementwise without a schema takes it from the signature: parameters without an
    annotation are tensors, and the module is the namespace.

    Shapes: tensors of any shapes and strides broadcast as torch's do; several results are a tuple.
    Dtypes: tensors promote as torch's do, and bool stays bool. A result has the promoted dtype, or that of the expression if
    it is another, such as bool for a comparison. float16 and bfloat16 are computed in float32. Other parameters are float,
    int, Scalar, bool and str; bool and str are known when the kernel is compiled.
    Errors: TypeError for a schema that an expression cannot have. Errors in the function are raised at the first call.

    Returns a TorchOp.
    """

    def define(function):
        if not isinstance(function, types.FunctionType):
            raise TypeError(f"elementwise: {function!r} is not a function")
        text = schema or _schema_of(function, "elementwise")
        capture = Capture()
        translate = expressions.expression(function, capture)

        def make(text, replace, file, line):
            return _C.define_elementwise(text, replace, file, line, translate, capture)

        return _Expression(text, make, "pointwise")._define(function, {})

    if isinstance(schema, types.FunctionType):
        function, schema = schema, None
        return define(function)
    return define


def reduction(schema=None, combine=None, *, map=None, finish=None, identity=None):
    """Makes a torch operator that reduces axes: @reduction("ns::name(Tensor x) -> Tensor", "sum").

    A decorated function is the part `map`. A class may have these parts:

    map: gets the elements of the tensors and returns what is combined, a tile or several. Without it the elements of the one
    tensor are combined.
    combine: "sum", "prod", "max", "min", or an associative and commutative function of two values (of N + N) that gives one
    (N).
    identity: the number, or the tuple of N, that changes nothing when it is combined.
    finish: gets the totals, and the number of elements if it has a parameter `count`, and returns the results.

    The operator has the further arguments dim=None (an axis, several, or all) and keepdim=False. A sum has a gradient.

    Shapes: tensors broadcast as torch's do; the result lacks the axes in dim, or has extent 1 there with keepdim.
    Dtypes: tensors promote as torch's do. Sums and products of integers are int64. max and min keep NaN.
    Errors: TypeError for parts that do not fit, ValueError if max or min get no elements.

    Returns a TorchOp.
    """

    def define(source):
        parts = {"map": map, "combine": combine, "finish": finish, "identity": identity}
        if inspect.isclass(source):
            for name, value in vars(source).items():
                value = value.__func__ if isinstance(value, staticmethod) else value
                if name in parts:
                    parts[name] = value
                elif not name.startswith("_"):
                    raise TypeError(f"reduction: '{name}' is not a part of {source.__name__}; they are {', '.join(parts)}")
        elif isinstance(source, types.FunctionType):
            parts["map"] = source
        else:
            raise TypeError(f"reduction: {source!r} is neither a function nor a class")
        text = schema or _schema_of(parts["map"] or _missing(source, "a schema or a map"), "reduction")
        make = _reducer(text.split("(")[0], parts)
        rule = reduction_rule(parts["combine"], parts["finish"] is not None)
        return _Expression(text, make, rule, rule)._define(source, {})

    if isinstance(schema, types.FunctionType) or inspect.isclass(schema):
        source, schema = schema, None
        return define(source)
    return define


def _missing(source, what):
    raise TypeError(f"reduction: {source.__name__} has no {what}")


def _reducer(name, parts):
    combine, identity, finish = parts["combine"], parts["identity"], parts["finish"]
    kind = combine if isinstance(combine, str) else "own"
    if combine is None:
        raise TypeError(f"{name}: has no combine; give {_listed()} or a function of two values")
    if kind != "own" and kind not in _KINDS:
        raise TypeError(f"{name}: combine is {combine!r}; it is {_listed()} or a function")
    if kind == "own" and identity is None:
        raise TypeError(f"{name}: combine is a function and needs an identity, the number that changes nothing")
    if kind != "own" and identity is not None:
        raise TypeError(f"{name}: combine is {combine!r}, which has its own identity; leave identity out")
    numbers = () if identity is None else identity if isinstance(identity, tuple) else (identity,)
    totals = sum(each != "count" for each in inspect.signature(finish).parameters) if finish else 1

    capture = Capture()

    def make(text, replace, file, line):
        return _C.define_reduction(
            text,
            replace,
            file,
            line,
            parts["map"] and expressions.expression(parts["map"], capture),
            kind,
            expressions.combination(combine, capture) if kind == "own" else None,
            tuple(float(each) for each in numbers),
            finish and expressions.finishing(finish, totals, capture),
            totals,
            capture,
        )

    return make
