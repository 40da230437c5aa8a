"""The text of what follows a product: elementwise nodes become one expression text of tile::_matmul_into.

docs/operators.md has the language of the texts, at tile::matmul_epilogue.
"""

import dataclasses

import sympy
import torch
from torch._inductor import ir
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from . import axes as axis_rules
from .active import Refused
from .compat import GraphFacts, real_name
from .ops import SIGNS, literal

SPECIAL = {"nan": "nan", "inf": "inf", "-inf": "(-inf)"}  # numbers that the language of texts names
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
MOST_OPERANDS, MOST_RESULTS = 12, 4


@dataclasses.dataclass
class Value:
    """A part of the text: its name there, and its dtype."""

    text: str
    dtype: torch.dtype

    def __str__(self):
        return self.text


@dataclasses.dataclass
class Sum:
    """A product: its name in the text, and where it lies in the template's buffer."""

    name: str
    offset: sympy.Expr
    strides: tuple


@dataclasses.dataclass
class Stored:
    """A result: its value, and where it is written."""

    buffer: str
    value: Value
    offset: sympy.Expr
    strides: tuple


def matrix_strides(index, symbols, sizes, matrix):
    """Returns (offset, strides along `matrix`) of an index; None if it is no view of that shape.

    symbols and sizes: those of the node's points; matrix: the extents of the product's result.
    """
    facts = GraphFacts()
    digits, total = {}, sympy.Integer(1)
    for symbol, size in zip(reversed(symbols), reversed(sizes)):
        digits[symbol] = axis_rules.Digit("x", total, size)
        total = facts.simplify(total * size)
    found = axis_rules.affine(index, digits)
    if found is None:
        return None
    # A use that has a stride of its own along each axis of the result keeps the axes apart.
    own, divisor, apart = {}, sympy.Integer(1), sympy.Symbol("apart")
    for i, extent in reversed(list(enumerate(matrix))):
        symbol = sympy.Symbol(f"matrix{i}", integer=True)
        digits[symbol] = axis_rules.Digit("x", divisor, extent)
        own[symbol] = apart**i
        divisor = facts.simplify(divisor * extent)
    if facts.simplify(divisor - total) != 0:
        return None
    made = axis_rules.split([found[1], own], digits, {"x": total}, facts)
    if made is None:
        return None
    axes, (row, _) = axis_rules.merge(*made, facts)
    wanted = [extent for extent in matrix if extent != 1]
    if len(axes) != len(wanted) or any(facts.simplify(axis.extent - extent) != 0 for axis, extent in zip(axes, wanted)):
        return None
    strides = iter(row)
    return found[0], [next(strides) if extent != 1 else sympy.Integer(0) for extent in matrix]


