"""patch and unpatch: let our operators compute the modules of an existing model."""

from collections.abc import Iterable
from typing import Literal, TypeVar

import torch
from torch.nn.utils import parametrize

from .. import _products
from . import activations, arithmetic_forwards, convolutions, match, products_report
from .classes import Swapped, _kind_of, swapped_class, uses_rotation
from .report import Report

__all__ = ["patch", "unpatch", "Report"]

# Modules of torch that are swapped if their class does not override forward, and the operator.
TORCH = {
    torch.nn.Linear: ("Linear", "matmul"),
    torch.nn.LayerNorm: ("LayerNorm", "layer_norm"),
    torch.nn.RMSNorm: ("RMSNorm", "rms_norm"),
    torch.nn.GroupNorm: ("GroupNorm", "group_norm"),
    torch.nn.Embedding: ("Embedding", "embedding"),
    torch.nn.Dropout: ("Dropout", "dropout"),
    torch.nn.Softmax: ("Softmax", "softmax"),
    torch.nn.LogSoftmax: ("LogSoftmax", "log_softmax"),
    torch.nn.CrossEntropyLoss: ("CrossEntropyLoss", "cross_entropy"),
    torch.nn.MultiheadAttention: ("MultiheadAttention", "attention where need_weights=False"),
}
# The kinds of patch(leave=…) for the classes of classes.py.
KINDS = {
    "linear": ("Linear", "Head", "TransposedLinear", "ActivatedProjection"),
    "gated_mlp": ("GatedMLP", "GatedExperts", "GatedProjection"),
    "layer_norm": ("LayerNorm",),
    "rms_norm": ("RMSNorm", "OtherRMSNorm"),
    "group_norm": ("GroupNorm",),
    "embedding": ("Embedding",),
    "dropout": ("Dropout",),
    "softmax": ("Softmax", "LogSoftmax"),
    "cross_entropy": ("CrossEntropyLoss", "Loss"),
    "attention": ("MultiheadAttention", "Calls"),
    "convolution": ("SequenceConv2d",),
    "arithmetic": (),
    "activation": ("Sequential", "Pairs", "Activation", "ActivatedProjection"),
}
REACHED = {
    "ALL_ATTENTION_FUNCTIONS": ("attention", "softmax"),
    "dispatch_attention_fn": ("attention",),
    "scaled_dot_product_attention": ("attention",),
}


def _plan_of_torch(module):
    """Returns (key, operator) for a module of torch, a reason as text, or None for other modules."""
    for base, (name, operator) in TORCH.items():
        if not isinstance(module, base):
            continue
        if type(module).forward is not base.forward:
            return "a subclass with a forward of its own"
        if base is torch.nn.Embedding and (module.max_norm is not None or module.scale_grad_by_freq or module.sparse):
            return "max_norm, scale_grad_by_freq and sparse are not implemented"
        return (name, ()), operator
    return None


def _plan(module, rotary, sequences):
    """Returns the plan for a module: (key, what computes it), a reason to leave it, or None for what is only a container.

    sequences: the convolutions whose results become sequences."""
    if isinstance(module, torch.jit.ScriptModule):
        return "a compiled script"
    if "forward" in module.__dict__:
        return "its forward was replaced on the object"
    if parametrize.is_parametrized(module):
        return "parametrized"
    if any(torch.nn.parameter.is_lazy(parameter) for parameter in module._parameters.values()):
        return "not initialized yet"
    if type(module).forward is getattr(torch.nn.Module, "forward", None):
        return None
    if type(module).__module__.startswith("tile_ops."):
        return None
    if module in sequences and type(module).forward is torch.nn.Conv2d.forward:
        return ("SequenceConv2d", ()), "torch's convolution, in the order of a sequence"
    plan = _plan_of_torch(module)
    if plan is not None:
        return plan
    parts = match.gated_parts(module)
    if parts:
        found = match.gated_mlp(module, parts)
        if found:
            act, name = found
            kind = _kind_of(getattr(module, act))
            options = ("parts", parts), ("act", act), ("act_kind", kind), ("activation", name)
            return ("GatedMLP", options), f"gated_matmul, {name}"
        return f"not known to be {match.GATED[parts]} of silu, gelu or relu"
    found = match.gated_experts(module)
    if found:
        act, name = found
        options = ("act", act), ("act_kind", _kind_of(getattr(module, act))), ("activation", name)
        return ("GatedExperts", options), match.GATES[name][0]
    found = match.projection(module)
    if found:
        act, name, gate = found
        if gate is None:
            return ("ActivatedProjection", (("activation", name),)), f"matmul, {name}"
        kind = _kind_of(getattr(module, act)) if act else None
        options = ("act", act), ("act_kind", kind), ("activation", name), ("gate", gate)
        return ("GatedProjection", options), match.GATES[name][0]
    found = match.rms_norm(module)
    if found:
        eps, one, wide = found
        operator = "rms_norm, 1 + weight" if one else "rms_norm"
        return ("OtherRMSNorm", (("eps", eps), ("one", one), ("wide", wide))), operator
    if match.transposed_linear(module):
        return ("TransposedLinear", ()), "matmul"
    return _plan_of_functions(module, rotary)


