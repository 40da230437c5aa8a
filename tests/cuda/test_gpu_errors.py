"""Tests the errors of failures on a GPU: failed assertions of kernels, and kernels that crash, each in a process of its own; and
misplaced tensors."""

import os
import pathlib
import subprocess
import sys

import pytest
import tile_ops
import torch
from tile_ops import _C

COPY = """kernel copy(%x: array<f32,1>, %y: array<f32,1>) {
  %i: i32 = bid {axis=0}
  %t: f32[256] = load %x, %i {pad=0.0, shape=[256], steps=[256]}
  store %y, %t, %i {steps=[256]}
}
"""
CHECK = """kernel check(%x: array<f32,1>, %y: array<f32,1>) {
  %i: i32 = bid {axis=0}
  %t: f32[256] = load %x, %i {pad=1.0, shape=[256], steps=[256]}
  %zero: f32 = constant {dtype=f32, value=0.0}
  %zeros: f32[256] = broadcast %zero {shape=[256]}
  %ok: bool[256] = ge %t, %zeros
  assert %ok {message="no root of a negative number"}  // root.py:7
  %r: f32[256] = sqrt %t
  store %y, %r, %i {steps=[256]}
}
"""
WILD = """
__global__ void wild(int* p) { *(int*)0x10 = 1; }
__global__ void traps(int* p) { asm("trap;"); }
__global__ void fine(int* p) { *p = 2; }
"""
FAILED = "root.py:7: assertion failed: no root of a negative number; element [44] of bool[256] in block (3, 0, 0) of kernel check, on "


