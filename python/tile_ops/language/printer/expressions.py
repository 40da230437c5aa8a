"""Expressions: texts of Python with their precedence, dtype and shape."""

import dataclasses

from ..core import dtypes
from ..core.errors import TileTypeError

(COMPARISON, OR, XOR, AND, SHIFT, SUM, PRODUCT, SIGN, ATOM) = range(9)


@dataclasses.dataclass
class Expression:
    """A text of Python.

    narrow: the same before it was broadcast. uncast: the same before a cast. origin: the same before it was reshaped. kept: a
    reduction with keepdims. number: of a literal, which takes the dtype of the other operands.
    """

    text: str
    level: int
    dtype: object
    shape: tuple
    narrow: object = None
    uncast: object = None
    origin: object = None
    kept: object = None
    number: object = None

    def at(self, level):
        """Returns the text as an operand of an operator with a precedence."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def atom(self):
        return self.at(ATOM)


def shown_number(value, dtype):
    """Returns the shortest literal that a dtype rounds to the number."""
    if dtype is dtypes.bool_:
        return str(bool(value))
    if dtype.category != dtypes.FLOAT:
        if dtype is dtypes.uint64:
            value %= 1 << 64
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    for digits in range(1, 18):
        text = f"{value:.{digits}g}"
        if dtypes.converted(float(text), dtype) == value:
            return repr(float(text))
    return repr(value)


def dtype_text(dtype):
    return f"tl.{dtype.name}"


def literal(value, dtype):
    """Returns the expression of a scalar constant."""
    text = shown_number(value, dtype)
    level = SIGN if text.startswith("-") else ATOM
    return Expression(text, level, dtype, (), number=value)


_LOOSE = (dtypes.int32, dtypes.float32, dtypes.bool_)


def strict(expression):
    """Returns an expression that has its dtype by itself."""
    if expression.number is None or expression.dtype in _LOOSE:
        return expression
    return dataclasses.replace(
        expression, text=f"tl.full((), {expression.text}, {dtype_text(expression.dtype)})", level=ATOM, number=None
    )


def common_shape(shapes):
    """Returns the shape that shapes broadcast to."""
    rank = max(map(len, shapes), default=0)
    made = [1] * rank
    for shape in shapes:
        for axis, extent in enumerate(shape, rank - len(shape)):
            made[axis] = extent if made[axis] == 1 else made[axis]
    return tuple(made)


def promoted(expressions):
    """Returns the dtype that operands promote to; None: there is none."""
    kinds = [each.dtype for each in expressions if each.number is None]
    if not kinds:
        kinds = [each.dtype if each.dtype in _LOOSE else None for each in expressions]
    made = kinds[0]
    for each in kinds[1:]:
        try:
            made = None if made is None or each is None else dtypes.promote(made, each)
        except TileTypeError:
            return None
    return made


def operands(expressions, shape, dtype):
    """Returns the operands of an elementwise function in their shortest form: it broadcasts and promotes them itself.

    dtype: of the operands; None: they are not promoted.
    """
    made = list(expressions)
    # Literals first, which have a shape only so that others need not be broadcast.
    for at in sorted(range(len(made)), key=lambda at: made[at].narrow is None or made[at].narrow.number is None):
        while made[at].narrow is not None:
            shorter = [*made[:at], made[at].narrow, *made[at + 1 :]]
            if common_shape([each.shape for each in shorter]) != shape:
                break
            made = shorter
    if dtype is None:
        return made
    if promoted(made) is not dtype:
        made = [strict(made[0]), *made[1:]]
    for at in range(len(made)):
        shorter = made[at].uncast
        if shorter is not None and len(made) > 1:
            shorter = [*made[:at], shorter, *made[at + 1 :]]
            if promoted(shorter) is dtype and any(each.number is None and each.dtype is dtype for each in shorter):
                made = shorter
    return made
