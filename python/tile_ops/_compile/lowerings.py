"""Operators that are called instead of being written out, while our backend compiles."""

import functools

import torch
from torch._inductor import lowering

from .active import current

aten = torch.ops.aten

# Rows that are gathered are faster in one call than inside of each kernel that reads them.
_GATHERED = (aten.embedding.default, aten.embedding_dense_backward.default)
# Kernels have no atomic stores of inductor's kind: torch's own are deterministic where torch says so.
_ADDED = (
    aten.scatter_add,
    aten.scatter_add_,
    aten.scatter_reduce,
    aten.scatter_reduce_,
    aten.index_add,
    aten.index_add_,
    aten._unsafe_masked_index_put_accumulate,
)
# Kernels have no formula for these.
_UNWRITTEN = (
    "lgamma digamma erfc erfinv i0 i0e i1 i1e polygamma igamma igammac special_bessel_j0 special_bessel_j1 special_zeta "
    "special_ndtri special_log_ndtr special_erfcx special_i0e special_i1 special_i1e nextafter hypot copysign frexp acosh asinh "
    "atanh bucketize searchsorted ldexp gcd"
).split()


def _overloads(packet):
    return [getattr(packet, name) for name in packet.overloads()]


CALLED = frozenset(
    [
        *_GATHERED,
        *(each for packet in _ADDED for each in _overloads(packet)),
        *(each for name in _UNWRITTEN if hasattr(aten, name) for each in _overloads(getattr(aten, name))),
    ]
)
KEPT = (aten.embedding_dense_backward.default, aten.embedding_backward.default)  # they are not decomposed


@functools.cache
def _handler(target):
    return lowering.fallback_handler(target, add_to_fallback_set=False)


def is_called(target):
    compile = current()
    return compile is not None and (target in CALLED or target in compile.fallbacks)


class Lowerings(dict):
    """Inductor's table, in which our compiles find calls of the operators that they do not fuse."""

    def __getitem__(self, target):
        if is_called(target):
            return _handler(target)
        return super().__getitem__(target)

    def __contains__(self, target):
        return super().__contains__(target) or (isinstance(target, torch._ops.OpOverload) and is_called(target))


@functools.cache
def install():
    from torch._inductor import graph

    table = Lowerings(lowering.lowerings)
    lowering.lowerings = table
    for module in (graph,):
        module.lowerings = table
