"""Operators whose kernels the emulator runs: for a call meta tensors with memory stand for tensors on a GPU."""

import contextlib
import ctypes

import emulate
import torch
from tile_ops import _C
from torch.utils._pytree import tree_flatten, tree_unflatten

ARCH = 90


def on_host(x):
    """A tensor on the CPU in the memory of x, a meta tensor's or its own."""
    count = x.untyped_storage().nbytes() // x.itemsize
    if not count:
        return torch.empty(x.shape, dtype=x.dtype)
    address = _C.host_memory(x) if x.is_meta else x.untyped_storage().data_ptr()
    memory = (ctypes.c_char * (count * x.itemsize)).from_address(address)
    return torch.frombuffer(memory, dtype=x.dtype).as_strided(x.shape, x.stride(), x.storage_offset())


def storage_of(x):
    """All elements of a tensor's storage."""
    count = x.untyped_storage().nbytes() // x.itemsize
    return x.detach().as_strided((count,), (1,), 0)


def as_stored(x, device):
    """A copy whose storage holds what that of x holds."""
    copy = torch.empty(x.untyped_storage().nbytes() // x.itemsize, dtype=x.dtype, device=device)
    on_host(copy).copy_(on_host(storage_of(x)))
    return copy.as_strided(x.shape, x.stride(), x.storage_offset())


def to_gpu(x):
    return as_stored(x, "meta").requires_grad_(x.requires_grad)


def to_host(meta):
    return as_stored(meta, "cpu")


running = []  # calls under way: torch may keep these functions for later, when meta tensors hold nothing


def copy(meta, source, non_blocking=False):
    if running:
        on_host(meta).copy_(on_host(source))
    return meta


def fill(meta, value):
    if running:
        on_host(meta).fill_(value)
    return meta


def ones(size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return fill(torch.empty(size, dtype=dtype, device="meta"), 1)


# Operations of torch that operators call on tensors of a GPU, and that do nothing on meta tensors.
TORCHS = {"copy_": copy, "fill_.Scalar": fill, "zero_": lambda meta: fill(meta, 0), "ones": ones}


@contextlib.contextmanager
def written_by_torch():
    """Meta tensors that torch copies or fills inside have the values."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        for name, function in TORCHS.items():
            library.impl(name, function, "Meta", allow_override=True)  # torch 2.11 asks for the word
        running.append(True)
        try:
            yield
        finally:
            running.pop()


class Emulation:
    """Runs launches, or only lists their programs, so that those of many calls are compiled at once."""

    def __init__(self, runs=True, configuration=0, block_bytes=0, cluster_blocks=0, wgmma=True, pairs=emulate.HINTED_PAIRS):
        self.runs, self.configuration, self.programs, self.grids = runs, configuration, [], []
        self.limits = block_bytes, cluster_blocks, wgmma, pairs  # 0: the chip's

    def launch(self, program, grid, parameters):
        self.programs.append(program)
        self.grids.append(grid)
        return emulate.launch(program, emulate.functions([program])[program["text"]], grid, parameters) if self.runs else None

    def call(self, function):
        with written_by_torch():
            return _C.emulate(ARCH, function, self.launch, self.configuration, *self.limits)

    def paths(self):
        """The paths of kernels with products, by the kernels' names."""
        return {program["entry"]: program["path"] for program in self.programs if program["path"]}

    def operator(self, operator):
        """A function of CPU tensors that does as the operator does on a GPU, gradients included."""

        def emulated(*args, **kwargs):
            leaves, tree = tree_flatten((args, kwargs))
            tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            others = [None if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
            return Call.apply(self, operator, others, tree, *tensors)

        return emulated


class Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx, emulation, operator, others, tree, *tensors):
        metas = [to_gpu(x) for x in tensors]
        given = iter(metas)
        args, kwargs = tree_unflatten([next(given) if other is None else other[0] for other in others], tree)
        with torch.enable_grad():
            results = emulation.call(lambda: operator(*args, **kwargs))
        ctx.emulation, ctx.metas = emulation, metas
        ctx.results = results if isinstance(results, tuple) else (results,)
        found = [to_host(result.detach()) for result in ctx.results]
        ctx.mark_non_differentiable(*(x for x, result in zip(found, ctx.results) if not result.requires_grad))
        return tuple(found) if isinstance(results, tuple) else found[0]

    @staticmethod
    def backward(ctx, *grads):
        pairs = [
            (result, to_gpu(grad)) for result, grad in zip(ctx.results, grads) if result.requires_grad and grad is not None
        ]
        inputs = [meta for meta in ctx.metas if meta.requires_grad]
        results, incoming = zip(*pairs)
        found = iter(ctx.emulation.call(lambda: torch.autograd.grad(results, inputs, incoming, allow_unused=True)))
        each = [next(found) if meta.requires_grad else None for meta in ctx.metas]
        return None, None, None, None, *(None if grad is None else to_host(grad) for grad in each)
