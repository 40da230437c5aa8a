"""The modules of examples/ and benchmarks/ can be imported; examples/cpp is built once."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "examples"), str(ROOT / "benchmarks")]


@pytest.fixture
def table_file(monkeypatch, tmp_path):
    """The file into which compiled.py and models.py write their tables."""
    path = tmp_path / "results" / "table.md"
    monkeypatch.setattr("benchmark_frame.file_name", lambda kind, chip: path)
    monkeypatch.setattr("report.RESULTS", path.parent)
    return path


@pytest.fixture(scope="session")
def examples():
    """The folder where examples/cpp is built."""
    import build_cpp

    return build_cpp.build().parent
