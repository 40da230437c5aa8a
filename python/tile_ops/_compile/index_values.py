"""Elements of a graph's tensors as functions of the indices at which they are read.

An element of a bool tensor is a condition (conditions.py), another is a Number. Elements that depend on data are Refused.
"""

import dataclasses
import itertools
import math

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true as known

from .._inductor.graph import same_numbers, value_of
from .active import Refused
from .conditions import both, constant, either, index_of, negated, simplified

MOST_CASES = 8
EXACT = 1 << 53  # integers in Python's floats
ZERO = constant(0)


@dataclasses.dataclass(frozen=True, eq=False)
class Number:
    """A number by cases, (condition, Affine): of each place, exactly one condition is met."""

    cases: tuple


def name_of(node):
    """Returns the name of an operator without its overload, or ""."""
    is_call = isinstance(node, torch.fx.Node) and node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    return node.target._schema.name.split("::")[1] if is_call else ""


def given(node):
    """Returns the arguments of a call by their names."""
    known_ones = node.target._schema.arguments
    return {
        **{each.name: each.default_value for each in known_ones},
        **dict(zip((a.name for a in known_ones), node.args)),
        **node.kwargs,
    }


def number_of(argument):
    """Returns a number among the arguments of a call, which may vary; raises Refused."""
    if isinstance(argument, torch.fx.Node):
        argument = argument.meta.get("val")
    if not isinstance(argument, (bool, int, float, torch.SymInt)):
        raise Refused("an argument that is no number")
    return argument


def shape_of(node):
    value = value_of(node)
    if value is None:
        raise Refused("a value without a shape")
    return value.shape


def _axis(dim, rank):
    return dim + rank if dim < 0 else dim


# Views: functions of (node, arguments, indices, box, values) to the indices of the first argument.


def _same(node, args, at, box, values):
    return at


def _expanded(node, args, at, box, values):
    return broadcast(shape_of(node.args[0]), at, box)


def broadcast(shape, at, box):
    """Returns the indices of an operand that is broadcast."""
    own = [ZERO if known(size == 1) else index for size, index in zip(shape, at[len(at) - len(shape) :])]
    if not all(known(box.most(index) < size) for size, index in zip(shape, own)):
        raise Refused("an axis that may be broadcast")
    return own


def _unsqueezed(node, args, at, box, values):
    dim = _axis(args["dim"], len(at))
    return [*at[:dim], *at[dim + 1 :]]


def _permuted(node, args, at, box, values):
    own = [None] * len(at)
    for index, dim in zip(at, args["dims"]):
        own[dim] = index
    return own


def _transposed(node, args, at, box, values):
    own, (x, y) = list(at), (_axis(args[dim], len(at)) for dim in ("dim0", "dim1"))
    own[x], own[y] = own[y], own[x]
    return own


def _viewed(node, args, at, box, values):
    """Indices of a view that adds or removes axes of extent 1."""
    wide = [(size, index) for size, index in zip(shape_of(node), at) if not known(size == 1)]
    shape = shape_of(node.args[0])
    if not same_numbers([size for size, _ in wide], [size for size in shape if not known(size == 1)]):
        raise Refused("a view that joins axes or parts them")
    rest = (index for _, index in wide)
    return [ZERO if known(size == 1) else next(rest) for size in shape]


def _sliced(node, args, at, box, values):
    shape = shape_of(node.args[0])
    dim = _axis(args["dim"], len(at))
    start, step = number_of(args["start"] or 0), number_of(args["step"])
    if not known(start >= 0):
        start = start + shape[dim]
        if not known(start >= 0):
            raise Refused("a slice that may begin before its tensor")
    if not isinstance(step, int):
        raise Refused("a step that varies")
    return [*at[:dim], at[dim].times(step).plus(constant(start)), *at[dim + 1 :]]


def _selected(node, args, at, box, values):
    dim, index = _axis(args["dim"], len(at) + 1), number_of(args["index"])
    size = shape_of(node.args[0])[dim]
    if not known(index >= 0):
        index = index + size
    if not known(index >= 0) or not known(index < size):
        raise Refused("an index that may be outside its tensor")
    return [*at[:dim], constant(index), *at[dim:]]


def _indexed(node, args, at, box, values):
    indices = list(args["indices"])
    first = next(i for i, each in enumerate(indices) if each is not None)
    used = [each for each in indices if each is not None]
    if indices != [None] * first + used:
        raise Refused("indices that are apart")
    rank = max(len(shape_of(each)) for each in used)
    own = []
    for each, size in zip(used, shape_of(node.args[0])[first:]):
        if value_of(each).dtype not in (torch.int64, torch.int32):
            raise Refused("an index that is a mask")
        index = single(values.at(each, broadcast(shape_of(each), at[first : first + rank], box), box))
        if not known(box.least(index) >= 0) or not known(box.most(index) < size):
            raise Refused("an index that may be outside its tensor")
        own.append(index)
    return [*at[:first], *own, *at[first + rank :]]


