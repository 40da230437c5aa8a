"""The modules of examples/ and benchmarks/ can be imported; examples/cpp is built once."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "examples"), str(ROOT / "benchmarks")]


@pytest.fixture(scope="session")
def examples():
    """The folder where examples/cpp is built."""
    import build_cpp

    return build_cpp.build().parent
