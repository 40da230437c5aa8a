"""Traced: the Tile IR of a kernel for arguments of one kind, from which kernels are derived."""

import re

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .. import _C
from ..language.core.dtypes import of_ir

# Facts of one launch, such as which extents are divisible by 16: they are set again when a derived kernel is compiled.
_FACTS = re.compile(r"\) \{[^{}]*\} \{$", re.MULTILINE)


def is_float(array):
    """Returns true for a row of _C.ReverseKernel.arrays of a floating dtype."""
    return array is not None and of_ir(array[0]).torch.is_floating_point


def on_cpu(leaves):
    """Returns true if a launch with these arguments is on a CPU."""
    return next(each.device.type == "cpu" for each in leaves if isinstance(each, torch.Tensor))


class Traced:
    """The IR of a kernel, in a _C.ReverseKernel. arrays: the rows of its arrays."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.arrays = self.kernel.arrays
        self.inputs = tuple(i for i, a in enumerate(self.arrays) if is_float(a) and a[2] and not (a[3] or a[4]))
        self.results = tuple(i for i, a in enumerate(self.arrays) if is_float(a) and (a[3] or a[4]))

    def saving(self, grid, leaves):
        """Returns the Traced of the kernel that also saves what its gradient needs, for such a launch; None: nothing is saved.
        Its last parameters are the arrays [blocks, *shape] of kernel.saved."""
        kernel = self.kernel.saving(tuple(grid), tuple(leaves), self.inputs, self.results, on_cpu(leaves))
        return None if kernel is None else Traced(kernel)

    def launch(self, name, grid, leaves, incoming, targets, results, *way):
        """Computes gradients.

        leaves: the kernel's arguments. incoming: the gradients of the parameters `results`, in their dtypes. targets:
        {parameter: (tensor, adds)}: the tensor of the array's shape that gets the gradient, to which it is added if adds.
        """
        given = tuple((parameter, tensor, adds) for parameter, (tensor, adds) in targets.items())
        self.kernel.launch(name, tuple(grid), tuple(leaves), tuple(results), tuple(incoming), given, *way)


def _is_fake(value):
    if isinstance(value, (tuple, list)):
        return any(map(_is_fake, value))
    return isinstance(value, FakeTensor) or (isinstance(value, torch.Tensor) and value.is_meta)


def traced(kernel, arguments):
    """Returns the Traced of a kernel for its arguments, all of which are given in order."""
    cache, texts = kernel.__dict__.setdefault("_traced_launches", (_C.LaunchCache(), {}))
    fake = any(_is_fake(each) for each in arguments)  # without addresses, on which the cache depends
    found = None if fake else cache.get(kernel, arguments)
    if found is None:
        text = _FACTS.sub(") {", kernel._ir(arguments, False), count=1)
        found = texts[text] = texts.get(text) or Traced(_C.ReverseKernel(text))
        if not fake:
            cache.set(kernel, arguments, found)
    return found
