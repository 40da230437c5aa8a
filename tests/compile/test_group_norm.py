"""Group norm: a call of torch's for images on a CPU, kernels of ours elsewhere."""

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from compiled_calls import compiled
from numerics import check_call


def function(x, weight, bias):
    return F.silu(F.group_norm(x, 4, weight, bias)) * 2


def arguments(shape, memory_format, dtype=torch.float32):
    x = torch.randn(shape).to(dtype).contiguous(memory_format=memory_format)
    return [each.requires_grad_() for each in (x, torch.randn(shape[1], dtype=dtype), torch.randn(shape[1], dtype=dtype))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("shape", [(2, 8, 5, 7), (1, 20, 16, 16), (3, 16, 1, 2)], ids=str)
def test_results_and_gradients(shape, memory_format, dtype):
    check_call(compiled(lambda *args: function(*args)), function, arguments(shape, memory_format, dtype))


@pytest.mark.at_home
@pytest.mark.parametrize("shape", [(2, 8, 5, 7), (2, 8, 35)], ids=str)
def test_what_is_called(shape):
    tile_ops.compile_report(reset=True)
    args = arguments(shape, torch.contiguous_format)
    compiled(lambda *args: function(*args))(*args).sum().backward()
    called = set().union(*(graph.called for graph in tile_ops.compile_report(reset=True).graphs))
    names = {f"aten.native_group_norm{end}.default" for end in ("", "_backward")}
    assert called & names == (names if len(shape) == 4 else set())
