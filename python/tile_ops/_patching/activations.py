"""Moves activations into the preceding module if it can compute them: in Sequentials and in forwards."""

import inspect

import torch

from . import match, source_rewrite
from .classes import Calls, Sequential, Swapped, activation_of, only_forward, swapped_class

NO_OPERATOR = "no operator for it"
OPERATORS = {"Linear": "matmul", "TransposedLinear": "matmul", "GroupNorm": "group_norm"}


class _Model:
    """A model: its other modules' plans, and what the report says about activations."""

    def __init__(self, plans, as_asked):
        self.paths = {module: path for path, module, _ in plans}
        self.plans = {module: plan for _, module, plan in plans}
        self.as_asked = as_asked
        self.why_left = {}  # by the activation's path; None: the preceding module computes it
        self.own = {}  # names of activations defined by the model, each evaluated once

    def activation(self, following):
        """Returns the name of the activation that a module or function computes. An activation defined by the model is
        run for that."""
        name = activation_of(following)
        if name is None and isinstance(following, torch.nn.Module) and self.plans.get(following) == NO_OPERATOR:
            if following not in self.own:
                self.own[following] = match.activation_module(following)
            name = self.own[following]
        return name

    def behind(self, before, following):
        """Returns the name of the activation `following` that `before` will compute, or None, with the reason."""
        taken = getattr(type(before), "tile_activations", ())
        name = self.activation(following) if taken else activation_of(following)
        if name is None or not isinstance(before, torch.nn.Module):
            return None
        modules = [each for each in (before, following) if isinstance(each, torch.nn.Module)]
        if not taken:
            own = not isinstance(before, Swapped) and not type(before).__module__.startswith("torch.")
            why = f"behind {type(before).__name__}, which is not swapped" if own else NO_OPERATOR
        elif name not in taken:
            why = f"{OPERATORS[before.tile_key[0]]} computes {', '.join(taken)} alone"
        elif not all(map(only_forward, modules)):
            why = "a call of it or of the module before it does more than its forward"
        elif self.as_asked:
            why = "as asked"
        else:
            return name
        self.why_left.setdefault(self.paths.get(following), why)
        return None

    def computed(self, following, name, why=None):
        """Records that the preceding module computes the activation, or why not. An activation defined by the model
        gets a class."""
        if following not in self.paths:
            return
        self.why_left[self.paths[following]] = why
        if activation_of(following) is None:
            following.__class__ = swapped_class(type(following), ("Activation", (("activation", name),)))


def swap(plans, as_asked, report):
    """Swaps modules that compute following activations, and these activations, and reports both."""
    model = _Model(plans, as_asked)
    for path, module, plan in plans:
        if isinstance(module, torch.nn.Sequential) and type(module).forward is torch.nn.Sequential.forward:
            if plan is None:
                _swap_sequence(model, path, module, report)
        elif isinstance(module, Swapped) and plan[1] is None:
            _swapped_before(model, module)
        elif plan is None or isinstance(module, Calls):
            _swap_forward(model, path, module, report)
    left, report.left[:] = report.left[:], []
    for path, name, why in left:
        why = model.why_left.get(path, why) if why == NO_OPERATOR else why
        if why is None:
            report.swapped.append((path, name, "computed by the module before it"))
        else:
            report.left.append((path, name, why))


def _swapped_before(model, module):
    """Handles a module that an earlier patch() swapped."""
    if isinstance(module, Sequential):
        modules = list(module)
        found = [each for before, each in zip(modules, modules[1:]) if model.behind(before, each)]
    else:
        forward = module.tile_original.forward
        found = [source_rewrite.named(forward, module, name) for _, name in getattr(module, "tile_pairs", ())]
    for following in found:
        model.computed(following, None, "patched already")


def _swap_sequence(model, path, module, report):
    modules = list(module)
    found = [(following, model.behind(before, following)) for before, following in zip(modules, modules[1:])]
    found = [(following, name) for following, name in found if name]
    if found and _has_class(module, ("Sequential", ())):
        report.swapped.append((path, type(module).__name__, "activations in matmul and group_norm"))
        for each in found:
            model.computed(*each)


def _swap_forward(model, path, module, report):
    """Handles a module with its own forward: one that is not swapped, or one of Calls, which also gets the pairs."""
    name, own = type(module).__name__, getattr(module, "tile_original", None) or type(module)
    forward, found = own.forward, {}
    if not _may_have_pairs(model, module, forward):
        return
    if not source_rewrite.is_known(forward):
        if own is type(module):
            report.left.append((path, name, "the text of its forward is not there"))
        return

    def wanted(*names):
        before, following = (source_rewrite.named(forward, module, each) for each in names)
        activation = model.behind(before, following)
        if activation:
            found[names] = following, activation, f"{OPERATORS[before.tile_key[0]]}, {activation}"
        return activation is not None

    if source_rewrite.changed(forward, [source_rewrite.pairs(wanted)]) is None:
        return
    pairs, by = ("pairs", tuple(sorted(found))), "; ".join(sorted({by for _, _, by in found.values()}))
    if own is not type(module):
        _, before = model.plans[module]
        module.__class__ = swapped_class(own, ("Calls", (*module.tile_key[1], pairs)))
        report.swapped[report.swapped.index((path, name, before))] = (path, name, f"{before}; {by}")
    elif _has_class(module, ("Pairs", (pairs,))):
        report.swapped.append((path, name, by))
    else:
        return
    for following, activation, _ in found.values():
        model.computed(following, activation)


def _has_class(module, key):
    """Returns True if the class of this module could be changed to that of the key."""
    try:
        module.__class__ = swapped_class(type(module), key)
    except TypeError:
        return False
    return True


def _may_have_pairs(model, module, forward):
    """Returns True if the forward names a submodule and an activation, so that its source is worth reading."""
    code = getattr(inspect.unwrap(forward), "__code__", None)
    names = code.co_names if code else ()
    held = [module._modules.get(name, module.__dict__.get(name)) for name in names]
    return any(isinstance(each, torch.nn.Module) for each in held) and (
        any(name in match.ACTIVATIONS for name in names) or any(map(model.activation, held))
    )
