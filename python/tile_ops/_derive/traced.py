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


class Traced:
    """The IR of a kernel. arrays: the rows of _C.ReverseKernel.arrays."""

    def __init__(self, text):
        self.kernel = _C.ReverseKernel(text)
        self.arrays = self.kernel.arrays
        self.inputs = tuple(i for i, a in enumerate(self.arrays) if is_float(a) and a[2] and not (a[3] or a[4]))
        self.results = tuple(i for i, a in enumerate(self.arrays) if is_float(a) and (a[3] or a[4]))

    def saving(self, grid, leaves):
        """Returns the _C.ReverseKernel that a launch uses to save what its gradient needs; None: it saves nothing."""
        cpu = next(each.device.type == "cpu" for each in leaves if isinstance(each, torch.Tensor))
        return self.kernel.saving(tuple(grid), tuple(leaves), self.inputs, self.results, cpu)

    def launch(self, name, grid, leaves, incoming, targets, results, *way, saved=None):
        """Computes gradients.

        leaves: the kernel's arguments. incoming: the gradients of the parameters `results`, in their dtypes. targets:
        {parameter: (tensor, adds)}: the tensor of the array's shape that gets the gradient, to which it is added if adds. saved: the _C.ReverseKernel
        and the arrays that the launch saved.
        """
        given = tuple((parameter, tensor, adds) for parameter, (tensor, adds) in targets.items())
        kernel, arrays = saved or (self.kernel, ())
        kernel.launch(name, tuple(grid), (*leaves, *arrays), tuple(results), tuple(incoming), given, *way)


def traced(kernel, arguments):
    """Returns the Traced of a kernel for its arguments, all of which are given in order."""
    cache, texts = kernel.__dict__.setdefault("_traced_launches", (_C.LaunchCache(), {}))
    fake = any(isinstance(each, FakeTensor) for each in arguments)  # without addresses, on which the cache depends
    found = None if fake else cache.get(kernel, arguments)
    if found is None:
        text = _FACTS.sub(") {", kernel._ir(arguments, False), count=1)
        found = texts[text] = texts.get(text) or Traced(text)
        if not fake:
            cache.set(kernel, arguments, found)
    return found
