"""Makes rules from what users write, names or the notation, and derives the rules of gradient operators."""

import dataclasses

from . import signature
from .rules import Rule

NAMED = ("pointwise", "rows", "whole")
_CHOICE = f"""{", ".join(f'"{each}"' for each in NAMED)}, or a rule such as "x[*r N] -> out[*r N]\""""


def made(name, rule):
    """Returns the Rule for a name in NAMED, the notation, or a function of the call that returns either."""
    if isinstance(rule, str):
        _check(name, rule)
        return Rule(rule if rule not in NAMED else lambda call: _spelt(rule, call))
    if callable(rule):
        return Rule(lambda call: _asked(name, rule, call))
    raise TypeError(
        f"{name}: sharding is a {type(rule).__name__}; it must be {_CHOICE}, or a function that returns one of these"
    )


def _check(name, text):
    if not isinstance(text, str):
        raise TypeError(f"{name}: its sharding function returned a {type(text).__name__}; return {_CHOICE}")
    if "[" not in text and text not in NAMED:
        raise ValueError(f"{name}: sharding is {text!r}; it must be {_CHOICE}")
    if text not in NAMED:
        signature.parsed(text)


def _asked(name, function, call):
    text = function(call)
    _check(name, text)
    return _spelt(text, call) if text in NAMED else text


def _results(call):
    return [each.name or f"out{at}" for at, each in enumerate(call.func._schema.returns)]


def _written(arguments, results):
    """Writes two lists of (name, axes) in the notation."""
    return " -> ".join(" ".join(f"{name}[{axes}]" for name, axes in each) for each in (arguments, results))


def _whole(call):
    return _written([(name, "...") for name in call.tensors], [(name, "...") for name in _results(call)])


def _rows(call, names):
    """Returns the axes of a value of the first tensor's rank, and those of each tensor, for the rule "rows"."""
    rank = call[names[0]].dim()
    leading = " ".join([*(f"r{at}" for at in range(rank - 1)), "..."])
    return leading, {name: leading if call[name].dim() == rank else "..." for name in names}


def _spelt(rule, call):
    """Writes a named rule in the notation, for one call."""
    if rule == "whole":
        return _whole(call)
    if rule == "pointwise":
        return _written([(name, "*r") for name in call.tensors], [(name, "*r") for name in _results(call)])
    leading, arguments = _rows(call, call.tensors)
    return _written(arguments.items(), [(name, leading) for name in _results(call)])


@dataclasses.dataclass(frozen=True)
class Forward:
    """An operator whose gradient operator has no own rule: the operator's rule, and the names of its tensors and results."""

    rule: object
    tensors: tuple
    results: tuple


def gradient_rule(forward):
    """Returns the Rule of the gradient operator. Values are placed as in the operator; the gradient of a tensor that devices
    share is a sum over them.

    Nothing is split if the operator's rule is a function, because it may read values that the gradient operator lacks, or if
    a gradient belongs to a tensor that the gradient operator does not take.
    """

    def text(call):
        wanted = [name.removeprefix("grad_") for name in _results(call)]
        if callable(forward.rule) or any(name not in call.tensors for name in wanted):
            return _whole(call)
        axes = _axes_of(forward, call)
        if axes is None:
            return _whole(call)
        arguments = [(name, axes[name]) for name in call.tensors]
        return _written(arguments, [(f"grad_{name}", f"+{name}") for name in wanted])

    return Rule(text)


def _axes_of(forward, call):
    """Returns the axes of each value of the gradient operator, in the notation, or None if they do not follow from the rule."""
    incoming = [*forward.results, *(f"grad_{name}" for name in forward.results)]
    if forward.rule == "whole":
        return None
    if forward.rule == "pointwise":
        return dict.fromkeys([*forward.tensors, *incoming], "*r")
    if forward.rule == "rows":
        if forward.tensors[0] not in call.tensors:
            return None
        leading, own = _rows(call, [name for name in forward.tensors if name in call.tensors])
        return {**dict.fromkeys(incoming, leading), **own}
    known = signature.parsed(forward.rule)
    if len(known.results) < len(forward.results) or not set(forward.tensors) <= set(known.arguments):
        return None
    if any(kind != "sum" for _, axes in known.results for _, kind in axes.sums):
        return None
    found = {name: _brackets(axes) for name, axes in known.arguments.items()}
    for name, (_, axes) in zip(forward.results, known.results):
        inside = found.get(axes.like or axes.gradient_of) if axes.like or axes.gradient_of else _brackets(axes)
        found[name] = found[f"grad_{name}"] = inside
    return found


def _brackets(axes):
    return " ".join([*axes.names, *(["..."] if axes.further else []), *(f"^{name}" for name in axes.once)])


def reduction_rule(combine, finished):
    """Returns the Rule of a reduction and of its gradient.

    A sum without a finish function may be split along any axis and returns partial sums; other reductions are split only
    along the axes that they keep. A maximum is not combined by a collective, because that would lose NaN.
    """
    parts = combine == "sum" and not finished

    def text(call):
        backward = call.name.endswith("_backward")
        own = [name for name in call.tensors if not (backward and (name.startswith("grad_") or name.startswith("total")))]
        rank = max(call[name].dim() for name in own)
        dims = call["dim"]
        dims = range(rank) if dims is None else [dims] if isinstance(dims, int) else dims
        gone = {dim % rank for dim in dims} if rank else set()
        names = [f"{'a' if parts or at not in gone else 'A'}{at}" for at in range(rank)]
        kept = " ".join("Z" if at in gone else name for at, name in enumerate(names) if at not in gone or call["keepdim"])
        sums = " ".join(names[at] for at in sorted(gone)) if parts and gone else ""
        arguments = [(name, " ".join(names) if name in own else kept) for name in call.tensors]
        if backward:
            return _written(arguments, [(name, f"+{name.removeprefix('grad_')}") for name in _results(call)])
        return _written(arguments, [(name, f"{kept} | {sums}" if sums else kept) for name in _results(call)])

    return Rule(text)
