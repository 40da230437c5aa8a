"""Tests that operations that only move elements keep every bit, in GPU kernels that the emulator runs."""

import bit_cases
import emulate
import pytest
from combinations import long


@pytest.mark.parametrize(
    "dtype", ["bf16", "f8e5m2", pytest.param("f32", marks=pytest.mark.slow), *map(long, ("f16", "f8e4m3", "f64"))]
)
def test_moves_keep_bits(dtype):
    cases = [move(dtype) for move in bit_cases.MOVES if (move, dtype) not in bit_cases.LACKS]
    launches = [emulate.Case(case.text, case.grid, case.given()) for case in cases]
    for case, launch, report in zip(cases, launches, emulate.run(launches)):
        assert report is None, f"{report}\n{case.text}"
        assert case.mistake(launch.arguments) is None, f"{case.mistake(launch.arguments)}\n{case.text}"
