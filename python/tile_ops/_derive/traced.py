"""Traced: the Tile IR of a kernel for arguments of one kind, and the kernels that are derived from it."""

import re

from .. import _C
from ..language.core.dtypes import of_ir

# Facts of one launch, such as which extents are divisible by 16: they are set again when a derived kernel is compiled.
_FACTS = re.compile(r"\) \{[^{}]*\} \{$", re.MULTILINE)


def is_float(array):
    """Returns true for a row of _C.kernel_arrays of a floating dtype."""
    return array is not None and of_ir(array[0]).torch.is_floating_point


class Traced:
    """The IR of a kernel. arrays: the rows of _C.kernel_arrays."""

    def __init__(self, text):
        self.text, self.arrays = text, _C.kernel_arrays(text)
        self.inputs = tuple(i for i, a in enumerate(self.arrays) if is_float(a) and a[2] and not (a[3] or a[4]))
        self.results = tuple(i for i, a in enumerate(self.arrays) if is_float(a) and (a[3] or a[4]))
        self._derived = {}

    def derived(self, wanted, results, folded_axis=-1):
        """Returns the derived kernel. wanted: (parameter, atomic, adds) of each array."""
        key = wanted, results, folded_axis
        if key not in self._derived:
            self._derived[key] = _C.derive(self.text, wanted, results, folded_axis)
        return self._derived[key]

    def folded(self, wanted, results, folded_axis):
        """Returns the derived kernel whose blocks compute several blocks along an axis of the grid; None if it would write
        gradients in another way."""
        key = wanted, results, folded_axis, "folded"
        if key not in self._derived:
            plain = self.derived(wanted, results)
            try:
                made = self.derived(wanted, results, folded_axis)
            except NotImplementedError:  # the proofs do not hold there
                made = None
            same = made and [each[1:3] for each in made.gradients] == [each[1:3] for each in plain.gradients]
            self._derived[key] = made if same and len(made.scratch) == len(plain.scratch) else None
        return self._derived[key]


def traced(kernel, arguments):
    """Returns the Traced of a kernel for its arguments, all of which are given in order."""
    cache, texts = kernel.__dict__.setdefault("_traced_launches", (_C.LaunchCache(), {}))
    found = cache.get(kernel, arguments)
    if found is None:
        text = _FACTS.sub(") {", kernel._ir(arguments, False), count=1)
        found = texts[text] = texts.get(text) or Traced(text)
        cache.set(kernel, arguments, found)
    return found
