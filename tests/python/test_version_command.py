"""Tests `python -m tile_ops --version`, which prints the first lines of a bug report, without a GPU and with one."""

import platform
import subprocess
import sys
import types

import pytest
import tile_ops
import torch
from tile_ops import _C, _doctor


def machine(driver):
    def opened():
        if isinstance(driver, Exception):
            raise driver
        return driver

    return types.SimpleNamespace(isa=lambda: "avx512", amx=lambda: True, torch_version=lambda: "2.13.0", driver=opened)


@pytest.mark.parametrize(
    "driver, said",
    [
        (RuntimeError("no NVIDIA driver: libcuda.so.1: it is not there; install the NVIDIA driver 545 or newer"),
         "no NVIDIA driver: libcuda.so.1: it is not there; install the NVIDIA driver 545 or newer"),
        ({"version": "13.0", "devices": []}, "CUDA 13.0, no device"),
        ({"version": "13.0", "devices": [{"name": "NVIDIA H100", "arch": 90}, {"name": "NVIDIA A100", "arch": 80}]},
         "CUDA 13.0, NVIDIA H100 (sm_90), NVIDIA A100 (sm_80)"),
    ],
)  # fmt: skip
def test_the_lines(monkeypatch, driver, said):
    monkeypatch.setattr(_doctor, "_module", lambda: machine(driver))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert _doctor.version().splitlines() == [
        f"tile_ops  {tile_ops.__version__}, built for torch 2.13.0",
        f"torch     {torch.__version__}, for CUDA 13.0",
        f"Python    {platform.python_version()}, {platform.system()} {platform.machine()}",
        "CPU       avx512 with AMX",
        f"driver    {said}",
    ]


@pytest.mark.slow
def test_the_command():
    done = subprocess.run([sys.executable, "-m", "tile_ops", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["tile_ops", "torch", "Python", "CPU", "driver"]
    assert lines[0] == f"tile_ops  {tile_ops.__version__}, built for torch {_C.torch_version()}"
    assert lines[3] == f"CPU       {_doctor.instructions()}"
