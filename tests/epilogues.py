"""Computes the text of an epilogue with torch, in the tensors' own dtype."""

import re

import torch
import torch.nn.functional as F

NAMES = """abs acos asin atan bitwise_and bitwise_or bitwise_xor ceil cos cosh erf exp exp2 expm1 floor isfinite isinf isnan log
    log1p log2 logical_not relu round rsqrt sigmoid sin sinh sqrt tan tanh trunc""".split()
FUNCTIONS = {
    **{name: getattr(torch, name) for name in NAMES},
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "pow": lambda x, y: x**y,
    "fma": lambda x, y, z: x * y + z,
    "neg": lambda x: -x,
    "sign": lambda x: torch.where(x == x, torch.sign(x), x),
    "bool": lambda x: x != 0,
    **{dtype: lambda x, to=getattr(torch, dtype): rounded(x, to) for dtype in ("bfloat16", "float16", "float32")},
}
PAIRS = {
    "atan2": torch.atan2,
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "mod": torch.remainder,
    "floordiv": torch.floor_divide,
    "max": torch.fmax,
    "maximum": torch.fmax,
    "maximum_nan": torch.maximum,
    "min": torch.fmin,
    "minimum": torch.fmin,
    "minimum_nan": torch.minimum,
    **{name: getattr(torch, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}


def rounded(x, dtype):
    """Rounds to a dtype and widens again; a condition becomes 1 or 0."""
    return x.to(dtype).to(x.dtype if x.is_floating_point() else torch.float32)


def of_tensors(function):
    """Returns a function of tensors as one that takes numbers too, of the dtype of its tensors."""

    def call(*values):
        like = next(value for value in values if isinstance(value, torch.Tensor) and value.is_floating_point())
        made = [value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=like.dtype) for value in values]
        return function(*made)

    return call


FUNCTIONS |= {name: of_tensors(function) for name, function in PAIRS.items()}


def results(text, acc, named):
    """Returns the results of a text for the product `acc`, and further values by name, in acc's shape."""

    def where(condition, *values):
        return torch.where(condition, *(v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=acc.dtype) for v in values))

    names = {**FUNCTIONS, "where": where, "inf": torch.inf, "nan": torch.nan, "acc": acc, **named}
    found = []
    for part in text.split(";"):
        assigned = re.match(r"\s*(\w+)\s*=(?!=)(.*)", part)
        value = eval(assigned[2].strip() if assigned else part.strip(), {"__builtins__": {}}, names)
        if assigned:
            names[assigned[1]] = value
        else:
            found.append(value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=acc.dtype))
    return [each.expand(acc.shape) for each in found]


def value(text, acc, named):
    """Returns the only result of a text."""
    (found,) = results(text, acc, named)
    return found


def in_torch(input, other, epilogue, *, numbers=(), names="", **operands):
    """torch.ops.tile.matmul_epilogue in torch."""
    given = [tensor for tensor in operands.values() if tensor is not None]
    return value(epilogue, input @ other, dict(zip(names.split(","), (*given, *numbers)))).to(input.dtype)
