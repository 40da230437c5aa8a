"""Parses schemas: arguments and results with their types, as gradient operators repeat them."""

import dataclasses

import torch

_OPENING, _CLOSING = "([{", ")]}"


@dataclasses.dataclass(frozen=True)
class Value:
    """An argument or result: its name, and its type as a schema writes it ("Tensor?", "SymInt[]")."""

    name: str
    type: str

    @property
    def is_tensor(self):
        return self.type.startswith("Tensor")


@dataclasses.dataclass(frozen=True)
class Schema:
    """An operator's name ("ns::name"), arguments and results."""

    name: str
    arguments: tuple
    results: tuple


def _split(text):
    """Splits at commas outside of brackets and strings."""
    parts, depth, quote, begin = [], 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and text[at - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        elif letter in _OPENING or letter in _CLOSING:
            depth += 1 if letter in _OPENING else -1
        elif letter == "," and not depth:
            parts.append(text[begin:at])
            begin = at + 1
    return [part.strip() for part in [*parts, text[begin:]] if part.strip()]


def _value(text):
    kind, _, name = text.split("=")[0].strip().rpartition(" ")
    return Value(name, kind.strip().split("(")[0] + kind.strip().partition(")")[2])


def results_of(text):
    """Parses results such as "Tensor mean, Tensor rstd"."""
    return tuple(_value(each) if " " in each else Value("", each) for each in _split(text))


def parsed(text):
    """Returns the Schema of a text. Errors: ValueError if it is invalid or has no namespace or results."""
    if "->" not in text:
        raise ValueError(f'{text!r} says no results; write "ns::name(Tensor x) -> Tensor", or -> () for none')
    try:
        name = torch._C.parse_schema(text).name
    except RuntimeError as error:
        raise ValueError(f"{text!r} is not a schema of torch: {str(error).strip().splitlines()[0]}") from None
    if "::" not in name:
        raise ValueError(f'{name!r} has no namespace; write "mine::{name}(...)"')
    head, _, results = text.rpartition("->")
    arguments = head[head.index("(") + 1 : head.rindex(")")]
    results = results.strip()
    if results.startswith("("):
        results = results[1:-1]
    values = results_of(results)
    if len(values) == 1:
        values = (Value(values[0].name or "out", values[0].type),)
    else:
        values = tuple(Value(each.name or f"out{k}", each.type) for k, each in enumerate(values))
    return Schema(name, tuple(_value(each) for each in _split(arguments) if each != "*"), values)
