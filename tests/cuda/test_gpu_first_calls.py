"""First calls on a GPU, each in a process of its own: inside a capture, by many threads at once, and after a fork."""

import os
import pathlib
import subprocess
import sys
import threading

import pytest
import torch
from gpu_calls import assert_equal, calls, results
from tile_ops import _C


def captured(device):
    """No kernel of ours is compiled or loaded before the capture."""
    every = calls(device)
    torch.cuda.synchronize()
    assert not _C.compiled_kernels()
    graph, got = torch.cuda.CUDAGraph(), {}
    with torch.no_grad(), torch.cuda.graph(graph):
        for name, (function, tensors) in every.items():
            got[name] = function(*tensors)
    graph.replay()
    for name, (function, tensors) in every.items():
        with torch.no_grad():
            again = function(*tensors)
        assert_equal(*([each] if isinstance(each, torch.Tensor) else each for each in (got[name], again)))


def threaded(device, count=8):
    """All threads call one operator at once, and it is right for each of them. Prints what was compiled."""
    torch.use_deterministic_algorithms(True)
    every = calls(device)
    start, got, wrong = threading.Barrier(count), {name: [] for name in every}, []

    def work():
        try:
            with torch.cuda.stream(torch.cuda.Stream(device)):
                for name, (function, tensors) in every.items():
                    own = [tensor.detach().clone().requires_grad_() for tensor in tensors]
                    start.wait()
                    got[name].append(results(function, own))
                torch.cuda.current_stream(device).synchronize()
        except BaseException as error:  # noqa: BLE001  raised again by the main thread
            wrong.append(error)
            start.abort()

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    print(sorted(_C.compiled_kernels().items()))
    for name, (function, tensors) in every.items():
        for each in got[name]:
            assert_equal(each, results(function, tensors))


def alone(device):
    threaded(device, 1)


def forked(device):
    """A child says what is wrong, and to use another way to start it; the parent goes on."""
    x, y = torch.arange(10, device=device), torch.zeros(10, dtype=torch.int64, device=device)
    text = """kernel copy(%x: array<i64,1>, %y: array<i64,1>) {
  %z: i32 = constant {dtype=i32, value=0}
  %t: i64[16] = load %x, %z {pad=0, shape=[16], steps=[16]}
  store %y, %t, %z {steps=[16]}
}
"""
    floats = torch.randn(3, 4, device=device)
    expected = torch.ops.tile.softmax(floats, -1)
    torch.cuda.synchronize()
    read, write = os.pipe()
    if not os.fork():
        said = []
        for call in (lambda: _C.run_ir(text, (1, 1, 1), [x, y]), lambda: torch.ops.tile.softmax(floats, -1)):
            try:
                call()
                said.append("nothing")
            except RuntimeError as error:
                said.append(str(error).splitlines()[0])
        os.write(write, "\n".join(said).encode())
        os._exit(0)
    os.close(write)
    ours, operator = os.fdopen(read).read().splitlines()
    os.wait()
    told = "CUDA does not work in a process that was forked after CUDA was used; start processes with the method spawn"
    assert (ours, operator) == (told, "tile::softmax: " + told)
    _C.run_ir(text, (1, 1, 1), [x, y])
    assert torch.equal(x, y) and torch.equal(torch.ops.tile.softmax(floats, -1), expected)


@pytest.fixture
def started(device, tmp_path):
    """Runs a function of this file in a process of its own; what it prints."""

    def run(function):
        folder = str(pathlib.Path(__file__).parent)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([folder, *sys.path]), "TILE_CACHE_DIR": str(tmp_path)}
        done = subprocess.run([sys.executable, __file__, function.__name__, str(device)], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.mark.parametrize("function", [captured, forked], ids=lambda function: function.__name__)
def test_first_calls(started, function):
    started(function)  # with code from NVRTC
    started(function)  # with code from the cache on disk


def test_many_threads_compile_what_one_does(started):
    assert started(threaded) == started(alone)


if __name__ == "__main__":
    globals()[sys.argv[1]](torch.device(sys.argv[2]))
