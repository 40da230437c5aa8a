"""Signals while a launch on the CPU runs: Ctrl-C ends it, other handlers run and it goes on."""

import pathlib
import subprocess
import sys

import interrupted_launches
import pytest
import torch

SCRIPT = pathlib.Path(interrupted_launches.__file__)


@pytest.mark.skipif(torch.get_default_device().type == "cuda", reason="of launches on the CPU")
def test_signals_during_launches():
    """In a process of its own: one that is not interrupted would never end."""
    ended = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=300)
    assert ended.stdout.splitlines() == list(interrupted_launches.CASES), ended.stderr
    assert ended.returncode == 0
