"""Computes the text of an epilogue with torch, in the tensors' own dtype."""

import torch
import torch.nn.functional as F

FUNCTIONS = {
    **{name: getattr(torch, name) for name in ("abs", "cos", "erf", "exp", "floor", "log1p", "relu", "rsqrt", "sigmoid")},
    **{name: getattr(torch, name) for name in ("sin", "sqrt", "tanh", "isnan", "bitwise_and")},
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "pow": lambda x, y: x**y,
    "fma": lambda x, y, z: x * y + z,
}


def of_tensors(function):
    """Returns a function of tensors as one that takes numbers too, of the dtype of its tensors."""

    def call(*values):
        like = next(value for value in values if isinstance(value, torch.Tensor) and value.is_floating_point())
        made = [value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=like.dtype) for value in values]
        return function(*made)

    return call


FUNCTIONS["atan2"] = of_tensors(torch.atan2)
FUNCTIONS |= {name: of_tensors(torch.fmax) for name in ("max", "maximum")}
FUNCTIONS |= {name: of_tensors(torch.fmin) for name in ("min", "minimum")}


def where(condition, x, y):
    return torch.where(condition, x, y)


def value(text, acc, named):
    """Returns the value of a text for the product `acc` and the operands by name."""
    return eval(text, {"__builtins__": {}}, {**FUNCTIONS, "where": where, "inf": torch.inf, "acc": acc, **named})


def in_torch(input, other, epilogue, *, numbers=(), names="", **operands):
    """torch.ops.tile.matmul_epilogue in torch."""
    given = [tensor for tensor in operands.values() if tensor is not None]
    return value(epilogue, input @ other, dict(zip(names.split(","), (*given, *numbers)))).to(input.dtype)
