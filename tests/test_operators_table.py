"""Tests that the table of tests/operators has a row for each operator, and that its rows and names are complete."""

import dataclasses
import pathlib
import re

import operators
import pytest
from operators.record import Operator

ATTENTION = ["attention", "attention_varlen", "attention_decode"]
# The fields with calls that every operator needs, and the operators without, whose own test files cover the field.
NEEDED = {
    "good": [],
    "emulated": [],
    "sharded": ["adamw_"],  # tests/distributed trains with it
    "contract": ["rope", "rope_", "adamw_", "dropout", "matmul", "scaled_matmul"] + ATTENTION,
    "draw": ["scaled_matmul", "attention_varlen", "attention_decode"],
    "gpu": ["rope_", "adamw_", "scaled_matmul", "attention_decode"],
    "memory": ["rope_", "adamw_", "scaled_matmul", "linear_cross_entropy"],
    "autocast": ["rope", "rope_", "adamw_", "scaled_matmul", "attention_varlen", "attention_decode"],
    "without_elements": ["rope_", "adamw_", "scaled_matmul", "attention_decode"],
}


def test_every_operator_has_a_row_and_every_row_an_operator():
    operators.require_rows()
    assert operators.registered() == operators.TABLE.keys()


@pytest.mark.parametrize("field", NEEDED)
def test_a_row_has_calls_for_every_consumer(field):
    assert sorted(name for name, row in operators.TABLE.items() if not getattr(row, field)) == sorted(NEEDED[field])


@pytest.mark.parametrize("name", operators.TABLE)
def test_a_row_has_gates_and_bad_dtypes_and_shapes(name):
    row = operators.TABLE[name]
    assert row.gates or row.gate_variants
    assert row.bad.dtypes and row.bad.shapes


def test_every_operator_has_a_benchmark():
    folder = pathlib.Path(__file__).resolve().parent.parent / "benchmarks"
    cases = "".join(path.read_text() for path in sorted(folder.glob("*cases.py")))
    missing = [name for name in operators.TABLE if not re.search(rf"\b{name}\b", cases)]
    assert missing == []


def test_an_operator_without_a_row_is_an_error(monkeypatch):
    monkeypatch.delitem(operators.TABLE, "softmax")
    with pytest.raises(LookupError) as error:
        operators.calls("gates")
    assert str(error.value) == "tests/operators has no row for softmax; add one, as CONTRIBUTING.md explains"


def test_no_two_calls_of_a_field_have_one_name():
    for field in (each.name for each in dataclasses.fields(Operator)):
        tables = [value for row in operators.TABLE.values() if isinstance(value := getattr(row, field), dict)]
        assert len({name for table in tables for name in table}) == sum(map(len, tables)), field
