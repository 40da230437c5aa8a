"""Gradients that are derived from kernels, against torch's."""

import importlib
import pathlib

import pytest
import tile_ops
import tile_ops.language as tl
import torch
from tile_ops._operators import automatic

from derive.cases import CASES

for path in sorted(pathlib.Path(__file__).parent.glob("kernels*.py")):  # each adds its cases
    importlib.import_module(f"derive.{path.stem}")


def arguments_of(case, dtype, requires_grad=True):
    torch.manual_seed(0)

    def make(*shape, dtype=dtype, change=None):
        x = torch.randn(shape, dtype=torch.float64).to(dtype)
        return (x if change is None else change(x)).requires_grad_(requires_grad)

    return case.arguments(make)


def gradients_of(function, arguments):
    results = function(*arguments)
    results = results if isinstance(results, tuple) else (results,)
    torch.manual_seed(1)
    incoming = [torch.randn(each.shape, dtype=torch.float64).to(each.dtype) for each in results]
    inputs = [each for each in arguments if isinstance(each, torch.Tensor) and each.requires_grad]
    return results, torch.autograd.grad(results, inputs, incoming)


class TorchOfNans:
    """torch, whose empty_like() of floats holds NaN."""

    def __getattr__(self, name):
        return getattr(torch, name)

    def empty_like(self, x):
        return torch.full_like(x, torch.nan) if x.is_floating_point() else torch.empty_like(x)


@pytest.fixture(autouse=True)
def memory_of_nans(monkeypatch):
    """Gradients begin in memory that holds NaN, so that elements which no kernel writes are found."""
    monkeypatch.setattr(automatic, "torch", TorchOfNans())


DTYPES = [torch.float64, torch.float32, torch.bfloat16]
PAIRS = [(name, dtype) for dtype in DTYPES for name in CASES if not (CASES[name].float32 and dtype == torch.float64)]


@pytest.mark.parametrize("name, dtype", PAIRS, ids=str)
def test_gradients_equal_torchs(name, dtype):
    case = CASES[name]
    if case.float32 and dtype == torch.float64:
        dtype = torch.float32
    arguments = arguments_of(case, dtype)
    exact = [
        each.detach().double().requires_grad_(each.requires_grad)
        if isinstance(each, torch.Tensor) and each.is_floating_point()
        else each
        for each in arguments
    ]
    results, gradients = gradients_of(case.operator, arguments)
    expected_results, expected = gradients_of(case.reference, exact)
    tolerance = {torch.float64: 1e-9, torch.float32: 2e-4, torch.bfloat16: 6e-2}[dtype]
    for ours, reference in zip((*results, *gradients), (*expected_results, *expected), strict=True):
        assert ours.dtype != torch.float64 or dtype == torch.float64
        scale = reference.abs().max().clamp(min=1)
        assert ((ours.double() - reference).abs().max() / scale).item() < tolerance


@pytest.mark.parametrize("name", [name for name in CASES if not CASES[name].float32])
def test_gradcheck(name):
    arguments = arguments_of(CASES[name], torch.float64)
    assert torch.autograd.gradcheck(CASES[name].operator, arguments, check_undefined_grad=False, nondet_tol=1e-9)


@tl.kernel
def late_choice_kernel(x, y, out, N: tl.Constant[int]):
    inside = tl.arange(N, dtype=tl.int32) < x.shape[0]
    p, q = tl.where(inside, tl.load(x, 0, N), float("-inf")), tl.where(inside, tl.load(y, 0, N), float("-inf"))
    total = tl.log(tl.sum(tl.exp(p)))
    tl.store(out, 0, tl.sum(tl.where(inside, tl.exp(p - total) * (p - q), 0)))


def test_nan_that_where_does_not_choose_is_in_no_gradient():
    """In torch it is: a gradient of 0 times NaN is NaN, and the sum over p spreads it."""
    x, y, out = torch.randn(5), torch.randn(5), torch.empty(1)
    late_choice_kernel[1](x, y, out, 8)
    grad_x, grad_y = torch.zeros(2, 5)
    tile_ops.derive(late_choice_kernel)[1](x, y, out, 8, torch.ones(1), grad_x, grad_y)
    x.requires_grad_(), y.requires_grad_()
    loss = (torch.exp(x - x.exp().sum().log()) * (x - y)).sum()
    torch.testing.assert_close(out[0], loss.detach())
    torch.testing.assert_close((grad_x, grad_y), torch.autograd.grad(loss, (x, y)))
