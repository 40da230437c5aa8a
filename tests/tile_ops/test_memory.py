"""No operator takes more than its arguments, results, gradients, what it saves, and 64 MiB: arguments are larger than
that, so that a copy of one would show."""

import operators
import pytest
import torch
from combinations import by_turns
from memory import MIB, allocated
from operators.tensors import COLUMNS, ROWS, rotation

pytestmark = pytest.mark.slow  # tensors of 80 MB

ops = torch.ops.tile
CALLS = operators.calls("memory")


def of_results(results):
    return sum(r.numel() * r.itemsize for r in results)


@pytest.mark.parametrize("name, dtype", by_turns(CALLS.keys(), [torch.float32, torch.bfloat16]))
def test_memory(name, dtype, device):
    function, tensors = CALLS[name]()
    tensors = [x.to(dtype).requires_grad_() for x in tensors]
    most, left, results = allocated(lambda: function(*tensors), device)
    assert most - left < 64 * MIB, f"forward: {(most - left) / MIB:.0f} MiB"
    results = [r for r in (results if isinstance(results, tuple) else (results,)) if r.requires_grad]
    if not results:
        return
    incoming = [torch.randn_like(r) for r in results]
    most, left, gradients = allocated(lambda: torch.autograd.grad(results, tensors, incoming, allow_unused=True), device)
    given = of_results(g for g in gradients if g is not None)
    assert most - given < 64 * MIB, f"backward: {(most - given) / MIB:.0f} MiB"


def test_memory_of_what_is_written_in_place(device):
    q, k = (torch.randn(64, 16, 320, 64) for _ in range(2))
    cos, sin = rotation(320)
    most, left, _ = allocated(lambda: ops.rope_(q, k, cos, sin), device)
    assert most < 64 * MIB and left == 0
    lists = [[torch.rand(ROWS, COLUMNS)] for _ in range(4)]
    most, left, _ = allocated(lambda: ops.adamw_(*lists, [torch.tensor(1.0)]), device)
    assert most < 64 * MIB and left == 0
