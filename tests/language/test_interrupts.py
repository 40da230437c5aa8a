"""Tests signals that arrive during a launch on the CPU: Ctrl-C ends the launch, other handlers run and the launch continues."""

import pathlib
import subprocess
import sys

import interrupted_launches

SCRIPT = pathlib.Path(interrupted_launches.__file__)


def test_signals_during_launches():
    """Runs in a process of its own, because a launch that is not interrupted never ends."""
    ended = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=300)
    assert ended.stdout.splitlines() == list(interrupted_launches.CASES), ended.stderr
    assert ended.returncode == 0
