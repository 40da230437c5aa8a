"""Definitions: argument types, exact error texts, errors of a body, redefinition, calls from C++."""

import pytest
import torch

MISTAKES = {
    "syntax": "",
}


def test_every_argument_type(ops):
    x = torch.zeros(2, 4)
    base = ops.every(x, 6)
    assert base.shape == (2, 6) and base[0, 0] == 1  # w[1]
    many = ops.every(
        x, 6, torch.ones(6), "one", torch.float64, 2.0, [0, 100], [torch.ones(3)], 2, [5, 3], True, 0.5, 7, "abc", [True, False], [20], None
    )
    assert many.shape == (3, 5, 2, 2, 6) and many.dtype == torch.float64
    assert many[0, 0, 0, 0, 0] == 1 + 1 + 3 + 100 + 10 + 0.5 + 7 + 3 + 2 + 20
    assert ops.every(x, 6, device="meta").device.type == "meta"


@pytest.mark.parametrize(
    ("kind", "error"),
    [("value", ValueError), ("type", TypeError), ("unsupported", NotImplementedError), ("runtime", RuntimeError), ("prefixed", RuntimeError)],
)
def test_errors_of_a_body(ops, kind, error):
    with pytest.raises(error) as caught:
        ops.fails(torch.ones(1), kind)
    assert type(caught.value) is error and str(caught.value) == f"tt::fails: {kind}; try another"


def test_devices_are_not_mixed(ops):
    with pytest.raises(RuntimeError) as caught:
        ops.two(torch.ones(1), torch.ones(1, device="meta"))
    assert str(caught.value) == "tt::two: 'a' is on cpu, but 'b' is on meta; move them to one device"


def test_call_from_cpp(library):
    assert library.call() == "the operator has 2 results; name their type: call<std::tuple<…>>"
