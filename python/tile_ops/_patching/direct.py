"""Calls of patched modules that C++ makes at once, because Python's checks take longer than the host's part of a kernel.

Each returns NotImplemented where a tensor is of another class, device or dtype, where a mode has to see the call, or where our
operator refuses the arguments; Python's own code then decides. Dynamo cannot trace them.
"""

import torch

from .. import _products

try:
    from .. import _C
except ImportError:  # a build without Python.h
    _C = None


def _limits(device, dtype, kind):
    return _products.limits(torch.device(device), dtype, kind)


def _never(*arguments):
    return NotImplemented


if _C is None:
    linear = transposed_linear = is_product_ours = attention = _never
else:
    _C.read_modules_of(torch.nn.Module)
    _C.products_by(_limits, _products.LEAST_WEIGHTS)
    linear, transposed_linear, is_product_ours = _C.patched_linear, _C.patched_transposed_linear, _C.is_product_ours
    attention = _C.patched_attention


def _call(name, *arguments, integers=False, exact=False):
    """Returns a function of a module: it calls the operator with these attributes, and what the caller gives in the places of
    None."""
    return _call_of(f"tile::{name}", arguments, integers, exact)


def _call_of(name, arguments, integers, exact):
    return _C.module_call(name, arguments, integers, exact) if _C else _never


def operator(name, count):
    """Returns a function of None and so many floating tensors of one dtype, or numbers, that calls the operator of this name."""
    return _call_of(name, (None,) * count, False, True)


layer_norm = _call("layer_norm", None, "normalized_shape", "weight", "bias", "eps")
rms_norm = _call("rms_norm", None, "normalized_shape", "weight", "eps")
other_rms_norm = _call("rms_norm", None, None, "weight", None, exact=True)
group_norm = _call("group_norm", None, "num_groups", "weight", "bias", "eps", None)
embedding = _call("embedding", "weight", None, None, integers=True)
softmax_module = _call("softmax", None, "dim")
log_softmax_module = _call("log_softmax", None, "dim")
# Functions: the module is None.
softmax = _call("softmax", None, None, None)
log_softmax = _call("log_softmax", None, None, None)
rope = _call("rope", None, None, None, None, exact=True)
cross_entropy = _call("cross_entropy", None, None, None, None, None, None, integers=True)
swiglu = _call("swiglu", None, None)
geglu = _call("geglu", None, None, None)
