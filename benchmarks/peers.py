"""Makes calls of a function in eager mode and with torch.compile, forward or backward, to be timed."""

import torch


def compiled(function, *inputs):
    function = torch.compile(function, dynamic=False)
    return lambda: function(*inputs)


def gradient(function, inputs, grads, other=()):
    """Returns a call of only the backward of function(*inputs, *other)."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    out = function(*inputs, *other)
    return lambda: torch.autograd.grad(out, inputs, grads, retain_graph=True)


def peers_of(function, inputs, other=(), grads=None, **more):
    """Returns the eager and the compiled function; with grads, their backward."""
    if grads is None:
        both = {
            "eager": lambda: lambda: function(*inputs, *other),
            "torch.compile": lambda: compiled(function, *inputs, *other),
        }
    else:
        both = {
            "eager": lambda: gradient(function, inputs, grads, other),
            "torch.compile": lambda: gradient(torch.compile(function, dynamic=False), inputs, grads, other),
        }
    return both | more
