"""Compiles the kernels of a graph for its GPU in threads, while the graph is generated: a first launch then finds their code.

Nothing depends on it. A kernel that is launched before its code is there compiles it or waits for the thread, and reports errors.
"""

import concurrent.futures
import functools
import os

import torch

from .. import _C
from .._inspect import arch_of
from .compat import size_hint
from .launch import tile_kernel

MOST_THREADS = 16


@functools.cache
def _threads():
    return concurrent.futures.ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "tile_ops_compile")


@functools.cache
def _target(index):
    """Returns (arch, bytes of shared memory of a block) of a GPU."""
    return arch_of(index), torch.cuda.get_device_properties(index).shared_memory_per_block_optin


@functools.cache
def _keeps_code():
    return not _C.cache_info()["unusable"]


def stand_in(dtype, offset, sizes, strides):
    """Returns a tensor without memory that stands for one on a GPU."""
    reach = 0 if 0 in sizes else 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
    return torch.empty(offset + reach, dtype=dtype, device="meta").as_strided(sizes, strides, offset)


# Layers of a model have equal kernels, and a graph may be generated several times.
@functools.lru_cache(4096)
def compile_kernel(device, name, text, layout, tensors, numbers):
    """Compiles a generated kernel. tensors: the dtype and the elements of each; numbers: likely values of those that vary."""

    def launch():
        stand_ins = [torch.empty(elements, dtype=dtype, device="meta") for dtype, elements in tensors]
        _C.CompiledCall(tile_kernel(name, text), layout)(*stand_ins, *numbers)

    compile_launches(device, launch)


@functools.lru_cache(4096)
def compile_product(device, text, inputs, operands, outs):
    """Compiles a product and its epilogue. Each tensor is the arguments of stand_in; a third input is the op's `second`."""

    def launch():
        (input, other, *second), *lists = ([stand_in(*each) for each in views] for views in (inputs, operands, outs))
        torch.ops.tile._matmul_into(input, other, *lists, epilogue=text, second=second[0] if second else None)

    compile_launches(device, launch)


def compile_operators(graph):
    """Compiles the kernels of the operators of tile_ops that a graph calls."""
    known = set()
    for node in graph.nodes:
        if node.op != "call_function" or getattr(node.target, "namespace", "") != "tile":
            continue
        values = [each.meta.get("val") for each in node.all_input_nodes]
        device = next((each.device for each in values if isinstance(each, torch.Tensor)), None)
        args = torch.fx.node.map_arg((node.args, node.kwargs), lambda each: _Likely(each.meta["val"]))
        key = repr((node.target, args))
        if device is not None and key not in known:
            known.add(key)
            compile_launches(device, functools.partial(_call, node.target, *args))


class _Likely:
    """A value of a graph, with likely sizes."""

    def __init__(self, value):
        self.value, self.place = size_hint(value) if isinstance(value, torch.SymInt) else value, None
        if isinstance(value, torch.Tensor):
            sizes, strides = ([size_hint(each) for each in part] for part in (value.shape, value.stride()))
            self.place = value.dtype, size_hint(value.storage_offset()), sizes, strides

    def __repr__(self):
        return repr(self.place or self.value)

    def made(self):
        return stand_in(*self.place) if self.place else self.value


def _call(target, args, kwargs):
    args, kwargs = torch.fx.node.map_aggregate((args, kwargs), lambda each: each.made() if isinstance(each, _Likely) else each)
    target(*args, **kwargs)


def compile_launches(device, call):
    """Compiles for the device, if it is a GPU, the kernels that call() launches with stand-ins; returns the Future, or None."""
    if device.type != "cuda" or not _keeps_code():
        return None
    index = torch.cuda.current_device() if device.index is None else device.index
    return _threads().submit(_compile, _target(index), call)


def _compile(target, call):
    try:
        _C.inspect("code", *target, call)
    except Exception:  # the launch raises it
        pass
