"""torch.compile(model, backend="tile"): inductor's graphs, with kernels of ours and without a C++ compiler."""

import copy
import functools
import hashlib
import logging
import pathlib
import sys

import torch

from .._on_import import on_import
from .active import Compile, Refused, compiling, current

_log = logging.getLogger("tile_ops")
ATTEMPTS = 20
_REGISTRY = "torch._dynamo.backends.registry"


def register():
    """Lets torch.compile find the backend by its name once tile_ops is imported; installed packages also have an entry point."""

    def tell(registry):
        if "tile" not in registry._COMPILER_FNS:
            registry.register_backend(backend, name="tile")

    if _REGISTRY in sys.modules:
        tell(sys.modules[_REGISTRY])
    else:
        on_import(_REGISTRY, tell)


@functools.cache
def _version():
    files = sorted(pathlib.Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


class _Quiet(logging.Filter):
    """Drops inductor's report of a node that we refuse: the graph is compiled again without it."""

    def filter(self, record):
        return current() is None or not str(record.msg).startswith("Error in codegen for")


@functools.cache
def _install():
    from . import compat, lowerings, templates
    from .scheduling import TileScheduling

    lowerings.install()
    templates.install()
    compat.leave_out_scaled_softmax(lambda: current() is not None)
    logging.getLogger("torch._inductor.scheduler").addFilter(_Quiet())
    for device in ("cpu", "cuda"):

        def make(own):
            return lambda scheduler: TileScheduling(scheduler) if current() else own(scheduler)

        compat.set_scheduling(device, make)


def _cause(error):
    """Returns the Refused that an error was raised from."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Refused):
            return error
        seen.add(id(error))
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__
    return None


def _copy(gm):
    return torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))


def _without(kept):
    from torch._inductor.decomposition import select_decomp_table

    return {op: of for op, of in select_decomp_table().items() if op not in kept}


# Inductor's tables without the operators that we keep. Its caches know these functions by their names.
def _decompositions_on_cpu():
    from .lowerings import KEPT, KEPT_ON_CPU

    return _without((*KEPT, *KEPT_ON_CPU))


def _decompositions_on_gpu():
    from .lowerings import KEPT

    return _without(KEPT)


def backend(gm, example_inputs, *, mode=None, options=None):
    """Compiles a graph of Dynamo."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    from . import compat, lowerings

    _install()

    def inner(gm, example_inputs, **arguments):
        compile = Compile(dict(options or {}), on_gpu)
        for _ in range(ATTEMPTS):
            try:
                with compiling(compile):
                    return compile_fx_inner(_copy(gm), example_inputs, **arguments)
            except Exception as error:
                refused = _cause(error)
                if refused is None or refused.targets <= compile.fallbacks:
                    raise
                for target in refused.targets:
                    compile.reasons.setdefault(str(target), str(refused))
                    lowerings.let_call(target)
                compile.fallbacks |= refused.targets
        raise RuntimeError("too many operators without a kernel")

    on_gpu = any(each.device.type == "cuda" for each in example_inputs if isinstance(each, torch.Tensor))
    patches = {**compat.config_patches(on_gpu), **(options or {})}
    patches.pop("products", None)
    kept = lowerings.KEPT if on_gpu else (*lowerings.KEPT, *lowerings.KEPT_ON_CPU)
    table = {op: of for op, of in select_decomp_table().items() if op not in kept}
    if mode is not None:
        from torch._inductor import list_mode_options

        patches.update(list_mode_options(mode))
    with compiling(Compile(dict(options or {}), on_gpu)):
        return compile_fx(gm, example_inputs, inner_compile=inner, config_patches=patches, decompositions=table)
