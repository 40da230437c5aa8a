"""Completes errors about unknown names: the equivalent in this language, or the closest known name."""

import difflib
import re

import torch

# The equivalents of other libraries' functions and methods; M is the module, X the value.
WRITTEN = {
    "relu": "M.maximum(X, 0.0)",
    "gelu": "0.5 * X * (1.0 + M.tanh(0.79788456 * (X + 0.044715 * X * X * X)))",
    "leaky_relu": "M.where(X > 0, X, slope * X)",
    "softplus": "M.log(1.0 + M.exp(X))",
    "softmax": "e = M.exp(X - M.max(X, axis, keepdims=True)), then e / M.sum(e, axis, keepdims=True)",
    "mean": "M.sum(X, axis) / X.shape[axis]",
    "norm": "M.sqrt(M.sum(X * X, axis))",
    "any": "M.max(X != 0, axis) != 0",
    "all": "M.min(X != 0, axis) != 0",
    "amax": "M.max(X, axis)",
    "amin": "M.min(X, axis)",
    "associative_scan": "M.scan(X, axis, function, identity)",
    "cummax": "M.scan(X, axis, M.maximum, -math.inf)",
    "cummin": "M.scan(X, axis, M.minimum, math.inf)",
    "clip": "M.minimum(M.maximum(X, low), high)",
    "clamp": "M.minimum(M.maximum(X, low), high)",
    "sign": "M.where(X > 0, 1, M.where(X < 0, -1, 0))",
    "square": "X * X",
    "reciprocal": "1.0 / X",
    "log10": "M.log(X) / math.log(10.0)",
    "isneginf": "X == -math.inf",
    "dot": "M.matmul(X, y), or M.mma(X, y, acc)",
    "mm": "M.matmul(X, y)",
    "bmm": "M.matmul(X, y)",
    "concat": "M.cat((X, y), axis)",
    "concatenate": "M.cat((X, y), axis)",
    "join": "M.cat((X, y), axis)",
    "stack": "M.cat((M.expand_dims(X, axis), M.expand_dims(y, axis)), axis)",
    "split": "M.extract(X, index, shape)",
    "squeeze": "M.reshape(X, shape)",
    "unsqueeze": "M.expand_dims(X, axis)",
    "view": "M.reshape(X, shape)",
    "flatten": "M.reshape(X, -1)",
    "ravel": "M.reshape(X, -1)",
    "expand": "M.broadcast_to(X, shape)",
    "to": "M.astype(X, dtype)",
    "type": "M.astype(X, dtype)",
    "cast": "M.astype(X, dtype)",
    "float": "M.astype(X, M.float32)",
    "half": "M.astype(X, M.float16)",
    "double": "M.astype(X, M.float64)",
    "int": "M.astype(X, M.int32)",
    "long": "M.astype(X, M.int64)",
    "bool": "M.astype(X, M.bool_)",
    "T": "M.transpose(X)",
    "mT": "M.transpose(X, -2, -1)",
    "t": "M.transpose(X)",
    "trans": "M.transpose(X)",
    "swapaxes": "M.transpose(X, axis0, axis1)",
    "size": "X.shape",
    "dim": "X.ndim",
    "numel": "M.static_eval(math.prod(X.shape))",
    "stride": "X.strides",
    "clone": "X; a tile never changes",
    "copy": "X; a tile never changes",
    "contiguous": "X; a tile never changes",
    "zeros_like": "M.zeros(X.shape, X.dtype)",
    "ones_like": "M.ones(X.shape, X.dtype)",
    "full_like": "M.full(X.shape, value, X.dtype)",
    "rand": "M.uniform(shape, seed)",
    "randn": "M.normal(shape, seed)",
    "randint": "M.random_bits(shape, seed)",
    "program_id": "M.bid(axis)",
    "num_programs": "M.num_blocks(axis)",
    "constexpr": "M.Constant",
    "static_range": "M.static_iter(range(n))",
    "static_print": "M.static_eval(print(X))",
    "device_print": "M.print(X)",
    "device_assert": "M.assert_(X)",
    "multiple_of": "M.assume_divisible_by(X, n)",
    "max_contiguous": "M.assume_divisible_by(X, n)",
    "make_block_ptr": "array.tiled_view(shape)",
    "power": "M.pow(X, y)",
    "absolute": "M.abs(X)",
    "divide": "M.truediv(X, y)",
    "multiply": "M.mul(X, y)",
    "subtract": "M.sub(X, y)",
    "neg": "M.negative(X)",
    "eq": "M.equal(X, y)",
    "ne": "M.not_equal(X, y)",
    "lt": "M.less(X, y)",
    "le": "M.less_equal(X, y)",
    "gt": "M.greater(X, y)",
    "ge": "M.greater_equal(X, y)",
    "logical_and": "X & y",
    "logical_or": "X | y",
    "logical_xor": "X ^ y",
    "fp16": "M.float16",
    "bf16": "M.bfloat16",
    "fp32": "M.float32",
    "fp64": "M.float64",
    "int1": "M.bool_",
}
# Functions that have another name in torch.
_OF_TORCH = {
    "truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "equal": "eq", "not_equal": "ne",
    "mma": "addmm", "bitwise_lshift": "bitwise_left_shift", "bitwise_rshift": "bitwise_right_shift",
    "expand_dims": "unsqueeze", "uniform": "rand", "normal": "randn",
}  # fmt: skip


def module_name(cutile):
    return "ct" if cutile else "tl"


def written(name, module, value):
    """Returns the equivalent of another library's function `name`; None: there is no entry for it."""
    text = WRITTEN.get(name)
    if text is None:
        return None
    return re.sub(r"\b[MX]\b", lambda word: {"M": module, "X": value}[word[0]], text)


def meant(name, known, prefix=""):
    """Returns '; did you mean …?', or an empty string if no known name is close."""
    alike = [each for each in known if each[:1] != "_" and abs(len(each) - len(name)) <= max(1, len(name) // 4)]
    close = difflib.get_close_matches(name, alike, 1, 0.7)
    return f"; did you mean {prefix}{close[0]}?" if close else ""


def of_module(name, known, module):
    """Returns the end of the error about a name that a module of the language does not have."""
    text = written(name, module, "x")
    return f"; write {text}" if text is not None else meant(name, known)


def outside(name):
    """Returns advice for a language function outside of kernels: what to use instead."""
    torchs = _OF_TORCH.get(name, name)
    if name != "load" and callable(getattr(torch, torchs, None)):
        return f"on tensors call torch.{torchs}()"
    return "kernel[grid](...) launches one"
