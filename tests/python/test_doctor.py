"""tile_ops.doctor: what each line says where all is well, and what to do where it is not."""

import os
import subprocess
import sys
import types

import pytest
import tile_ops
import torch
from built import BUILD
from tile_ops import _C, _doctor

FAKE = BUILD / "tests/libtile_fake_cuda.so"
H100 = {"name": "NVIDIA H100", "arch": 90, "multiprocessors": 132, "shared_bytes": 232448}


@pytest.fixture
def machine(monkeypatch):
    """A machine that has what is given: _C's functions by name; an exception is raised. Calling it gives the lines."""
    wanted = types.SimpleNamespace(
        torch_cuda=None,
        driver={"version": "13.0", "devices": [H100]},
        nvrtc=("libnvrtc.so.13", "13.0"),
        nvrtc_archs=[75, 80, 90],
        registration_errors=[],
        isa="avx2",
        amx=False,
        packs=[],
        cache_info={"folder": "kernels", "unusable": "", "entries": 3, "bytes": 2048, "budget": 2**30},
    )

    def function(name):
        def call():
            value = getattr(wanted, name)
            if isinstance(value, Exception):
                raise value
            return value

        return call

    module = types.SimpleNamespace(
        oldest_arch=_C.oldest_arch, **{name: function(name) for name in vars(wanted) if name != "torch_cuda"}
    )
    monkeypatch.setattr(_doctor, "_module", lambda: module)

    def examine(capsys):
        monkeypatch.setattr(torch.version, "cuda", wanted.torch_cuda)
        well = tile_ops.doctor()
        lines = [line.split(None, 1) for line in capsys.readouterr().out.splitlines()]
        assert well == all(state != "WRONG" for state, _ in lines)
        return {(state, text[:9].strip()): text[11:] for state, text in lines}

    return wanted, examine


def test_an_arch_with_amx(machine, capsys):
    wanted, examine = machine
    wanted.isa, wanted.amx = "avx512", True
    assert examine(capsys)["ok", "CPU"].startswith("instruction set avx512 with AMX; a softmax there is right within ")


def test_a_machine_without_a_gpu_has_no_fault(machine, capsys):
    wanted, examine = machine
    wanted.driver = RuntimeError("no NVIDIA driver: libcuda.so.1: it is not there; install the NVIDIA driver 545 or newer")
    lines = examine(capsys)
    assert lines["ok", "torch"] == f"{torch.__version__}, for the CPU alone"
    assert lines["ok", "CPU"].startswith("instruction set avx2; a softmax there is right within ")
    assert lines["--", "driver"] == f"{wanted.driver}; without it kernels run on the CPU alone"
    assert lines["ok", "NVRTC"] == "13.0, libnvrtc.so.13"
    assert lines["ok", "cache"] == "kernels: 3 entries, 2.0 KiB of 1024.0 MiB"
    wanted.nvrtc = RuntimeError("no NVRTC; install one")
    assert examine(capsys)["--", "NVRTC"] == "no NVRTC; install one"


def test_what_is_wrong_with_a_gpu(machine, capsys, monkeypatch):
    wanted, examine = machine
    gpu = "NVIDIA H100, sm_90, 132 multiprocessors; "
    lines = examine(capsys)
    assert lines["ok", "driver"] == "serves CUDA 13.0, and has 1 device"
    assert lines["--", "device 0"] == gpu + "torch cannot use it: install a torch for CUDA, https://pytorch.org says how"
    wanted.torch_cuda = "13.0"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    told = "torch does not see it: look at CUDA_VISIBLE_DEVICES, and restart the process"
    assert examine(capsys)["WRONG", "device 0"] == gpu + told
    wanted.nvrtc_archs = [50, 86]
    told = "NVRTC knows sm_50 to sm_86: pip install -U nvidia-cuda-nvrtc"
    assert examine(capsys)["WRONG", "device 0"] == gpu + told
    wanted.nvrtc = RuntimeError("no NVRTC; install one")
    wanted.driver = {"version": "12.4", "devices": [H100 | {"arch": 75}] * 2}
    lines = examine(capsys)
    assert lines["WRONG", "NVRTC"] == "no NVRTC; install one"
    assert lines["ok", "driver"] == "serves CUDA 12.4, and has 2 devices"
    assert lines["WRONG", "device 1"] == (
        "NVIDIA H100, sm_75, 132 multiprocessors; kernels need sm_80 or newer: use a GPU of the Ampere generation or a later one"
    )


