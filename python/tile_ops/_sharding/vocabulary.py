"""Implements cross_entropy on classes that are split over devices: they exchange sums and maxima of rows, not logits."""

import torch

from .special import require_valid


class _Rows:
    """The values that forward and backward share: local logits with the classes last, targets, and weights.

    counted: rows whose target is not ignored. here: rows whose target is a local class. own: that class's local index.
    """

    def __init__(self, shards):
        self.shards, values = shards, shards.values
        self.axis = 0 if shards.call["input"].dim() == 1 else 1
        self.dims = shards.split("c")
        self.wide = torch.float64 if values["input"].dtype == torch.float64 else torch.float32
        self.logits = values["input"].movedim(self.axis, -1).to(self.wide)
        self.classes = shards.call["input"].shape[self.axis]
        self.smoothing, self.z_loss = values["label_smoothing"], values["z_loss"]
        target = values["target"]
        self.counted = target != values["ignore_index"]
        self.wrong = self.counted & ((target < 0) | (target >= self.classes))
        rest = f"input has {self.classes} classes; targets must be from 0 to {self.classes - 1}, or ignore_index"
        require_valid(shards.call.name, target, self.wrong, "target", rest)
        own = target.long() - shards.begin("input", self.axis)
        self.here = self.counted & (own >= 0) & (own < self.logits.shape[-1])
        self.own = own.masked_fill(~self.here, 0)
        self.weight = values["weight"].to(self.wide) if values["weight"] is not None else None

    def at_target(self, values):
        """Returns each row's value at its target class, and 0 if another device has that class."""
        if values.shape[-1] == 0:
            return torch.zeros(self.own.shape, dtype=self.wide, device=self.own.device)
        return values.gather(-1, self.own.unsqueeze(-1)).squeeze(-1).masked_fill(~self.here, 0)

    def total(self, *rows):
        """Returns the sums of tensors of rows over the devices that share the classes."""
        return self.shards.total(torch.stack(rows), self.dims)

    def weights(self):
        """Returns the weight of each row's target, and the sum of all classes' weights."""
        if self.weight is None:
            return self.counted.to(self.wide), self.classes
        each, everything = self.total(
            self.at_target(self.weight.expand(self.logits.shape)), self.weight.sum().expand(self.own.shape)
        )
        return each, everything


def forward(shards):
    """Returns the loss and, for the gradient, lse and the divisors of a mean."""
    rows = _Rows(shards)
    local = torch.logsumexp(rows.logits, -1) if rows.logits.shape[-1] else rows.own.new_full(
        rows.own.shape, -torch.inf, dtype=rows.wide)  # fmt: skip
    top = shards.greatest(local, rows.dims)
    safe = top.masked_fill(top.isinf(), 0)
    sums, at_target, weighted = rows.total(
        torch.exp(local - safe), rows.at_target(rows.logits),
        (rows.logits if rows.weight is None else rows.logits * rows.weight).sum(-1),
    )  # fmt: skip
    lse = safe + sums.log()
    weight, everything = rows.weights()
    loss = (1 - rows.smoothing) * weight * (lse - at_target)
    if rows.smoothing:
        loss = loss + rows.smoothing / rows.classes * (everything * lse - weighted)
    square = rows.z_loss * lse**2 if rows.z_loss else torch.zeros_like(lse)
    loss, square = (each.masked_fill(~rows.counted, 0).masked_fill(rows.wrong, torch.nan) for each in (loss, square))
    reduction, divisors = shards.values["reduction"], None
    if reduction == "mean":
        here = torch.stack([weight.masked_fill(~rows.counted, 0).sum(), rows.counted.sum().to(rows.wide)])
        divisors = shards.total(here, shards.split("n", "*s"))
        out = loss.sum() / divisors[0] + (square.sum() / divisors[1] if rows.z_loss else 0)
    else:
        out = loss + square if reduction == "none" else (loss + square).sum()
    saved = torch.stack([lse, torch.zeros_like(lse)], -1) if shards.values["input"].dtype == torch.float32 else lse
    made = (out.to(shards.values["input"].dtype), saved, divisors)
    return made[: len(shards.call.func._schema.returns)]


def backward(shards):
    """Returns the gradient of the local logits."""
    rows, values = _Rows(shards), shards.values
    lse = values["lse"].to(rows.wide)
    lse = lse.sum(-1) if lse.dim() > rows.own.dim() else lse
    divisors = values["divisors"]
    incoming = values["grad_out"].to(rows.wide).expand(rows.own.shape)
    first, second = (incoming / each for each in divisors) if values["reduction"] == "mean" else (incoming, incoming)
    weight, everything = rows.weights()
    first, second = (each.masked_fill(~rows.counted, 0).masked_fill(rows.wrong, torch.nan) for each in (first, second))
    at_target = (1 - rows.smoothing) * weight * first
    factor = at_target + rows.smoothing / rows.classes * everything * first
    if rows.z_loss:
        factor = factor + 2 * rows.z_loss * lse * second
    grad = torch.exp(rows.logits - lse.unsqueeze(-1)) * factor.unsqueeze(-1)
    if rows.smoothing:
        of_class = rows.smoothing / rows.classes * first.unsqueeze(-1)
        grad = grad - (of_class if rows.weight is None else of_class * rows.weight)
    if grad.shape[-1]:
        taken = at_target.masked_fill(~rows.here, 0)
        grad = grad.scatter_add(-1, rows.own.unsqueeze(-1), -taken.unsqueeze(-1))
    grad = grad.masked_fill(~rows.counted.unsqueeze(-1), 0)
    result = torch.empty_like(values["input"])
    return (result.copy_(grad.movedim(-1, rows.axis)),)
