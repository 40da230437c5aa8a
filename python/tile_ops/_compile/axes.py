"""Splits flat indices into axes: an affine index is then an offset and a stride for each axis.

Inductor numbers the points of a kernel, and gives each array an index of symbols that are digits of that number: a symbol
counts (number // divisor) % length. All symbols together cut the points into the fewest axes of which every symbol is made.
"""

import dataclasses

import sympy
from torch.utils._sympy.functions import FloorDiv
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

MOST = 2**31 - 1  # of an index of 32 bits


@dataclasses.dataclass(frozen=True)
class Digit:
    """A symbol of an index: (number // divisor) % length of one of the kernel's numbers."""

    space: str  # the name of the number
    divisor: sympy.Expr
    length: sympy.Expr


@dataclasses.dataclass(frozen=True)
class Axis:
    space: str
    divisor: sympy.Expr
    extent: sympy.Expr


class Facts:
    """Knows only numbers; inductor's graph also knows sizes that vary."""

    def simplify(self, expression):
        return sympy.simplify(expression)

    def is_multiple(self, a, b):
        return sympy.simplify(a % b) == 0

    def at_most(self, a, b):
        return sympy.simplify(a <= b) == True  # noqa: E712

    def hint(self, expression):
        return int(expression)


def affine(index, symbols):
    """Returns (offset, {symbol: stride}) of an index in these symbols; None if it is not affine.

    Every other symbol that varies makes an index not affine: a value that was loaded begins with "tmp".
    """
    rest = sympy.expand(index)
    strides = {}
    for symbol in sorted(rest.free_symbols & set(symbols), key=str):
        stride = rest.coeff(symbol)
        if stride.free_symbols & set(symbols):
            return None
        strides[symbol] = stride
        rest = sympy.expand(rest - stride * symbol)
    if any(symbol in symbols or str(symbol).startswith("tmp") for symbol in rest.free_symbols):
        return None
    return rest, strides


def fits(index, ranges):
    """Returns True if an index and all that it is computed from fit 32 bits. ranges: (least, greatest) of each symbol."""
    ranges = {symbol: ValueRanges(*ends) for symbol, ends in ranges.items()}
    for part in sympy.preorder_traversal(index):
        if not isinstance(part, sympy.Expr) or part.is_Float:
            continue
        found = bound_sympy(part, ranges)
        if found.is_bool or not (found.lower >= -MOST and found.upper <= MOST):
            return False
    return True


def split(uses, digits, sizes, facts):
    """Returns the axes, the outermost first, and for each use its strides along them.

    uses: {symbol: stride} of each array; digits: the Digit of each symbol; sizes: how far each number counts, in order.
    Returns None if the digits cut a number at places that do not divide one another, or if that is unknown of sizes that vary.
    """
    axes = []
    for space, size in sizes.items():
        cuts = {sympy.Integer(1), size}
        for use in uses:
            for symbol in use:
                if digits[symbol].space == space:
                    cuts |= {digits[symbol].divisor, facts.simplify(digits[symbol].divisor * digits[symbol].length)}
        cuts = sorted(cuts, key=facts.hint)
        own = []
        for low, high in zip(cuts, cuts[1:]):
            if not facts.is_multiple(high, low):
                return None
            extent = _quotient(high, low, facts)
            if extent != 1:
                own.append(Axis(space, low, extent))
        axes += reversed(own)
    rows = [[_stride(use, digits, axis, facts) for axis in axes] for use in uses]
    return None if any(stride is None for row in rows for stride in row) else (axes, rows)


def _quotient(number, divisor, facts):
    """Returns number / divisor, of which is known that nothing remains."""
    found = facts.simplify(number / divisor)
    return found if found.is_integer and sympy.denom(found) == 1 else FloorDiv(number, divisor)


def _stride(use, digits, axis, facts):
    """Returns the stride of a use along an axis; None if it is unknown whether a digit has a part in it."""
    total, axis_end = sympy.Integer(0), facts.simplify(axis.divisor * axis.extent)
    for symbol, stride in use.items():
        digit = digits[symbol]
        if digit.space != axis.space:
            continue
        end = facts.simplify(digit.divisor * digit.length)
        if facts.at_most(digit.divisor, axis.divisor) and facts.at_most(axis_end, end):
            total += stride * _quotient(axis.divisor, digit.divisor, facts)
        elif not (facts.at_most(axis_end, digit.divisor) or facts.at_most(end, axis.divisor)):
            return None
    return facts.simplify(total)


def merge(axes, rows, facts):
    """Joins neighbouring axes that are one axis for every use."""
    axes, rows = list(axes), [list(row) for row in rows]
    for i in range(len(axes) - 1, 0, -1):
        inner, outer = axes[i], axes[i - 1]
        if inner.space != outer.space:
            continue
        if all(facts.simplify(row[i - 1] - row[i] * inner.extent) == 0 for row in rows):
            axes[i - 1 : i + 1] = [Axis(inner.space, inner.divisor, facts.simplify(inner.extent * outer.extent))]
            for row in rows:
                row[i - 1 : i + 1] = [row[i]]
    return axes, rows
