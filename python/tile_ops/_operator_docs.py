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


def doc_of(packet) -> str:
    """Returns the docstring of an operator of torch.ops, or its schemas if it has none."""
    namespace, _, name = packet._qualified_op_name.partition("::")
    if namespace == "tile" and name in docs():
        return f"{docs()[name]}\n\n{docs()['']}"
    return "\n".join(str(getattr(packet, overload)._schema) for overload in packet.overloads())
