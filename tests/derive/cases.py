"""A case: an operator whose gradient is derived, with torch's form of it and arguments."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tile_ops.language as tl
import torch

NEG_INF, ZERO = tl.PaddingMode.NEG_INF, tl.PaddingMode.ZERO


def power(n):
    return 1 << max(0, n - 1).bit_length()


@dataclasses.dataclass(frozen=True)
class Case:
    """arguments: from a function of (*shape, dtype, change) that makes random tensors and changes them before autograd
    knows them. float32: the kernel computes in float32, so that gradcheck has too few digits."""

    name: str
    operator: Any
    reference: Callable[..., Any]
    arguments: Callable[..., tuple]
    float32: bool = False


CASES: dict[str, Case] = {}


def case(arguments, reference, float32=False):
    def add(operator):
        name = operator.__name__
        assert name not in CASES
        CASES[name] = Case(name, operator, reference, arguments, float32)
        return operator

    return add


def wide(array):
    """Returns the dtype in which a kernel computes: float64 if the array has it."""
    return tl.float64 if array.dtype == tl.float64 else tl.float32


def loaded(array, index, shape, padding_mode=ZERO):
    return tl.load(array, index, shape, padding_mode=padding_mode).astype(wide(array))


def row_outputs(x):
    return torch.empty(x.shape[:1], dtype=x.dtype, device=x.device)


def transposed(x):
    """Returns the same numbers with the strides of a transposed matrix."""
    return x.mT.contiguous().mT


def spread(x):
    """Returns the same numbers, one apart from the next."""
    return torch.stack((x, x), -1)[..., 0]
