"""Tests bad input of every operator and gradient: the class and exact text of its error, with what was given and the fix."""

import operators
import pytest
import torch
from operators.tensors import UNALIGNED
from operators.texts import HERE

KINDS = {"dtypes": TypeError, "shapes": ValueError, "devices": RuntimeError}
FIELDS = {"bad": "", "bad_gradients": "_backward", "bad_second_gradients": "_double_backward"}


def listed(what, fields=FIELDS):
    """[(operator, the values of a case)] of one sort, of all operators and the gradients of `fields`."""
    found = []
    for field in fields:
        for name, bad in operators.rows_with(field).items():
            for i, case in enumerate(getattr(bad, what)):
                operator = name + FIELDS[field]
                found.append(pytest.param(operator, *case, id=f"{operator}-{what}{i}"))
    return found


def assert_refused(call, kind, text):
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind and str(error.value).splitlines()[0] == f"tile::{text}"


@pytest.mark.parametrize(
    "what, operator, call, text",
    [pytest.param(what, *case.values, id=case.id) for what in ("dtypes", "shapes", "devices") for case in listed(what)],
)
def test_bad_input(what, operator, call, text):
    assert_refused(call, KINDS[what], f"{operator}: {text.replace(HERE, str(torch.empty(0).device))}")


@pytest.mark.parametrize("operator, call, text", listed("values"))
def test_bad_values_of_a_gradient(operator, call, text):
    with torch.device("cpu"):
        assert_refused(call, ValueError, f"{operator}: {text}")


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=f"{name}{FIELDS[field]}{i}")
        for field in ("bad_gradients", "bad_second_gradients")
        for name, bad in operators.rows_with(field).items()
        for i, call in enumerate(bad.good)
    ],
)
def test_the_call_that_bad_gradients_change_is_good(call):
    assert call() is not None


@pytest.mark.parametrize("operator, name, call", listed("unaligned"))
def test_unaligned_tensors(operator, name, call):
    address = f"{UNALIGNED.data_ptr():#x}"
    text = (
        f"{operator}: '{name}' begins at address {address}, which is not a multiple of the 4 bytes of float32; "
        f"copy it first, with {name}.clone()"
    )
    assert_refused(call, ValueError, text)
