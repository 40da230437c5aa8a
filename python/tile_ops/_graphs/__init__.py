"""Supports kernels in Python under torch.compile: a launch becomes a call of an operator that is made for it.

torch._dynamo is slow to import and seldom needed, so it is taught about kernels only when it is imported.
"""

from .._C import TileKernel
from .._on_import import when_imported

_BUILDER = "torch._dynamo.variables.builder"


def _teach(module):
    """Makes dynamo wrap kernels and derivatives as KernelVariable from now on."""
    wrap = module.VariableBuilder._wrap

    def wrapped(self, value):
        kernel = isinstance(value, TileKernel) and hasattr(value, "_pyfunc")
        if not kernel and not getattr(type(value), "launches_in_graphs", False):  # a derivative
            return wrap(self, value)
        # variables.py imports the whole package of `module`, which may still be on its way when it is taught.
        from .variables import wrapped_kernel

        return wrapped_kernel(self, value)

    module.VariableBuilder._wrap = wrapped


when_imported(_BUILDER, _teach)
