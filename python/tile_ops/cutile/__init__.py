"""The names of cuTile Python for the kernels of tile_ops: `import tile_ops.cutile as ct`. Programs also run on CPU
tensors.

install() makes `import cuda.tile` return this module.
"""

import contextlib
import importlib.util
import sys
import types

from .. import language as _language
from ..language import *  # noqa: F403 the whole language
from ..language import kernel as _kernel
from ..language.core.signatures import binder as _binder_of
from . import tune  # noqa: F401

# Names that the language has in addition to cuTile's.
_OURS = {
    "acos", "asin", "atan", "erf", "expm1", "fma", "isfinite", "isinf", "log1p", "logical_not", "next_power_of_2",
    "normal", "random_bits", "round", "sigmoid", "silu", "trunc", "uniform",
}  # fmt: skip
for _name in _OURS:
    globals().pop(_name, None)


def _counting(name, parameters):
    """Wraps signatures.binder: a wrong number of arguments raises the error that cuTile raises."""
    bound = _binder_of(name, parameters)

    def counted(*arguments, **named):
        try:
            return bound(*arguments, **named)
        except TypeError:
            many, count = len(parameters), len(arguments)
            if named:
                raise
            raise TypeError(
                f"Kernel expects {many} argument{'' if many == 1 else 's'} but {count} {'was' if count == 1 else 'were'} given"
            ) from None

    return counted


class kernel(_kernel):  # noqa: N801 a decorator
    __doc__ = _kernel.__doc__
    _dialect = True
    _binder = staticmethod(_counting)


_LIMIT = (1 << 31) - 1


def launch(stream, grid, kernel, kernel_args, /, *, programmatic_dependent_launch=False):
    """Runs a kernel for each block of the grid, a tuple of up to three integers.

    stream: an object with cuda_stream or ptr, or an integer handle, 0 for the default one. If all arrays are on the CPU it is
    not used, and the kernel has run when this returns.
    kernel_args: a tuple with one entry for each parameter.

    Shapes and dtypes: help(tile_ops.kernel).
    Errors: TypeError for a stream that is None and for what is no kernel, ValueError for a grid beyond 2147483647 blocks along
    an axis, TileError for code that the language refuses.
    """
    if stream is None:
        raise TypeError("launch: the stream is None; give torch.cuda.current_stream(), or 0 for the default one")
    if not isinstance(kernel, _kernel):
        raise TypeError(f"launch: {kernel!r} is not a kernel; decorate the function with @kernel")
    for axis, blocks in enumerate(grid):
        if blocks > _LIMIT:
            raise ValueError(f"Grid[{axis}] is too big: {blocks}, the most is {_LIMIT}")
    kernel.launch(grid, *kernel_args, stream=stream)


@contextlib.contextmanager
def compiler_timeout(seconds):
    """Accepted, for programs that have it: the compiler runs in this process and takes the time that it takes. Errors: none."""
    yield


def install():
    """Makes `import cuda.tile` and `from cuda import tile` return this module, in this process."""
    if "cuda" not in sys.modules:
        package = types.ModuleType("cuda")
        package.__path__ = []
        found = importlib.util.find_spec("cuda")
        if found is not None and found.submodule_search_locations:
            package.__path__ = list(found.submodule_search_locations)
        sys.modules["cuda"] = package
    sys.modules["cuda.tile"] = sys.modules["cuda"].tile = sys.modules[__name__]
    sys.modules["cuda.tile.tune"] = tune


def __getattr__(name):
    from ..language.core import advice

    if name in _language.__all__:
        close = " (tile_ops.language has it)"
    else:
        close = "" if name.startswith("_") else advice.of_module(name, globals(), "ct")
    raise AttributeError(f"module 'tile_ops.cutile' has no attribute {name!r}{close}")


__all__ = [
    name
    for name, value in globals().items()
    if not name.startswith("_") and (name == "tune" or not isinstance(value, types.ModuleType))
]
