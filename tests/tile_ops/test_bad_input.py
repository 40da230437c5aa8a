"""Tests bad input of every operator and gradient: the class and exact text of its error, with what was given and the fix."""

import operators
import pytest
import torch
from operators.tensors import HERE, UNALIGNED

KINDS = {"dtypes": TypeError, "shapes": ValueError, "devices": RuntimeError}
GRADIENT_KINDS = {"dtypes": TypeError, "shapes": ValueError}


def refused(field, kinds):
    return [
        pytest.param(name, kind, call, text, id=f"{name}-{what}{i}")
        for name, bad in operators.rows_with(field).items()
        for what, kind in kinds.items()
        for i, (call, text) in enumerate(getattr(bad, what))
    ]


def gradients(what):
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), id=f"{name}{i}")
        for name, bad in operators.rows_with("bad_gradients").items()
        for i, each in enumerate(getattr(bad, what))
    ]


def assert_refused(call, kind, text):
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind and str(error.value).splitlines()[0] == f"tile::{text}"


@pytest.mark.parametrize("name, kind, call, text", refused("bad", KINDS))
def test_bad_input(name, kind, call, text):
    assert_refused(call, kind, f"{name}: {text.replace(HERE, str(torch.empty(0).device))}")


@pytest.mark.parametrize("name, kind, call, text", refused("bad_gradients", GRADIENT_KINDS))
def test_bad_input_of_a_gradient(name, kind, call, text):
    assert text.startswith(name)
    assert_refused(call, kind, text)


@pytest.mark.parametrize("call, text", gradients("values"))
def test_bad_values_of_a_gradient(call, text):
    with torch.device("cpu"):
        assert_refused(call, ValueError, text)


@pytest.mark.parametrize("call", gradients("good"))
def test_the_call_that_bad_gradients_change_is_good(call):
    assert call() is not None


def test_every_operator_has_bad_input_of_each_kind():
    bad = operators.rows_with("bad")
    assert [name for name, each in bad.items() if not (each.dtypes and each.shapes)] == []


UNALIGNED_CALLS = [
    pytest.param(operator, name, call, id=f"{operator}-{name}")
    for row in operators.TABLE.values()
    for operator, bad in ((row.name, row.bad), (f"{row.name}_backward", row.bad_gradients))
    for name, call in bad.unaligned
]


@pytest.mark.parametrize("operator, name, call", UNALIGNED_CALLS)
def test_elements_between_their_places(operator, name, call):
    address = f"{UNALIGNED.data_ptr():#x}"
    text = (
        f"{operator}: '{name}' begins at address {address}, which is no multiple of the 4 bytes of float32; "
        f"copy it first, with {name}.clone()"
    )
    assert_refused(call, ValueError, text)
