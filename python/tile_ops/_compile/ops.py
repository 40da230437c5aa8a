"""Inductor's operations as texts of the kernel language: a line for each.

An operation without a line is refused while a kernel is generated; torch then computes the operator (see scheduling.py).
"""

import math

import torch
from torch._inductor.codegen.common import OpOverrides
from torch._inductor.ops_handler import OpsHandler
from torch._inductor.virtualized import V

from .active import Refused
from .compat import is_floating

NAMES = {
    torch.float32: "tl.float32",
    torch.float64: "tl.float64",
    torch.float16: "tl.float16",
    torch.bfloat16: "tl.bfloat16",
    torch.int8: "tl.int8",
    torch.int16: "tl.int16",
    torch.int32: "tl.int32",
    torch.int64: "tl.int64",
    torch.uint8: "tl.uint8",
    torch.uint16: "tl.uint16",
    torch.uint32: "tl.uint32",
    torch.uint64: "tl.uint64",
    torch.bool: "tl.bool_",
}
NARROW = (torch.float16, torch.bfloat16)  # computed in float32


def name_of(dtype):
    if dtype not in NAMES:
        raise Refused(f"kernels have no {dtype}")
    return NAMES[dtype]


def computed_in(dtype):
    return torch.float32 if dtype in NARROW else dtype


def literal(value):
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _random(name, seed, offset, dtype=""):
    shape = V.kernel.shape
    return f"tl.{name}({shape}, {seed}, tl.broadcast_to({offset}, {shape}){dtype})"


class Operations(OpOverrides):
    @staticmethod
    def constant(value, dtype):
        dtype = computed_in(dtype)
        if dtype == torch.bool:
            value = bool(value)
        elif dtype.is_floating_point:
            value = float(value)
        else:
            value = int(value)
        return f"tl.full((1,), {literal(value)}, {name_of(dtype)})"

    @staticmethod
    def to_dtype(x, dtype, src_dtype=None, use_compute_types=True):
        if dtype in NARROW and use_compute_types:
            return f"tl.astype(tl.astype({x}, {name_of(dtype)}), tl.float32)"
        if is_floating(x) and dtype == torch.uint8:  # as torch: the lowest bits of the integer
            return f"tl.astype(tl.astype({x}, tl.int64), tl.uint8)"
        return f"tl.astype({x}, {name_of(dtype)})"

    @staticmethod
    def to_dtype_bitcast(x, dtype, src_dtype):
        if src_dtype in NARROW:
            x = f"tl.astype({x}, {name_of(src_dtype)})"
        text = f"tl.bitcast({x}, {name_of(dtype)})"
        return f"tl.astype({text}, tl.float32)" if dtype in NARROW else text

    @staticmethod
    def bitwise_not(x):
        return f"tl.logical_not({x})" if x.dtype == torch.bool else f"(~{x})"

    @staticmethod
    def sign(x):
        return f"(tl.astype({x} > 0, {name_of(x.dtype)}) - tl.astype({x} < 0, {name_of(x.dtype)}))"

    @staticmethod
    def signbit(x):
        if not is_floating(x):
            return f"({x} < 0)"
        return f"(tl.bitcast({x}, {'tl.int64' if x.dtype == torch.float64 else 'tl.int32'}) < 0)"

    @staticmethod
    def abs(x):
        return f"{x}" if x.dtype in (torch.bool, torch.uint8) else f"tl.abs({x})"

    @staticmethod
    def relu(x):
        return f"tl.where({x} <= 0, tl.astype(0, {name_of(x.dtype)}), {x})"

    @staticmethod
    def truncdiv(a, b):
        return f"({a} // {b} + tl.astype((({a} < 0) != ({b} < 0)) & ({a} // {b} * {b} != {a}), {name_of(a.dtype)}))"

    @staticmethod
    def fmod(a, b):  # % of Python has the sign of b, fmod that of a
        if a.dtype == torch.uint8:
            return f"({a} % {b})"
        if is_floating(a):
            return f"tl.where({a} < 0, -(tl.abs({a}) % tl.abs({b})), tl.abs({a}) % tl.abs({b}))"
        # The least integer has no absolute value.
        return f"({a} % {b} - tl.where(({a} % {b} != 0) & (({a} < 0) != ({b} < 0)), {b}, tl.astype(0, {name_of(a.dtype)})))"

    mod = fmod

    @staticmethod
    def pow(a, b):
        if not is_floating(a):
            raise Refused("pow")
        return f"tl.pow({a}, {b})"

    @classmethod
    def index_expr(cls, expression, dtype):
        return V.kernel.index_value(expression, dtype)

    value_expr = index_expr

    @staticmethod
    def masked(mask, body, other):
        return V.kernel.masked(mask, body, other)

    @staticmethod
    def load_seed(name, offset):
        return V.kernel.seed(name, offset)

    @staticmethod
    def rand(seed, offset):
        return _random("uniform", seed, offset)

    @staticmethod
    def randn(seed, offset):
        return _random("normal", seed, offset)

    @staticmethod
    def randint64(seed, offset, low, high):
        bits = _random("random_bits", seed, offset, ", dtype=tl.uint64")
        return f"(tl.astype({bits} % tl.astype({high} - {low}, tl.uint64), tl.int64) + {low})"


