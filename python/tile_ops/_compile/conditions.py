"""Conditions on places: inequalities of affine functions of indices, and what they say about the distance of query and key.

A condition is True, False, an Affine (which is at least 0), or ("and" or "or", condition, condition).
"""

import dataclasses

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true as known

from .active import Refused

QUERY, KEY = "q", "k"
MOST_LEAVES = 64  # of a condition that is worth a proof


@dataclasses.dataclass(frozen=True, eq=False)
class Affine:
    """A sum of indices times factors, and a number, which may vary with the sizes. Without indices it may be any float."""

    factors: tuple = ()  # (index, factor other than 0), sorted
    number: object = 0

    def plus(self, other, times=1):
        factors = dict(self.factors)
        for index, factor in other.factors:
            factors[index] = factors.get(index, 0) + times * factor
        return Affine(
            tuple(sorted((each, factor) for each, factor in factors.items() if factor)), self.number + times * other.number
        )

    def times(self, number):
        if not self.factors:
            return Affine((), self.number * number)
        if not isinstance(number, int):
            raise Refused("an index times what is no integer")
        return Affine(tuple((index, number * factor) for index, factor in self.factors if number), self.number * number)

    def factor(self, index):
        return dict(self.factors).get(index, 0)

    @property
    def key(self):
        """Returns what two equal functions have in common; a SymInt has no hash."""
        return self.factors, getattr(getattr(self.number, "node", None), "expr", self.number)


def index_of(name):
    return Affine(((name, 1),))


def constant(number):
    return Affine((), number)


@dataclasses.dataclass(frozen=True, eq=False)
class Box:
    """The range of each index, (least, most)."""

    ranges: dict

    def least(self, affine):
        return self.bound(affine, 0)

    def most(self, affine):
        return self.bound(affine, 1)

    def bound(self, affine, end):
        total = affine.number
        for index, factor in affine.factors:
            total = total + factor * self.ranges[index][end if factor > 0 else 1 - end]
        return total

    def with_index(self, name, size):
        return Box({**self.ranges, name: (0, size - 1)})

    def where(self, condition):
        """Returns a box that holds all places where a condition is met."""
        if isinstance(condition, tuple) and condition[0] == "and":
            return self.where(condition[1]).where(condition[2])
        if not isinstance(condition, Affine) or len(condition.factors) != 1:
            return self
        ((index, factor),) = condition.factors
        least, most = self.ranges[index]
        if factor == 1 and known(-condition.number >= least):
            least = -condition.number
        elif factor == -1 and known(condition.number <= most):
            most = condition.number
        else:
            return self
        return Box({**self.ranges, index: (least, most)})

    @property
    def key(self):
        return tuple((name, *(constant(end).key[1] for end in ends)) for name, ends in self.ranges.items())


def negated(condition):
    if isinstance(condition, bool):
        return not condition
    if isinstance(condition, Affine):  # of integers
        return condition.times(-1).plus(constant(-1))
    kind, x, y = condition
    return "or" if kind == "and" else "and", negated(x), negated(y)


def both(x, y, box):
    x = simplified(x, box)
    y = False if x is False else simplified(y, box.where(x))
    if x is False or y is False:
        return False
    if x is True or y is True:
        return y if x is True else x
    return "and", x, y


def either(x, y, box):
    x = simplified(x, box)
    y = True if x is True else simplified(y, box.where(negated(x)))
    if x is True or y is True:
        return True
    if x is False or y is False:
        return y if x is False else x
    return "or", x, y


def simplified(condition, box):
    """Returns an equal condition on the places of a box, without the parts that are met everywhere or nowhere."""
    if isinstance(condition, bool):
        return condition
    if isinstance(condition, Affine):
        if known(box.least(condition) >= 0):
            return True
        return False if known(box.most(condition) < 0) else condition
    kind, x, y = condition
    return (both if kind == "and" else either)(x, y, box)


def leaves(condition):
    """Returns the inequalities of a condition."""
    if isinstance(condition, tuple):
        return leaves(condition[1]) + leaves(condition[2])
    return [condition] if isinstance(condition, Affine) else []


def _is_met(condition, limits, distance):
    if isinstance(condition, tuple):
        parts = (_is_met(each, limits, distance) for each in condition[1:])
        return all(parts) if condition[0] == "and" else any(parts)
    if isinstance(condition, Affine):
        least, most = limits[id(condition)]
        return distance >= least if most is None else distance <= most
    return condition


def _limits(inequality, shift, one_query, one_key):
    """Returns the (least, most) distance, one of which is None, that an inequality allows; raises Refused."""
    query, key = (inequality.factor(index) for index in (QUERY, KEY))
    if one_query:  # its place is 0
        query = -key
    elif one_key:
        key = -query
    if query == 0 or query != -key or any(index not in (QUERY, KEY) for index, _ in inequality.factors):
        raise Refused("a condition that is no window")
    number = inequality.number - query * shift
    if isinstance(number, torch.SymInt):
        number = number.node.maybe_as_int()
    if not isinstance(number, int):
        raise Refused("a limit that varies")
    return (-(number // query), None) if query > 0 else (None, number // -query)


def window_of(condition, box, shift=0):
    """Returns the (least, most) of query - key + shift, None for no limit, if a condition says just that; raises Refused.

    The answer holds for the places of the box. It is exact: between the limits of its inequalities a condition is constant.
    """
    condition = simplified(condition, box)
    found = leaves(condition)
    if len(found) > MOST_LEAVES:
        raise Refused("a long condition")
    one_query, one_key = (known(box.ranges[index][1] == 0) for index in (QUERY, KEY))
    limits = {id(each): _limits(each, shift, one_query, one_key) for each in found}
    starts = sorted({least if most is None else most + 1 for least, most in limits.values()})
    distance = Affine(((KEY, -1), (QUERY, 1)), shift)
    parts = []  # (first, last, condition is met) of the distances that the box has, in their order
    for first, end in zip([None, *starts], [*starts, None]):
        last = None if end is None else end - 1
        if first is not None and known(first > box.most(distance)):
            continue
        if last is not None and known(last < box.least(distance)):
            continue
        parts.append((first, last, _is_met(condition, limits, first if first is not None else last if last is not None else 0)))
    met = [i for i, part in enumerate(parts) if part[2]]
    if not met or met != list(range(met[0], met[-1] + 1)):
        raise Refused("a condition that is no window")
    return None if met[0] == 0 else parts[met[0]][0], None if met[-1] == len(parts) - 1 else parts[met[-1]][1]
