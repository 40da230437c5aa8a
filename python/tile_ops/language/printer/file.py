"""The text of a file with one printed kernel."""

import inspect
import math
import pathlib
import textwrap

from ..core import dtypes
from ..core.annotations import ConstantAnnotation, hints_of, note_of, without_none
from .names import Names, variables_of
from .printer import Printer

_HINTS = {"warps": "num_worker_warps", "occupancy": "occupancy", "num_ctas": "num_ctas"}
_SCALARS = {"f32": "float", "f64": "float", "i32": "int", "i64": "tl.ScalarInt64", "bool": "bool"}
_CHECKED = (int, float, bool, str)  # constants whose value the printed kernel asserts


def _variables(kernel):
    function = kernel._pyfunc
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return {}
    source = "".join(lines)
    indent = len(source) - len(source.lstrip())
    found = variables_of(textwrap.dedent(source), pathlib.Path(function.__code__.co_filename).name, first)
    moved = {}
    for place, name in found.items():
        file, line, column = place.rsplit(":", 2)
        moved[f"{file}:{line}:{int(column) + indent}"] = name
    return moved


def _constants(kernel, arguments):
    """Returns the values of the Constant parameters by name."""
    hints = hints_of(kernel._pyfunc)
    return {
        name: value
        for name, value in zip(kernel.parameters, arguments)
        if value is None or isinstance(note_of(without_none(hints.get(name))), ConstantAnnotation)
    }


def _named_extents(constants):
    """Returns {value: name} of the constants that an extent may be read as: integers above 1 that differ."""
    numbers = [value for value in constants.values() if type(value) is int]
    return {value: name for name, value in constants.items() if type(value) is int and value > 1 and numbers.count(value) == 1}


def _unique(names):
    """Returns the names of flattened arguments: of several parts of one parameter each has a number."""
    made = []
    for at, name in enumerate(names):
        made.append(f"{name}_{names[:at].count(name)}" if names.count(name) > 1 else name)
    return made


def file_of(kernels, about=""):
    """Returns the text of a file that makes kernels, given the text of each."""
    head = f'"""{about}"""\n\n' if about else ""
    return "\n\n\n".join([f"{head}import tile_ops.language as tl", *kernels]) + "\n"


def own_names(kernel, passed):
    """Returns a name for each argument of the IR of a kernel, given the numbers of its parameters."""
    return _unique([kernel.parameters[number] for number in passed])


def kernel_text(function, kernel, arguments, passed, more=()):
    """Returns the text of the kernel that translates to the Function of Tile IR.

    kernel, arguments: the kernel that it comes from and all of its arguments, whose signature the printed function begins with.
    passed: the number of the kernel's parameter for each of the first parameters of the IR. more: names of those that follow.
    """
    names = Names(_variables(kernel))
    constants = _constants(kernel, arguments)
    own = own_names(kernel, passed)
    names.used.update(kernel.parameters, own, more)
    printer = Printer(function, [*own, *more], names, _named_extents(constants))
    body = printer.text()
    signature, given = [], list(zip(own, passed, function.body.arguments))
    for number, name in enumerate(kernel.parameters):
        parts = [(each, value) for each, at, value in given if at == number]
        if not parts:
            kind = type(constants.get(name))
            signature.append(f"{name}: tl.Constant[{kind.__name__}]" if kind in _CHECKED else f"{name}: tl.Constant")
        signature += [_parameter(printer, each, value) for each, value in parts]
    signature += [_parameter(printer, name, value) for name, value in zip(more, function.body.arguments[len(own) :])]
    checks = [
        f"    tl.static_assert({name} == {value!r})"
        for name, value in constants.items()
        if type(value) in _CHECKED and math.isfinite(0.0 if type(value) is str else value)
    ]
    hints = [f"{_HINTS[name[5:]]}={value}" for name, value in function.attributes.items() if name[5:] in _HINTS]
    line = f"def {function.name}({', '.join(signature)}):"
    if len(line) > 100:
        line = f"def {function.name}(\n    " + ",\n    ".join(signature) + ",\n):"
    return "\n".join([f"@tl.kernel({', '.join(hints)})" if hints else "@tl.kernel", line, *checks, body])


def _parameter(printer, name, value):
    if value.rank is not None:
        return f"{name}: tl.IndexedWithInt64[tl.Array]" if name in printer.far else name
    return f"{name}: {_SCALARS.get(value.dtype, dtypes.of_ir(value.dtype).name)}"