def _define(name, text):
    """text: with {0}, {1} for the operands."""
    setattr(Operations, name, staticmethod(lambda *operands: text.format(*operands)))


for _name in (
    "exp exp2 expm1 log log1p log2 sqrt rsqrt sin cos tan sinh cosh tanh asin acos atan floor ceil trunc round erf sigmoid isinf"
).split():
    _define(_name, f"tl.{_name}({{0}})")
for _name, _text in {
    "atan2": "tl.atan2({0}, {1})",
    "fma": "tl.fma({0}, {1}, {2})",
    "identity": "{0}",
    "int_truediv": "(tl.astype({0}, tl.float32) / tl.astype({1}, tl.float32))",
    "isnan": "({0} != {0})",
    "log10": f"(tl.log({{0}}) * {1 / math.log(10)!r})",
    "neg": "(-{0})",
    "reciprocal": "(1 / {0})",
    "square": "({0} * {0})",
    "where": "tl.where({0}, {1}, {2})",
}.items():
    _define(_name, _text)

# Operators of the language between two operands.
SIGNS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "div_rn": "/",
    "floordiv": "//",
    "remainder": "%",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and_": "&",
    "or_": "|",
    "xor": "^",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "bitwise_left_shift": "<<",
    "bitwise_right_shift": ">>",
}
for _name, _sign in SIGNS.items():
    _define(_name, f"({{0}} {_sign} {{1}})")


def _of_conditions(text):
    """Returns an operation on conditions; numbers become conditions first."""
    return lambda *operands: text.format(*(each if each.dtype == torch.bool else f"({each} != 0)" for each in operands))


def _extreme(name, sign):
    """Returns the operation of a function of the language. sign: computes it of conditions."""

    def operation(a, b):
        if a.dtype == torch.bool:
            return f"({a} {sign} {b})"
        return f"tl.{name}({a}, {b}{', propagate_nan=True' if is_floating(a) else ''})"

    return operation


def _rounding(text):
    return lambda x, dtype: f"tl.astype({text.format(x)}, {name_of(dtype)})"


def _refusing(name):
    """Returns an operation that no kernel can have."""

    def refused(*args, **kwargs):
        raise Refused(name)

    return refused


_INEXACT = ["erfc", "erfcx"]  # inductor's formulas of these lose digits
_UNKNOWN = [each for each in dir(OpsHandler) if not each.startswith("_") and Operations._is_unimplemented(each)]
for _name, _operation in {
    **{name: _refusing(name) for name in (*_INEXACT, "bucketize", *_UNKNOWN)},  # the rows below replace some of these
    "logical_not": _of_conditions("tl.logical_not({0})"),
    "logical_and": _of_conditions("({0} & {1})"),
    "logical_or": _of_conditions("({0} | {1})"),
    "logical_xor": _of_conditions("({0} != {1})"),
    "maximum": _extreme("maximum", "|"),
    "minimum": _extreme("minimum", "&"),
    "round_to_int": _rounding("tl.round({0})"),
    "trunc_to_int": _rounding("{0}"),
    "floor_to_int": _rounding("tl.floor({0})"),
    "ceil_to_int": _rounding("tl.ceil({0})"),
}.items():
    setattr(Operations, _name, staticmethod(_operation))
