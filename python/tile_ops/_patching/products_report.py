"""The report's rows of products: for which calls of a swapped module ours computes them, and why."""

import torch

from .. import _products
from .._products import FUSED, PAIR, PLAIN

# The kinds of products in the classes of classes.py that have patch's option products.
KINDS = {
    "Linear": (PLAIN, FUSED),
    "Head": (PLAIN, FUSED),
    "TransposedLinear": (PLAIN, FUSED),
    "GatedMLP": (PAIR,),
    "MultiheadAttention": (PLAIN,),
}


def _weight(module, name):
    """Returns (a module's weight, its columns, its depth) of the products in a class of classes.py, or None."""
    if name == "GatedMLP":
        parts = [module._modules[each] for each in ("gate_proj", "gate_up_proj") if each in module._modules]
        weight, halves = getattr(parts[0], "weight", None), 1 if parts[0] is module._modules.get("gate_proj") else 2
    elif name == "MultiheadAttention":
        weight, halves = module.q_proj_weight if module.in_proj_weight is None else module.in_proj_weight, 1
    else:
        weight, halves = module.weight, 1
    if not isinstance(weight, torch.Tensor) or weight.dim() != 2:
        return None
    columns, depth = reversed(weight.shape) if name == "TransposedLinear" else weight.shape
    return weight, columns // halves, depth


def row(module, name, products):
    """Returns the text for a module that gets the class `name`, or None if it has no products. products: patch's option."""
    if name not in KINDS:
        return None
    if products != "measured":
        return "ours, as asked" if products == "tile" else "torch's, as asked"
    found = _weight(module, name)
    if found is None:
        return "torch's, as its weight is no matrix"
    weight, columns, depth = found
    texts = {kind: _products.described(weight.device, weight.dtype, depth, columns, kind) for kind in KINDS[name]}
    if not any(texts.values()):
        dtype = str(weight.dtype).removeprefix("torch.")
        return f"torch's, as ours was not faster in {dtype} and these sizes on this {weight.device.type}"
    texts = [f"{'with an activation ' if kind == FUSED else ''}ours {text}" for kind, text in texts.items() if text]
    both = len(texts) == 2 and texts[0] == texts[1].removeprefix("with an activation ")
    return f"{'; '.join(texts[:1] if both else texts)}; else torch's"
