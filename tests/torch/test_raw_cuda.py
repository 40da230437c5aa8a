"""tile_ops.cuda_kernel: what compiles, what a launch does and says on a fake driver, operators; and on a GPU the
results."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import tile_ops
import torch
from built import BUILD, OPERATORS
from torch._subclasses.fake_tensor import FakeTensorMode

SOURCE = """#include "by.h"
__constant__ float weights[4];
__global__ void weigh(const float* x, float* out) { out[threadIdx.x] = x[threadIdx.x] * weights[threadIdx.x % 4]; }
template <class T, int N> __global__ void scale(T* x, T by_what, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = by(x[i] * by_what) * N + PLUS;
}
extern __shared__ float shared[];
__global__ void reverse(float* x, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) shared[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = shared[n - 1 - i];
}
"""
NAMES = ["weigh", "scale<float, 2>", "scale<double, 3>", "reverse"]


@pytest.fixture
def kernels():
    header = "template <class T> __device__ T by(T x) { return x + 1; }"
    return tile_ops.cuda_kernel(SOURCE, NAMES, headers={"by.h": header}, options=["-DPLUS=5"], file="some.cu")


def arch_of(device):
    if device.type == "cpu":
        return 90
    return tile_ops._inspect.arch_of(device)


def test_what_compiles(kernels, device):
    weigh, floats, doubles, reverse = kernels
    assert [kernel.name for kernel in kernels] == NAMES
    assert doubles.parameters(arch_of(device)) == ["double*", "double", "int"]
    assert reverse.compile(80) is reverse and repr(reverse) == "<tile_ops.CudaKernel reverse>"
    assert weigh.source == SOURCE


# On a machine without a GPU these compile; with one (--device cuda) they run.
def test_templates_and_conversions(kernels, device):
    _, floats, doubles, _ = kernels
    for kernel, dtype, n in ((floats, torch.float32, 2), (doubles, torch.float64, 3)):
        kernel.compile(arch_of(device))
        if device.type != "cpu":
            x = torch.randn(1000, dtype=dtype, device=device)
            expected = (x * 2 + 1) * n + 5
            kernel[4, 256](x, 2, x.numel())
            torch.testing.assert_close(x, expected)


def test_constants(kernels, device):
    weigh = kernels[0].compile(arch_of(device))
    if device.type != "cpu":
        x = torch.arange(8.0, device=device)
        out = torch.empty_like(x)
        for weights in (torch.tensor([1.0, 2, 3, 4], device="cpu"), torch.tensor([4.0, 3, 2, 1], device=device)):
            weigh.set_constant("weights", weights)
            weigh[1, 8](x, out)
            torch.testing.assert_close(out, x * weights.to(device).repeat(2))
        weigh.set_constant("weights", bytes(16))
        weigh[1, 8](x, out)
        assert not out.any()


def test_more_shared_memory_than_a_block_has_unasked(kernels, device):
    reverse = kernels[3].compile(arch_of(device))
    if device.type != "cpu":
        x = torch.randn(20_000, device=device)
        expected = x.flip(0)
        reverse[1, 256, 4 * x.numel()](x, x.numel())
        torch.testing.assert_close(x, expected)
        with pytest.raises(RuntimeError, match="^reverse: a block cannot have 2147483647 bytes of shared memory; device "):
            reverse[1, 256, 2**31 - 1](x, x.numel())


def test_streams_and_graphs(kernels, device):
    floats = kernels[1].compile(arch_of(device))
    if device.type != "cpu":
        x = torch.ones(256, device=device)
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.graph(graph, stream=stream):
            floats[1, 256](x, 1, 256)
        torch.testing.assert_close(x, torch.ones_like(x))
        graph.replay()
        torch.testing.assert_close(x, torch.full_like(x, 9))


def test_compile_errors_name_the_line():
    with pytest.raises(RuntimeError) as error:
        tile_ops.cuda_kernel("__global__ void k(int* x) {\n  *x = b;\n}", "k").compile(90)
    first, *rest = str(error.value).splitlines()
    assert first.startswith('k.cu:2: CUDA C++ does not compile for sm_90a: identifier "b" is undefined; the log of NVRTC ')
    assert "    *x = b;" in rest
    with pytest.raises(ValueError) as error:
        tile_ops.cuda_kernel("__global__ void first() {}  __global__ void second() {}", "third").compile(90)
    assert str(error.value) == "third.cu: there is no kernel 'third'; the source has first, second"


def test_inspection(kernels):
    reverse = kernels[3]
    assert tile_ops.inspect(reverse, what="cuda") == SOURCE
    assert ".entry _Z7reversePfi(" in tile_ops.inspect(reverse, what="ptx", arch=80)
    (row,) = tile_ops.inspect(reverse, what="resources", arch=80)
    assert row["kernel"] == "reverse" and row["registers"] >= 8 and row["spill_stores"] == 0
    with pytest.raises(ValueError) as error:
        tile_ops.inspect(reverse)
    assert str(error.value) == "inspect: reverse is CUDA C++ and has no Tile IR; look at what='ptx', 'sass' or 'resources'"


@pytest.fixture(scope="module")
def reports():
    # It runs on a machine with a GPU too: a process of its own, whose torch sees no device.
    script = pathlib.Path(__file__).with_name("raw_cuda_calls.py")
    driver = BUILD / "tests" / "libtile_fake_cuda.so"
    environment = os.environ | {"TILE_CUDA_DRIVER": str(driver), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, str(script), str(OPERATORS)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


LAUNCH = "cuLaunchKernelEx 300 grid {} block {} shared {} stream 0 first {} extra 0 attributes"
ONE = 0x3F800000  # 1.0f
FORKED = "CUDA does not work in a process that was forked after CUDA was used; start processes with the method spawn"
SAYS = {
    "launch": LAUNCH.format("4 1 1", "32 2 1", 0, ONE),
    "shared": LAUNCH.format("1 2 3", "32 1 1", 100, ONE),
    "count": "TypeError: saxpy: takes 4 arguments (float, float const*, float*, int) but is given 3; give one for each",
    "cpu": "ValueError: saxpy: argument 2 is a tensor on the CPU, but the kernel takes float const*; move it to the GPU with .cuda()",
    "devices": "ValueError: saxpy: argument 2 is on device 0 and argument 3 on device 1; move them to one",
    "sparse": "TypeError: a kernel cannot take a tensor of layout Sparse; convert it with to_dense()",
    "complex": "TypeError: saxpy: argument 2 is a tensor of elements of 8 bytes, but the kernel takes float const*; convert it, or view "
    "it as that dtype",
    "type": "TypeError: saxpy: argument 4 is of type str; give a tensor, a number, None, or the bytes of a struct",
    "bits": "ValueError: saxpy: argument 4 has more than 64 bits; no parameter takes it",
    "names": "TypeError: saxpy: takes no arguments by name; give them in the order of its parameters",
    "no block": "TypeError: saxpy: [one value]; write kernel[grid, block](…) or kernel[grid, block, shared_bytes](…)",
    "text grid": "TypeError: saxpy: the grid is of type str; give an integer, or a tuple of up to three",
    "axes": "ValueError: saxpy: the grid has 4 axes; the most is 3",
    "block": "ValueError: saxpy: a block of (1000, 1, 1) has 1000 threads; this kernel can have 512 on device 0, take fewer, or "
    "declare it __launch_bounds__(1000)",
    "constant": "ValueError: two.cu: there is no variable 'nothing'; declare it __constant__ or __device__ outside of functions, use it "
    "in a kernel, and name it with its namespaces",
    "operator": LAUNCH.format("4 1 1", "32 1 1", 0, 0x40000000),
    "operator by name": LAUNCH.format("4 1 1", "32 1 1", 0, ONE),
    "forked": f"RuntimeError: {FORKED}",
    "forked operator": f"RuntimeError: tile::softmax: {FORKED}",
}


@pytest.mark.slow  # starts a process
@pytest.mark.parametrize("what", SAYS)
def test_a_launch_on_the_fake_driver(reports, what):
    assert reports[what] == SAYS[what]


@pytest.mark.slow
def test_what_is_no_pointer_to_const_counts_as_written(reports):
    assert reports["versions"] == [0, 1]


def test_an_operator_whose_results_are_its_argument():
    op = tile_ops.cuda_kernel(CUBE, "cube").as_op(
        "raw_cuda::itself(Tensor x) -> Tensor", outputs=lambda x: x.view(-1), grid=1, block=32
    )
    with pytest.raises(ValueError) as error:
        op(torch.empty(4, device="meta"))
    assert str(error.value) == (
        "raw_cuda::itself: outputs returned the memory of its argument 'x'; return a new tensor, such as torch.empty_like(x)"
    )


def test_an_operator_whose_schema_returns_its_argument():
    op = tile_ops.cuda_kernel(CUBE, "cube").as_op(
        "raw_cuda::changed(Tensor(a!) y, Tensor x) -> Tensor(a!)", outputs=lambda y, x: y, grid=1, block=32
    )
    y, x = torch.empty(4, device="meta"), torch.empty(4, device="meta")
    assert op(y, x).shape == (4,)
    op = tile_ops.cuda_kernel(CUBE, "cube").as_op(
        "raw_cuda::other(Tensor(a!) y, Tensor x) -> Tensor(a!)", outputs=lambda y, x: x, grid=1, block=32
    )
    with pytest.raises(ValueError, match="^raw_cuda::other: outputs returned the memory of its argument 'x'; return a new"):
        op(y, x)


@pytest.mark.slow
def test_numbers_and_structs_of_every_kind_are_taken(reports):
    for what in ("numbers", "bytes"):
        assert reports[what].startswith("cuLaunchKernelEx 300 grid 1 1 1 block 1 1 1 shared 0 stream 0 first ")
    assert reports["empty grid"] == reports["bytes"]  # the call before: nothing was launched


CUBE = """__global__ void cube(const float* x, float* out, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * x[i] * x[i] * x[i];
}"""


@pytest.fixture(scope="module")
def cube():
    return tile_ops.cuda_kernel(CUBE, "cube").as_op(
        "raw_cuda::cube(Tensor x, *, float factor=1.0) -> Tensor",
        outputs=lambda x, factor: torch.empty_like(x),
        arguments=lambda x, factor, out: (x, out, x.numel(), factor),
        grid=lambda x, factor, out: (x.numel() + 127) // 128,
        block=128,
    )


def test_an_operator(cube, device):
    with FakeTensorMode():
        assert cube(torch.empty(3, 5, device=device if device.type != "cpu" else "meta")).shape == (3, 5)
    x = torch.randn(1000, device=device)
    if device.type != "cpu":
        torch.testing.assert_close(cube(x, factor=2.0), 2 * x**3)
        torch.testing.assert_close(torch.compile(lambda x: cube(x) + 1, fullgraph=True)(x), x**3 + 1)
        torch.library.opcheck(cube.default, (x,), {"factor": 3.0})
        return
    with pytest.raises(NotImplementedError) as error:
        cube(x)
    assert str(error.value) == "raw_cuda::cube: runs on a GPU, and is given tensors on the CPU; move them with .cuda()"


def test_definitions_that_do_not_fit():
    kernel = tile_ops.cuda_kernel(CUBE, "cube")
    for schema, options, text in (
        ("cube(Tensor x) -> Tensor", {}, "cube: as_op: 'cube' has no namespace; write \"mine::cube(…)\""),
        ("raw_cuda::a(Tensor x) -> Tensor", {}, "cube: as_op: raw_cuda::a has 1 results; give outputs="),
        ("raw_cuda::a(Tensor(a!) x) -> ()", {"outputs": len}, "cube: as_op: raw_cuda::a has 0 results; leave outputs out"),
    ):
        with pytest.raises(ValueError) as error:
            kernel.as_op(schema, grid=1, block=1, **options)
        assert str(error.value) == text


@pytest.mark.slow
def test_the_example():
    path = pathlib.Path(__file__).parents[2] / "examples" / "saxpy.py"
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    said = "saxpy and cube are right on " if torch.cuda.is_available() else "no GPU here; for an H100 the kernels compile: "
    assert done.returncode == 0 and done.stdout.startswith(said), done.stderr
