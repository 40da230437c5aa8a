"""mypy --strict on a user's file that uses patch, nn, optim, functional and operators of its own: no complaint."""

import pathlib
import subprocess
import sys

import pytest

SAMPLE = pathlib.Path(__file__).parent / "typed" / "training.py"


@pytest.mark.slow
def test_a_strict_type_checker_has_no_complaint(tmp_path):
    # The package is found as a user's is, by the interpreter; its own files are then not checked.
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "--cache-dir", str(tmp_path)]
    done = subprocess.run([*command, "--python-executable", sys.executable, SAMPLE.name], cwd=SAMPLE.parent,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.strip() == "Success: no issues found in 1 source file", done.stdout + done.stderr
