"""Defines the rows of the table of operators."""

import dataclasses
from collections.abc import Callable

# A call that takes no arguments, and the error's text after "tile::<operator>: ".
Refused = tuple[Callable, str]


@dataclasses.dataclass
class Bad:
    """Calls that the operator refuses, by what is wrong: TypeError, ValueError and RuntimeError in this order."""

    dtypes: list[Refused] = dataclasses.field(default_factory=list)
    shapes: list[Refused] = dataclasses.field(default_factory=list)
    devices: list[Refused] = dataclasses.field(default_factory=list)
    values: list[Refused] = dataclasses.field(default_factory=list)  # ValueError on the CPU, which alone looks at them
    unaligned: list[tuple[str, Callable]] = dataclasses.field(default_factory=list)  # the argument's name, the call

    def __bool__(self):
        return any(vars(self).values())


@dataclasses.dataclass
class BadGradients(Bad):
    """Direct calls of a gradient's operator. The texts are those after "tile::<operator>_backward: "."""

    good: list[Callable] = dataclasses.field(default_factory=list)  # calls of which the others change one argument


@dataclasses.dataclass
class Sharded:
    """Holds one call. tensors: its inputs by name. run: the call. differentiable: names of inputs with gradients to compare.

    written: True if the operator writes into its tensors, which then need equal placements.
    """

    tensors: dict
    run: Callable
    differentiable: tuple = ()
    written: bool = False


@dataclasses.dataclass(kw_only=True)
class Operator:
    """One operator. The keys of each dict are the names of calls."""

    name: str
    reference: Callable  # torch's function with the same arguments; tests also run it in float64
    functional: Callable | None = None  # calls an operator that writes in place, and returns what it wrote
    bad: Bad
    bad_gradients: BadGradients = dataclasses.field(default_factory=BadGradients)
    bad_second_gradients: BadGradients = dataclasses.field(default_factory=BadGradients)  # of "<operator>_double_backward"
    good: list[Callable]  # calls that take no arguments; fuzzing changes them
    contract: Callable | None = None  # makes [(arguments, keyword arguments)] of small tensors in float64
    draw: Callable | None = None  # dtype: a call with random sizes and strides, (function, arguments, keyword arguments)
    few_rows: Callable | None = None  # input, weight, bias: (function of tensors, the tensors)
    flops: Callable | None = None  # makes (function, arguments, what FlopCounterMode counts)
    autocast: tuple[Callable, Callable] | None = None  # functions of one tensor: ours and torch's, of equal dtype
    without_elements: dict = dataclasses.field(default_factory=dict)  # (our function, torch's, shapes of the tensors)
    memory: dict = dataclasses.field(default_factory=dict)  # makes (function of tensors, tensors of 80 MB)
    gpu: dict = dataclasses.field(default_factory=dict)  # randn: (function of tensors, tensors that want gradients)
    gates: dict = dataclasses.field(default_factory=dict)  # dtype: a call of meta tensors, whose kernels have gates
    gates_in_double: dict = dataclasses.field(default_factory=dict)  # with gates in float64 too, which take minutes
    gate_variants: dict = dataclasses.field(default_factory=dict)  # other calls with one thing more: only bfloat16
    sharded: dict = dataclasses.field(default_factory=dict)  # makes a Sharded
    emulated: dict  # dtype: (arguments, keyword arguments) of small tensors for the emulated GPU
