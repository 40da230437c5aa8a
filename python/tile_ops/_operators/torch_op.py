"""op: torch operators defined in Python, with the same machinery as those in C++."""

import inspect
import types
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from .. import _C, _flops, _sharding
from ..language.core.named import Named
from . import automatic, gradient, parts
from .schema import parsed, results_of

_FUNCTIONS = ("outputs", "saved_outputs", "run", "grad", "flops")
_OPTIONS = ("saves", "autocast", "leading", "fold", "sums", "sharding")
_defined = {}  # name: (module, qualified name, location) of what defined it, so that a notebook's cell may run again
_Part = TypeVar("_Part", bound=Callable[..., Any])
_libraries: dict[str, Any] = {}  # torch unregisters an operator when its Library object is freed


def _location_of(value):
    code = getattr(value, "__code__", None)
    if code is None and inspect.isclass(value):
        functions = [each for each in vars(value).values() if inspect.isfunction(each)]
        code = min((each.__code__ for each in functions), key=lambda each: each.co_firstlineno, default=None)
    return (code.co_filename, code.co_firstlineno) if code else ("<python>", 0)


class TorchOp(Named):
    """A torch operator that was defined in Python. It is called as a function, and as torch.ops.<namespace>.<name>.

    outputs, saved_outputs, grad and flops may be given as decorators, too: @name.outputs. They take what they name of the
    operator's values, as the class form does; see help(tile_ops.op).

    Shapes and dtypes: those of the definition.
    Errors: torch's for arguments that do not fit the schema, and those of the operator's kernels. ValueError for a name that
    is defined already.
    """

    packet: Any  # torch.ops.<ns>.<name>

    def __init__(self, text: str, options: dict[str, Any]) -> None:
        self.schema_text, self._options = text, options
        self._schema = parsed(text)
        self._saved = results_of(options.get("saves") or "")
        self._handle, self._given = None, set()
        self._chooses = False  # the compiler chooses what is saved for the gradient
        self._functions: dict[str, Any] = {}  # outputs and run
        self._sharding = options.get("sharding")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.packet(*arguments, **named)

    def __repr__(self) -> str:
        return f"<tile_ops.op {self.schema_text}>"

    @property
    def overload(self) -> Any:
        """The OpOverload of torch, which torch.library.opcheck takes."""
        return self.packet.default

    def outputs(self, function: _Part) -> _Part:
        """Sets the function that allocates the results. It returns a tensor, or a tuple of them."""
        return self._give("outputs", function)

    def saved_outputs(self, function: _Part) -> _Part:
        """Sets the function that allocates the saved results. It may also take the results."""
        return self._give("saved_outputs", function)

    def grad(self, part: Any) -> Any:
        """Sets the gradient: a function of torch operations, a class with its own outputs and run, an operator's name, or
        "auto", which derives it from the kernels that run launches."""
        return self._give("grad", part)

    def flops(self, function: _Part) -> _Part:
        """Sets the function of the arguments that returns the number of floating-point operations, for
        torch.utils.flop_counter."""
        return self._give("flops", function)

    def _give(self, what, part):
        self._functions[what] = part
        getattr(self, "_set_" + what)(part)
        self._given.add(what)
        self._check()
        return part

    def _check(self):
        complete = "outputs" in self._given or not self._schema.results
        complete &= "saved_outputs" in self._given or not self._saved
        self._handle.check(complete)

    def _define(self, source, functions):
        """Defines the operator. source: the class or function that defines it."""
        location = _location_of(source)
        name, key = self._schema.name, (source.__module__, source.__qualname__)
        known = _defined.get(name)
        if known and known[0] != key:
            raise ValueError(
                f"{name}: is defined already, by {known[0][1]} at {known[1][0]}:{known[1][1]}; choose another name"
            )
        with warnings.catch_warnings():  # errors are raised instead
            warnings.simplefilter("ignore")
            self._handle = self._handle_of(known is not None, location)
            self._handle.check(False)
            _defined[name] = (key, location)
            self._chooses = automatic.chooses(self._schema, self._options, functions)
            self._set_options()
            self._functions.update(functions)
            for what in _FUNCTIONS:
                if what in functions:
                    getattr(self, "_set_" + what)(functions[what])
                    self._given.add(what)
            self._handle.check(True) if inspect.isclass(source) else self._check()
        self._register_sharding()
        namespace, bare = name.split("::")
        self.packet = getattr(getattr(torch.ops, namespace), bare)
        self.__name__, self.__module__, self.__qualname__ = bare, source.__module__, source.__qualname__
        self.__doc__ = inspect.getdoc(source)
        return self

    def _register_sharding(self):
        """Registers the sharding rule for DTensors."""
        _sharding.define(self._schema.name, self._sharding)

    def _register_gradient_sharding(self, name):
        """Registers a gradient operator without its own rule; the rule is derived from the operator's."""
        tensors = tuple(each.name for each in self._schema.arguments if each.is_tensor)
        results = tuple(each.name for each in (*self._schema.results, *self._saved))
        _sharding.define_gradient(name, self._sharding, tensors, results)

    def _handle_of(self, replace, location):
        return _C.define_operator(self.schema_text, replace, *location)

    def _set_options(self):
        options = self._options
        if options.get("saves"):
            self._handle.saves(options["saves"])
        elif self._chooses:
            self._handle.saves(f"Tensor {automatic.SAVED.name}", True)
        policy = options.get("autocast", "keep")
        self._handle.autocast(*((policy, policy) if isinstance(policy, str) else policy))
        rules = [rule for rule in ("leading", "fold") if options.get(rule)]
        if len(rules) == 2:
            raise TypeError(f"{self._schema.name}: leading and fold are two rules of vmap; give one")
        for rule in rules:
            getattr(self._handle, rule)(_names(options[rule]), _names(options.get("sums") or ()))

    def _set_outputs(self, function):
        schema = self._schema
        if isinstance(function, str):
            function = parts.like(function, len(schema.results))
        self._handle.outputs(*parts.bound(schema.name, "outputs", function, schema.arguments, schema.results))

    def _set_saved_outputs(self, function):
        schema = self._schema
        values = [*schema.arguments, *schema.results]
        self._handle.saved_outputs(*parts.bound(schema.name, "saved_outputs", function, values, self._saved))

    def _saved_in_gradient(self):
        return [automatic.SAVED] if self._chooses else self._saved

    def _set_run(self, function):
        schema = self._schema
        if self._chooses:
            names, saved = [*schema.arguments, *schema.results], automatic.SAVED
            allocate, function = automatic.saving_parts(schema, self._functions)
            self._handle.saved_outputs(*parts.bound(schema.name, "saved_outputs", allocate, schema.arguments, [saved]))
            self._handle.run(*parts.bound(schema.name, "run", function, [*names, saved]))
            return
        values = [*schema.arguments, *schema.results, *self._saved]
        self._handle.run(*parts.bound(schema.name, "run", function, values))

    def _set_grad(self, part):
        name = self._schema.name + "_backward"
        if part == "auto":
            part = automatic.gradient_class(self._schema, self._saved_in_gradient(), self._functions)
        if isinstance(part, (str, TorchOp)):
            name = part if isinstance(part, str) else part._schema.name
        elif inspect.isclass(part):
            functions, options = _parts_of(part, name)
            taken = {what: each for what, each in functions.items() if what in ("outputs", "saved_outputs", "run")}
            text = gradient.schema_of_class(self._schema, self._saved_in_gradient(), taken)
            made = TorchOp(text, options)
            made._define(part, functions)
            self._backward = made
            if made._sharding is None and self._sharding is not None:
                self._register_gradient_sharding(name)
        elif isinstance(part, types.FunctionType):
            if name in _libraries:
                _libraries.pop(name)._destroy()
            _libraries[name] = gradient.define_composite(self._schema, self._saved, part)
        else:
            raise TypeError(
                f"{self._schema.name}: grad is a {type(part).__name__}; give a function, a class or an operator's name"
            )
        self._handle.grad(name)

    def _set_flops(self, function):
        values = self._schema.arguments
        wanted = parts.names_of(self._schema.name, "flops", function, [each.name for each in values])
        _flops.define(self._schema.name, function, [each.name for each in values], wanted)


