"""grad="auto": the gradient operator of an operator whose run launches kernels in Python only."""

import functools
import inspect

import torch

from .. import _C
from . import parts
from .schema import Value

SAVED = Value("saved_values", "Tensor?")  # what the compiler chooses to save
_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD


def _named(function, names):
    function.__signature__ = inspect.Signature([inspect.Parameter(name, _KIND) for name in names])
    return function


@functools.lru_cache(256)
def _parameters(function):
    return tuple(inspect.signature(function).parameters)


@functools.lru_cache(1024)
def _places(function, names):
    """Returns where among the names a function's parameters are."""
    return tuple(names.index(each) for each in _parameters(function) if each in names)


def _call(function, names, values):
    """Calls one of the operator's functions with its values, whose names are a tuple."""
    return function(*[values[at] for at in _places(function, names)])


def _allocated(schema, functions, names, values):
    """Returns the results for arguments, whose names are a tuple."""
    outputs = functions["outputs"]
    if isinstance(outputs, str):  # results like this argument
        return tuple(torch.empty_like(values[names.index(outputs)]) for _ in schema.results)
    made = _call(outputs, names, values)
    alone = len(schema.results) == 1 and "[" in schema.results[0].type  # a list of tensors is one result
    return made if isinstance(made, (tuple, list)) and not alone else (made,)


def _has_tensor_lists(schema):
    return any("[" in each.type and each.is_tensor for each in (*schema.arguments, *schema.results))


def chooses(schema, options, functions):
    """Returns true if the compiler chooses what the operator saves for its gradient."""
    names = [each.name for each in (*schema.arguments, *schema.results)]
    if not schema.results or not any(each.is_tensor for each in schema.arguments):
        return False
    if _has_tensor_lists(schema):
        return False
    return functions.get("grad") == "auto" and options.get("saves") in ("", None) and SAVED.name not in names


def saving_parts(schema, functions):
    """Returns the functions saved_outputs and run of an operator that saves what the compiler chooses."""
    from .._derive.saving import Saving

    names, results = tuple(each.name for each in schema.arguments), [each.name for each in schema.results]
    all_names = (*names, *results)
    wanted = parts.names_of(schema.name, "run", functions["run"], [*names, *results])

    def run(arguments, made):
        _call(functions["run"], all_names, (*arguments, *made))

    saving = Saving(schema.name, run, lambda arguments: _allocated(schema, functions, names, arguments))

    places = [[*names, *results].index(each) for each in wanted]

    def run_with(*given):
        if given[-1] is None or not given[-1].numel():
            return functions["run"](*(given[at] for at in places))
        saving.run_with(given[: len(names)], given[len(names) : -1], given[-1])

    return (_named(lambda *arguments: saving.allocated(arguments), names), _named(run_with, [*names, *results, SAVED.name]))


def _flat(values):
    """Returns the values of a tuple, with those in lists."""
    return tuple(each for value in values for each in (value if isinstance(value, (list, tuple)) else (value,)))


def _lists_as(flat, values):
    """Returns the flat values as tuples and values, as `values` has them."""
    rest = iter(flat)
    return tuple([next(rest) for _ in each] if isinstance(each, (list, tuple)) else next(rest) for each in values)


def _flat_gradients(gradients, values):
    """Does the same for gradients, of which that of a list may be missing."""
    given = zip(gradients, values)
    return _flat([[None] * len(value) if isinstance(value, (list, tuple)) and not made else made for made, value in given])


def _empty_gradients(given, places, mask):
    """Returns gradients for the values at these places, which may be lists."""
    made = []
    for at, wanted in zip(places, mask):
        each = given[at] if isinstance(given[at], (list, tuple)) else (given[at],)
        flat = list(_C.empty_gradients(tuple(each), tuple(range(len(each))), [wanted] * len(each)))
        made.append(flat if isinstance(given[at], (list, tuple)) else flat[0])
    return tuple(made)


def gradient_class(schema, saved, functions):
    """Returns the class of the gradient operator. saved: the operator's saved results, its own or SAVED. functions: the
    operator's outputs and run, which may change later."""
    from .._derive.replay import gradients as compute

    if not schema.results:
        raise NotImplementedError(f'{schema.name}: grad="auto" is for operators with results; this one writes its arguments')
    names = tuple(each.name for each in schema.arguments)
    tensors = [each.name for each in schema.arguments if each.is_tensor]
    results, kept = [each.name for each in schema.results], [each.name for each in saved if each is not SAVED]
    incoming, gradients = [f"grad_{each}" for each in results], [f"grad_{each}" for each in tensors]
    values = [*incoming, *names, *([SAVED.name] if SAVED in saved else []), "output_mask", *gradients]

    saved_place = values.index(SAVED.name) if SAVED in saved else None
    target_places = [values.index(f"grad_{name}") if name in tensors else None for name in names]
    all_names, none_kept = (*names, *results, *kept), (None,) * len(kept)

    def run_again(arguments, made):
        _call(functions["run"], all_names, (*arguments, *made, *none_kept))

    def allocate(arguments):
        return _allocated(schema, functions, names, arguments)

    tensor_places, first = tuple(names.index(each) for each in tensors), len(incoming)

    lists = _has_tensor_lists(schema)

    def gradient_outputs(*given):
        made = (_empty_gradients if lists else _C.empty_gradients)(given, tensor_places, given[-1])
        return made[0] if len(made) == 1 else made

    def gradient_run(*given):
        targets = tuple([None if at is None else given[at] for at in target_places])
        saved_bytes = None if saved_place is None else given[saved_place]
        arguments, incoming = given[first : first + len(names)], given[:first]
        if lists:
            return run_with_lists(arguments, incoming, targets)
        compute(schema.name, run_again, allocate, arguments, incoming, targets, saved_bytes)

    def run_with_lists(arguments, incoming, targets):
        made = allocate(arguments)

        def run_flat(flat, results):
            run_again(_lists_as(flat, arguments), _lists_as(results, made))

        def allocate_flat(flat):
            return _flat(allocate(_lists_as(flat, arguments)))

        incoming, targets = _flat_gradients(incoming, made), _flat_gradients(targets, arguments)
        compute(schema.name, run_flat, allocate_flat, _flat(arguments), incoming, targets)

    return type(
        "Gradient", (), {"outputs": _named(gradient_outputs, [*names, "output_mask"]), "run": _named(gradient_run, values)}
    )
