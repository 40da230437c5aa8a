"""Compiled graphs that add to gathered elements, and read or return the sums afterwards in other layouts."""

import pytest
import torch
from compiled_calls import compiled
from torch.nn import functional


def results(function, inputs):
    """Returns the loss and the gradients."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    loss = function(*inputs)
    loss.backward()
    return [loss.detach(), *(x.grad for x in inputs)]


def upsampled(x, y, weight, scale):
    larger = functional.interpolate(functional.conv2d(x, weight) + y, scale_factor=2.0, mode="nearest")
    return (larger * scale).square().sum()


def picked(x, y, weight, scale):
    rows = (functional.conv2d(x, weight) + y)[:, :, [0, 2, 2, 1]]
    return (rows * scale[:, :, :4, : rows.shape[-1]]).square().sum()


@pytest.mark.parametrize("channels", [5, 64])
@pytest.mark.parametrize("function", [upsampled, picked])
def test_a_gradient_of_gathered_elements_is_read_twice(function, channels, device):
    shapes = (1, channels, 3, 7), (1, channels, 3, 7), (channels, channels, 1, 1), (1, channels, 6, 14)
    inputs = [torch.randn(shape, device=device) for shape in shapes]
    exact = results(function, [x.double() for x in inputs])
    for own, wide in zip(results(compiled(function), inputs), exact, strict=True):
        torch.testing.assert_close(own.double(), wide, rtol=1e-5, atol=1e-5 * wide.abs().max().item())


def added(kind, x, index, y):
    if kind == "index_put":
        return torch.index_put(x, (index,), y, accumulate=True)
    if kind == "index_add":
        return x.index_add(0, index, y)
    return x.scatter_add(0, index[:, None].expand_as(y), y)


@pytest.mark.parametrize("kind", ["index_put", "index_add", "scatter_add"])
def test_sums_into_elements_leave_their_argument_alone(kind, device):
    def function(x, index, y):
        x = x * 2
        total = added(kind, x, index, y)
        return x.t().contiguous(), total, total.t() + 1

    x, y = torch.randn(5, 7, device=device), torch.randn(9, 7, device=device)
    index = torch.tensor([0, 4, 4, 1, 0, 0, 3, 4, 2], device=device)
    found = compiled(function)(x, index, y)
    for own, wide in zip(found, function(x.double(), index, y.double()), strict=True):
        torch.testing.assert_close(own.double(), wide, rtol=1e-6, atol=1e-5)
