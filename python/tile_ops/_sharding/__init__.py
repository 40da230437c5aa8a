"""Operators on torch's DTensors: watches for torch.distributed.tensor, and then tells it how each one is split.

Nothing here imports it before the program does: that takes a second. signature.py holds the notation, table.py the rules.
"""

import importlib.util
import sys
from collections.abc import Callable

import torch

_DTENSOR = "torch.distributed.tensor"
_waiting = set()  # names that torch is not told of yet
_told = {}  # name: the library that tells it
dtensors = []  # the class DTensor, once it is imported


class _OnImport:
    """A finder that steps aside when torch.distributed.tensor is imported, and speaks when that is done."""

    def find_spec(self, name, path=None, target=None):
        if name != _DTENSOR:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            try:
                run(module)
            except BaseException:
                _watch()
                raise
            _tell_all()

        spec.loader.exec_module = exec_module
        return spec


def _watch():
    if not any(isinstance(finder, _OnImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OnImport())


def _dispatch(*call):
    from .dispatch import dispatch

    return dispatch(*call)


def _tell(name):
    if name in _told:
        return
    library = torch.library.Library(name.split("::")[0], "FRAGMENT")
    torch.library.register_torch_dispatch(name, dtensors[0], _dispatch, lib=library)
    _told[name] = library


def _tell_all():
    """At the end of the import of torch.distributed.tensor: nothing here may import more than that, or fail."""
    if not dtensors:
        dtensors.append(sys.modules[_DTENSOR].DTensor)
    # What the library holds, hidden operators too; all have a row in the table.
    built_in = {full.split(".")[0] for full in torch._C._dispatch_get_all_op_names() if full.startswith("tile::")}
    for name in sorted(built_in | _waiting):
        _tell(name)
    _waiting.clear()


def _is_there():
    return hasattr(sys.modules.get(_DTENSOR), "DTensor")


def define(name, rule):
    """Keeps the rule of an operator, or forgets it (None), and tells torch to ask here: when DTensors are imported."""
    from . import rules

    rules.give(name, rule)
    namespace, bare = name.split("::")
    for each in (name, f"{namespace}::_{bare}_saving"):
        _tell(each) if dtensors else _waiting.add(each)


def define_gradient(name, rule, tensors, results):
    """Keeps, for a gradient operator, what follows from the operator's rule and the names of its tensors and results."""
    from .named import Forward, gradient_rule

    define(name, gradient_rule(Forward(rule, tensors, results)))


def register_sharding(name: str, rule: str | Callable[..., str]) -> None:
    """Says how an operator runs on DTensors: register_sharding("mine::scale", "pointwise").

    name: "namespace::operator", of C++ or of Python; its gradient operator has a name and a rule of its own, and its
    variant that saves results for the gradient has that of the operator.

    rule: "pointwise": all tensors are broadcast, and any axis may be split. "rows": the leading axes, all but the last, of
    the first tensor, of others of its rank and of the results are split; other tensors are whole on every device.
    "whole": nothing is split. Or a text that names the axes, "x[*r N] weight[N] -> out[*r N]": a lower-case axis may be
    split, an upper-case one stays whole, *r is any number of axes, further results are those that are saved. Or a
    function of the call that gives one of these; call["dim"] is an argument, call["x"].shape a tensor's sizes.

    Errors: TypeError and ValueError for what is no rule; a call that does not fit says so when it is made.
    """
    if not isinstance(name, str) or name.count("::") != 1:
        raise ValueError(f'register_sharding: {name!r} is no operator\'s name; write "mine::scale"')
    if rule is None:
        raise TypeError(f'register_sharding: the rule of {name} is None; give "whole" where nothing is to be split')
    define(name, rule)


def of_first_device(tensor, like):
    """A tensor of integers as the first device of like's mesh has it, where `like` is a DTensor."""
    if not hasattr(like, "device_mesh"):
        return tensor
    from torch.distributed.tensor import DTensor, Partial

    mesh = like.device_mesh
    mine = tensor if not any(mesh.get_coordinate()) else torch.zeros_like(tensor)
    return DTensor.from_local(mine, mesh, [Partial()] * mesh.ndim, run_check=False).full_tensor()


def start():
    """Called once, by tile_ops."""
    _tell_all() if _is_there() else _watch()
