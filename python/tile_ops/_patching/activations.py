"""What patch() does with activations that stand behind a module that can compute them: in Sequentials and in forwards."""

import inspect

import torch

from . import recognise, text
from .classes import Swapped, activation_of, only_forward, swapped_class

NO_OPERATOR = "no operator for it"
OPERATORS = {"Linear": "matmul", "TransposedLinear": "matmul", "GroupNorm": "group_norm"}


class _Model:
    """A model whose modules have been swapped, what is planned for each, and what the report will say of activations."""

    def __init__(self, plans, as_asked):
        self.paths = {module: path for path, module, _ in plans}
        self.plans = {module: plan for _, module, plan in plans}
        self.as_asked = as_asked
        self.why_left = {}  # by the activation's path; None: it is computed by the module before it

    def activation(self, following):
        """The name of the activation that a module or function is; one of a model's own is run for that."""
        name = activation_of(following)
        if name is None and isinstance(following, torch.nn.Module) and self.plans.get(following) == NO_OPERATOR:
            name = recognise.activation_module(following)
        return name

    def behind(self, before, following):
        """The name of the activation `following` that `before` is to compute, or None, with why."""
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
        """Notes that it is computed by the module before it (or why it is not anew); a model's own gets a class."""
        if following not in self.paths:
            return
        self.why_left[self.paths[following]] = why
        if activation_of(following) is None:
            following.__class__ = swapped_class(type(following), ("Activation", (("activation", name),)))


def swap(plans, as_asked, report):
    """Swaps what has activations to be computed by the modules before them; and what the report says of both."""
    model = _Model(plans, as_asked)
    for path, module, plan in plans:
        if isinstance(module, torch.nn.Sequential) and type(module).forward is torch.nn.Sequential.forward and plan is None:
            _swap_sequence(model, path, module, report)
        elif getattr(module, "tile_key", None) == ("Sequential", ()):
            modules = list(module)
            for before, following in zip(modules, modules[1:]):
                if model.behind(before, following):
                    model.computed(following, None, "patched already")
        elif plan is None or isinstance(module, Swapped) and module.tile_key[0] in ("Calls", "Pairs"):
            _swap_forward(model, path, module, report)
    left, report.left[:] = report.left[:], []
    for path, name, why in left:
        why = model.why_left.get(path, why) if why == NO_OPERATOR else why
        if why is None:
            report.swapped.append((path, name, "computed by the module before it"))
        else:
            report.left.append((path, name, why))


def _swap_sequence(model, path, module, report):
    modules = list(module)
    found = [(following, model.behind(before, following)) for before, following in zip(modules, modules[1:])]
    found = [each for each in found if each[1]]
    name = type(module).__name__
    try:
        if found:
            module.__class__ = swapped_class(type(module), ("Sequential", ()))
            report.swapped.append((path, name, "activations in matmul and group_norm"))
            for each in found:
                model.computed(*each)
    except TypeError:
        pass


def _swap_forward(model, path, module, report):
    key, fresh = getattr(module, "tile_key", None), isinstance(model.plans[module], tuple) and model.plans[module][1]
    if isinstance(module, Swapped) and not fresh:
        for _, following in dict(key[1]).get("pairs", ()):
            model.computed(text.named(module.tile_original.forward, module, following), None, "patched already")
        return
    forward, name = type(module).forward, type(module).__name__
    forward = module.tile_original.forward if fresh else forward
    if not _may_have_pairs(model, module, forward):
        return
    if not text.is_known(forward):
        if not fresh:
            report.left.append((path, name, "the text of its forward is not there"))
        return
    found = {}

    def wanted(*names):
        before, following = (text.named(forward, module, each) for each in names)
        activation = model.behind(before, following)
        if activation:
            found[names] = (following, activation, f"{OPERATORS[before.tile_key[0]]}, {activation}")
        return activation is not None

    if text.with_pairs(forward, wanted) is None:
        return
    pairs, original = ("pairs", tuple(sorted(found))), type(module)
    operator = "; ".join(sorted({operator for _, _, operator in found.values()}))
    try:
        if fresh:
            row = report.swapped.index((path, name, model.plans[module][1]))
            module.__class__ = swapped_class(module.tile_original, ("Calls", (*key[1], pairs)))
            report.swapped[row] = (path, name, f"{model.plans[module][1]}; {operator}")
        else:
            module.__class__ = swapped_class(original, ("Pairs", (pairs,)))
            report.swapped.append((path, name, operator))
        for following, activation, _ in found.values():
            model.computed(following, activation)
    except TypeError:
        pass


def _may_have_pairs(model, module, forward):
    """Whether the forward has names of a module within and of an activation: its text is worth reading."""
    code = getattr(inspect.unwrap(forward), "__code__", None)
    names = code.co_names if code else ()
    held = [module._modules.get(name, module.__dict__.get(name)) for name in names]
    return (any(isinstance(each, torch.nn.Module) for each in held)
            and (any(name in recognise.ACTIVATIONS for name in names) or any(map(model.activation, held))))
