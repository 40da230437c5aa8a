"""Finds the rule of an operator, in the table or among those that users register."""

import dataclasses
import re
from collections.abc import Callable

_given = {}  # name: the Rule that a user registered


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """Describes how an operator runs on shards.

    axes: the notation of signature.py, or a function of the call that returns it. shared: tensors that may be plain
    tensors, the same on every device. when: by axis, the condition under which it may be split. lengths: by name, a function
    that returns how many axes a starred name is, if no tensor's rank determines that. special: by axis, the function that
    replaces the operator if that axis is split. whole_call: the function that replaces planning and operator.
    """

    axes: str | Callable = ""
    shared: tuple = ()
    when: dict = dataclasses.field(default_factory=dict)
    lengths: dict = dataclasses.field(default_factory=dict)
    special: dict = dataclasses.field(default_factory=dict)
    whole_call: Callable | None = None

    def text(self, call):
        return self.axes(call) if callable(self.axes) else self.axes

    def allows(self, call, axis, resolved):
        return all(fits(call) for word, fits in self.when.items() if resolved.within(axis, (word,)))


def _saver(name):
    """Returns "ns::name" for its variant with saved results, "ns::_name_saving", and None for other names."""
    match = re.fullmatch(r"(\w+)::_(\w+)_saving", name)
    return match and f"{match[1]}::{match[2]}"


def found(name):
    """Returns the Rule of an operator, or None."""
    from .table import TABLE

    for known in (_given, TABLE):
        for each in (name, _saver(name)):
            if each in known:
                return known[each]
    return None


def rule_of(name):
    """Returns the Rule of an operator. Raises NotImplementedError if it has none."""
    rule = found(name)
    if rule is None:
        raise NotImplementedError(
            f"{name}: has no sharding rule for DTensors; pass one to tile_ops.op(..., sharding=...), or call "
            f'tile_ops.register_sharding("{name}", ...)'
        )
    return rule


def give(name, rule):
    """Stores a user's rule; None removes it. Raises TypeError or ValueError if it is not a rule."""
    if rule is None:
        _given.pop(name, None)
    else:
        from .named import made

        _given[name] = rule if isinstance(rule, Rule) else made(name, rule)
