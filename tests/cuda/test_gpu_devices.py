"""Two GPUs: everything happens on the device of the tensors, whatever the current one is."""

import threading

import pytest
import tile_ops
import torch
from gpu_calls import assert_equal, busy, calls, results
from threads import in_threads
from tile_ops import _C

pytestmark = pytest.mark.usefixtures("deterministic")

NAMES = list(calls("meta"))
COPY = """kernel copy(%x: array<f32,1>, %y: array<f32,1>) {
  %b: i32 = bid {axis=0}
  %t: f32[256] = load %x, %b {pad=0.0, shape=[256], steps=[256]}
  store %y, %t, %b {steps=[256]}
}
"""
SCALE = """
__constant__ float factor;
__global__ void scale(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
__device__ int visits;
__global__ void visit() { atomicAdd(&visits, 1); }
__global__ void read(int* to) { *to = visits; }
"""


def synchronize_both():
    for index in range(2):
        torch.cuda.synchronize(index)


@pytest.fixture
def first():
    """The current device of every test."""
    device = torch.device("cuda", 0)
    with torch.cuda.device(device):
        yield device
        assert torch.cuda.current_device() == 0
    synchronize_both()


@pytest.fixture
def second(first):
    return torch.device("cuda", 1)


def same_calls(device):
    """Those of a device; equal numbers on each."""
    torch.manual_seed(0)
    on_cpu = {name: tensors for name, (_, tensors) in calls("cpu").items()}
    every = calls(device)  # rope's tables differ from device to device
    return {
        name: (function, [t.detach().to(device).requires_grad_() for t in on_cpu[name]])
        for name, (function, _) in every.items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_operators_and_gradients_on_another_device_than_the_current(first, second, name):
    function, tensors = same_calls(second)[name]
    synchronize_both()
    torch.cuda.reset_peak_memory_stats(first)
    before = torch.cuda.memory_allocated(first)
    got = results(function, tensors)
    assert {each.device for each in got} == {second} and torch.cuda.current_device() == 0
    assert torch.cuda.max_memory_allocated(first) == before, "memory of the current device was taken"
    with torch.cuda.device(second):
        assert_equal(got, results(function, tensors))
    if name != "rope":
        function, tensors = same_calls(first)[name]
        for ours, theirs in zip(got, results(function, tensors), strict=True):
            torch.testing.assert_close(ours.to(first), theirs)


def test_a_thread_for_each_device(first, second):
    """All call one operator at once, whose code is loaded on each device; the second time it is there."""
    every = {device: same_calls(device) for device in (first, second)}
    start, got = threading.Barrier(2), {}

    def work(device):
        torch.cuda.set_device(device)
        for name, (function, tensors) in every[device].items():
            start.wait()
            got[device, name] = [results(function, tensors) for _ in range(2)]
        assert torch.cuda.current_device() == device.index
        torch.cuda.synchronize(device)

    synchronize_both()
    in_threads(work, [(device,) for device in every], start)
    for (device, name), both in got.items():
        function, tensors = every[device][name]
        for each in both:
            assert_equal(each, results(function, tensors))


def test_threads_that_use_both_devices(first, second):
    """Each has a device of its own as the current one, and calls with tensors of the other."""
    x = {device: torch.randn(100, 300, device=device) for device in (first, second)}
    expected = {device: tile_ops.softmax(x[device], -1) for device in x}
    got = []

    def work(own, other):
        torch.cuda.set_device(own)
        for _ in range(50):
            for device in (other, own):
                got.append((device, tile_ops.softmax(x[device], -1)))
                assert torch.cuda.current_device() == own.index
        synchronize_both()

    synchronize_both()
    in_threads(work, ((first, second), (second, first)))
    for device, each in got:
        assert torch.equal(each, expected[device])


def test_tensors_on_two_devices(first, second):
    a, b = torch.ones(3, 4, device=first), torch.ones(4, 5, device=second)
    weight = torch.ones(4, device=second)
    for call, text in [
        (
            lambda: tile_ops.matmul(a, b),
            "tile::matmul: 'input' is on cuda:0, but 'other' is on cuda:1; move them to one device",
        ),
        (
            lambda: tile_ops.rms_norm(a, [4], weight),
            "tile::rms_norm: 'input' is on cuda:0, but 'weight' is on cuda:1; move them to one device",
        ),
        (
            lambda: torch.ops.tile.softmax_backward(b, torch.ones(4, 5, device=first), -1),
            "tile::softmax_backward: 'grad_out' is on cuda:1, but 'out' is on cuda:0; move them to one device",
        ),
    ]:
        with pytest.raises(RuntimeError) as error:
            call()
        assert str(error.value).splitlines()[0] == text
    with pytest.raises(ValueError) as error:
        _C.run_ir(COPY, (1, 1, 1), [a[0], weight])
    assert str(error.value) == "launch of copy: its arrays are on different devices; move them to one"
    copy = tile_ops.cuda_kernel("__global__ void copy(const float* x, float* y) { *y = *x; }", "copy")
    with pytest.raises(ValueError) as error:
        copy[1, 1](a, b)
    assert str(error.value) == "copy: argument 1 is on device 0 and argument 2 on device 1; move them to one"


def test_kernels_of_tile_ir(first, second):
    x = {device: torch.randn(1000, device=device) for device in (first, second)}
    for device in (second, first, second):
        y = torch.zeros(1000, device=device)
        _C.run_ir(COPY, (4, 1, 1), [x[device], y])
        assert torch.equal(x[device], y) and torch.cuda.current_device() == 0


def test_raw_kernels(first, second):
    """Code, constants and variables are each device's own; without a tensor the current device counts."""
    scale, visit, read = tile_ops.cuda_kernel(SCALE, ["scale", "visit", "read"])
    for device, factor in ((first, 2.0), (second, 3.0)):
        scale.set_constant("factor", torch.tensor([factor]), device=device.index)
    scale.set_constant("factor", torch.tensor([5.0], device=second), device=0)  # from one device to the other
    for device, factor in ((first, 5.0), (second, 3.0)):
        x = torch.randn(1000, device=device)
        y = x.clone()
        scale[4, 256](y, 1000)
        assert torch.equal(y, factor * x)
    visit[7, 1]()
    with torch.cuda.device(second):
        visit[1, 1]()
    for device, visits in ((first, 7), (second, 1)):
        to = torch.zeros(1, dtype=torch.int32, device=device)
        read[1, 1](to)
        assert to.item() == visits
    assert torch.cuda.current_device() == 0


def test_raw_kernels_take_more_shared_memory_on_each_device(first, second):
    source = """
extern __shared__ float tile[];
__global__ void reverse(float* x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = tile[n - 1 - i];
}
"""
    reverse = tile_ops.cuda_kernel(source, "reverse")
    for device in (first, second):
        for n in (15_000, 20_000, 16_000):
            x = torch.randn(n, device=device)
            y = x.clone()
            reverse[1, 256, 4 * n](y, n)
            assert torch.equal(y, x.flip(0))


def test_a_raw_kernel_as_an_operator(first, second):
    scale = tile_ops.cuda_kernel(SCALE, "scale", options=["-DDEVICES"])
    for index in range(2):
        scale.set_constant("factor", torch.tensor([2.0 + index]), device=index)
    twice = scale.as_op(
        "tile_test_devices::scaled(Tensor x) -> Tensor",
        outputs=lambda x: x.clone(memory_format=torch.contiguous_format),
        arguments=lambda x, out: (out, out.numel()),
        grid=lambda x, out: (out.numel() + 255) // 256,
        block=256,
    )
    for device in (first, second):
        x = torch.randn(50, 7, device=device)
        assert torch.equal(twice(x), (2.0 + device.index) * x)


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_captured_on_another_device(first, second, name):
    function, tensors = same_calls(second)[name]
    expected = results(function, tensors)  # torch's own gradient kernels are to be loaded before a capture
    own = [torch.zeros_like(tensor).requires_grad_() for tensor in tensors]
    results(function, own)
    torch.cuda.synchronize(second)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream(second)):
        got = results(function, own)
    with torch.no_grad():
        for there, tensor in zip(own, tensors):
            there.copy_(tensor)
    torch.cuda.synchronize(second)
    graph.replay()
    torch.cuda.synchronize(second)
    assert_equal(got, expected)


