"""Binds the arguments of a derivative: those of its kernel, then gradients."""

import dataclasses
import functools
import inspect

import torch

_EMPTY = inspect.Parameter.empty


@functools.lru_cache(256)
def _defaults(kernel):
    parameters = inspect.signature(kernel._pyfunc).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not _EMPTY}


def _takes_no_tensor(kernel, name):
    return kernel.letters[kernel.parameters.index(name)] in "cw"


def _check_names(kernel, named):
    for name in named:
        if name not in kernel.parameters:
            raise TypeError(
                f"derivative of {kernel.__name__}: the kernel has no parameter {name!r}; it has {', '.join(kernel.parameters)}; "
                "gradients are passed by position, behind its arguments"
            )


def bound(kernel, arguments, named):
    """Returns the arguments of the kernel in order, with defaults filled in."""
    _check_names(kernel, named)
    try:
        return kernel._signature(*arguments, **named) if named or len(arguments) != len(kernel.parameters) else tuple(arguments)
    except TypeError as error:
        raise TypeError(f"derivative of {kernel.__name__}: {error}") from None


def split(kernel, arguments, named, gradients_of, is_tensor=lambda value: isinstance(value, torch.Tensor)):
    """Returns (arguments of the kernel, gradients) of a launch.

    gradients_of(arguments): the names of the gradients. The arguments by position begin with those of the kernel that have no
    name. Of these, some of the last may be left out, whose defaults are taken. The fewer there are, the fewer gradients there
    are, so that only one number of them fits.
    """
    _check_names(kernel, named)
    defaults, unnamed = _defaults(kernel), [name for name in kernel.parameters if name not in named]
    problem, most = None, None
    for count in range(len(unnamed), -1, -1):
        if count < len(unnamed) and unnamed[count] not in defaults:
            break
        taken = unnamed[:count]
        if count > len(arguments) or any(
            is_tensor(arguments[i]) and _takes_no_tensor(kernel, name) for i, name in enumerate(taken)
        ):
            continue
        values = {**defaults, **named, **dict(zip(taken, arguments))}
        own = tuple(values[name] for name in kernel.parameters)
        try:
            names = gradients_of(own)
        except Exception as error:  # noqa: BLE001 a gradient in the place of an argument that is left out
            problem = problem or error
            continue
        if count + len(names) == len(arguments):
            return own, arguments[count:]
        most = most or names
    if problem is not None and most is None:
        raise problem
    after = (
        f", then {', '.join(most)}"
        if most
        else ", then a gradient of each array of floats that it writes and of each that it reads"
    )
    raise TypeError(
        f"derivative of {kernel.__name__}: takes {len(kernel.parameters)} arguments of the kernel{after}; "
        f"got {len(arguments) + len(named)}"
    )


def _arrays_in(path, value):
    if isinstance(value, (tuple, list)):
        for at, each in enumerate(value):
            yield from _arrays_in(f"{path}[{at}]", each)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _arrays_in(f"{path}.{field.name}", getattr(value, field.name))
    elif hasattr(value, "shape"):
        yield path


def name_of_leaf(kernel, arguments, leaves, position):
    """Returns the name of an array: the parameter's, with its place in a tuple, list or dataclass. leaves: (value, number of
    the argument) of all."""
    number = leaves[position][1]
    among = [i for i, (value, of) in enumerate(leaves) if of == number and isinstance(value, torch.Tensor)]
    paths = list(_arrays_in(kernel.parameters[number], arguments[number]))
    return paths[among.index(position)] if len(paths) == len(among) else kernel.parameters[number]
