"""Functions compiled by the backend, and their comparison with torch."""

import numerics
import tile_ops  # noqa: F401 registers the backend
import torch


def compiled(function, **arguments):
    """Compiles as one graph, and anew; raises what goes wrong in it."""
    torch._dynamo.reset()
    options = {"fallback": "error"} | arguments.pop("options", {})
    return torch.compile(function, backend="tile", options=options, **({"fullgraph": True, "dynamic": False} | arguments))


def check(function, *arguments, **options):
    """Asserts the numerics rule for the results, and for the gradients of the arguments that require one."""
    numerics.check_call(compiled(function, **options), function, arguments)


def check_draws(function, make, count=12):
    """Asserts the numerics rule for the results of several random arguments together; make(): returns them.

    Of one draw's few results the largest error is a matter of luck.
    """
    run = compiled(function)
    draws = []
    for _ in range(count):
        arguments = make()
        draws.append(list(zip(run(*arguments), function(*arguments), function(*numerics.widen(arguments)))))
    for i, (first, *others) in enumerate(zip(*draws)):
        numerics.check(*first, draws=others, what=f"result {i}")


def same(ours, theirs):
    """Asserts that results are the same in value, dtype and shape, but for rounding."""
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            same(one, other)
    elif isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(ours, theirs, equal_nan=True)
    else:
        assert ours == theirs
