"""Parts of an operator: Python functions whose parameters are matched by name with the operator's values."""

import inspect

import torch


def like(name, count):
    """Returns the function for outputs = "x": it allocates `count` results like x."""

    def outputs(value):
        made = tuple(torch.empty_like(value) for _ in range(count))
        return made[0] if count == 1 else made

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    outputs.__signature__ = inspect.Signature([inspect.Parameter(name, kind)])
    return outputs


def names_of(operator, what, function, known):
    """Returns the names of the parameters. Errors: TypeError if one is not in `known` and has no default."""
    if isinstance(function, str):  # results like this value
        function = like(function, 1)
    names, own = [], None
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"{operator}: {what} has the parameter '{parameter}'; values are given by position, name those wanted"
            )
        if name in known:
            if own:
                raise TypeError(f"{operator}: {what}: parameter '{own}' comes before '{name}'; put it after")
            names.append(name)
        elif parameter.default is not parameter.empty:
            own = name  # the function's own parameter
        else:
            raise TypeError(
                f"{operator}: {what} has a parameter '{name}', which is not one of its values; they are {', '.join(known)}"
            )
    return names


def bound(operator, what, function, values, results=()):
    """Returns the arguments for a part of _C.Operator: the function, the values it takes, and its results."""
    known = [value.name for value in values]
    wanted = [known.index(name) for name in names_of(operator, what, function, known)]
    letters = "".join("d" if values[at].type.startswith("ScalarType") else "o" for at in wanted)
    kinds = "".join("l" if "[" in result.type else "t" for result in results)
    return function, tuple(wanted), letters, kinds, tuple(result.name for result in results)
