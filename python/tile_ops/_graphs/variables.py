"""Teaches torch._dynamo to trace kernels: kernel[grid](...) and kernel.launch(grid, ...) become a call of an operator."""

import enum
import inspect
import itertools

import torch
from torch._dynamo import variables
from torch._dynamo.exc import Unsupported, unimplemented
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.variables.base import VariableTracker
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .._C import TileKernel
from ..language.core import dtypes
from .operators import Leaf, leaves_of, operator_of, with_stand_ins, written_by

_INSTEAD = "Wrap the code that launches it in an operator with @tile_ops.op; a graph can call that like any torch operator."


def _refuse(kernel, why):
    unimplemented(
        gb_type="launch of a tile kernel",
        context=f"{kernel.__name__}: {why}",
        explanation=f"A launch of {kernel.__name__} cannot be part of a graph: {why}.",
        hints=[_INSTEAD],
    )


class _Arguments:
    """The arguments of a launch. known: values, with a Leaf for each that is passed; passed: dynamo's variables of those."""

    def __init__(self, tx, kernel, given):
        self._tx, self._kernel, self.passed = tx, kernel, []
        self.known = tuple(
            self._constant(each) if letter == "c" else self._known(each)
            for each, letter in itertools.zip_longest(given, kernel.letters)
        )

    def _constant(self, value):
        if not isinstance(value, VariableTracker):
            return value  # a parameter's default
        value = value.realize()
        if isinstance(value, variables.SymNodeVariable):
            return value.evaluate_expr(self._tx.output)  # adds a guard: another value needs another graph
        return self._plain(value)

    def _plain(self, value):
        if isinstance(value, variables.TupleVariable):
            return tuple(map(self._constant, value.items))
        held = getattr(value, "value", None)
        if isinstance(held, (enum.Enum, dtypes.DType)):
            return held
        try:
            return value.as_python_constant()
        except (NotImplementedError, Unsupported):
            _refuse(self._kernel, f"an argument is a {value.python_type().__name__} that is not constant in the trace")

    def _known(self, value):
        if not isinstance(value, VariableTracker):
            return value
        value = value.realize()
        if isinstance(value, variables.TensorVariable):
            self.passed.append(value)
            return Leaf("Tensor")
        if isinstance(value, variables.SymNodeVariable):
            self.passed.append(value)
            return Leaf("float" if value.python_type() is float else "SymInt")
        if isinstance(value, (variables.TupleVariable, variables.ListVariable)):
            kind = tuple if isinstance(value, variables.TupleVariable) else list
            return kind(map(self._known, value.items))
        return self._plain(value)


def _stand_in(variable):
    """Returns a tensor without memory that has the shape, strides and dtype of a variable's."""
    like = variable.as_proxy().node.meta["example_value"]
    sizes, strides = ([each if isinstance(each, int) else 2 for each in row] for row in (like.shape, like.stride()))
    with unset_fake_temporarily():
        return torch.empty_strided(sizes, strides, dtype=like.dtype, device="meta")


def _stand_ins(arguments):
    return [_stand_in(each) for each in arguments.passed if isinstance(each, variables.TensorVariable)]


def _is_tensor(value):
    return isinstance(value, VariableTracker) and isinstance(value.realize(), variables.TensorVariable)


def _bound_derivative(tx, derivative, args, kwargs):
    """Returns the arguments of the kernel, with its defaults, and the gradients."""

    def stand_ins(own):
        arguments = _Arguments(tx, derivative.kernel, own)
        return with_stand_ins(arguments.known, _stand_ins(arguments))

    try:
        return derivative.split_in_graph(args, kwargs, stand_ins, _is_tensor)
    except Exception as error:  # noqa: BLE001 the launch itself raises it
        _refuse(derivative, _first_line(error))


def _first_line(error):
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _bound(kernel, args, kwargs):
    """Returns an argument for each parameter: dynamo's variable, or the default."""
    signature = inspect.signature(kernel._pyfunc)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        _refuse(kernel, str(error))
    bound.apply_defaults()
    return [bound.arguments[name] for name in signature.parameters]


def _axes(tx, kernel, grid, given):
    grid = grid.realize()
    lists = (variables.TupleVariable, variables.ListVariable)
    if not isinstance(grid, lists) and grid.python_type() is not int:  # the grid is a function of the arguments
        grid = grid.call_function(tx, given, {})
    axes = list(grid.items) if isinstance(grid, lists) else [grid]
    if len(axes) > 3:  # () is one block
        _refuse(kernel, f"the grid has {len(axes)} axes")
    return axes + [variables.ConstantVariable.create(1)] * (3 - len(axes))


def _launched(tx, kernel, grid, args, kwargs):
    derivative = not isinstance(kernel, TileKernel)
    given = _bound_derivative(tx, kernel, args, kwargs) if derivative else _bound(kernel, args, kwargs)
    own = given[: len(kernel.kernel.parameters)] if derivative else given
    axes = _axes(tx, kernel, grid, own)
    arguments = _Arguments(tx, kernel, given)
    try:
        written = written_by(kernel, arguments.known, _stand_ins(arguments))
    except Exception as error:  # noqa: BLE001 after the graph break the launch itself raises it
        _refuse(kernel, _first_line(error))
    operator = operator_of(kernel, arguments.known, written)
    assert len(leaves_of(arguments.known)) == len(arguments.passed)
    return variables.TorchInGraphFunctionVariable(operator).call_function(tx, [*arguments.passed, *axes], {})


class LaunchVariable(VariableTracker):
    """The variable of kernel[grid]."""

    def __init__(self, kernel, grid, **named):
        super().__init__(**named)
        self.kernel, self.grid = kernel, grid

    def call_function(self, tx, args, kwargs):
        return _launched(tx, self.kernel, self.grid, args, kwargs)


class KernelVariable(variables.UserDefinedObjectVariable):
    """The variable of a kernel or of a derivative. Its guard compares identity."""

    def mp_subscript_impl(self, tx, key):
        return LaunchVariable(self.value, key)

    def call_method(self, tx, name, args, kwargs):
        if name == "__getitem__" and len(args) == 1 and not kwargs:
            return LaunchVariable(self.value, args[0])
        if name == "launch" and args:
            kwargs = dict(kwargs)
            stream = kwargs.pop("stream", None)
            if not (stream is None or stream.is_python_constant() and stream.as_python_constant() in (None, 0)):
                _refuse(self.value, "it has a stream argument")
            return _launched(tx, self.value, args[0], args[1:], kwargs)
        return super().call_method(tx, name, args, kwargs)


def wrapped_kernel(builder, kernel):
    """Returns the variable of a kernel or derivative that a VariableBuilder wraps."""
    builder.install_guards(GuardBuilder.ID_MATCH)
    return KernelVariable(kernel, source=builder.source)
