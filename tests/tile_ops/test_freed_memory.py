"""Tests that operators reject tensors whose memory was freed, as that of sharded parameters is between uses."""

import re

import pytest
import tile_ops
import torch
from tile_ops import nn

FREED = (
    "the tensor has no memory: it was freed, as by untyped_storage().resize_(0), or the tensor wraps another one; pass "
    "one that has"
)


def freed(*sizes, begin=0):
    """Returns a view from row `begin` on, whose memory is freed only then because torch makes no views of freed memory."""
    x = torch.ones(sizes)
    view = x[begin:]
    x.untyped_storage().resize_(0)
    return view


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.ops.tile.softmax(freed(3, 4), -1),
        lambda: torch.ops.tile.softmax(freed(3, 4, begin=1), -1),
        lambda: torch.ops.tile.matmul(torch.ones(2, 3), freed(3, 4)),
        lambda: torch.ops.tile.layer_norm(torch.ones(2, 3), [3], freed(3), None),
        lambda: torch.ops.tile.embedding(freed(5, 3), torch.zeros(2, dtype=torch.int64), -1),
        lambda: tile_ops.attention(*(freed(1, 2, 3, 4) for _ in range(3))),
    ],
    ids=["softmax", "offset", "matmul", "layer_norm", "embedding", "attention"],
)
def test_freed_memory_is_refused(call):
    with pytest.raises(ValueError) as error:
        call()
    assert FREED in str(error.value)


def test_no_elements_need_no_memory():
    assert torch.ops.tile.softmax(freed(3, 4)[:0], -1).shape == (0, 4)


# Linear calls weight.t(), for which torch raises its own error first.
@pytest.mark.parametrize(
    "make, refused",
    [
        (lambda: nn.Linear(3, 4), (RuntimeError, "requiring a storage size of 48 are out of bounds for storage of size 0")),
        (lambda: nn.RMSNorm(3), (ValueError, FREED)),
    ],
    ids=["Linear", "RMSNorm"],
)
def test_parameters_that_come_back(make, refused):
    layer, x = make(), torch.randn(2, 3)
    expected, values = layer(x), layer.weight.detach().clone()
    storage = layer.weight.untyped_storage()
    size = storage.size()
    storage.resize_(0)
    error, text = refused
    with pytest.raises(error, match=re.escape(text)):
        layer(x)
    storage.resize_(size)
    with torch.no_grad():
        layer.weight.copy_(values)
    assert torch.equal(layer(x), expected)


def adamw(**changed):
    lists = {name: [torch.ones(3)] for name in ("params", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs")}
    lists |= {"steps": [torch.ones(())]} | changed
    torch.ops.tile.adamw_(
        *(lists[name] for name in ("params", "grads", "exp_avgs", "exp_avg_sqs", "steps")),
        max_exp_avg_sqs=lists["max_exp_avg_sqs"],
    )


class Wrapper(torch.Tensor):
    """Has a shape and no memory of its own."""

    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return NotImplemented


@pytest.mark.parametrize("name", ["params", "grads", "exp_avgs", "max_exp_avg_sqs"])
def test_lists_of_adamw(name):
    with pytest.raises(ValueError) as error:
        adamw(**{name: [freed(3)]})
    assert FREED in str(error.value)


@pytest.mark.parametrize("name", ["params", "grads", "exp_avgs", "exp_avg_sqs", "steps"])
def test_nested_tensors_of_lists_that_torch_looks_into(name):
    """Tests that torch's dispatcher rejects them before an operator sees them."""
    text = "Could not run 'tile::adamw_' with arguments from the 'NestedTensor"
    with pytest.raises(NotImplementedError, match="^" + re.escape(text)):
        adamw(**{name: [torch.nested.nested_tensor([torch.ones(1), torch.ones(2)])]})


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_a_nested_tensor_in_a_list_that_torch_does_not_look_into(layout):
    with pytest.raises(TypeError) as error:
        adamw(max_exp_avg_sqs=[torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=layout)])
    assert str(error.value) == "tile::adamw_: max_exp_avg_sqs[0] is a nested tensor; pass dense ones"


def test_a_wrapper_in_a_list_that_torch_does_not_look_into():
    with pytest.raises(ValueError) as error:
        adamw(max_exp_avg_sqs=[Wrapper(torch.ones(3))])
    assert FREED in str(error.value)
