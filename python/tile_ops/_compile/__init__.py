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


def backend(gm, example_inputs, *, mode=None, options=None):
    """Compiles a graph of Dynamo."""
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    from . import compat, lowerings, patterns

    _install()

    def inner(gm, example_inputs, **arguments):
        compile = Compile(dict(options or {}))
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

    table = {op: of for op, of in select_decomp_table().items() if op not in lowerings.KEPT}
    on_gpu = any(each.device.type == "cuda" for each in example_inputs if isinstance(each, torch.Tensor))
    patches = {**compat.config_patches(on_gpu), **(options or {})}
    own = {name: patches.pop(name) for name in ("products", "attention") if name in patches}
    if mode is not None:
        from torch._inductor import list_mode_options

        patches.update(list_mode_options(mode))
    compile = Compile(dict(options or {}))
    change = functools.partial(patterns.replace_all, compile=compile)
    patches.update(compat.joint_pass(change, (_version(), *sorted(own.items())), patches))
    with compiling(compile):
        return compile_fx(gm, example_inputs, inner_compile=inner, config_patches=patches, decompositions=table)