VIEWS = {
    **dict.fromkeys(("alias", "detach", "clone", "lift_fresh_copy"), _same),
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "squeeze"), _viewed),
    "expand": _expanded,
    "unsqueeze": _unsqueezed,
    "permute": _permuted,
    "transpose": _transposed,
    "slice": _sliced,
    "select": _selected,
    "index": _indexed,
}


def single(value):
    """Returns the function of indices that a number is; raises Refused."""
    if not isinstance(value, Number) or len(value.cases) != 1:
        raise Refused("an index that is computed")
    return value.cases[0][1]


# Elements: functions of (node, arguments, indices, box, values) to a condition or a Number.


def rounded(number, dtype):
    """Returns a Python number as a dtype holds it."""
    try:
        return torch.tensor(number, dtype=torch.float64 if isinstance(number, float) else None).to(dtype).item()
    except (OverflowError, RuntimeError):
        raise Refused("a number beyond its dtype") from None


def check_exact(value, dtype, box):
    """Raises Refused if an Affine may not be exact in a dtype."""
    number = value.number
    if not value.factors and not isinstance(number, torch.SymInt):
        if math.isnan(number) or rounded(number, dtype) != number:
            raise Refused("a number that is rounded")
        return
    if isinstance(number, float):
        raise Refused("a number that is rounded")
    ends = box.least(value), box.most(value)
    if any(isinstance(end, torch.SymInt) for end in ends):  # memory has not more than 2^63 elements
        if dtype != torch.int64:
            raise Refused("numbers that may not be exact")
        return
    if dtype.is_floating_point:
        most = int(2 / torch.finfo(dtype).eps)
        least = -most
    else:
        least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    if ends[0] < least or ends[1] > most:
        raise Refused("numbers that may not be exact")


def constant_of(number):
    """Returns a Python number as a value; integers are never floats."""
    if isinstance(number, bool):
        return number
    if isinstance(number, float) and number.is_integer() and abs(number) <= EXACT:
        number = int(number)
    return Number(((True, constant(number)),))


def number(value):
    """Returns a value as a Number; a condition is 1 or 0."""
    if isinstance(value, Number):
        return value
    cases = (value, constant(1)), (negated(value), ZERO)
    return Number(tuple(case for case in cases if case[0] is not False))


def by_cases(pairs, box):
    """Returns a Number of (condition, Affine), of which equal ones become one case."""
    found = {}
    for condition, value in pairs:
        condition = simplified(condition, box)
        if condition is not False:
            before = found.get(value.key, (False,))[0]
            found[value.key] = either(before, condition, box), value
    if len(found) == 1:
        ((_, value),) = found.values()
        return Number(((True, value),))
    if not 0 < len(found) <= MOST_CASES:
        raise Refused("a number with many cases")
    return Number(tuple(found.values()))


def chosen(condition, shown, other, box):
    """Returns the value of two functions of a box, by a condition."""
    condition = simplified(condition, box)
    if isinstance(condition, bool):
        return (shown if condition else other)(box)
    x, y = shown(box.where(condition)), other(box.where(negated(condition)))
    if not isinstance(x, Number) and not isinstance(y, Number):
        return either(both(condition, x, box), both(negated(condition), y, box), box)
    return by_cases(
        [
            (both(each, own, box), value)
            for each, part in ((condition, x), (negated(condition), y))
            for own, value in number(part).cases
        ],
        box,
    )


def _operands(node, args, names, at, box, values):
    """Returns the operands of an elementwise operator; raises Refused where one is not exact in another's dtype."""
    found = [values.operand(args[name], at, box) for name in names]
    dtypes = [value_of(args[name]).dtype for name in names if value_of(args[name]) is not None]
    for dtype in dtypes:
        if dtype != torch.bool:
            for value in found:
                for _, each in value.cases if isinstance(value, Number) else ():
                    check_exact(each, dtype, box)
    return found


def _met(operands, box):
    """Returns (condition, Affine of each operand) for all cases of operands."""
    for cases in itertools.product(*(number(each).cases for each in operands)):
        condition = True
        for own, _ in cases:
            condition = both(condition, own, box)
        if condition is not False:
            yield condition, *(each for _, each in cases)


def _integers(*values):
    if any(isinstance(each.number, float) for each in values):
        raise Refused("an index compared with a float")


def _at_least(x, y, box):
    if not x.factors and not y.factors and not isinstance(x.number, torch.SymInt) and not isinstance(y.number, torch.SymInt):
        return x.number >= y.number
    _integers(x, y)
    return simplified(x.plus(y, -1), box)


