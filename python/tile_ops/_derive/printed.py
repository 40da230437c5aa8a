"""Derived kernels as a file of Python, whose docstring says what memory they take."""

from .. import _C
from ..language.core.dtypes import of_ir
from ..language.printer.file import file_of, kernel_text, own_names
from ..language.printer.ir import read

_ZEROS = "it begins with zeros"


def _way(way, transposed):
    """Returns what memory of a gradient has to be."""
    first, _, owned = way.partition(", or ")
    if transposed and owned:
        return owned
    if first.startswith("summed over grid ax"):
        axes = [number for number in first.split() if number.rstrip(",").isdigit()]
        return f"{first}: [blocks along {' and '.join(axes)}, extents]; {_ZEROS}, and its sum is the gradient"
    return f"{first}; {_ZEROS}"


def printed(kernel, arguments, texts, inputs, results, ways):
    """Returns the file of kernels that are derived from one kernel, given the texts of their Tile IR."""
    if not texts:
        return ""
    passed = [number for _, number in _C.passed_arguments(kernel, arguments)]
    own = own_names(kernel, passed)
    functions = [read(text) for text in texts]
    incoming, outgoing = [f"grad_{own[i]}" for i in results], [f"grad_{own[i]}" for i in inputs]
    values = functions[0].body.arguments
    rest = _rest(values[len(own) + len(incoming) + len(outgoing) :])
    more = [*incoming, *outgoing, *rest]
    lines = [f"The gradient of {kernel.__name__}, derived by tile_ops. Beside the kernel's arguments it takes:", ""]
    lines += [f"{name}: the gradient of {own[i]}, which is read." for name, i in zip(incoming, results)]
    for name, i, way, value in zip(outgoing, inputs, ways, values[len(own) + len(incoming) :]):
        lines.append(f"{name}: the gradient of {own[i]}, {of_ir(value.dtype)}, {_way(way, len(texts) > 1)}.")
    for name, value in rest.items():
        if value.rank is None:
            lines.append(f"{name}: the number of blocks along an axis of the kernel's grid.")
        else:
            lines.append(f"{name}: {of_ir(value.dtype)} memory for values that are needed again, for each block.")
    bodies = [kernel_text(each, kernel, arguments, passed, more) for each in functions]
    return file_of(bodies, "\n".join(lines) + "\n")


def _rest(values):
    """Returns the parameters behind the gradients by their names."""
    made, axes = {}, iter("xyz")
    for value in values:
        made[f"blocks_{next(axes)}" if value.rank is None else f"kept{len(made)}"] = value
    return made
