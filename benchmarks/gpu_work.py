"""What a case of the GPU table is, and what cases are made of: tensors, peers, gradients, the same in float64."""

import dataclasses
from typing import Callable

import torch

bf16, device = torch.bfloat16, "cuda"


@dataclasses.dataclass
class Work:
    """Tensors made, and what is timed on them."""

    ours: Callable
    bytes: float  # read and written once
    flops: float
    peers: dict = dataclasses.field(default_factory=dict)  # {name: function that makes the call}
    exact: Callable | None = None  # the same in float64, from the tensors as they are


@dataclasses.dataclass
class Case:
    name: str
    make: Callable[[], Work]
    share: float | None = None  # at least so much of the speed of a copy of the same bytes
    ratios: dict = dataclasses.field(default_factory=dict)  # {peer: at least so many times as fast}
    microseconds: float | None = None  # at most
    launches: int | None = None  # at most
    product: bool = False  # multiplies matrices: takes longer than the host's work, and is not captured


def random(*shape, channels_last=False):
    tensor = torch.randn(*shape, device=device, dtype=bf16)
    return tensor.to(memory_format=torch.channels_last) if channels_last else tensor


def compiled(function, *inputs):
    function = torch.compile(function, dynamic=False)
    return lambda: function(*inputs)


def gradient(function, inputs, grads, other=()):
    """A call of the backward alone of function(*inputs, *other)."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    out = function(*inputs, *other)
    return lambda: torch.autograd.grad(out, inputs, grads, retain_graph=True)


def exactly(function, inputs, other=(), grads=None):
    """A call of the function in float64; with grads of its backward."""

    def wide(tensors):
        return tuple(tensor.double() for tensor in tensors)

    def call():
        if grads is None:
            return function(*wide(inputs), *wide(other))
        incoming = wide(grads) if isinstance(grads, tuple) else grads.double()
        return gradient(function, wide(inputs), incoming, wide(other))()

    return call


def peers_of(function, inputs, other=(), grads=None, **more):
    """Eager and torch.compile of the function; with grads their backward."""
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


def liger(make):
    """A peer by Liger, where that is installed; {} where it is not."""
    try:
        import liger_kernel.ops  # noqa: F401
    except ImportError:
        return {}
    return {"Liger": make}
