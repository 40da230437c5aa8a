"""Reads the operators' docstrings from _operator_docs.txt, which docs/make_operator_docs.py makes from docs/operators.md."""

import functools
import pathlib
import re


@functools.cache
def docs() -> dict[str, str]:
    """Returns {operator: its docstring}; the key "" holds the part common to all."""
    text = pathlib.Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"^== (\w*)\n", text, flags=re.MULTILINE)
    return {name: part.rstrip("\n") for name, part in zip(parts[::2], parts[1::2])}


_BACKWARD = """\
{what} of tile::{name}, which autograd calls.{more}

- Shapes and dtypes: a gradient has those of the tensor that it belongs to. Arguments of tile::{name} have those
  of the call. Saved tensors (mean, rstd, lse and their like) have those that tile::{name} saved.
- Errors: those of tile::{name} for the same arguments. ValueError for a gradient or a saved tensor of another shape,
  TypeError for another dtype.

help(tile_ops.{name}) describes the operator."""


def _backward_doc(forward: str, double: bool, schema: str) -> str:
    """Returns the docstring of a gradient operator, without its schema."""
    more = " A gradient that is None counts as 0." if re.search(r"Tensor\? grad_", schema) else ""
    more += " A gradient whose entry of `output_mask` is False is not computed." if "output_mask" in schema else ""
    what = "The gradient of the gradient" if double else "The gradient"
    return _BACKWARD.format(what=what, name=forward, more=more)


def doc_of(packet) -> str:
    """Returns the docstring of an operator of torch.ops, or its schemas if it has none."""
    namespace, _, name = packet._qualified_op_name.partition("::")
    schemas = "\n".join(str(getattr(packet, overload)._schema) for overload in packet.overloads())
    if namespace != "tile":
        return schemas
    if name in docs():
        return f"{docs()[name]}\n\n{docs()['']}"
    found = re.fullmatch(r"(\w+?)_(double_)?backward", name)
    if found and found[1] in docs():
        return f"{schemas}\n\n{_backward_doc(found[1], bool(found[2]), schemas)}"
    return schemas
