"""Gradients of products whose matrix in the middle is made in chunks: against float64, each alone, the same twice."""

import pytest
import tile_ops  # noqa: F401
import torch
from activations import ACTIVATIONS
from combinations import long
from numerics import leaves, own_leaves, widen

ops = torch.ops.tile
pytestmark = pytest.mark.slow  # matrices of more than 43 MiB

F32, BF16, HALF = torch.float32, torch.bfloat16, torch.float16


def matmul(input, other, *, bias=None, activation="none", out_dtype=None):
    y = input @ other
    return ACTIVATIONS[activation](y if bias is None else y + bias)


def gated_matmul(input, gate_weight, up_weight):
    return torch.nn.functional.silu(input @ gate_weight) * (input @ up_weight)


def tensors(dtype, *shapes):
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def check(ours, theirs, args, kwargs={}):
    """Gradients are as near to those in float64 as their dtype, and sums in float32, allow."""
    result = ours(*args, **kwargs)
    incoming = torch.randn_like(result)
    found = torch.autograd.grad(result, leaves(args, kwargs), incoming)
    del result
    args, kwargs = own_leaves(widen(args)), own_leaves(widen(kwargs))
    expected = torch.autograd.grad(theirs(*args, **kwargs), leaves(args, kwargs), incoming.double())
    for i, (own, right) in enumerate(zip(found, expected)):
        error, most = (own.double() - right).abs().max().item(), right.abs().max().item()
        allowed = (64 if own.dtype == F32 else 2) * torch.finfo(own.dtype).eps * most  # of sums of many in float32
        assert error <= allowed, f"gradient {i}: error {error:.3g}, largest {most:.3g}"


CASES = {
    "rows": (F32, (6000, 16), (16, 2048), (2048,)),
    "samples": (F32, (5, 1500, 8), (5, 8, 1600), (5, 1, 1600)),
    "an input for all samples": (F32, (1500, 8), (5, 8, 1600), (1500, 1)),
    "an other for all samples": (F32, (5, 3, 800, 8), (8, 1000), (3, 800, 1)),
    "a bias of the result's size": (F32, (1500, 8), (5, 8, 1600), (5, 1500, 1600)),
    "two axes of samples": (F32, (2, 1, 1500, 8), (5, 8, 800), (2, 5, 1, 800)),
    "16 bits, small sums": (BF16, (12000, 16), (16, 2048), (2048,)),
    "16 bits, chunks of columns": (BF16, (2200, 512), (512, 10400), (10400,)),
    "16 bits, a bias of its own axis": (HALF, (2200, 512), (512, 10400), (2200, 1)),
    "a vector": (F32, (11_700_000, 1), (1,), None),
    "a vector on the left": (F32, (1,), (1, 11_700_000), (11_700_000,)),
}


REPEATED = "16 bits, a bias of its own axis"  # as float32 has beside an input for all samples


@pytest.mark.parametrize("name", [long(name) if name == REPEATED else name for name in CASES])
def test_matmul(name):
    dtype, x, y, b = CASES[name]
    x, y, *b = tensors(dtype, x, y, *(() if b is None else (b,)))
    check(ops.matmul, matmul, (x, y), {"activation": "gelu"} | ({"bias": b[0]} if b else {}))


def test_another_dtype_of_the_result():
    check(ops.matmul, matmul, tensors(BF16, (12000, 16), (16, 2048)), {"out_dtype": torch.float32})


@pytest.mark.parametrize(
    "dtype, x, y",
    [
        (F32, (3, 2000, 16), (16, 1024)),
        (BF16, (2, 9000, 16), (16, 640)),
        (BF16, (1100, 256), (256, 10400)),
        long(HALF, (4,), (4, 6_000_000)),
    ],
    ids=str,
)
def test_gated_matmul(dtype, x, y):
    check(ops.gated_matmul, gated_matmul, tensors(dtype, x, y, y))


def gradients(function, *inputs, wanted, incoming):
    for i, x in enumerate(inputs):
        x.grad = None
        x.requires_grad_(i in wanted)
    function(*inputs).backward(incoming)
    return [inputs[i].grad for i in wanted]


NUMBERS, HALVES = (F32, (6000, 16), (16, 2048)), (BF16, (1100, 256), (256, 21000))


@pytest.mark.parametrize(
    "name, dtype, x, y",
    [("matmul", *NUMBERS), ("gated_matmul", *HALVES), long("matmul", *HALVES), long("gated_matmul", *NUMBERS)],
    ids=str,
)
def test_each_gradient_alone_and_twice(name, dtype, x, y):
    inputs = tensors(dtype, x, y, y[1:] if name == "matmul" else y)

    def call(input, other, third):
        if name == "matmul":
            return ops.matmul(input, other, bias=third, activation="silu")
        return ops.gated_matmul(input, other, third)

    # Columns are dense, which no kernel may take for dense rows.
    incoming = torch.randn(y[1], x[0]).to(dtype).t()
    both = [gradients(call, *inputs, wanted=(0, 1, 2), incoming=incoming) for _ in range(2)]
    for one, other in zip(*both):
        assert torch.equal(one, other)
    for i in range(3):
        (alone,) = gradients(call, *inputs, wanted=(i,), incoming=incoming)
        most = both[0][i].abs().max().item()
        torch.testing.assert_close(alone, both[0][i], rtol=0, atol=2 * torch.finfo(dtype).eps * most)


def test_an_expanded_gradient():
    check(
        lambda x, y: ops.matmul(x, y, activation="relu").sum(),
        lambda x, y: torch.relu(x @ y).sum(),
        tensors(F32, (6000, 16), (16, 2048)),
    )
