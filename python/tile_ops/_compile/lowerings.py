"""Operators that are called instead of being written out, while our backend compiles."""

import functools

import torch
from torch._inductor import lowering
from torch._inductor.virtualized import V

from .active import current
from .compat import size_hint as hint

aten = torch.ops.aten


def _overloads(packet):
    return [getattr(packet, name) for name in packet.overloads()]


def _functional(names):
    """Returns the overloads of torch's operators without those that write to `out` or name dimensions."""
    found = [each for name in names.split() for each in _overloads(getattr(aten, name))]
    return frozenset(each for each in found if "out" not in each._overloadname and "dimname" not in each._overloadname)


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

_PRODUCTS = "mm addmm bmm baddbmm convolution convolution_backward".split()
_ONE_CALL = "faster as one call"
# {operator: why it is called}
REASONS = {
    **dict.fromkeys(_GATHERED, _ONE_CALL),
    **{each: "kernels have no sums into gathered elements" for packet in _ADDED for each in _overloads(packet)},
    **{
        each: "kernels have no formula"
        for name in _UNWRITTEN
        if hasattr(aten, name)
        for each in _overloads(getattr(aten, name))
    },
}
CALLED = frozenset(REASONS)
KEPT = (aten.embedding_dense_backward.default, aten.embedding_backward.default)  # they are not decomposed
# On a CPU, elements that are gathered one by one inside of a kernel cost more than a call that copies rows.
_CALLED_ON_CPU = _functional("index _unsafe_index index_select upsample_nearest1d upsample_nearest2d upsample_nearest3d")
KEPT_ON_CPU = tuple(each for each in _CALLED_ON_CPU if "upsample" in str(each))
# (operator, the place of its input) that are not decomposed on a CPU for images: inductor lets the channels of images lie side by
# side for convolutions, and a group's, which are few, are then no vector of a kernel (`benchmarks/compiled.py --only 'U-Net'`).
CALLED_OF_IMAGES = {aten.native_group_norm.default: 0, aten.native_group_norm_backward.default: 1}

_REASON_TEXTS = {
    str(target): why
    for target, why in [*dict.fromkeys((*_CALLED_ON_CPU, *CALLED_OF_IMAGES), _ONE_CALL).items(), *REASONS.items()]
}


def reason_of(name):
    """Returns why a graph calls an operator, where no kernel was refused. name: aten.mm, or with the overload."""
    library, operator = name.split(".")[:2]
    if library == "aten" and operator in _PRODUCTS:
        return _ONE_CALL
    return _REASON_TEXTS.get(name, "inductor calls it" if library == "aten" else "an operator of another library")


@functools.cache
def _handler(target):
    call = lowering.fallback_handler(target, add_to_fallback_set=False)
    if not target._schema.name.endswith("_"):
        return call

    def changed(first, *args, **kwargs):
        """An operator that changes its argument returns it: inductor would take its result for other memory."""
        first.realize()
        V.graph.mark_buffer_mutated(first.get_name())  # inductor leaves out that what reads the old values comes before
        call(first, *args, **kwargs)
        return first

    return changed


def is_called(target):
    compile = current()
    if compile is None:
        return False
    return target in CALLED or target in compile.fallbacks or (target in _CALLED_ON_CPU and not compile.on_gpu)


# Costly functions. Inductor computes them again for each element that reads them, also where a few values are broadcast to
# many elements, as the angles of a rotary embedding are to all heads.
COSTLY = _functional("sin cos tan exp log pow tanh sigmoid erf gelu silu sqrt rsqrt softplus expm1 log1p")
BROADCAST = 4  # times as many elements read them


def is_broadcast_later(node):
    """Returns True if elementwise operators and views lead from the node to a value of many more elements."""
    value = node.meta.get("val") if node is not None else None
    if not isinstance(value, torch.Tensor):
        return False
    own, seen, waiting = value.numel(), set(), [(node, 0)]
    while waiting:
        at, depth = waiting.pop()
        if at in seen or depth > 8:
            continue
        seen.add(at)
        for user in at.users:
            made = user.meta.get("val")
            if not isinstance(made, torch.Tensor) or not isinstance(user.target, torch._ops.OpOverload):
                continue
            if not (torch.Tag.pointwise in user.target.tags or user.target.is_view):
                continue
            if hint(made.numel()) >= BROADCAST * hint(own):
                return True
            waiting.append((user, depth + 1))
    return False


def let_call(target):
    """Makes the lowering of an operator ask whether to call it."""
    own = lowering.lowerings.get(target)
    if own is None or target in _asking:
        return
    _asking.add(target)

    @functools.wraps(own)
    def asked(*args, **kwargs):
        if is_called(target):
            return _handler(target)(*args, **kwargs)
        result = own(*args, **kwargs)
        if current() is not None and target in COSTLY and is_broadcast_later(V.graph.current_node):
            result.realize()
        return result

    lowering.lowerings[target] = asked


_asking = set()


def install():
    # Operators without a lowering get one that calls them.
    for target in (*KEPT, *KEPT_ON_CPU, *CALLED_OF_IMAGES):
        if target not in lowering.lowerings:
            lowering.lowerings[target] = _handler(target)
    for target in CALLED | COSTLY | _CALLED_ON_CPU:
        let_call(target)
