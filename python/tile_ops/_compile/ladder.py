"""Computes a graph in another way after an error of our code generation, which would be a bug: no program fails because of one."""

import warnings

import torch

from . import compat
from .active import compiling
from .options import FALLBACK

LINES = 120


def passes_on(error):
    """Returns True if Dynamo wants the error, which asks it to do something else."""
    from torch._dynamo.exc import RestartAnalysis, SkipFrame

    return any(isinstance(each, (RestartAnalysis, SkipFrame)) for each in causes(error))


def causes(error):
    """Yields an error, and what it was raised from."""
    seen = set()
    while error is not None and id(error) not in seen:
        yield error
        seen.add(id(error))
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__


def described(error):
    """Returns the type and first line of what was first raised: inductor wraps errors in its own."""
    while getattr(error, "inner_exception", None) is not None:
        error = error.inner_exception
    text = f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]
    return text if len(text) <= LINES else text[:LINES] + "…"


def eager(gm):
    """Returns a function of a list of inputs that runs a graph's operators one by one."""

    def run(inputs):
        return torch.fx.Interpreter(gm).boxed_run(inputs)

    run._boxed_call = True
    return run


def _devices(example_inputs):
    return {each.device.type for each in example_inputs if isinstance(each, torch.Tensor)}


def computed_otherwise(gm, example_inputs, arguments, compile, before, error, place):
    """Returns (what computes the graph, its name); raises the error if the options ask for that, and for a package without code.

    before: the settings of inductor that our own graphs have changed.
    """
    wanted = compile.options.get(FALLBACK, "inductor" if compile.is_package else "eager")
    if wanted == "error":
        raise error
    made, name = None, wanted
    if wanted == "inductor":
        made = _by_inductor(gm, example_inputs, arguments, before)
    if made is None:
        if compile.is_package:
            raise error
        made, name = eager(gm), "eager"
    _warn(place, error, "It runs without kernels" if name == "eager" else "Inductor generates the code")
    return made, name


def reason_to_stay(error, place, options, what="attention"):
    """Returns the reason for a call that stays torch's after an error; raises the error if the options ask for that."""
    if passes_on(error) or options.get(FALLBACK) == "error":
        raise error
    _warn(place, error, f"Torch computes its {what}")
    return described(error)


def _warn(place, error, what):
    text = (
        f'torch.compile(backend="tile") could not generate code for the graph of {place or "unknown lines"} '
        f'({described(error)}). {what}; options={{"fallback": "error"}} raises the error.'
    )
    file, _, line = place.rpartition(":")
    if file:  # Python then shows the user's line, and warns once of each
        warnings.warn_explicit(text, UserWarning, file, int(line))
    else:
        warnings.warn(text, stacklevel=3)


def _by_inductor(gm, example_inputs, arguments, before):
    """Returns the graph of inductor's own code generator; None if that has no compiler, or fails as well."""
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner

    if not all(map(compat.has_compiler, _devices(example_inputs) or {"cpu"})):
        return None
    try:
        with config.patch(before), compiling(None):
            made = compile_fx_inner(gm, example_inputs, **arguments)
            made._fx_graph_cache_key = None  # so that autograd's cache does not take it for our code
            return made
    except Exception as error:
        if passes_on(error):
            raise
        return None