def test_a_first_call_in_a_capture_of_another_device(first, second):
    x, y = torch.randn(1000, device=second), torch.zeros(1000, device=second)
    z = x.clone()
    text = COPY.replace("copy", "copy_on_the_second")
    raw = tile_ops.cuda_kernel("__global__ void negate(float* x) { x[threadIdx.x] = -x[threadIdx.x]; }", "negate")
    torch.cuda.synchronize(second)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.Stream(second)):
        _C.run_ir(text, (4, 1, 1), [x, y])
        raw[1, 1000](z)
    assert not y.any() and torch.equal(z, x)
    graph.replay()
    torch.cuda.synchronize(second)
    assert torch.equal(y, x) and torch.equal(z, -x)


def test_results_go_from_device_to_device(first, second):
    """A chain over both, forward and back: each kernel runs where its tensors are, and copies keep the order."""
    x = torch.randn(300, 1000, device=first, requires_grad=True)

    def chain(softmax):
        there = softmax(x, -1).to(second) * 3
        back = softmax(there, 0).to(first, non_blocking=True)
        return softmax(back * 5, -1)

    out, expected = chain(tile_ops.softmax), chain(torch.softmax)
    torch.testing.assert_close(out, expected)
    incoming = torch.randn_like(out)
    ours, theirs = (torch.autograd.grad(each, x, incoming)[0] for each in (out, expected))
    assert ours.device == first
    torch.testing.assert_close(ours, theirs)


def test_streams_of_two_devices(first, second):
    """A stream of one device waits for an event of the other."""
    x, there = torch.randn(300, 1000, device=first), torch.zeros(300, 1000, device=second)
    expected = tile_ops.softmax(tile_ops.softmax(x, -1).to(second), 0)
    streams = {device: torch.cuda.Stream(device) for device in (first, second)}
    synchronize_both()
    with torch.cuda.stream(streams[first]):
        busy()
        middle = tile_ops.softmax(x, -1)
    streams[second].wait_stream(streams[first])
    with torch.cuda.stream(streams[second]):
        there.copy_(middle, non_blocking=True)
        got = tile_ops.softmax(there, 0)
    streams[second].synchronize()
    assert torch.equal(got, expected)
