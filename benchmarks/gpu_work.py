"""The parts of cases of the GPU table: tensors, peers, gradients, and float64 references."""

import dataclasses
from typing import Callable

import torch
from peers import compiled, gradient, peers_of  # noqa: F401 imported by other files

bf16, device = torch.bfloat16, "cuda"


@dataclasses.dataclass
class Work:
    """The tensors of a case, and the functions that are timed on them."""

    ours: Callable
    bytes: float  # read and written once
    flops: float
    peers: dict = dataclasses.field(default_factory=dict)  # {name: function that makes the call}
    exact: Callable | None = None  # the same in float64, from the current tensors


@dataclasses.dataclass
class Case:
    name: str
    make: Callable[[], Work]
    fraction: float | None = None  # required part of the speed of a copy of the same bytes
    ratios: dict = dataclasses.field(default_factory=dict)  # {peer: the required ratio of its time to ours}
    microseconds: float | None = None  # at most
    launches: int | None = None  # at most
    product: bool = False  # multiplies matrices: takes longer than the host's work, and is not captured


def random(*shape, channels_last=False):
    tensor = torch.randn(*shape, device=device, dtype=bf16)
    return tensor.to(memory_format=torch.channels_last) if channels_last else tensor


def exactly(function, inputs, other=(), grads=None):
    """Returns a call of the function in float64; with grads, of its backward."""

    def wide(tensors):
        return tuple(tensor.double() for tensor in tensors)

    def call():
        if grads is None:
            return function(*wide(inputs), *wide(other))
        incoming = wide(grads) if isinstance(grads, tuple) else grads.double()
        return gradient(function, wide(inputs), incoming, wide(other))()

    return call


def liger(make):
    """Returns the peer of Liger if it is installed, otherwise {}."""
    try:
        import liger_kernel.ops  # noqa: F401
    except ImportError:
        return {}
    return {"Liger": make}
