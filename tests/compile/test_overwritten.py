"""Backwards of compiled graphs write results over what the forward kept, where each element is read where it is written."""

import compiled_calls
import pytest
import torch
import torch.nn.functional as F
from combinations import long
from memory import allocated
from numerics import check_call
from torch._inductor.utils import run_and_get_code

REUSE = "# reuse"


@pytest.fixture(autouse=True)
def no_caches(uncached):
    """Code that is found in a cache is not shown."""


def leaf(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype).requires_grad_()


def loss(x, w, target):
    return F.cross_entropy(F.linear(x, w), target)


def gated(x, gate, up):
    return F.silu(x @ gate) * (x @ up)


def wide_softmax(x, w):
    return (x @ w).softmax(-1)


def transposed(x, w):
    h = (x @ w).tanh()
    return h @ h.t() + h.sum(0)[: x.shape[0]]


CASES = {
    "a loss": (loss, lambda dtype: (leaf(33, 16, dtype=dtype), leaf(5000, 16, dtype=dtype), torch.arange(33) * 7)),
    "a loss of few classes": (loss, lambda dtype: (leaf(7, 16, dtype=dtype), leaf(70, 16, dtype=dtype), torch.arange(7))),
    "a gate": (gated, lambda dtype: (leaf(5, 16, dtype=dtype), leaf(16, 300, dtype=dtype), leaf(16, 300, dtype=dtype))),
    "a softmax": (wide_softmax, lambda dtype: (leaf(3, 16, dtype=dtype), leaf(16, 9000, dtype=dtype))),
    "a transposition": (transposed, lambda dtype: (leaf(40, 16, dtype=dtype), leaf(16, 50, dtype=dtype))),
    "one row": (loss, lambda dtype: (leaf(1, 16, dtype=dtype), leaf(70, 16, dtype=dtype), torch.arange(1))),
}


@pytest.mark.parametrize("dtype", [torch.float32, long(torch.float64)])
@pytest.mark.parametrize("name", CASES)
def test_results_agree(name, dtype):
    function, make = CASES[name]
    check_call(compiled_calls.compiled(function, options={"losses": "torch"}), function, make(dtype))


def codes_of(function, args, trains=True):
    fast = compiled_calls.compiled(function, options={"losses": "torch"})

    def run():
        result = fast(*args)
        if trains:
            result.sum().backward()

    return run_and_get_code(run)[1]


@pytest.mark.parametrize("name, count", [("a loss", 1), ("a gate", 1), ("a softmax", 0)])
def test_what_is_written_over(name, count):
    """Not the result of a softmax, which the caller has, too."""
    function, make = CASES[name]
    forward, backward = codes_of(function, make(torch.bfloat16))
    assert forward.count(REUSE) == 0 and backward.count(REUSE) == count


def test_kernels_of_inference_are_shared_instead():
    function, make = CASES["a gate"]
    with torch.no_grad():
        (code,) = codes_of(function, make(torch.float32), trains=False)
    assert REUSE not in code


def test_the_memory_of_a_loss(device):
    """Logits of 16 bits are whole once, with their gradient."""
    rows, classes = 512, 8192
    x, w = leaf(rows, 16, dtype=torch.bfloat16), leaf(classes, 16, dtype=torch.bfloat16)
    target = torch.randint(0, classes, (rows,))
    fast = compiled_calls.compiled(loss, options={"losses": "torch"})
    fast(x, w, target).backward()
    x.grad = w.grad = None
    most, _, _ = allocated(lambda: fast(x, w, target).backward(), device)
    assert most < 1.2 * 2 * rows * classes