def _names(names):
    return (names,) if isinstance(names, str) else tuple(names)


def _parts_of(source, name):
    """Returns the parts and the options of a class. Errors: TypeError for an attribute that is neither."""
    functions, options = {}, {}
    for kind in reversed(source.__mro__[:-1]):
        for what, value in vars(kind).items():
            value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            if what in _FUNCTIONS:
                functions[what] = value
            elif what in _OPTIONS:
                options[what] = value
            elif not what.startswith("_"):
                known = ", ".join((*_FUNCTIONS, *_OPTIONS))
                raise TypeError(f"{name}: '{what}' is not a part of an operator; they are {known}; helpers begin with _")
    return functions, options


def op(schema, *, saves="", autocast="keep", leading=(), fold=(), sums=(), outputs=None, saved_outputs=None, grad=None,
       flops=None, sharding=None):  # fmt: skip
    """Makes a torch operator from a class or function: @op("ns::name(Tensor x, float a=1.0) -> Tensor").

    The schema has torch's form; results without a name are out, or out0, out1, ... A class has the following parts.
    Each function takes the operator's values that its parameters name:

    outputs: takes the arguments and returns the results, freshly allocated; a tensor, or a tuple. It also runs on fake
    tensors. "x" allocates results like x.
    run: fills the results by launching kernels; its parameters may be arguments, results and saved results.
    grad: the gradient. A function of torch operations that takes grad_<result>, arguments, results and saved results,
    and returns a tuple with a gradient, or None, for each tensor argument; or a class with its own outputs and run (and
    grad), which fill grad_<argument>; or the name of an operator that does so; or "auto", which derives it from the
    kernels in Python that run launches.
    saves, saved_outputs: further results for the gradient, "Tensor mean, Tensor rstd", and their allocation; they are
    computed if a gradient is wanted. With grad="auto" the compiler saves what is expensive to compute again; saves=False
    saves nothing, for less memory.
    autocast: "keep", "lower", "fp32", or a pair for CPU and CUDA. leading, fold: arguments whose leading extents, or
    whose extent 0, may absorb vmap's batch (sums: results that then add up over it). flops: the number of
    floating-point operations.
    sharding: how it runs on DTensors: "pointwise", "rows", "whole", a string or a function, as in register_sharding. A
    gradient class has its own, or the rule that follows from the operator's.

    A decorated function is the part run; the other parts are arguments of op, or decorators of the result.

    Returns a TorchOp. Errors: TypeError and ValueError for parts that do not fit the schema; the message lists the
    valid names.
    """

    def define(source):
        given = {"outputs": outputs, "saved_outputs": saved_outputs, "grad": grad, "flops": flops}
        options = {"saves": saves, "autocast": autocast, "leading": leading, "fold": fold, "sums": sums, "sharding": sharding}
        functions = {what: part for what, part in given.items() if part is not None}
        if inspect.isclass(source):
            own, its_options = _parts_of(source, schema.split("(")[0])
            functions, options = {**own, **functions}, {**options, **its_options}
        elif isinstance(source, types.FunctionType):
            functions["run"] = source
        else:
            raise TypeError(f"op: {source!r} is neither a class nor a function")
        if "run" not in functions:
            raise TypeError(f"{schema.split('(')[0]}: has no run; define one that fills the results")
        made = TorchOp(schema, options)
        return made._define(source, functions)

    if not isinstance(schema, str):
        raise TypeError('op: give the schema first, @op("ns::name(Tensor x) -> Tensor")')
    return define
