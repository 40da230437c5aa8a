"""grad="auto": the gradient operator of an operator whose run launches kernels in Python only."""

import functools
import inspect

import torch

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


def gradient_class(schema, saved, functions):
    """Returns the class of the gradient operator. functions: the operator's outputs and run, which may change later."""
    from .._derive.replay import Replay

    if any("[" in each.type and each.is_tensor for each in (*schema.arguments, *schema.results)):
        raise NotImplementedError(f'{schema.name}: grad="auto" takes no lists of tensors; write the gradient by hand')
    if not schema.results:
        raise NotImplementedError(f'{schema.name}: grad="auto" is for operators with results; this one writes its arguments')
    names = [each.name for each in schema.arguments]
    tensors = [each.name for each in schema.arguments if each.is_tensor]
    results, kept = [each.name for each in schema.results], [each.name for each in saved]
    incoming, gradients = [f"grad_{each}" for each in results], [f"grad_{each}" for each in tensors]

    def allocate(values):
        outputs = functions["outputs"]
        if isinstance(outputs, str):  # results like this argument
            return tuple(torch.empty_like(values[outputs]) for _ in results)
        made = _call(outputs, values)
        return made if isinstance(made, (tuple, list)) else (made,)

    def wanted(values, mask):
        for name, needed in zip(tensors, mask):
            tensor = values[name]
            yield tensor is not None and needed and tensor.is_floating_point()

    def gradient_outputs(*given):
        values, mask = dict(zip(names, given)), given[-1]
        made = tuple(torch.empty_like(values[name]) if each else None for name, each in zip(tensors, wanted(values, mask)))
        return made[0] if len(made) == 1 else made

    def gradient_run(*given):
        of_results, given = given[: len(incoming)], given[len(incoming) :]
        values, targets = dict(zip(names, given)), given[len(names) + 1 :]

        def run_again(arguments, made):
            known = {**dict(zip(names, arguments)), **dict(zip(results, made)), **dict.fromkeys(kept)}
            _call(functions["run"], known)

        replay = Replay(
            schema.name, run_again, lambda arguments: allocate(dict(zip(names, arguments))), [values[name] for name in names]
        )
        by_name = dict(zip(tensors, targets))
        replay.gradients(of_results, [by_name.get(name) for name in names])

    return type(
        "Gradient",
        (),
        {
            "outputs": _named(gradient_outputs, [*names, "output_mask"]),
            "run": _named(gradient_run, [*incoming, *names, "output_mask", *gradients]),
        },
    )
