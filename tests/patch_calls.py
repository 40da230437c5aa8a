"""Finds what a patched module computes, by which operators, and which activations it does not fuse."""

import copy

import tile_ops
import torch
from torch.overrides import TorchFunctionMode

FUSED_BEFORE = "computed by the module before it"  # what a report says of a fused activation


def patch(model, **options):
    """Patches a model with products of ours: those of small models are torch's otherwise."""
    return tile_ops.patch(model, products="tile", **options)


class Functions(TorchFunctionMode):
    """Notes torch's functions that are called from Python."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))


def activations(module, *args):
    """How many activations are computed by themselves."""
    with Functions() as functions:
        module(*args)
    return sum(name in ("gelu", "silu", "relu", "relu_") for name in functions.names)


def called_modules(module, x):
    """The modules whose calls a global hook sees, in order."""
    seen = []
    handle = torch.nn.modules.module.register_module_forward_hook(lambda each, *_: seen.append(each))
    try:
        module(x)
    finally:
        handle.remove()
    return seen


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def results(module, x):
    x = x.detach().clone().requires_grad_()
    module.zero_grad()
    out = module(x)
    out.square().sum().backward()
    return [out.detach(), x.grad, *(p.grad.clone() for p in module.parameters() if p.grad is not None)]


def names_of_calls(function, *args):
    """The operators that a call dispatches to."""

    class Names(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found.add(str(func.name()))
            return func(*args, **(kwargs or {}))

    found = set()
    with torch.no_grad(), Names():
        function(*args)
    return found


def error(ours, theirs, scale=None):
    """The largest difference, as a fraction of the largest value (of `scale`)."""
    return ((ours.double() - theirs.double()).abs().max() / (theirs if scale is None else scale).abs().max()).item()


def errors(ours, theirs):
    """Returns the errors of the result and of all gradients.

    The largest gradient is the measure for parameters whose gradient is rounding noise."""
    assert ours[1].keys() == theirs[1].keys()
    top = max(grad.abs().max() for grad in theirs[1].values())
    return (error(ours[0], theirs[0]), max(error(grad, theirs[1][name], top) for name, grad in ours[1].items()))


def check_all(ours, theirs, ours_wide, reference, allowed=1e-12):
    """The numerics rule of (result, gradients by name): twice torch's own error and an ulp, gradients three times and
    two; and in float64 what is allowed."""
    eps = torch.finfo(torch.float32).eps
    for found, own, times, ulps in zip(errors(ours, reference), errors(theirs, reference), (2, 3), (1, 2)):
        assert found <= times * own + ulps * eps
    assert all(found <= allowed for found in errors(ours_wide, reference))


def evaluated(module, args):
    """The result, and the gradients of a fixed sum of it."""
    module.zero_grad()
    args = [arg.detach().to(next(module.parameters()).dtype, copy=True).requires_grad_() for arg in args]
    out = module(*args)
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view(out.shape)
    (out.double() * weights).sum().backward()
    grads = {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}
    return out.detach(), grads | {i: arg.grad for i, arg in enumerate(args)}


def check_patched(module, args):
    """patch(module)'s report, after its results and gradients were compared."""
    wide = copy.deepcopy(module).double()
    theirs, reference = evaluated(module, args), evaluated(wide, args)
    report = patch(module)
    patch(wide)
    check_all(evaluated(module, args), theirs, evaluated(wide, args), reference)
    return report
