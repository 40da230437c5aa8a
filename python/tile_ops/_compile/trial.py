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
    from tile_ops.language.core.errors import TileError

    try:
        tile_kernel(name, text)._written(_stand_ins(layout, tensors))
    except TileError:
        raise
    except Exception:  # stand-ins of tensors can be refused for other reasons than the text
        return


def _stand_ins(layout, tensors):
    """Returns arguments of a kernel without memory."""
    from torch._subclasses import FakeTensorMode

    arguments = []
    with FakeTensorMode():
        for kind, *rest in layout:
            if kind == "array":
                which, sizes, strides = rest
                dtype, device = tensors[which]
                arguments.append(torch.empty_strided(sizes, strides, dtype=dtype, device=device))
            else:
                arguments.append(rest[0])
    return tuple(arguments)


def texts(name, text, layout, dtypes):
    """Returns the Tile IR of a kernel; and that of a launch in which arrays with sizes that vary are far, or "" if it is the same.

    An array is far if its elements lie further apart than int32 says. The kernel then computes its shape and strides in int64.
    """
    return _texts(name, text, tuple(layout), tuple(dtypes))


@functools.lru_cache(4096)
def _texts(name, text, layout, dtypes):
    tensors = [(dtype, "cpu") for dtype in dtypes]  # a launch states the facts of its device

    def known(far):
        for kind, *rest in layout:
            if kind == "number":
                yield kind, 1
                continue
            which, _, sizes, strides = rest
            if any(isinstance(each, str) for each in (*sizes, *strides)):
                others = [1] * (len(sizes) - 1)
                sizes, strides = (2 if far else 1, *others), (2**32 if far else 1, *others)
            yield kind, which, sizes, strides

    near, far = (tile_kernel(name, text)._ir(_stand_ins(known(far), tensors), False) for far in (False, True))
    return near, "" if near == far else far
