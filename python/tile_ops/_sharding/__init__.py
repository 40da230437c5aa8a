"""Runs operators on torch's DTensors: registers a sharding rule for each when torch.distributed.tensor is imported.

Nothing here imports it before the program does, because that is slow. signature.py defines the notation, table.py
the rules.
"""

import sys
from collections.abc import Callable

import torch

from .._on_import import on_import

_DTENSOR = "torch.distributed.tensor"
_waiting = set()  # names that are not registered with torch yet
_told = {}  # name: the torch.library.Library that registers it
dtensors = []  # the class DTensor, once it is imported


def _dispatch(*call):
    from .dispatch import dispatch

    return dispatch(*call)


def _tell(name):
    if name in _told:
        return
    library = torch.library.Library(name.split("::")[0], "FRAGMENT")
    torch.library.register_torch_dispatch(name, dtensors[0], _dispatch, lib=library)
    _told[name] = library


def _tell_all(module):
    """Runs at the end of the import of torch.distributed.tensor, so it must not import other modules or fail."""
    if not dtensors:
        dtensors.append(module.DTensor)
    # All operators of the C++ library, private ones too; each has a row in the table.
    built_in = {full.split(".")[0] for full in torch._C._dispatch_get_all_op_names() if full.startswith("tile::")}
    for name in sorted(built_in | _waiting):
        _tell(name)
    _waiting.clear()


def define(name, rule):
    """Stores the rule of an operator (None removes it). It is registered with torch when DTensors are imported."""
    from . import rules

    rules.give(name, rule)
    namespace, bare = name.split("::")
    for each in (name, f"{namespace}::_{bare}_saving"):
        _tell(each) if dtensors else _waiting.add(each)


def define_gradient(name, rule, tensors, results):
    """Stores the rule of a gradient operator, derived from the operator's rule and the names of its tensors and results."""
    from .named import Forward, gradient_rule

    define(name, gradient_rule(Forward(rule, tensors, results)))


def register_sharding(name: str, rule: str | Callable[..., str]) -> None:
    """Registers how an operator runs on DTensors: register_sharding("mine::scale", "pointwise").

    name: "namespace::operator", defined in C++ or in Python. Its gradient operator needs a rule under its own name; its
    variant that saves results for the gradient uses the operator's rule.

    rule: "pointwise": all tensors broadcast, and any axis may be split. "rows": the first tensor, others of its rank and
    the results may be split along every axis but the last; other tensors are whole on every device. "whole": nothing is
    split. Or a string that names the axes, "x[*r N] weight[N] -> out[*r N]": a lower-case axis may be split, an upper-case
    one stays whole, *r is any number of axes, and results beyond the operator's are the saved ones. Or a function of the
    call that returns one of these; call["dim"] is an argument, call["x"].shape a tensor's sizes.

    Errors: TypeError and ValueError for an invalid rule. A rule that does not fit a call raises when the call is made.
    """
    if not isinstance(name, str) or name.count("::") != 1:
        raise ValueError(f'register_sharding: {name!r} is not an operator name; write "mine::scale"')
    if rule is None:
        raise TypeError(f'register_sharding: the rule of {name} is None; pass "whole" to split nothing')
    define(name, rule)


def of_first_device(tensor, like):
    """Returns an integer tensor with the values that the first device of like's mesh has. A plain `like` changes nothing."""
    if not hasattr(like, "device_mesh"):
        return tensor
    from torch.distributed.tensor import DTensor, Partial

    mesh = like.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None:  # this process is not part of the mesh, which the operator's error says
        return tensor
    mine = torch.zeros_like(tensor) if any(coordinate) else tensor
    return DTensor.from_local(mine, mesh, [Partial()] * mesh.ndim, run_check=False).full_tensor()


def start():
    """Registers the operators now or when torch.distributed.tensor is imported. tile_ops calls it once."""
    module = sys.modules.get(_DTENSOR)
    _tell_all(module) if hasattr(module, "DTensor") else on_import(_DTENSOR, _tell_all)
