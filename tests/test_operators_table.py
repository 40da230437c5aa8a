"""Tests that the table of tests/operators has a row for each operator, and that its rows and names are complete."""

import dataclasses

import operators
import pytest
from operators.record import Operator

# The fields with calls that every operator needs.
NEEDED = ("bad", "good", "sharded", "emulated")
# Tests of training in tests/distributed call adamw_.
EXCEPTIONS = {("adamw_", "sharded")}


def test_every_operator_has_a_row_and_every_row_an_operator():
    operators.require_rows()
    assert operators.registered() == operators.TABLE.keys()


@pytest.mark.parametrize("name", operators.TABLE)
def test_a_row_has_calls_for_every_consumer(name):
    row = operators.TABLE[name]
    missing = [field for field in NEEDED if not getattr(row, field) and (name, field) not in EXCEPTIONS]
    assert missing == []
    assert row.gates or row.gate_variants


def test_an_operator_without_a_row_is_an_error(monkeypatch):
    monkeypatch.delitem(operators.TABLE, "softmax")
    with pytest.raises(LookupError) as error:
        operators.calls("gates")
    assert str(error.value) == "tests/operators has no row for softmax; add one, as CONTRIBUTING.md explains"


def test_no_two_calls_of_a_field_have_one_name():
    for field in (each.name for each in dataclasses.fields(Operator)):
        tables = [value for row in operators.TABLE.values() if isinstance(value := getattr(row, field), dict)]
        assert len({name for table in tables for name in table}) == sum(map(len, tables)), field
