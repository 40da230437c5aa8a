"""First calls on a GPU, each in a process of its own: inside a capture, by many threads at once, and after a fork."""

import os
import pathlib
import subprocess
import sys
import threading

import pytest
import tile_ops
import torch
from gpu_calls import assert_equal, calls, results
from threads import in_threads
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


def warm(device):
    """torch's own kernels that gradients of ours need, and the thread that calls them: what loads them is not ours."""
    x = torch.ones(64, 64, device=device, requires_grad=True)
    torch.autograd.grad(torch.softmax(x, -1), x, torch.ones_like(x))
    y = torch.empty(64, 64, device=device)
    y.zero_()
    y.fill_(torch.nan)
    y.t().contiguous()
    y.copy_(x.detach().t())
    y.double().copy_(y)
    torch.cuda.synchronize()


def captured_with_gradients(device, names=None, deterministic=True):
    """The same of forward and backward, whose kernels another thread compiles, loads and launches: autograd's."""
    torch.use_deterministic_algorithms(deterministic)
    every = {name: call for name, call in calls(device).items() if names is None or name in names}
    warm(device)
    assert not _C.compiled_kernels()
    graph, got = torch.cuda.CUDAGraph(), {}
    with torch.cuda.graph(graph):
        for name, (function, tensors) in every.items():
            got[name] = results(function, tensors)
    assert _C.compiled_kernels()
    for _ in range(2):
        for each in got.values():
            for tensor in each:
                tensor.fill_(torch.nan)
        graph.replay()
        for name, (function, tensors) in every.items():
            if deterministic:
                assert_equal(got[name], results(function, tensors))
            else:  # sums are added in any order
                for ours, again in zip(got[name], results(function, tensors), strict=True):
                    torch.testing.assert_close(ours, again)


def captured_with_added_gradients(device):
    captured_with_gradients(device, ["attention"], deterministic=False)


def captured_backward(device):
    """Forward is called before, and the first backward inside the capture."""
    torch.use_deterministic_algorithms(True)
    every = calls(device)
    warm(device)
    graph, got, side = torch.cuda.CUDAGraph(), {}, torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # gradients run on the stream of forward, which is to be the captured one
        outs = {name: function(*tensors) for name, (function, tensors) in every.items()}
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=side):
        for name, (_, tensors) in every.items():
            out = list(outs[name]) if isinstance(outs[name], tuple) else [outs[name]]
            got[name] = torch.autograd.grad(out, tensors, [torch.ones_like(each) for each in out])
    graph.replay()
    for name, (function, tensors) in every.items():
        assert_equal(got[name], results(function, tensors)[-len(tensors) :])


def captured_raw(device):
    """A kernel of CUDA C++: compiled, loaded and given more shared memory inside a capture; a constant cannot be set
    there."""
    source = """
__constant__ float factor = 3;
extern __shared__ float tile[];
__global__ void scale(float* x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = factor * tile[n - 1 - i];
}
"""
    scale = tile_ops.cuda_kernel(source, "scale")
    x = torch.randn(15_000, device=device)
    expected = 3 * x.flip(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scale[1, 256, 4 * 15_000](x, 15_000)
        try:
            scale.set_constant("factor", torch.zeros(1, device="cpu"))
        except RuntimeError as error:
            assert str(error) == (
                "scale.cu: the variable 'factor' is set while its stream is captured, and replays would not set it; "
                "set it before the capture"
            )
        else:
            raise AssertionError("a constant was set inside a capture")
    graph.replay()
    assert torch.equal(x, expected)


def threaded(device, count=8):
    """All threads call one operator at once, and it is right for each of them. Prints what was compiled."""
    torch.use_deterministic_algorithms(True)
    every = calls(device)
    start, got = threading.Barrier(count), {name: [] for name in every}

    def work():
        with torch.cuda.stream(torch.cuda.Stream(device)):
            for name, (function, tensors) in every.items():
                own = [tensor.detach().clone().requires_grad_() for tensor in tensors]
                start.wait()
                got[name].append(results(function, own))
            torch.cuda.current_stream(device).synchronize()

    torch.cuda.synchronize()
    in_threads(work, [()] * count, start)
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
        done = subprocess.run(
            [sys.executable, __file__, function.__name__, str(device)], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


FIRST_CALLS = [captured, captured_with_gradients, captured_with_added_gradients, captured_backward, captured_raw, forked]


@pytest.mark.parametrize("function", FIRST_CALLS, ids=lambda function: function.__name__)
def test_first_calls(started, function):
    started(function)  # with code from NVRTC
    started(function)  # with code from the cache on disk


def test_many_threads_compile_what_one_does(started):
    assert started(threaded) == started(alone)


if __name__ == "__main__":
    globals()[sys.argv[1]](torch.device(sys.argv[2]))
