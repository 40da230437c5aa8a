"""Functions compiled by the backend, and their comparison with torch."""

import numerics
import tile_ops  # noqa: F401 registers the backend
import torch


def compiled(function, **arguments):
    """Compiles a function as one graph without earlier code. An error of the compile is raised, not passed to eager mode."""
    torch._dynamo.reset()
    options = {"fallback": "error"} | (arguments.pop("options", None) or {})
    if "mode" in arguments:  # torch.compile takes a mode or options
        options = None
    return torch.compile(function, backend="tile", options=options, **({"fullgraph": True, "dynamic": False} | arguments))


def check(function, *arguments, **options):
    """Asserts the numerics rule for the results, and for the gradients of the arguments that require one."""
    numerics.check_call(compiled(function, **options), function, arguments)


def check_draws(function, make, count=12, within=None):
    """Asserts the numerics rule for the results of several random arguments together; make(): returns them.

    Of one draw's few results the largest error is a matter of luck. within: of the largest exact value, instead of the rule.
    """
    run = compiled(function)
    draws = []
    for _ in range(count):
        arguments = make()
        draws.append(list(zip(run(*arguments), function(*arguments), function(*numerics.widen(arguments)))))
    for i, (first, *others) in enumerate(zip(*draws)):
        if within is None or not first[0].is_floating_point():
            numerics.check(*first, draws=others, what=f"result {i}")
            continue
        for ours, _, exact in (first, *others):
            torch.testing.assert_close(ours.double(), exact.double(), rtol=0, atol=within * exact.abs().max().item())


def same(ours, theirs, **tolerance):
    """Asserts that results are the same in value, dtype and shape, but for rounding."""
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            same(one, other, **tolerance)
    elif isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(ours, theirs, equal_nan=True, **tolerance)
    else:
        assert ours == theirs
