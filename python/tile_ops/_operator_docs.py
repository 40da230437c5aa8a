"""Docstrings of the operators, from _operator_docs.txt, which docs/make_operator_docs.py makes of docs/operators.md."""

import functools
import pathlib
import re


@functools.cache
def docs() -> dict[str, str]:
    """{operator: its text}; "": what holds for all."""
    text = pathlib.Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"^== (\w*)\n", text, flags=re.MULTILINE)
    return {name: part.rstrip("\n") for name, part in zip(parts[::2], parts[1::2])}


def doc_of(packet) -> str:
    """Of an operator of torch.ops: its text, or, where there is none, its schemas."""
    namespace, _, name = packet._qualified_op_name.partition("::")
    if namespace == "tile" and name in docs():
        return f"{docs()[name]}\n\n{docs()['']}"
    return "\n".join(str(getattr(packet, overload)._schema) for overload in packet.overloads())