def test_a_wrong_result_and_a_failing_kernel(machine, capsys, monkeypatch):
    wanted, examine = machine
    wanted.torch_cuda = "13.0"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)

    def fails(device, reference):
        raise RuntimeError("it fails; mend it\nmore")

    monkeypatch.setattr(_doctor, "_kernel_on", fails)
    lines = examine(capsys)
    assert lines["WRONG", "CPU"] == "it fails; mend it"
    assert lines["WRONG", "device 0"] == "NVIDIA H100, sm_90, 132 multiprocessors; it fails; mend it"
    monkeypatch.undo()
    with pytest.raises(RuntimeError) as error:
        _doctor._kernel_on("cpu", lambda x: torch.softmax(x.double(), -1) + 0.5)
    assert str(error.value) == "a softmax there is wrong by 5.0e-01; please report it with this whole output"


def test_cache_and_operators(machine, capsys):
    wanted, examine = machine
    wanted.cache_info = wanted.cache_info | {"unusable": "it is read-only"}
    wanted.registration_errors = ["a.cpp:3: a::b: has no run; add .run(…) to its definition"]
    lines = examine(capsys)
    assert lines["WRONG", "cache"] == (
        "kernels: it is read-only; set TILE_CACHE_DIR to a folder that can be written, or each process compiles its GPU "
        "kernels again"
    )
    assert lines["WRONG", "operators"] == wanted.registration_errors[0]
    wanted.cache_info = wanted.cache_info | {"budget": 0}
    assert examine(capsys)["--", "cache"] == "off by TILE_CACHE_MB=0: each process compiles its GPU kernels again"
    wanted.cache_info = ValueError("TILE_CACHE_MB=1G: it is not a number of MiB; unset it")
    assert examine(capsys)["WRONG", "cache"] == str(wanted.cache_info)


def test_packs(machine, capsys):
    wanted, examine = machine
    assert examine(capsys)["--", "packs"] == "none: kernels come from the cache or from NVRTC"
    wanted.packs = [{"path": "a.pack", "entries": 7, "bytes": 2048, "archs": [80, 90], "hits": 3}]
    assert examine(capsys)["ok", "packs"] == "a.pack: 7 kernels for sm_80, sm_90, 2.0 KiB; 3 used by this process"
    wanted.packs = ValueError("a.pack: the pack is damaged: its index is not sorted; make it again")
    assert examine(capsys)["WRONG", "packs"] == str(wanted.packs)


def test_nvrtc_s_archs():
    assert {80, 90} <= set(_C.nvrtc_archs())


@pytest.mark.slow  # starts processes
def test_the_command_and_its_exit_status(tmp_path):
    def run(**variables):
        environment = os.environ | {"TILE_CACHE_DIR": str(tmp_path / "cache")} | variables
        done = subprocess.run([sys.executable, "-m", "tile_ops", "doctor"], capture_output=True, text=True, env=environment)
        return done.returncode, done.stdout, done.stderr

    code, out, err = run()
    assert (code, err) == (0, "")
    assert [line.split()[1] for line in out.splitlines()][:3] == ["torch", "CPU", "NVRTC"]
    code, out, _ = run(TILE_CACHE_DIR=__file__)
    assert code == 1 and "\nWRONG  cache " in out
    # Devices that torch has not: to a real one beside the fake driver it would send memory that this one never saw.
    code, out, _ = run(TILE_CUDA_DRIVER=str(FAKE), CUDA_VISIBLE_DEVICES="")
    assert "  driver     serves CUDA 13.0, and has 2 devices\n" in out
    assert "device 0   Fake GPU, sm_90, 132 multiprocessors; " in out
