"""grad="auto": the gradient operator of an operator whose run launches kernels in Python only."""

import functools
import inspect

import torch

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


def _call(function, values):
    """Calls one of the operator's functions with its values by name."""
    return function(*(values[name] for name in _parameters(function) if name in values))


def _allocated(schema, functions, values):
    """Returns the results for arguments by name."""
    outputs = functions["outputs"]
    if isinstance(outputs, str):  # results like this argument
        return tuple(torch.empty_like(values[outputs]) for _ in schema.results)
    made = _call(outputs, values)
    return made if isinstance(made, (tuple, list)) else (made,)


def _has_tensor_lists(schema):
    return any("[" in each.type and each.is_tensor for each in (*schema.arguments, *schema.results))


def chooses(schema, options, functions):
    """Returns true if the compiler chooses what the operator saves for its gradient."""
    names = [each.name for each in (*schema.arguments, *schema.results)]
    if not schema.results or not any(each.is_tensor for each in schema.arguments):
        return False
    if _has_tensor_lists(schema):
        return False  # it has no such gradient
    return functions.get("grad") == "auto" and options.get("saves") in ("", None) and SAVED.name not in names


def saving_parts(schema, functions):
    """Returns the functions saved_outputs and run of an operator that saves what the compiler chooses."""
    from .._derive.saving import Saving

    names, results = [each.name for each in schema.arguments], [each.name for each in schema.results]
    wanted = parts.names_of(schema.name, "run", functions["run"], [*names, *results])

    def run(arguments, made):
        _call(functions["run"], {**dict(zip(names, arguments)), **dict(zip(results, made))})

    saving = Saving(schema.name, run, lambda arguments: _allocated(schema, functions, dict(zip(names, arguments))))

    places = [[*names, *results].index(each) for each in wanted]

    def run_with(*given):
        if given[-1] is None or not given[-1].numel():
            return functions["run"](*(given[at] for at in places))
        saving.run_with(given[: len(names)], given[len(names) : -1], given[-1])

    return (_named(lambda *arguments: saving.allocated(arguments), names), _named(run_with, [*names, *results, SAVED.name]))


def gradient_class(schema, saved, functions):
    """Returns the class of the gradient operator. saved: the operator's saved results, its own or SAVED. functions: the
    operator's outputs and run, which may change later."""
    from .._derive.replay import Replay

    if _has_tensor_lists(schema):
        raise NotImplementedError(f'{schema.name}: grad="auto" takes no lists of tensors; write the gradient by hand')
    if not schema.results:
        raise NotImplementedError(f'{schema.name}: grad="auto" is for operators with results; this one writes its arguments')
    names = [each.name for each in schema.arguments]
    tensors = [each.name for each in schema.arguments if each.is_tensor]
    results, kept = [each.name for each in schema.results], [each.name for each in saved if each is not SAVED]
    incoming, gradients = [f"grad_{each}" for each in results], [f"grad_{each}" for each in tensors]
    values = [*incoming, *names, *([SAVED.name] if SAVED in saved else []), "output_mask", *gradients]

    def wanted(values, mask):
        for name, needed in zip(tensors, mask):
            tensor = values[name]
            yield tensor is not None and needed and tensor.is_floating_point()

    def gradient_outputs(*given):
        values, mask = dict(zip(names, given)), given[-1]
        made = tuple(torch.empty_like(values[name]) if each else None for name, each in zip(tensors, wanted(values, mask)))
        return made[0] if len(made) == 1 else made

    def gradient_run(*given):
        known = dict(zip(values, given))

        def run_again(arguments, made):
            again = {**dict(zip(names, arguments)), **dict(zip(results, made)), **dict.fromkeys(kept)}
            _call(functions["run"], again)

        def allocate(arguments):
            return _allocated(schema, functions, dict(zip(names, arguments)))

        replay = Replay(schema.name, run_again, allocate, [known[name] for name in names])
        targets = [known.get(f"grad_{name}") if name in tensors else None for name in names]
        replay.gradients([known[name] for name in incoming], targets, known.get(SAVED.name))

    return type(
        "Gradient", (), {"outputs": _named(gradient_outputs, [*names, "output_mask"]), "run": _named(gradient_run, values)}
    )
