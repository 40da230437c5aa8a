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


@pytest.mark.parametrize("name", operators.rows_with("contract"))
def test_double_backward_is_an_error(name):
    op, args, kwargs = call(name, 0)
    results = [each for each in contract.outputs(op(*args, **kwargs)) if each.requires_grad]
    incoming = [torch.randn_like(each, requires_grad=True) for each in results]
    (grad,) = torch.autograd.grad(results, args[0], incoming, create_graph=True)
    with pytest.raises(NotImplementedError) as error:
        grad.sum().backward()
    assert str(error.value).splitlines()[0] == (
        f"tile::{name}_backward: double backward of tile::{name} is not implemented; differentiate it once only"
    )


# The first call of each operator, and the losses without options, whose backward takes other arguments.
INDUCTOR = [(name, 0) for name, i in CASES if i == 0] + [("cross_entropy", -1), ("linear_cross_entropy", -1)]
QUICK = ("softmax", "log_softmax")  # the others take inductor several seconds each


@pytest.mark.parametrize(
    "name, i", [pytest.param(*case, marks=[] if case[0] in QUICK else pytest.mark.slow) for case in INDUCTOR]
)
def test_inductor(name, i):
    contract.compiles_with_inductor(*call(name, i))
