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
    calls = [call.args for call in pack_operators.calls()]
    for name in gate_calls.CALLS:
        dtypes = pack_operators.DTYPES[:1] if name in gate_calls.VARIANTS else pack_operators.DTYPES
        assert [dtype for call, dtype in calls if call == name] == list(dtypes)
    for function in usual_calls.CALLS.values():
        dtypes = [dtype for call, dtype in calls if call is function]
        assert dtypes in (list(pack_operators.DTYPES), list(pack_operators.DTYPES[:2]))