def _equal(x, y, box):
    return both(_at_least(x, y, box), _at_least(y, x, box), box)


COMPARISONS = {
    "ge": _at_least,
    "le": lambda x, y, box: _at_least(y, x, box),
    "lt": lambda x, y, box: negated(_at_least(x, y, box)),
    "gt": lambda x, y, box: negated(_at_least(y, x, box)),
    "eq": _equal,
    "ne": lambda x, y, box: negated(_equal(x, y, box)),
}


def _compared(node, args, at, box, values):
    compare, result = COMPARISONS[name_of(node)], False
    for condition, x, y in _met(_operands(node, args, ("self", "other"), at, box, values), box):
        result = either(result, both(condition, compare(x, y, box.where(condition)), box), box)
    return result


def _product(args, x, y, box):
    x, y = (y, x) if x.factors else (x, y)
    if x.factors or (y.factors and not isinstance(x.number, int)):
        raise Refused("a product of indices")
    yield True, y.times(x.number)


def _larger(args, x, y, box):
    condition = _at_least(x, y, box)
    yield from ((condition, x), (negated(condition), y))


def _smaller(args, x, y, box):
    condition = _at_least(x, y, box)
    yield from ((condition, y), (negated(condition), x))


def _divided(args, x, y, box):
    if args.get("rounding_mode") != "floor":
        raise Refused("a quotient that is not rounded down")
    return _quotient(args, x, y, box)