def run(text, x, y):
    _C.run_ir(text, ((len(x) + 255) // 256, 1, 1), [x, y])


def told(call):
    """Returns the text of the call's error, or "nothing"."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return "nothing"


def numbers(device):
    x = torch.ones(1000, device=device)
    bad = x.clone()
    bad[3 * 256 + 44] = -1
    torch.cuda.synchronize(device)
    return x, bad, torch.zeros(1000, device=device)


def asserts(device):
    """The launch returns, the next one raises the error, and the context is still usable."""
    x, bad, y = numbers(device)
    run(CHECK, bad, y)
    torch.cuda.synchronize(device)
    print(told(lambda: run(COPY, x, y)))
    print(told(lambda: run(COPY, x, y)))
    assert torch.equal(x, y)
    y.zero_()
    run(CHECK, bad, y)
    print(told(lambda: tile_ops.synchronize(device)))
    print(told(lambda: tile_ops.synchronize(device)))
    assert not y[768:].any()  # the block that failed stored nothing
    for _ in range(5):  # each launch tells of those before it
        told(lambda: run(CHECK, bad, y))
    torch.cuda.synchronize(device)
    print(told(lambda: tile_ops.softmax(x, -1)).splitlines()[0])  # which has not done it
    tile_ops.synchronize(device)
    run(CHECK, x, y)
    tile_ops.synchronize(device)
    assert torch.equal(x, y)


def asserts_waiting(device):
    """The launch itself tells."""
    x, bad, y = numbers(device)
    print(told(lambda: run(CHECK, bad, y)))
    print(told(lambda: run(COPY, x, y)))
    assert torch.equal(x, y)


def asserts_in_a_graph(device):
    """Compiled and loaded inside the capture; each replay may fail."""
    x, bad, y = numbers(device)
    given = x.clone()
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(CHECK, given, y)
    for values in (x, bad, x, bad):
        given.copy_(values)
        graph.replay()
        print(told(lambda: tile_ops.synchronize(device)))


def asserts_in_a_cluster(device):
    """All blocks of a cluster end; sm_90 and newer."""
    text = CHECK.replace("256", "262144")
    x = torch.ones(3 * 262144, device=device)
    y = torch.zeros_like(x)
    run_large = lambda a: _C.run_ir(text, (3, 1, 1), [a, y])  # noqa: E731
    run_large(x)
    tile_ops.synchronize(device)
    assert torch.equal(x, y)
    for index in (0, 262143, 262144 + 100_000, 3 * 262144 - 1):
        bad = x.clone()
        bad[index] = -1
        y.zero_()
        run_large(bad)
        print(told(lambda: tile_ops.synchronize(device)))
        block = index // 262144
        assert not y[block * 262144 : (block + 1) * 262144].any()


def nobody_asks(device):
    _, bad, y = numbers(device)
    run(CHECK, bad, y)


def crashes(device, name):
    kernel, fine = tile_ops.cuda_kernel(WILD, [name, "fine"])
    p = torch.zeros(1, dtype=torch.int32, device=device)
    fine[1, 1](p)
    print(told(lambda: kernel[1, 1](p)))
    print(told(lambda: torch.cuda.synchronize(device)).splitlines()[0])
    print(told(lambda: fine[1, 1](p)))


def wild(device):
    crashes(device, "wild")


def traps(device):
    crashes(device, "traps")


@pytest.fixture
def started(device, tmp_path):
    """Runs a function of this file in a process of its own; what it prints, and stderr."""

    def run(function, **more):
        folder = str(pathlib.Path(__file__).parent)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([folder, *sys.path]), "TILE_CACHE_DIR": str(tmp_path)}
        environment.pop("CUDA_LAUNCH_BLOCKING", None)
        command = [sys.executable, __file__, function.__name__, str(device)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment | more, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines(), done.stderr

    return run


@pytest.fixture
def described(device):
    index = device.index or 0
    major, minor = torch.cuda.get_device_capability(index)
    return f"device {index} ({torch.cuda.get_device_name(index)}, sm_{major}{minor})"


def test_a_failed_assertion_leaves_the_gpu_usable(started, described):
    lines, stderr = started(asserts)
    assert lines == [FAILED + described, "nothing", FAILED + described, "nothing", FAILED + described]
    assert "assertion failed" not in stderr


def test_with_launch_blocking_the_launch_itself_tells(started, described):
    lines, _ = started(asserts_waiting, CUDA_LAUNCH_BLOCKING="1")
    assert lines == [FAILED + described, "nothing"]


def test_in_a_captured_graph(started, described):
    lines, _ = started(asserts_in_a_graph)
    assert lines == ["nothing", FAILED + described] * 2


def test_in_a_cluster(started, described):
    lines, _ = started(asserts_in_a_cluster)
    text = "root.py:7: assertion failed: no root of a negative number; element [{}] of bool[262144] in block ({}, 0, 0) of kernel check, on "
    indices = (0, 262143, 262144 + 100_000, 3 * 262144 - 1)
    assert lines == [text.format(index % 262144, index // 262144) + described for index in indices]


def test_at_the_end_of_the_process(started, described):
    lines, stderr = started(nobody_asks)
    assert lines == [] and f"tile: {FAILED}{described}\n" in stderr


CRASHES = [
    (wild, "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"),
    (traps, "CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)"),
]


@pytest.mark.parametrize("function, fact", CRASHES, ids=lambda x: getattr(x, "__name__", ""))
def test_a_crash_names_the_last_kernels(started, described, function, fact):
    lines, _ = started(function)
    name = function.__name__
    assert lines[0] == "nothing" and "CUDA error" in lines[1]
    assert lines[2] == (
        f"fine: launch of (1, 1, 1) blocks of (1, 1, 1) threads with 0 bytes of shared memory on {described}: {fact}, by a kernel "
        f"before this call; the last of ours on device {described.split()[1]}, newest first: '{name}', 'fine'; run with "
        "CUDA_LAUNCH_BLOCKING=1 to see which, and restart the process"
    )


@pytest.mark.parametrize("function, fact", CRASHES, ids=lambda x: getattr(x, "__name__", ""))
def test_with_launch_blocking_a_crash_names_the_kernel(started, described, function, fact):
    lines, _ = started(function, CUDA_LAUNCH_BLOCKING="1")
    name = function.__name__
    assert lines[0] == (
        f"{name}: launch of (1, 1, 1) blocks of (1, 1, 1) threads with 0 bytes of shared memory on {described}: {fact}, "
        "by this kernel; restart the process"
    )
    assert lines[2].endswith(f": {fact}, by '{name}' before this call; restart the process")


def test_a_tensor_between_its_elements(device):
    memory = torch.zeros(64, dtype=torch.uint8, device=device)

    class Between:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (memory.data_ptr() + 2, False), "version": 3}

    x = torch.as_tensor(Between(), device=device)
    assert x.data_ptr() % 4 == 2
    with pytest.raises(ValueError) as error:
        tile_ops.softmax(x, -1)
    assert str(error.value).splitlines()[0] == (
        f"tile::softmax: 'input' begins at address {x.data_ptr():#x}, which is not a multiple of the 4 bytes of float32; "
        "copy it first, with input.clone()"
    )
    saxpy = tile_ops.cuda_kernel("__global__ void twice(float* x) { *x *= 2; }", "twice")
    with pytest.raises(ValueError) as error:
        saxpy[1, 1](x)
    assert str(error.value) == (
        f"twice: argument 1 is a tensor at address {x.data_ptr():#x}, but the kernel takes float*; copy it first, with .clone(): "
        "its address must be a multiple of 4"
    )


if __name__ == "__main__":
    globals()[sys.argv[1]](torch.device(sys.argv[2]))
