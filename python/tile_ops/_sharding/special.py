"""Replaces a few operators on shards: dropout masks, mean losses, lookups in a split table, and lists of tensors."""

import torch
from torch.distributed.tensor import DTensor

from .plan import redistributed, same


def dropped(name):
    """Returns the function for dropout of a shard, which numbers elements as in the whole tensor."""

    def run(shards):
        whole = shards.call[name]
        steps, step = [0] * whole.dim(), 1
        for dim in reversed(range(whole.dim())):
            steps[dim] = step
            step = step * whole.shape[dim]
        first = sum(shards.begin(name, dim) * steps[dim] for dim in range(whole.dim()))
        from . import dropout  # imports the kernel language, so only when it is needed

        values = shards.values
        return (dropout.dropout(values[name], values["p"], values["seed"], first, steps),)

    return run


def require_valid(name, values, wrong, what, rest):
    """Raises ValueError for the first of `values` that `wrong` marks. On a GPU and while tracing it checks nothing."""
    if type(values) is torch.Tensor and values.device.type == "cpu" and bool(wrong.any()):
        index = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(f"{name}: {what}{list(index) if index else ''} is {values[index].item()} and {rest}")


def _in_shard(shards):
    """Returns indices relative to the local rows of the table, a mask of other devices' rows, and a mask of invalid ones."""
    weight, indices = shards.values["weight"], shards.values["indices"]
    rows = shards.call["weight"].shape[0]
    wrong = (indices < 0) | (indices >= rows)
    rest = f"weight has {rows} rows; indices must be from 0 to {rows - 1}"
    require_valid(shards.call.name, indices, wrong, "indices", rest)
    own = indices - shards.begin("weight", 0)
    return own, (own < 0) | (own >= weight.shape[0]), wrong


def looked_up(shards):
    """Looks up the local rows. Other rows are 0 here; their devices add them to the partial sum."""
    weight = shards.values["weight"]
    own, elsewhere, wrong = _in_shard(shards)
    if weight.shape[0] == 0:
        out = weight.new_zeros(*own.shape, weight.shape[1])
    else:
        (out,) = shards.run(indices=own.masked_fill(elsewhere, 0), padding_idx=-1)
        out = out.masked_fill_(elsewhere.unsqueeze(-1), 0)
    return (out.masked_fill_(wrong.unsqueeze(-1), float("nan")),)  # invalid indices are NaN, as in the operator on a GPU


def looked_up_backward(shards):
    """Returns the gradient of the local rows. Gradients of other rows go to one extra row, which is dropped."""
    weight, padding = shards.values["weight"], shards.values["padding_idx"]
    rows = weight.shape[0]
    own, elsewhere, _ = _in_shard(shards)
    if padding >= 0:
        elsewhere = elsewhere | (shards.values["indices"] == padding)
    table = torch.empty((), dtype=weight.dtype, device=weight.device).expand(rows + 1, weight.shape[1])
    (grad,) = shards.run(weight=table, indices=own.masked_fill(elsewhere, rows), padding_idx=rows)
    return (grad[:rows],)


def mean_loss(shards, class_weights=None):
    """Computes the loss of the local rows. A mean divides by the total weight of all devices' rows."""
    values = shards.values
    if values["reduction"] != "mean":
        return shards.run()
    weight, target, z_loss = class_weights, values["target"], values["z_loss"]
    wide = torch.float64 if values["input"].dtype == torch.float64 else torch.float32
    counted = target != values["ignore_index"]
    number = counted.sum().to(wide)
    weighs = number
    if weight is not None:
        classes = target.masked_fill(~counted, 0).clamp(0, max(weight.shape[0] - 1, 0)).long()
        weighs = (weight.to(wide)[classes] * counted).sum()
    rows = shards.split("n", "*s", "*r")
    divisors = shards.total(torch.stack([weighs, number]), rows)
    separate = weight is not None and z_loss != 0  # the two terms have different divisors
    saver = _saving(shards.call.func)
    out, lse, _, *early = shards.call.run_as(saver, {**values, "reduction": "sum", "z_loss": 0.0 if separate else z_loss})
    mean = out.to(wide) / divisors[0]
    if separate:
        each = lse.sum(-1) if lse.dim() > target.dim() else lse
        mean = mean + z_loss * (each.to(wide) ** 2).masked_fill(~counted, 0).sum() / divisors[1]
    made = (mean.to(out.dtype), lse, divisors, *early)
    return made[: len(shards.call.func._schema.returns)]


def weighted_mean_loss(shards):
    """Computes the same loss for an operator whose argument `weight` weighs the classes."""
    return mean_loss(shards, shards.values["weight"])


def _saving(func):
    """Returns the operator's variant that also returns what the gradient needs."""
    bare = func._schema.name.split("::")[1]
    if bare.startswith("_"):
        return func
    return getattr(torch.ops.tile, f"_{bare}_saving").default


def lists(call):
    """Runs an operator whose lists hold one parameter's tensors at each index, on the placements of the first list's tensor."""
    first = call.lists[0]
    local = dict(call.values)
    for name in call.lists:
        local[name] = [_beside(call, name, at, value, call[first][at]) for at, value in enumerate(call[name])]
    for name in call.tensors:  # scalars that all parameters share
        value = call[name]
        local[name] = value.full_tensor() if isinstance(value, DTensor) else value
    call.run(local)
    return None


def _beside(call, name, at, value, home):
    """Returns the local shard of a list's element, placed like `home`, its parameter."""
    if not isinstance(home, DTensor):
        return value.full_tensor() if isinstance(value, DTensor) else value
    if any(placement.is_partial() for placement in home.placements):
        raise ValueError(
            f"{call.name}: element {at} is on {list(home.placements)}, and a partial sum cannot be updated in place; "
            "redistribute it to Shard or Replicate"
        )
    if value.numel() == 1 and home.numel() != 1:
        return value.full_tensor() if isinstance(value, DTensor) else value
    if not isinstance(value, DTensor):
        if value.dim() == 0 and home.dim() == 0:
            return value
        raise TypeError(
            f"{call.name}: {name}[{at}] is a plain tensor and its parameter is a DTensor; convert it with "
            "distribute_tensor(...)"
        )
    alike = all(same(now, want) for now, want in zip(value.placements, home.placements))
    if value.device_mesh != home.device_mesh or not alike:
        if name in call.written:
            raise ValueError(
                f"{call.name}: {name}[{at}] is on {list(value.placements)} and its parameter on {list(home.placements)}; it is "
                "written, so their placements must be equal"
            )
        value = redistributed(value, home.device_mesh, home.placements)
    return value.to_local()
