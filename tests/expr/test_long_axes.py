"""Tests operators of expressions, and others that split into several launches, on axes of more than 2^31 - 1 elements."""

import pytest
import tile_ops
import torch
from tile_ops import _C

LONG = 2**31 + 10


@tile_ops.reduction("tile_long::mean(Tensor x) -> Tensor")
class mean:
    combine = "sum"

    def finish(total, count):
        return total / count


@tile_ops.reduction("tile_long::largest(Tensor x) -> Tensor", combine="max")
def largest(x):
    return x


@tile_ops.elementwise("tile_long::twice(Tensor x) -> Tensor")
def twice(x):
    return x * 2


def launches(call, *shape):
    """Returns the kernels that a call with a tensor of this shape launches on a GPU."""
    x = torch.empty((1,) * len(shape), dtype=torch.bfloat16, device="meta").expand(shape)
    return [row["kernel"] for row in _C.inspect("usual", 90, 0, lambda: call(x))]


SEED = torch.empty(2, dtype=torch.int64, device="meta")
CALLS = {
    "elementwise": (twice, (LONG,), 2),
    "elementwise, an outer axis": (twice, (LONG, 3), 4),
    "reduced": (mean, (LONG,), 3 + 1),
    "reduced, of rows": (lambda x: mean(x, dim=1), (3, LONG), 3 + 1),
    "kept": (lambda x: mean(x, dim=1), (LONG, 3), 3),
    "kept, with a long axis reduced": (lambda x: mean(x, dim=1), (2**31, 2**31), 2 * 3),
    "reduced together": (mean, (2**16, 2**16), None),
    "dropout": (lambda x: torch.ops.tile.dropout(x, 0.5, SEED), (LONG,), 3),
    "softmax of many rows": (lambda x: torch.ops.tile.softmax(x, -1), (2**16, 2**16, 2), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_launches(name):
    call, shape, count = CALLS[name]
    found = launches(call, *shape)
    assert len(found) == count if count else len(found) > 1


@pytest.mark.parametrize("rows", [1, 3])
def test_values(rows):
    """Uses repeated elements, so that the long axis takes no memory."""
    x = torch.arange(1.0, rows + 1, device="cpu").unsqueeze(1).expand(rows, LONG)
    assert torch.equal(largest(x, dim=1), x[:, 0])
    if rows == 1:
        assert mean(x).item() == 1


def test_what_takes_no_such_axis_says_so():
    x = torch.zeros(1, dtype=torch.float16, device="cpu").expand(2**31)
    text = "an array extent is 2147483648; the most is 2147483647, view the array with more axes$"
    with pytest.raises(ValueError, match=text):
        torch.ops.tile.softmax(x, 0)