def _plan_of_functions(module, rotary):
    names = match.functions(module)
    rotation = rotary and uses_rotation(module)
    if names or rotation:
        by = {operator for name in names for operator in REACHED.get(name, (name,))}
        options = ("rotation", rotation), ("processor", bool(match.functions_of_processor(module)))
        return ("Calls", options), ", ".join(sorted(by | ({"rope"} if rotation else set())))
    if match.calls(module, "loss_function") and isinstance(getattr(type(module), "loss_function", None), property):
        return ("Loss", (("heads", match.heads(module)),)), "cross_entropy in its loss_function"
    if match.calls(module, "CrossEntropyLoss"):
        return "makes a CrossEntropyLoss within its forward"
    if module._modules:
        return None
    if "Norm" in type(module).__name__:
        return "not known to be an RMSNorm"
    return activations.NO_OPERATOR


def _heads_of(plans):
    """Returns the layers whose logits the loss of a planned model can do without."""
    losses = [(module, plan[0]) for _, module, plan in plans if isinstance(plan, tuple) and plan[0][0] == "Loss"]
    return {module.get_submodule(name) for module, (_, options) in losses for name in dict(options)["heads"]}


def _with_products(key, products):
    """Returns a swapped class's key with patch's option."""
    name, options = key
    return (name, (*options, ("products", products))) if name in products_report.KINDS else key


def patch(
    model: torch.nn.Module, *, leave: str | Iterable[str] = (), products: Literal["measured", "tile", "torch"] = "measured"
) -> Report:
    """Swaps the modules of a model, in place, for classes that call our operators, and returns a Report.

    leave: kinds that are not swapped, of "linear", "gated_mlp", "layer_norm", "rms_norm", "group_norm", "embedding",
    "dropout", "softmax", "cross_entropy", "attention", "convolution", "arithmetic" and "activation".

    products: what computes the products of Linear, gated MLPs and MultiheadAttention. "measured": each call takes what was
    measured to be faster for its device, dtype and sizes, and the report says for which rows that is ours; "tile": ours;
    "torch": torch's.

    Modules get another class, a subclass of their own. Their parameters, buffers, hooks and other attributes stay the
    same objects, so that optimizers, state_dict and tied weights still work. unpatch() restores the classes.

    The model's shapes and dtypes do not change; docs/patching.md lists what is swapped, and where results differ from
    before. Errors: TypeError for a model that is not a torch.nn.Module, ValueError for an unknown kind in leave, an
    unknown value of products and a model that is already compiled.
    """
    _require_module("patch", model)
    if isinstance(model, torch._dynamo.OptimizedModule):
        raise ValueError("patch: the model is compiled already; patch it before torch.compile")
    leave = {leave} if isinstance(leave, str) else set(leave)
    if leave - set(KINDS):
        unknown = ", ".join(sorted(map(repr, leave - set(KINDS))))
        raise ValueError(f"patch: leave names {unknown}; the kinds are {', '.join(map(repr, KINDS))}")
    if products not in _products.VALUES:
        raise ValueError(f"patch: products is {products!r}; pass {', '.join(map(repr, _products.VALUES[:-1]))} or 'torch'")
    report = Report(type(model).__name__)
    rotary = match.tables_have_equal_halves(model)
    sequences = {each for module in model.modules() for each in convolutions.of_sequences(module)}
    plans = []
    for path, module in model.named_modules():
        if isinstance(module, Swapped):
            plans.append((path, module, (module.tile_key, None)))
        else:
            plans.append((path, module, _plan(module, rotary, sequences)))
    heads = set() if "cross_entropy" in leave else _heads_of(plans)
    for path, module, plan in plans:  # all modules were examined before one is changed
        name = type(module).__name__
        if plan is None:
            continue
        if isinstance(plan, str):
            report.left.append((path, name, plan))
            continue
        key, operator = plan
        if operator is None:
            report.left.append((path, name, "patched already"))
            continue
        if any(key[0] in KINDS[kind] for kind in leave):
            report.left.append((path, name, "as asked"))
            continue
        if products == "torch" and key[0] in KINDS["linear"]:
            report.left.append((path, name, 'products="torch"'))
            continue
        if module in heads and key[0] == "Linear":
            key = ("Head", key[1])
        row = products_report.row(module, key[0], products)
        try:
            module.__class__ = swapped_class(type(module), _with_products(key, products))
        except TypeError:
            report.left.append((path, name, "its class cannot be changed"))
        else:
            report.swapped.append((path, name, operator))
            report.products += [(path, name, row)] if row else []
    activations.swap(plans, "activation" in leave, report)
    if "arithmetic" not in leave:
        arithmetic_forwards.swap(plans, report)
    return report


_Module = TypeVar("_Module", bound=torch.nn.Module)


def unpatch(model: _Module) -> _Module:
    """Restores the class of every module that patch() swapped, and returns the model.

    Errors: TypeError for a model that is not a torch.nn.Module, ValueError if a class was changed again after patch().
    """
    _require_module("unpatch", model)
    swapped = [(path, module) for path, module in model.named_modules() if isinstance(module, Swapped)]
    for path, module in swapped:
        if "tile_original" not in type(module).__dict__:
            raise ValueError(
                f"unpatch: the class of {path or 'the model'} was changed after patch(), to "
                f"{type(module).__name__}; take that back first "
                "(parametrizations: remove_parametrizations)"
            )
    for _, module in swapped:
        module.__class__ = type(module).tile_original
    return model


def _require_module(name, model):
    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"{name}: model is {type(model).__name__}; it must be a torch.nn.Module "
            "(of a diffusers pipeline: pipeline.unet, pipeline.vae, …)"
        )
