"""Signatures of functions, and binders, which put arguments into the order of the parameters."""

import inspect
import types

_EMPTY = inspect.Parameter.empty


def own_signature(function):
    """Returns the signature of the function itself, ignoring __signature__ and __wrapped__."""
    plain = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    plain.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(plain)


def binder(name, parameters):
    """Returns a function of these parameters that returns all arguments in their order, with defaults filled in. Errors:
    Python's own TypeError, which names the function `name`."""
    texts, kind = [], inspect.Parameter
    for index, each in enumerate(parameters):
        if each.kind is kind.KEYWORD_ONLY and (not index or parameters[index - 1].kind is not kind.KEYWORD_ONLY):
            texts.append("*")
        texts.append(each.name if each.default is _EMPTY else f"{each.name}=defaults[{index}]")
        if each.kind is kind.POSITIONAL_ONLY and all(
            after.kind is not kind.POSITIONAL_ONLY for after in parameters[index + 1 :]
        ):
            texts.append("/")
    items = "".join(f"{each.name}, " for each in parameters)
    made = eval(  # noqa: S307 evaluates only names of parameters
        f"lambda {', '.join(texts)}: ({items})", {"defaults": [each.default for each in parameters]}
    )
    made.__name__ = made.__qualname__ = name
    return made
