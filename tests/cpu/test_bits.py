"""Tests that operations that only move elements keep every bit, in assembled and interpreted code."""

import bit_cases
import pytest
from tile_ops import _C


@pytest.mark.parametrize("move", bit_cases.MOVES, ids=lambda move: move.__name__)
def test_moves_keep_bits(move, fused_loops):
    for dtype in bit_cases.DTYPES:
        if (move, dtype) in bit_cases.LACKS:
            continue
        for passes in (False, True):
            case = move(dtype)
            left = case.given()
            _C.run_ir(case.text, case.grid, left, passes)
            assert case.mistake(left) is None, f"{dtype}, passes {passes}: {case.mistake(left)}\n{case.text}"
