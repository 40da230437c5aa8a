"""Measures how much of torch's memory a call allocates on the device of the run."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "benchmarks"))

import measure  # noqa: E402

MIB = 1 << 20
allocated = measure.allocations