class TextHandler(DefaultHandler):
    """Writes operations as a text. `buffer` is that of the products, `matrix` the extents and `sums` the Sum of each."""

    def __init__(self, buffer, matrix, sums):
        self.matrix, self.named = matrix, {}
        self.operands = {}  # (buffer, offset, strides): its name in the text
        self.stored = []
        self.values = {}  # buffer: {place: the value that is written at each point}
        for each in sums:
            self.write(Stored(buffer, Value(each.name, torch.float32), each.offset, each.strides))

    def enter(self, symbols, sizes):
        self.symbols, self.sizes = symbols, sizes

    def name(self, text, dtype):
        if text not in self.named:
            self.named[text] = Value(f"t{len(self.named)}", dtype)
        return self.named[text]

    @property
    def lines(self):
        return [f"{value} = {text}" for text, value in self.named.items()]

    def write(self, result):
        self.stored.append(result)
        self.values.setdefault(result.buffer, {})[self.comparable(result.offset, result.strides)] = result.value

    def comparable(self, offset, strides):
        """Returns a place without the strides of axes of one element, which mean nothing."""
        return offset, tuple(stride for stride, extent in zip(strides, self.matrix) if extent != 1)

    def place(self, index):
        found = matrix_strides(index, self.symbols, self.sizes, self.matrix)
        if found is None:
            raise Refused(f"the index {index} of an epilogue")
        offset, strides = found
        return offset, tuple(strides)

    def load(self, name, index):
        place = self.place(index)
        if name in self.values:
            value = self.values[name].get(self.comparable(*place))
            if value is None:
                raise Refused("an epilogue that reads another point of the product")
            return value
        dtype = V.graph.get_dtype(name)
        if dtype not in (*FLOATS, torch.bool):
            raise Refused(f"an operand of {dtype} in an epilogue")
        key = (real_name(name), *place)
        if key not in self.operands:
            if len(self.operands) == MOST_OPERANDS:
                raise Refused("more operands than an epilogue can have")
            self.operands[key] = f"x{len(self.operands)}"
        return Value(self.operands[key], torch.bool if dtype == torch.bool else torch.float32)

    def store(self, name, index, value, mode=None):
        dtype = V.graph.get_dtype(name)
        if mode is not None or dtype not in (*FLOATS, torch.bool) or (dtype == torch.bool) != (value.dtype == torch.bool):
            raise Refused("a store of an epilogue")
        place = self.place(index)
        if any(stride == 0 and extent != 1 for stride, extent in zip(place[1], self.matrix)):
            raise Refused("a result in which several elements share memory")
        self.write(Stored(name, value, *place))

    def constant(self, value, dtype):
        if dtype == torch.bool:
            raise Refused("a condition that is known")
        number = float(value)
        text = SPECIAL.get(str(number)) or f"({literal(number)})"
        return Value(text, torch.float32)

    def to_dtype(self, x, dtype, src_dtype=None, use_compute_types=True):
        if x.dtype == torch.bool:
            if dtype not in FLOATS:
                return x if dtype == torch.bool else self.refuse("to_dtype")
            return self.name(f"where({x}, 1.0, 0.0)", torch.float32)
        if dtype == torch.float32:
            return x
        if dtype in FLOATS:
            return self.name(f"{str(dtype).split('.')[1]}({x})", torch.float32)
        return self.refuse("to_dtype")

    def refuse(self, name):
        raise Refused(f"ops.{name} in an epilogue")

    def _default(self, name, args, kwargs):
        if kwargs or name not in TEXTS or not all(isinstance(each, Value) for each in args):
            self.refuse(name)
        text, is_condition = TEXTS[name]
        return self.name(text.format(*args), torch.bool if is_condition else torch.float32)

    def where(self, condition, x, y):
        if x.dtype == torch.bool:
            self.refuse("where")
        return self.name(f"where({condition}, {x}, {y})", torch.float32)


# (the text, whether it gives a condition)
TEXTS = {
    **{name: (f"({{0}} {SIGNS[name]} {{1}})", False) for name in "add sub mul truediv div_rn".split()},
    **{
        name: (f"({{0}} {SIGNS[name]} {{1}})", True) for name in "eq ne lt le gt ge and_ or_ xor bitwise_and bitwise_or".split()
    },
    "logical_and": ("({0} & {1})", True),
    "logical_or": ("({0} | {1})", True),
    "logical_not": ("(~{0})", True),
    "neg": ("(-{0})", False),
    "square": ("({0} * {0})", False),
    "reciprocal": ("(1.0 / {0})", False),
    "identity": ("{0}", False),
    "relu": ("relu({0})", False),
    "maximum": ("maximum_nan({0}, {1})", False),
    "minimum": ("minimum_nan({0}, {1})", False),
    **{
        name: (f"{name}({{0}})", False)
        for name in "exp exp2 expm1 log log1p log2 sqrt rsqrt sin cos tan tanh erf sigmoid abs floor ceil trunc".split()
    },
}


def text_of(template, nodes):
    """Returns the TextHandler of the nodes; raises Refused if they are no epilogue of the template."""
    handler = TextHandler(template.get_name(), template.matrix(), template.sums())
    for node in nodes:
        if node.is_reduction() or not isinstance(node.node, ir.ComputedBuffer) or node.has_aliasing_or_mutation():
            raise Refused("a node that is not elementwise")
        sizes = list(node.get_ranges()[0])
        symbols = [sympy.Symbol(f"v{i}", integer=True) for i in range(len(sizes))]
        handler.enter(symbols, sizes)
        with V.set_ops_handler(handler):
            node._body(symbols, [])
    return handler


def kept_results(scheduler, handler, nodes):
    """Returns what is stored: the results that others than the nodes read. nodes: the template and its epilogue."""
    names = OrderedSet(node.get_name() for node in nodes)
    buffers = dict.fromkeys(each.buffer for each in handler.stored)
    removed = {name for name in buffers if len(nodes) > 1 and scheduler.can_buffer_be_removed_through_fusion(name, names)}
    return [each for each in handler.stored if each.buffer not in removed]
