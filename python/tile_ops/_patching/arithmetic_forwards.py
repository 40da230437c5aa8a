"""Gives classes to modules whose forwards have chains of arithmetic."""

from . import arithmetic
from .activations import NO_OPERATOR
from .classes import Calls, Pairs, Swapped, swapped_class

BY = "arithmetic"


def swap(plans, report):
    """Swaps modules with a forward of their own that contains chains, and reports them."""
    why_left = {path: why for path, _, why in report.left}
    for path, module, plan in plans:
        original = getattr(module, "tile_original", None) or type(module)
        own = plan is None or plan == NO_OPERATOR == why_left.get(path) or isinstance(module, (Calls, Pairs))
        if not own or original.__module__.startswith("torch.") or "forward" in module.__dict__:
            continue
        name, options = module.tile_key if isinstance(module, Swapped) else ("Pairs", ())
        if name not in ("Pairs", "Calls") or "chains" in dict(options):
            continue
        methods = arithmetic.methods(original.forward)
        if not methods:
            continue
        functions = tuple(each.removeprefix(arithmetic.FUNCTION) for each in methods if each.startswith(arithmetic.FUNCTION))
        try:
            module.__class__ = swapped_class(original, (name, (*options, ("chains", functions))))
        except TypeError:
            continue
        _reported(report, path, original.__name__)


def _reported(report, path, name):
    for row in report.swapped:
        if row[0] == path:
            report.swapped[report.swapped.index(row)] = (path, name, f"{row[2]}; {BY}")
            return
    report.left[:] = [row for row in report.left if row[0] != path]
    report.swapped.append((path, name, BY))
