"""The variants of a model that models.py compares: eager, compiled, patched by Liger or by tile_ops."""

import contextlib
import copy
import dataclasses
import importlib.util
import re
import sys
import types
from collections.abc import Callable

import torch
from model_ways import KINDS, WAYS
from task_child import loaded

PEERS = ("eager", "torch.compile", "Liger")
LEARNING_RATE = 1e-4


@dataclasses.dataclass(frozen=True)
class Variant:
    """A way to make a model faster. graph: replayed from a graph of the GPU, or by inductor's."""

    name: str
    patched: bool = False
    liger: bool = False
    backend: str | None = None
    own_optimizer: bool = False
    graph: bool = False
    ways: tuple = WAYS
    devices: tuple = ("cpu", "cuda")


GRAPH = {"graph": True, "ways": ("decoding",), "devices": ("cuda",)}
VARIANTS = (
    Variant("eager"),
    Variant("torch.compile", backend="inductor"),
    Variant("torch.compile, graph", backend="inductor", **GRAPH),
    Variant("Liger", liger=True, devices=("cuda",)),
    Variant("patched", patched=True),
    Variant("patched, our AdamW", patched=True, own_optimizer=True, ways=("training",)),
    Variant("patched, graph", patched=True, **GRAPH),
    Variant("patched + compile", patched=True, backend="inductor"),
    Variant("backend=tile", backend="tile"),
    Variant("backend=tile, graph", backend="tile", **GRAPH),
)
NAMED = {each.name: each for each in VARIANTS}


def lacking(variant):
    """Returns the package that a variant needs and that is not installed, or None."""
    return "liger_kernel" if variant.liger and not importlib.util.find_spec("liger_kernel") else None


def variants(way, device, pattern=""):
    """Returns the names of the variants of a way on a device that can be made here. Eager is always one of them."""
    return [
        each.name
        for each in VARIANTS
        if way in each.ways
        and device in each.devices
        and not lacking(each)
        and (each.name == "eager" or re.search(pattern, each.name))
    ]


def tensors_of(module):
    return [*module.parameters(), *module.buffers()]


def sharing(module):
    """Returns a copy of a module whose parameters and buffers are the same tensors."""
    return copy.deepcopy(module, {id(each): each for each in tensors_of(module)})


class Exchanged:
    """Functions and classes of modules that a block has changed. They are changed only while `with` runs another block."""

    @contextlib.contextmanager
    def seen(self, *spaces):
        """Remembers what the block changes in these dictionaries, and takes it back."""
        before = [dict(space) for space in spaces]
        try:
            yield
        finally:
            self.changes = []
            for space, old in zip(spaces, before):
                changed = {name: value for name, value in space.items() if name in old and old[name] is not value}
                self.changes.append((space, changed, {name: old[name] for name in changed}))
            self.__exit__()

    def __enter__(self):
        for space, changed, _ in self.changes:
            space.update(changed)

    def __exit__(self, *_):
        for space, _, old in self.changes:
            space.update(old)


def with_liger(module):
    """Lets Liger patch a module, and returns the context in which it has to run: Liger also changes functions that all
    models of its class call."""
    from liger_kernel.transformers import _apply_liger_kernel_to_instance
    from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

    if getattr(getattr(module, "config", None), "model_type", None) not in MODEL_TYPE_TO_APPLY_LIGER_FN:
        raise LookupError("Liger does not patch this model")
    exchanged = Exchanged()
    with exchanged.seen(vars(sys.modules[type(module).__module__]), vars(torch.nn.functional)):
        _apply_liger_kernel_to_instance(model=module)
    return exchanged


def apart(function):
    """Returns the same function with code of its own, because Dynamo keeps what it compiles at the code."""
    code = function.__code__.replace()
    return types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)


def wrapper(variant, backend):
    """Returns what makes of a function the one that a variant calls."""
    if not variant.backend:
        return lambda function: function
    if variant.backend != "inductor":
        # A graph that ours cannot compile is to be seen, not to run in eager mode.
        strict = {"options": {"fallback": "error"}} if backend == "tile" else {}
        return lambda function: torch.compile(apart(function), backend=loaded(backend), **strict)
    if not variant.graph:
        return lambda function: torch.compile(apart(function))

    def wrap(function):
        compiled = torch.compile(apart(function), mode="reduce-overhead")

        def call(*args):
            torch.compiler.cudagraph_mark_step_begin()
            return compiled(*args)

        return call

    return wrap


@dataclasses.dataclass
class Setup:
    """The parts of a variant that only some ways need."""

    scale: str
    make_optimizer: Callable  # from parameters
    optimizer: Callable  # from parameters, that of all variants with the same class
    static: bool
    captured: bool


def maker_of(variant, device):
    """Returns a function from parameters to an optimizer."""
    if variant.own_optimizer:
        import tile_ops.optim

        return lambda parameters: tile_ops.optim.AdamW(parameters, lr=LEARNING_RATE)
    return lambda parameters: torch.optim.AdamW(parameters, lr=LEARNING_RATE, fused=True if device == "cuda" else None)


class Call:
    """A variant of a model in a way to run it. Calls of one model share its tensors and, by `optimizers`, those of
    optimizers. backend: that of torch.compile for ours."""

    def __init__(self, name, made, way, device, scale, backend, optimizers):
        variant = NAMED[name]
        module, self.context = sharing(made.module), contextlib.nullcontext()
        if variant.patched:
            import tile_ops

            tile_ops.patch(module)
        if variant.liger:
            self.context = with_liger(module)
        self.graph = variant.graph
        captured = variant.graph and variant.backend != "inductor"
        make = maker_of(variant, device)

        def kept(parameters):
            if variant.own_optimizer not in optimizers:
                optimizers[variant.own_optimizer] = make(parameters)
            return optimizers[variant.own_optimizer]

        setup = Setup(scale, make, kept, bool(variant.backend or variant.graph), captured)
        with self.context:
            self.way = KINDS[way](made, module, wrapper(variant, backend), setup)
        self.results = self.way.results

    def run(self):
        with self.context:
            return self.way.run()

    def loss(self, reference):
        with self.context:
            return self.way.loss(reference)

    def reference(self):
        return self.way.reference()

    def bytes(self):
        """Returns the bytes of the tensors that stay from call to call."""
        own = tensors_of(self.way.module) + [each for each in self.way.state() if isinstance(each, torch.Tensor)]
        storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in own}
        return sum(storages.values())
