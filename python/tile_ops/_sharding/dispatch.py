"""Runs an operator on DTensors: redistributes the arguments, runs it on the local shards and wraps the results."""

import torch
from torch.distributed.tensor import DTensor, Partial, Replicate

from . import rules
from .call import Call
from .plan import Planner, global_layout, redistributed, same

_plans = {}
_MOST_PLANS = 4096


def dispatch(cls, func, types, args, kwargs):
    """The function that torch.library.register_torch_dispatch calls for each registered operator."""
    rule = rules.rule_of(func._schema.name)
    with torch.no_grad():  # autograd has already recorded the call
        call = Call(func, args, kwargs)
        if rule.whole_call:
            return rule.whole_call(call)
        if call.lists:
            raise NotImplementedError(
                f"{call.name}: {call.lists[0]!r} is a list of tensors, which sharding rules cannot split; call it with the "
                "to_local() of each tensor"
            )
        return _results(call, Shards(call, _plan(call, rule)))


def _plan(call, rule):
    try:
        key = (rule, call.key(rule.shared))
    except TypeError:
        return Planner(call, rule).best()
    plan = _plans.get(key)
    if plan is None:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        plan = _plans[key] = Planner(call, rule).best()
    return plan


class Shards:
    """The local part of a call, which special rules compute with.

    values: the arguments by name; tensors are local shards. coordinate: this device's coordinate in the mesh.
    """

    def __init__(self, call, plan):
        self.call, self.plan, self.mesh = call, plan, call.mesh
        self.coordinate = call.mesh.get_coordinate()
        if self.coordinate is None:
            raise RuntimeError(f"{call.name}: this process is not part of {call.mesh}; call it where the tensors are")
        self.values = dict(call.values)
        for name, placements in plan.inputs.items():
            self.values[name] = self._local(name, placements)

    def _local(self, name, placements):
        value = self.call[name]
        if not isinstance(value, DTensor):
            if all(placement.is_replicate() for placement in placements):
                local = value
            else:
                whole = DTensor.from_local(value.detach(), self.mesh, [Replicate()] * self.mesh.ndim, run_check=False)
                local = whole.redistribute(placements=placements).to_local()
        elif all(same(now, want) for now, want in zip(value.placements, placements)):
            local = value.to_local()
        else:
            local = redistributed(value, self.mesh, placements).to_local()
        if any(self.coordinate[at] != 0 for at in self.plan.once.get(name, ())):
            return torch.zeros((), dtype=local.dtype, device=local.device).expand(local.shape)
        return local

    def split(self, *words):
        """Returns the mesh dimensions that split an axis of one of these words."""
        plan = self.plan
        return [at for axis, dims in plan.splits.items() if plan.resolved.within(axis, words) for at in dims]

    def begin(self, name, dim):
        """Returns the global index at which this device's shard of an argument begins, along one dimension."""
        begin, extent = 0, self.call[name].shape[dim]
        for at, placement in enumerate(self.plan.inputs[name]):
            if placement.is_shard(dim):
                chunk = -(-extent // self.mesh.size(at))
                first = min(chunk * self.coordinate[at], extent)
                begin, extent = begin + first, min(chunk, extent - first)
        return begin

    def total(self, tensor, dims):
        """Returns the sum of the devices' tensors over some mesh dimensions."""
        return self._combined(tensor, dims, "sum")

    def greatest(self, tensor, dims):
        """Returns the maximum of the devices' tensors over some mesh dimensions."""
        return self._combined(tensor, dims, "max")

    def _combined(self, tensor, dims, kind):
        placements = [Partial(kind) if at in dims else Replicate() for at in range(self.mesh.ndim)]
        return DTensor.from_local(tensor, self.mesh, placements, run_check=False).full_tensor()

    def run(self, **changes):
        """Runs the operator on the local shards, with `changes` instead of some values."""
        return self.call.run({**self.values, **changes})


def _results(call, shards):
    plan = shards.plan
    made = plan.special(shards) if plan.special else shards.run()
    if not plan.outputs:
        return None
    wrapped = []
    for local, placements, source in zip(made, plan.outputs, plan.sources, strict=True):
        if local is None:
            wrapped.append(None)
            continue
        shape, stride = global_layout(local, placements, call.mesh, source)
        wrapped.append(
            DTensor.from_local(local, call.mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride)
        )
    return tuple(wrapped) if len(wrapped) > 1 else wrapped[0]
