"""tile_ops.synchronize: waits for a device, and for its errors."""

import os
import subprocess
import sys

import pytest
import tile_ops


def test_the_cpu_has_nothing_to_wait_for(device):
    tile_ops.synchronize()
    tile_ops.synchronize("cpu")
    tile_ops.synchronize(device)


def test_other_devices_are_refused():
    with pytest.raises(ValueError) as error:
        tile_ops.synchronize("meta")
    assert str(error.value) == "synchronize: the device is meta; it must be a CUDA device or the CPU"


@pytest.mark.slow  # starts a process
def test_without_a_driver():
    code = """import tile_ops
try:
    tile_ops.synchronize(0)
except RuntimeError as error:
    print(error)
"""
    environment = os.environ | {"TILE_CUDA_DRIVER": "libno_such_driver.so.1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == (
        "no NVIDIA driver: libno_such_driver.so.1: cannot open shared object file: No such file or directory; "
        "install the NVIDIA driver 545 or newer\n"
    ), done.stderr
