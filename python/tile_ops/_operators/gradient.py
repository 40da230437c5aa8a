"""The forms of a gradient: an operator's name, a class with its own parts, or a function of torch operations."""

import torch

from . import parts
from .schema import Value


def _incoming(result, alone):
    return Value(f"grad_{result.name}", "Tensor?[]" if "[" in result.type else "Tensor" if alone else "Tensor?")


def _gradient_of(argument):
    return Value(f"grad_{argument.name}", "Tensor[]" if "[" in argument.type else "Tensor")


def _schema_text(name, arguments, results):
    def text(values):
        return ", ".join(f"{value.type} {value.name}" for value in values)

    return f"{name}({text(arguments)}) -> ({text(results)})"


def known_values(schema, saved):
    """Returns the values that a gradient may ask for: the incoming gradients, then the operator's arguments, results and saved results."""
    return [*(_incoming(each, len(schema.results) == 1) for each in schema.results), *schema.arguments, *schema.results,
            *saved]  # fmt: skip


def schema_of_class(schema, saved, functions):
    """Returns the schema of a gradient class, from its functions {what: function}."""
    known = {value.name: value for value in known_values(schema, saved)}
    own = {f"grad_{each.name}": _gradient_of(each) for each in schema.arguments if each.is_tensor}
    own = {name: value for name, value in own.items() if name not in known}
    named = []
    for what, function in functions.items():
        named += parts.names_of(schema.name + "_backward", what, function, [*known, *own, "output_mask"])
    results = [own[name] for name in dict.fromkeys(named) if name in own]
    if not results:
        raise TypeError(
            f"{schema.name}: grad: run fills no gradient; it needs parameters of {', '.join(own)}, after the values"
        )
    arguments = [value for name, value in known.items() if name in named]
    if "output_mask" in named:
        arguments.append(Value("output_mask", f"bool[{len(results)}]"))
    return _schema_text(f"{schema.name}_backward", arguments, results)


def define_composite(schema, saved, function):
    """Registers a function as the operator of the gradients of all tensor arguments; returns the library that holds it."""
    known = {value.name: value for value in known_values(schema, saved)}
    name = f"{schema.name}_backward"
    wanted = parts.names_of(schema.name, "grad", function, list(known))
    results = [_gradient_of(each) for each in schema.arguments if each.is_tensor]

    def gradients(*values):
        made = function(*values)
        if len(results) == 1:
            return made[0] if isinstance(made, (tuple, list)) and len(made) == 1 else made
        if not isinstance(made, (tuple, list)) or len(made) != len(results):
            count = len(made) if isinstance(made, (tuple, list)) else 1
            texts = ", ".join(each.name for each in results)
            raise TypeError(
                f"{schema.name}: grad gave {count} value{'s' if count > 1 else ''}; return a tuple of {texts}, None for those without one"
            )
        return tuple(made)

    namespace, bare = name.split("::")
    library = torch.library.Library(namespace, "FRAGMENT")
    text = _schema_text(bare, [known[each] for each in wanted], results)
    library.define(text, tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(bare, gradients, "CompositeImplicitAutograd")
    return library
