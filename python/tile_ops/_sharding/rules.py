"""Which rule an operator has: those of the table, and those that users register."""

import dataclasses
import re
from collections.abc import Callable

_given = {}  # name: Rule, of users


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """How an operator runs on shards.

    axes: the notation of signature.py, or a function of the call that gives it. shared: tensors that may be plain ones,
    the same on every device. when: conditions for axes to be split. lengths: of starred axes that no tensor tells.
    special: what runs instead where such an axis is split. whole_call: what runs in place of all of it.
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
    """The operator whose variant with saved results this is ("ns::_name_saving"), or None."""
    match = re.fullmatch(r"(\w+)::_(\w+)_saving", name)
    return match and f"{match[1]}::{match[2]}"


def found(name):
    """The Rule of an operator, or None."""
    from .table import TABLE

    for known in (_given, TABLE):
        for each in (name, _saver(name)):
            if each in known:
                return known[each]
    return None


def rule_of(name):
    """The Rule of an operator. Errors: NotImplementedError where it has none."""
    rule = found(name)
    if rule is None:
        raise NotImplementedError(
            f"{name}: no sharding is known for DTensors; give it by tile_ops.op(..., sharding=...), or by "
            f'tile_ops.register_sharding("{name}", ...)'
        )
    return rule


def give(name, rule):
    """Keeps a user's rule; None forgets it. Errors: TypeError and ValueError where it is none."""
    if rule is None:
        _given.pop(name, None)
    else:
        from .named import made

        _given[name] = rule if isinstance(rule, Rule) else made(name, rule)
