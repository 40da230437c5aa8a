"""The calls of the pack of the built-in operators: each launches kernels on a GPU, which are traced without one."""

import functools

import gate_calls
import pack_operators
import pytest
import usual_calls
from tile_ops import _C


@pytest.mark.parametrize("name", usual_calls.CALLS)
def test_a_usual_call_launches_kernels(name):
    call = functools.partial(gate_calls.with_gradient, usual_calls.CALLS[name], gate_calls.bf16)
    rows = _C.inspect("record", 90, 0, call)
    assert rows and all(row["cubin"] and row["arch"] == 90 for row in rows)


def test_the_pack_has_every_call_in_the_usual_types():
    calls = list(pack_operators.calls())
    variants = len(gate_calls.VARIANTS)
    assert len(calls) == 3 * (len(gate_calls.CALLS) - variants + len(usual_calls.CALLS)) + variants
