"""Tests that operations that only move elements keep every bit, even those of signalling NaNs."""

import bit_cases
import pytest
from tile_ops import _C


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("name", bit_cases.CASES)
def test_moves_keep_bits(name, passes):
    move, dtype = bit_cases.CASES[name]
    case = move(dtype)
    left = case.given()
    _C.run_ir(case.text, case.grid, left, passes)
    assert case.mistake(left) is None, f"{case.mistake(left)}\n{case.text}"
