"""Defines the notation of sharding rules, which names the axes of an operator's tensors, and resolves it for one call."""

import dataclasses
import re

# "query[b h q E] weight[N ^k] -> out[b h q N | k]": a lower-case axis may be split over devices, an upper-case one stays
# whole. *r is any number of axes, and a trailing ... is any number of whole axes; both adapt to the tensor's rank in the
# call. A tensor of lower rank has the last of the axes, as in broadcasting; an axis of extent 1 is never split. If an axis
# is split that an argument lacks, the argument is whole on each device; ^k means that only the first device adds it. For a
# result, "| k" means that splitting k yields partial sums ("|max k": partial maxima). A result [=x] is placed like the
# argument x; [+x] is the gradient of x, a partial sum over the axes that x lacks.
_TENSOR = re.compile(r"(\w+)\[([^\]]*)\]")


@dataclasses.dataclass(frozen=True)
class Axes:
    """The axes of one tensor, parsed from its brackets."""

    names: tuple = ()  # a starred name keeps its star
    further: bool = False
    once: tuple = ()
    sums: tuple = ()  # (axis, kind)
    like: str = ""
    gradient_of: str = ""


@dataclasses.dataclass(frozen=True)
class Signature:
    """The tensors of an operator: arguments by name, results in order, saved ones last."""

    arguments: dict
    results: tuple  # (name, Axes)


def _axes(text, name, inside):
    names, once, sums, further, kind, like, gradient = [], [], [], False, None, "", ""
    for word in inside.split():
        if word.startswith("|"):
            kind = word[1:] or "sum"
        elif kind:
            sums.append((word, kind))
        elif word == "...":
            further = True
        elif word[0] in "=+":
            like, gradient = (word[1:], gradient) if word[0] == "=" else (like, word[1:])
        elif word[0] == "^":
            once.append(word[1:])
        elif not re.fullmatch(r"\*?[A-Za-z]\w*", word):
            raise ValueError(
                f"sharding {text!r}: {name} has an axis {word!r}; write a letter or a word, *name for any number of axes, "
                "or ... for further axes"
            )
        else:
            names.append(word)
    return Axes(tuple(names), further, tuple(once), tuple(sums), like, gradient)


def parsed(text):
    """Returns the Signature that a string describes. Raises ValueError if it is not in the notation."""
    head, arrow, tail = text.partition("->")
    left = re.sub(r"\s+", "", _TENSOR.sub("", head + tail))
    if not arrow or left:
        raise ValueError(
            f"sharding {text!r}: {f'{left!r} is not part of a rule' if left else '-> is missing'}; "
            'write "x[*r N] weight[N] -> out[*r N]"'
        )
    arguments = {name: _axes(text, name, inside) for name, inside in _TENSOR.findall(head)}
    results = tuple((name, _axes(text, name, inside)) for name, inside in _TENSOR.findall(tail))
    for name, axes in results:
        for of in filter(None, (axes.like, axes.gradient_of)):
            if of not in arguments:
                raise ValueError(f"sharding {text!r}: {name} refers to {of!r}, which is not an argument of the rule")
    return Signature(arguments, results)


def _may_split(name):
    return name.lstrip("*")[0].islower()


class Resolved:
    """A signature for the shapes of one call.

    axes: for each argument, the name of each dimension, None for one that stays whole. extents: the extent of each axis that
    may be split. multiples: all extents of an axis that has several (query's heads and key's); each must be divided evenly.
    """

    def __init__(self, signature, shapes, lengths=()):
        self.signature, self.shapes = signature, shapes
        self.lengths = dict(lengths)
        self._find_lengths()
        self.axes = {
            name: self._dimensions(axes, len(shapes[name])) for name, axes in signature.arguments.items() if name in shapes
        }
        sizes = {}
        for name, dimensions in self.axes.items():
            for axis, size in zip(dimensions, shapes[name]):
                if axis is not None and size != 1 and size not in sizes.setdefault(axis, []):
                    sizes[axis].append(size)
        self.extents = {axis: every[0] for axis, every in sizes.items() if every}
        self.multiples = {axis: every for axis, every in sizes.items() if len(every) > 1}

    def _find_lengths(self):
        """Finds how many axes each starred name is: the most that any tensor's rank leaves for it."""
        given = [(axes, len(self.shapes[name])) for name, axes in self.signature.arguments.items() if name in self.shapes]
        open_ones = {word for axes, _ in given for word in axes.names if word[0] == "*" and word[1:] not in self.lengths}
        for word in sorted(open_ones):
            ranks = []
            for axes, rank in given:
                if word not in axes.names or axes.further:
                    continue
                others = [other for other in axes.names if other != word]
                if any(other in open_ones for other in others):
                    continue
                ranks.append(rank - sum(self.lengths[other[1:]] if other[0] == "*" else 1 for other in others))
            self.lengths[word[1:]] = max([0, *ranks])

    def expanded(self, word):
        """Returns the axes that a word of the notation means: "*r" is r0, r1, ... up to its length."""
        if word[0] != "*":
            return [word]
        return [f"{word[1:]}{at}" for at in range(self.lengths.get(word[1:], 0))]

    def _dimensions(self, axes, rank):
        named = []
        for word in axes.names:
            named += [name if _may_split(name) else None for name in self.expanded(word)]
        if axes.further:
            return (named + [None] * rank)[:rank]
        if len(named) < rank:  # the rank does not fit: leave the error to the operator's own check
            return [None] * rank
        return named[len(named) - rank :]

    def result_axes(self, axes):
        """Returns the names of a result's dimensions, without those that ... covers."""
        return [name for word in axes.names for name in self.expanded(word)]

    def within(self, axis, words):
        """Returns True if one of the words includes the axis ("*r" includes "r1")."""
        return any(axis in self.expanded(word) for word in words)
