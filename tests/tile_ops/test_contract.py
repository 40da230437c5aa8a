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


@pytest.mark.parametrize("name", [name for name, i in CASES if i == 0])
@pytest.mark.slow  # inductor compiles it for several seconds
def test_inductor(name):
    contract.compiles_with_inductor(*call(name, 0))