def _quotient(args, x, y, box):
    if y.factors or not isinstance(y.number, int) or y.number <= 0:
        raise Refused("a quotient by what varies")
    least, most = (each // y.number if isinstance(each, int) else None for each in (box.least(x), box.most(x)))
    if least is None or least != most:
        raise Refused("a quotient that varies")
    yield True, constant(least)


# Arithmetic of (arguments, operands, box) to (condition, result).
ARITHMETIC = {
    "add": lambda args, x, y, box: [(True, x.plus(y.times(number_of(args["alpha"]))))],
    "sub": lambda args, x, y, box: [(True, x.plus(y.times(number_of(args["alpha"])), -1))],
    "mul": _product,
    "neg": lambda args, x, box: [(True, x.times(-1))],
    "abs": lambda args, x, box: _larger(args, x, x.times(-1), box),
    "maximum": _larger,
    "minimum": _smaller,
    "div": _divided,
    "floor_divide": _quotient,
}


def _computed(node, args, at, box, values):
    names = [name for name in ("self", "other") if name in args]
    dtype, function = value_of(node).dtype, ARITHMETIC[name_of(node)]
    if dtype == torch.bool:
        raise Refused("arithmetic of conditions")
    cases = []
    for condition, *operands in _met(_operands(node, args, names, at, box, values), box):
        inner = box.where(condition)
        for own, value in function(args, *operands, inner):
            value = constant_of(value.number).cases[0][1] if not value.factors else value
            check_exact(value, dtype, inner)
            cases.append((both(condition, own, box), value))
    return by_cases(cases, box)


LOGIC = {"and": both, "or": either, "xor": lambda x, y, box: either(both(x, negated(y), box), both(negated(x), y, box), box)}


def _joined(node, args, at, box, values):
    operands = [values.operand(args[name], at, box) for name in ("self", "other")]
    if any(isinstance(each, Number) for each in operands):
        raise Refused("logic of numbers")
    return LOGIC[name_of(node).split("_")[1]](*operands, box)


def _inverted(node, args, at, box, values):
    value = values.operand(args["self"], at, box)
    if isinstance(value, Number):
        raise Refused("logic of numbers")
    return negated(value)


def _converted(node, args, at, box, values):
    source, dtype = node.args[0], value_of(node).dtype
    value = values.operand(source, at, box)
    if dtype != torch.bool:
        value = number(value)
        for _, each in value.cases:
            check_exact(each, dtype, box)
    elif isinstance(value, Number):
        result = False
        for condition, each in value.cases:
            is_some = negated(_equal(each, ZERO, box))
            result = either(result, both(condition, is_some, box), box)
        return result
    return value


def _filled(node, args, at, box, values):
    name = next(each for each in ("fill_value", "s") if each in args)
    return values.constant(number_of(args[name]), value_of(node).dtype)


def _counted(node, args, at, box, values):
    value = at[0].times(number_of(args["step"])).plus(constant(number_of(args["start"])))
    check_exact(value, value_of(node).dtype, box)
    return Number(((True, value),))


def _where(node, args, at, box, values):
    condition = values.operand(args["condition"], at, box)
    if isinstance(condition, Number):
        raise Refused("a choice by numbers")
    for each in ("self", "other"):
        value = value_of(args[each])
        if value is None or value.dtype != value_of(node).dtype:
            raise Refused("a choice between dtypes")
    shown, other = (lambda inner, name=name: values.operand(args[name], at, inner) for name in ("self", "other"))
    return chosen(condition, shown, other, box)


def _joined_tensors(node, args, at, box, values):
    dim, tensors = _axis(args["dim"], len(at)), args["tensors"]
    if any(len(shape_of(each)) != len(at) or value_of(each).dtype != value_of(node).dtype for each in tensors):
        raise Refused("tensors of several kinds")

    def part(number, begin):
        place = at[dim].plus(constant(begin), -1)
        own = [*at[:dim], place, *at[dim + 1 :]]
        if number == len(tensors) - 1:
            return lambda inner: values.at(tensors[number], own, inner)
        size = shape_of(tensors[number])[dim]
        before = constant(size - 1).plus(place, -1)  # place < size
        return lambda inner: chosen(
            before, lambda each: values.at(tensors[number], own, each), part(number + 1, begin + size), inner
        )

    return part(0, 0)(box)


def _padded(node, args, at, box, values):
    source, pad, own, inside = args["self"], args["pad"], list(at), True
    for i in range(len(pad) // 2):
        dim = len(at) - 1 - i
        own[dim] = at[dim].plus(constant(number_of(pad[2 * i])), -1)
        last = constant(shape_of(source)[dim] - 1).plus(own[dim], -1)
        inside = both(inside, both(own[dim], last, box), box)
    value = values.constant(number_of(args["value"]), value_of(node).dtype)
    return chosen(inside, lambda inner: values.at(source, own, inner), lambda inner: value, box)


def _summed_up(node, args, at, box, values):
    """A running sum of equal numbers."""
    source, dim = args["self"], _axis(args["dim"], len(at))
    each = index_of(f"sum over axis {dim} of {source.name}")
    inner = box.with_index(each.factors[0][0], shape_of(source)[dim])
    term = single(number(values.at(source, [*at[:dim], each, *at[dim + 1 :]], inner)))
    if term.factors or not isinstance(term.number, int):
        raise Refused("a sum of numbers that differ")
    value = at[dim].plus(constant(1)).times(term.number)
    check_exact(value, value_of(node).dtype, box)
    return Number(((True, value),))


ELEMENTS = {
    **dict.fromkeys(COMPARISONS, _compared),
    **dict.fromkeys(ARITHMETIC, _computed),
    **dict.fromkeys((f"{kind}_{name}" for kind in ("bitwise", "logical") for name in LOGIC), _joined),
    **dict.fromkeys(("bitwise_not", "logical_not"), _inverted),
    **dict.fromkeys(("convert_element_type", "_to_copy"), _converted),
    **dict.fromkeys(("full", "full_like", "scalar_tensor"), _filled),
    "iota": _counted,
    "where": _where,
    "cat": _joined_tensors,
    "constant_pad_nd": _padded,
    "cumsum": _summed_up,
}


class Values:
    """The elements of a graph's tensors, each computed once."""

    def __init__(self):
        self.known = {}

    def constant(self, number, dtype):
        if isinstance(number, torch.SymInt):
            if dtype != torch.int64:
                raise Refused("a size that is converted")
            return Number(((True, constant(number)),))
        return constant_of(rounded(number, dtype))

    def operand(self, argument, at, box):
        """Returns an element of an operand that is broadcast, or a number."""
        if value_of(argument) is not None:
            return self.at(argument, broadcast(shape_of(argument), at, box), box)
        value = number_of(argument)
        return Number(((True, constant(value)),)) if isinstance(value, torch.SymInt) else constant_of(value)

    def at(self, node, at, box):
        """Returns the element at some indices, Affines, of a box of places; raises Refused."""
        key = node, tuple(each.key for each in at), box.key
        if key not in self.known:
            try:
                self.known[key] = self.made(node, at, box)
            except Refused as error:
                self.known[key] = error
        if isinstance(self.known[key], Refused):
            raise self.known[key]
        return self.known[key]

    def made(self, node, at, box):
        if node.op == "get_attr":
            tensor = getattr(node.graph.owning_module, node.target)
            if not isinstance(tensor, torch.Tensor) or tensor.numel() != 1 or torch._subclasses.fake_tensor.is_fake(tensor):
                raise Refused("a tensor of the graph's own")
            return constant_of(tensor.item())
        name = name_of(node)
        if name in VIEWS:
            args = given(node)
            return self.at(node.args[0], VIEWS[name](node, args, at, box, self), box)
        if name in ELEMENTS:
            return ELEMENTS[name](node, given(node), at, box, self)
        raise Refused(f"{name or node.op} of a mask")
