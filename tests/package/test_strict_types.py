"""Tests that mypy --strict accepts a user's file that uses patch, nn, optim, functional and operators of its own."""

import pathlib
import subprocess
import sys

import pytest

SAMPLE = pathlib.Path(__file__).parent / "typed" / "training.py"


@pytest.mark.slow
def test_a_strict_type_checker_has_no_complaint(tmp_path):
    # mypy finds the installed package through the interpreter, as for a user, and so does not check its own files.
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "--cache-dir", str(tmp_path)]
    done = subprocess.run([*command, "--python-executable", sys.executable, SAMPLE.name], cwd=SAMPLE.parent,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.strip() == "Success: no issues found in 1 source file", done.stdout + done.stderr
