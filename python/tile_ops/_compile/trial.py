"""Traces a generated kernel while its graph is compiled: an error of its text is then found before the graph runs."""

import functools

import torch

from .launch import tile_kernel


def trace(name, text, layout, numbers, tensors):
    """Raises the error of a kernel's text. numbers: likely values of the run-time numbers; tensors: (dtype, device) of each."""

    def value(each):
        return numbers[each] if isinstance(each, str) else each

    known = tuple(
        (kind, rest[0], tuple(map(value, rest[2])), tuple(map(value, rest[3]))) if kind == "array" else (kind, value(rest[0]))
        for kind, *rest in layout
    )
    _trace(name, text, known, tuple(tensors))


@functools.lru_cache(4096)  # layers of a model have equal kernels
def _trace(name, text, layout, tensors):
    from torch._subclasses import FakeTensorMode

    from tile_ops.language.core.errors import TileError

    arguments = []
    with FakeTensorMode():
        for kind, *rest in layout:
            if kind == "array":
                which, sizes, strides = rest
                dtype, device = tensors[which]
                arguments.append(torch.empty_strided(sizes, strides, dtype=dtype, device=device))
            else:
                arguments.append(rest[0])
    try:
        tile_kernel(name, text)._written(tuple(arguments))
    except TileError:
        raise
    except Exception:  # stand-ins of tensors can be refused for other reasons than the text
        return
