"""Small graphs of torch functions for compiled.py: a name, the function and its inputs. Functions take any dtype of floats."""

import math

import torch
from torch.nn import functional

# rows and columns of the usual input; samples, heads, tokens and width of a head
SIZES = {"tiny": (7, 34, 2, 3, 5, 8), "small": (1024, 1000, 2, 8, 128, 64), "full": (8192, 4096, 4, 32, 2048, 128)}
OVERHEAD = 8  # rows and columns where only the cost of a call counts


def chain(x, y, b):
    return functional.gelu(2 * x + y) * b + torch.relu(x)


def gelu_gate(x, y):
    return functional.gelu(x, approximate="tanh") * y


def silu_gate(x):
    gate, value = x.chunk(2, -1)
    return functional.silu(gate) * value


def sums_of_rows(x):
    return (x * x).sum(-1)


def sums_of_columns(x, y):
    return (x * y).sum(0)


def mean_of_all(x, y):
    return (x - y).abs().mean()


def variance(x):
    variance, mean = torch.var_mean(x, -1, keepdim=True, correction=0)
    return (x - mean) * (variance + 1e-5).rsqrt()


def softmax(x):
    return torch.softmax(0.5 * x, -1)


def softmax_of_columns(x):
    return torch.softmax(x, 0)


def masked_softmax(x, hidden):
    return torch.softmax(x.masked_fill(hidden, -math.inf), -1)


def log_softmax(x, y):
    return torch.log_softmax(x + y, -1)


def layer_norm_gelu(x, w, b):
    return functional.gelu(functional.layer_norm(x, x.shape[-1:], w, b))


def residual_rms_norm(x, y, w):
    total = x + y
    return total, total * (total.float().pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt().to(x.dtype) * w


def transposed_sum(x, y):
    return x.t() + 2 * y


def heads_apart(x, heads):
    """Returns the heads in front of the tokens, as attention wants them."""
    return (2 * x).unflatten(-1, (heads, -1)).transpose(1, 2).contiguous()


def cat(x, y):
    return torch.cat([x, functional.gelu(y)], -1)


def rope(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def cross_entropy(x, labels):
    return functional.cross_entropy(x.float(), labels).to(x.dtype)


def outer(x, a, b):
    return x + a[:, None] * torch.tanh(b)


def scores(q, k, v, bias):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5 + bias, -1) @ v


def linear_gelu(x, w, b):
    return functional.gelu(functional.linear(x, w, b))


def graphs(scale):
    """Returns {name: (function, a function that makes its arguments)}; torch's default device and dtype are theirs."""
    return of_sizes(*SIZES[scale])


def of_sizes(rows, columns, samples, heads, tokens, head):
    x = lambda *shape: torch.randn(*(shape or (rows, columns)))  # noqa: E731
    few = min(tokens, 512)  # scores are a matrix of tokens by tokens
    return {
        "chain of 6 ops": (chain, lambda: (x(), x(), x(columns))),
        "gelu gate": (gelu_gate, lambda: (x(), x())),
        "silu gate of halves": (silu_gate, lambda: (x(),)),
        "sums of rows": (sums_of_rows, lambda: (x(),)),
        "sums of columns": (sums_of_columns, lambda: (x(), x())),
        "mean of all": (mean_of_all, lambda: (x(), x())),
        "variance": (variance, lambda: (x(),)),
        "softmax": (softmax, lambda: (x(),)),
        "softmax of columns": (softmax_of_columns, lambda: (x(),)),
        "masked softmax": (masked_softmax, lambda: (x(), torch.ones(rows, columns, dtype=torch.bool).triu(1))),
        "log softmax": (log_softmax, lambda: (x(), x(columns))),
        "layer norm + gelu": (layer_norm_gelu, lambda: (x(), x(columns), x(columns))),
        "residual + rms norm": (residual_rms_norm, lambda: (x(), x(), x(columns))),
        "transposed sum": (transposed_sum, lambda: (x(columns, rows), x())),
        "heads apart": (heads_apart, lambda: (x(samples, tokens, heads * head), heads)),
        "cat": (cat, lambda: (x(), x())),
        "rope": (rope, lambda: (x(samples, heads, tokens, head), x(tokens, head), x(tokens, head))),
        "cross entropy": (cross_entropy, lambda: (x(), torch.randint(0, columns, (rows,)))),
        "outer product": (outer, lambda: (x(), x(rows), x(columns))),
        "attention scores": (scores, lambda: (*(x(samples, heads, few, head) for _ in range(3)), x(few, few))),
    }


def overhead():
    """Returns graphs like graphs(), on so few elements that only the cost of a call counts."""
    few = of_sizes(OVERHEAD, OVERHEAD, 1, 1, OVERHEAD, OVERHEAD)
    x = lambda *shape: torch.randn(*shape)  # noqa: E731
    found = {f"[8,8] {name}": few[name] for name in ("chain of 6 ops", "softmax", "attention scores")}
    found["[8,8] linear + gelu"] = (linear_gelu, lambda: (x(8, 8), x(8, 8), x(8)))
    return found
