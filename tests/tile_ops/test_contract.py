"""Tests what torch requires of every operator, as tests/contract.py checks it, by the calls of the table of operators."""

import contract
import operators
import pytest
import torch

CASES = [(name, i) for name, make in operators.rows_with("contract").items() for i in range(len(make()))]


def call(name, i):
    args, kwargs = operators.TABLE[name].contract()[i]
    return getattr(torch.ops.tile, name), contract.with_gradients(args), kwargs


@pytest.mark.parametrize("name, i", CASES)
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda c: c.__name__)
def test_contract(check, name, i):
    check(*call(name, i))


@pytest.mark.parametrize("name, i", CASES)
def test_double_backward(name, i):
    op, args, kwargs = call(name, i)
    assert torch.autograd.gradgradcheck(lambda *given: op(*given, **kwargs), args, fast_mode=True)


# The first call of each operator, and the losses without options, whose backward takes other arguments.
INDUCTOR = [(name, 0) for name, i in CASES if i == 0] + [("cross_entropy", -1), ("linear_cross_entropy", -1)]
QUICK = ("softmax", "log_softmax")  # the others take inductor several seconds each


@pytest.mark.parametrize(
    "name, i", [pytest.param(*case, marks=[] if case[0] in QUICK else pytest.mark.slow) for case in INDUCTOR]
)
def test_inductor(name, i):
    contract.compiles_with_inductor(*call(name, i))
