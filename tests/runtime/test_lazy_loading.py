"""NVRTC and the CUDA driver are loaded at first use, from torch's wheels, never by the import."""

import json
import pathlib
import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.slow  # starts processes

PACKAGES = pathlib.Path(torch.__file__).parent.parent

MAPPED = """
import json, re
def mapped():
    names = {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
    return sorted(name for name in names if re.search(r"lib(nvrtc|cuda|nvidia)", name))
"""


def run(code: str):
    done = subprocess.run([sys.executable, "-c", MAPPED + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_import_and_cpu_kernels_load_neither():
    # A torch for CUDA brings libraries of its own.
    before, after = run("""
import torch
before = mapped()
import tile_ops
from tile_ops import _C
tile_ops.softmax(torch.randn(3, 4), -1)
print(json.dumps([before, mapped()]))
""")
    assert after == before


def test_nvrtc_comes_from_the_wheel_beside_torch():
    (path, version), libraries = run("""
import os
os.environ.pop("TILE_NVRTC", None)
from tile_ops import _C
print(json.dumps([_C.nvrtc(), mapped()]))
""")
    assert pathlib.Path(path).is_relative_to(PACKAGES / "nvidia")
    assert pathlib.Path(path).name == f"libnvrtc.so.{version.split('.')[0]}"
    # It would not be found by NVRTC itself: no loader's path leads there.
    assert str(pathlib.Path(path).parent / f"libnvrtc-builtins.so.{version}") in libraries


def test_the_variable_wins():
    assert run("""
import os
os.environ["TILE_NVRTC"] = "no/such/libnvrtc.so"
from tile_ops import _C
try: _C.nvrtc()
except RuntimeError as error: print(json.dumps(str(error)))
""") == (
        "TILE_NVRTC=no/such/libnvrtc.so: no/such/libnvrtc.so: cannot open shared object file: No such file or directory; "
        "unset it, or set it to the file or the folder of NVRTC 12.3 or newer"
    )
