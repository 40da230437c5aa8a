"""What a few operators run on shards in place of themselves: masks and losses of the whole, rows of a table, lists."""

import torch
from torch.distributed.tensor import DTensor

from .plan import same


def dropped(name):
    """Dropout of a part: its elements have the numbers that they have in the whole."""

    def run(shards):
        whole = shards.call[name]
        steps, step = [0] * whole.dim(), 1
        for dim in reversed(range(whole.dim())):
            steps[dim] = step
            step = step * whole.shape[dim]
        first = sum(shards.begin(name, dim) * steps[dim] for dim in range(whole.dim()))
        from . import dropout  # the kernel language, which not everybody needs

        values = shards.values
        return (dropout.dropout(values[name], values["p"], values["seed"], first, steps),)

    return run


def _in_shard(shards):
    """Indices counted from this device's rows of the table, and which of them are other devices' rows."""
    weight, indices = shards.values["weight"], shards.values["indices"]
    rows = shards.call["weight"].shape[0]
    wrong = (indices < 0) | (indices >= rows)
    if type(indices) is torch.Tensor and indices.device.type == "cpu" and bool(wrong.any()):  # not while it is traced
        place = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(
            f"{shards.call.name}: indices{list(place)} is {indices[place].item()} and weight has {rows} rows; indices must "
            f"be from 0 to {rows - 1}"
        )
    own = indices - shards.begin("weight", 0)
    return own, (own < 0) | (own >= weight.shape[0]), wrong


def looked_up(shards):
    """The rows that are here; 0 for others, which their devices add."""
    weight = shards.values["weight"]
    own, elsewhere, wrong = _in_shard(shards)
    if weight.shape[0] == 0:
        out = weight.new_zeros(*own.shape, weight.shape[1])
    else:
        (out,) = shards.run(indices=own.masked_fill(elsewhere, 0), padding_idx=-1)
        out = out.masked_fill_(elsewhere.unsqueeze(-1), 0)
    return (out.masked_fill_(wrong.unsqueeze(-1), float("nan")),)  # as the operator on a GPU


def looked_up_backward(shards):
    """The gradient of the rows that are here. Others meet in one row more, which has none."""
    weight, padding = shards.values["weight"], shards.values["padding_idx"]
    rows = weight.shape[0]
    own, elsewhere, _ = _in_shard(shards)
    if padding >= 0:
        elsewhere = elsewhere | (shards.values["indices"] == padding)
    table = torch.empty((), dtype=weight.dtype, device=weight.device).expand(rows + 1, weight.shape[1])
    (grad,) = shards.run(weight=table, indices=own.masked_fill(elsewhere, rows), padding_idx=rows)
    return (grad[:rows],)


def mean_loss(shards):
    """The loss of some of the rows. A mean divides by what the rows of all devices weigh."""
    values = shards.values
    if values["reduction"] != "mean":
        return shards.run()
    weight, target, z_loss = values.get("weight"), values["target"], values["z_loss"]
    if "linear_cross_entropy" in shards.call.name:
        weight = None  # that of the layer, not of the classes
    wide = torch.float64 if values["input"].dtype == torch.float64 else torch.float32
    counted = target != values["ignore_index"]
    number = counted.sum().to(wide)
    weighs = number
    if weight is not None:
        classes = target.masked_fill(~counted, 0).clamp(0, max(weight.shape[0] - 1, 0)).long()
        weighs = (weight.to(wide)[classes] * counted).sum()
    rows = shards.split("n", "*s", "*r")
    divisors = shards.total(torch.stack([weighs, number]), rows)
    apart = weight is not None and z_loss != 0  # the two terms have divisors of their own
    saver = _saving(shards.call.func)
    out, lse, _ = shards.call.run_as(saver, {**values, "reduction": "sum", "z_loss": 0.0 if apart else z_loss})
    mean = out.to(wide) / divisors[0]
    if apart:
        each = lse.sum(-1) if lse.dim() > target.dim() else lse
        mean = mean + z_loss * (each.to(wide) ** 2).masked_fill(~counted, 0).sum() / divisors[1]
    made = (mean.to(out.dtype), lse, divisors)
    return made[: len(shards.call.func._schema.returns)]


def _saving(func):
    """The operator's variant that gives what the gradient needs, too."""
    bare = func._schema.name.split("::")[1]
    if bare.startswith("_"):
        return func
    return getattr(torch.ops.tile, f"_{bare}_saving").default


def lists(call):
    """An operator whose lists hold the tensors of one parameter at one place: each runs where its first tensor lies."""
    first = call.lists[0]
    local = dict(call.values)
    for name in call.lists:
        local[name] = [_beside(call, name, at, value, call[first][at]) for at, value in enumerate(call[name])]
    for name in call.tensors:  # numbers that all share
        value = call[name]
        local[name] = value.full_tensor() if isinstance(value, DTensor) else value
    call.run(local)
    return None


def _beside(call, name, at, value, home):
    """This device's part of a tensor that belongs to `home`."""
    if not isinstance(home, DTensor):
        return value.full_tensor() if isinstance(value, DTensor) else value
    if any(placement.is_partial() for placement in home.placements):
        raise ValueError(
            f"{call.name}: element {at} is on {list(home.placements)}, and parts of a sum cannot be updated alone; "
            "redistribute it to Shard or Replicate"
        )
    if value.numel() == 1 and home.numel() != 1:
        return value.full_tensor() if isinstance(value, DTensor) else value
    if not isinstance(value, DTensor):
        if value.dim() == 0 and home.dim() == 0:
            return value
        raise TypeError(
            f"{call.name}: {name}[{at}] is a plain tensor and its parameter a DTensor; make it one with "
            "distribute_tensor(...)"
        )
    alike = all(same(now, want) for now, want in zip(value.placements, home.placements))
    if value.device_mesh != home.device_mesh or not alike:
        if name in call.written:
            raise ValueError(
                f"{call.name}: {name}[{at}] is on {list(value.placements)} and its parameter on {list(home.placements)}; it is "
                "written, so both must be on the same"
            )
        value = value.redistribute(home.device_mesh, home.placements)
    return value.to_local()
