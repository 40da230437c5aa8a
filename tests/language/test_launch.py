"""Launching kernels in Python: grids, arguments and their errors, hints, threads, checks without memory."""

import threading
from typing import Annotated

import pytest
import tile_ops
import tile_ops.language as tl
import torch
from raised import error_of
from torch._subclasses.fake_tensor import FakeTensorMode


@tl.kernel
def scaled(x, out, scale: float, N: tl.Constant[int]):
    i = tl.bid(0) + tl.bid(1) * 2 + tl.bid(2) * 4
    tl.store(out, i, tl.load(x, i, N) * scale)


@pytest.mark.parametrize("grid", [8, (8,), (2, 4), (2, 2, 2), [8], lambda x, out, scale, n: (x.numel() // n,)])
def test_grids(grid):
    x, out = torch.randn(32), torch.zeros(32)
    scaled[grid](x, out, 2.0, 4)
    torch.testing.assert_close(out, x * 2)
    scaled.launch(grid, x, out, 3.0, 4)
    torch.testing.assert_close(out, x * 3)


GRIDS = {
    (
        1,
        1,
        1,
        1,
    ): "TypeError: the grid is (1, 1, 1, 1); give a tuple of one to three integers, or a function of the arguments that "
    "gives one",
    1.5: "TypeError: the grid is 1.5; give a tuple of one to three integers, or a function of the arguments that gives one",
    None: "TypeError: the grid is None; give a tuple of one to three integers, or a function of the arguments that gives one",
}


@pytest.mark.parametrize("grid", GRIDS)
def test_wrong_grids(grid):
    x = torch.randn(32)
    assert error_of(scaled[grid], x, x, 2.0, 4) == GRIDS[grid]


def test_a_negative_grid():
    x = torch.randn(32)
    assert "the grid is (-1, 1, 1); an axis must be at least 0" in error_of(scaled[-1], x, x, 2.0, 4)


def arguments(**changed):
    given = {"x": torch.zeros(4), "out": torch.zeros(4), "scale": 1.0, "N": 4} | changed
    return list(given.values())


X, SCALE, N = (f"Invalid kernel argument #{at}, '{name}' of scaled" for at, name in ((0, "x"), (2, "scale"), (3, "N")))
MISTAKES = [
    ([], "TypeError: scaled() missing 4 required positional arguments: 'x', 'out', 'scale', and 'N'"),
    ([1], "TypeError: scaled() missing 3 required positional arguments: 'out', 'scale', and 'N'"),
    (
        arguments(scale="a"),
        f"TypeError: {SCALE}: Objects of type 'str' are not supported. Annotate its parameter "
        "with Constant: its value is then known when the kernel is compiled.",
    ),
    (
        arguments(scale=torch.float32),
        f"TypeError: {SCALE}: Objects of type 'dtype' are not supported. Annotate its parameter "
        "with Constant: its value is then known when the kernel is compiled.",
    ),
    (
        arguments(x=object()),
        f"TypeError: {X}: Objects of type 'object' are not supported. A kernel takes tensors, "
        "arrays (of NumPy, or with __dlpack__ or __cuda_array_interface__), int, float and bool, and tuples, frozen dataclasses and "
        "lists of arrays of these.",
    ),
    (arguments(x=[]), f"TypeError: {X}: Empty lists are not supported"),
    (arguments(x=[1]), f"TypeError: {X}: Expected list items to be arrays, got int"),
    (arguments(x=[torch.zeros(2), torch.zeros(2, 2)]), f"TypeError: {X}: the arrays of a list vary in rank"),
    (
        arguments(x=[torch.zeros(2), torch.zeros(2, dtype=torch.int8)]),
        f"TypeError: {X}: the arrays of a list vary in data type",
    ),
    (
        arguments(x=(1, "a")),
        "TypeError: Invalid item #1 of kernel argument #0, 'x' of scaled: Objects of type 'str' are not supported. Annotate "
        "its parameter with Constant: its value is then known when the kernel is compiled.",
    ),
    (arguments(x=torch.Size([2])), f"TypeError: {X}: 'Size' is a subclass of 'tuple'. Only plain tuples are accepted."),
    (arguments(N=torch.zeros(2)), f"TypeError: {N}: Objects of type 'Tensor' are not supported for a Constant parameter."),
    (arguments(N=[4]), f"TypeError: {N}: Objects of type 'list' are not supported for a Constant parameter."),
    (
        arguments(scale=1 << 31),
        f"OverflowError: {SCALE}: 2147483648 is out of range of int32; annotate the parameter with ScalarInt64",
    ),
    (
        arguments(x=torch.zeros(2, dtype=torch.complex64)),
        f"TypeError: {X}: Unsupported array dtype complex64; pass torch.view_as_real of it",
    ),
    (
        arguments(x=torch.zeros(2).to_sparse()),
        f"TypeError: {X}: a tensor of layout Sparse is not supported; pass its to_dense()",
    ),
]


@pytest.mark.parametrize("given, text", MISTAKES, ids=range(len(MISTAKES)))
def test_wrong_arguments(given, text):
    assert error_of(scaled[1], *given) == text


@pytest.mark.parametrize("count", [62, 63, 200])
def test_lists_of_many_arrays(count):
    @tl.kernel
    def first(arrays, out, scale: float):
        tl.store(out, 0, tl.load(arrays[0], 0, 4) * scale)

    arrays, out = [torch.ones(4)] * count, torch.zeros(4)
    if count == 62:
        first[1](arrays, out, 2.0)
        assert out.tolist() == [2] * 4
    else:
        assert error_of(first[1], arrays, out, 2.0) == (
            "ValueError: launch of first: its arguments hold more than 64 tensors and numbers; pass fewer"
        )


def test_named_arguments_and_streams():
    x, out = torch.zeros(4), torch.zeros(4)
    scaled[1](x, out, scale=1.0, N=4)
    assert error_of(scaled.launch) == "TypeError: launch: give the grid, then the kernel's arguments"
    assert error_of(scaled.launch, 1, x, out, 1.0, 4, grid=2) == (
        "TypeError: scaled() got an unexpected keyword argument 'grid'"
    )
    assert error_of(scaled.launch, 1, x, out, 1.0, 4, stream="s") == (
        "TypeError: the stream is 's'; give a torch.cuda.Stream, an integer handle, or None for the current one"
    )
    scaled.launch(1, x, out, 1.0, 4, stream=0)
    scaled.launch(1, x, out, 1.0, 4, stream=None)


def test_what_is_no_kernel():
    assert error_of(tl.kernel, 3) == "TypeError: kernel: 3 is no Python function"
    assert error_of(scaled, 1) == "TypeError: scaled is a kernel; launch it with scaled[grid](...)"

    def many(*arrays):
        pass

    assert error_of(tl.kernel, many) == "TileSyntaxError: many: a kernel's parameters are named; *arrays is not supported"
    text = "def made(x):\n    pass\n"
    space = {}
    exec(text, space)
    kernel = tl.kernel(space["made"])
    assert error_of(kernel[1], torch.zeros(1)).startswith(
        "TileSyntaxError: the source of made() is not available; a kernel needs a file"
    )


HINTS = [
    ({"num_ctas": 3}, "num_ctas should be a power of two from 1 to 16, got 3"),
    ({"occupancy": 33}, "occupancy should be from 1 to 32, got 33"),
    ({"opt_level": 4}, "opt_level should be from 0 to 3, got 4"),
    ({"num_worker_warps": 6}, "num_worker_warps should be a power of two from 1 to 32, got 6"),
    ({"num_worker_warps": 64}, "num_worker_warps should be a power of two from 1 to 32, got 64"),
    ({"num_ctas": tl.ByTarget(default=1, sm_90=5)}, "num_ctas should be a power of two from 1 to 16, got 5"),
]


@pytest.mark.parametrize("hints, text", HINTS)
def test_wrong_hints(hints, text):
    assert error_of(tl.kernel(**hints), scaled._pyfunc) == f"ValueError: {text}"


def test_hints_change_no_results():
    kernel = scaled.replace_hints(num_ctas=2, occupancy=tl.ByTarget(default=2, sm_90=4), num_worker_warps=8)
    x, out = torch.randn(32), torch.zeros(32)
    kernel[8](x, out, 2.0, 4)
    torch.testing.assert_close(out, x * 2)
    assert kernel.compiled_count == 1 and isinstance(kernel, tl.kernel)
    assert error_of(tl.ByTarget, gpu=1) == "ValueError: ByTarget: 'gpu' is no target; write sm_90, sm_100, ..."
    assert repr(tl.ByTarget(default=1, sm_90=2)) == "ByTarget(default=1, sm_90=2)"
    assert tl.ByTarget(sm_90=2) == tl.ByTarget(sm_90=2) != tl.ByTarget(sm_90=4)


def test_functions_of_the_language_outside_of_kernels():
    only = "RuntimeError: Device functions can only be called from device code. "
    assert error_of(tl.load, 1).startswith(only + "load() is for a kernel, ")
    assert error_of(tl.int16, 1).startswith(only + "int16() is for a kernel, ")
    assert tl.cdiv(7, 2) == 4 and divmod(7, 2) == tl.divmod(7, 2)

    @tl.function
    def device_only(x):
        return x + 1

    @tl.function(host=True)
    def anywhere(x):
        return x * 3

    @tl.kernel
    def kernel(out):
        tl.store(out, 0, anywhere(device_only(1)))

    out = torch.zeros(1)
    kernel[1](out)
    assert out.item() == 6 == anywhere(2)
    assert error_of(device_only, 1) == (
        only + "device_only() is for a kernel; mark it with @function(host=True) to call it anywhere"
    )


def test_threads_launch_at_once():
    @tl.kernel
    def kernel(x, out, n: tl.Constant[int]):
        tl.store(out, tl.bid(0), tl.load(x, tl.bid(0), 8) * n)

    failures = []

    def run(seed):
        x = torch.full((64,), float(seed))
        for n in range(1, 9):
            out = torch.zeros(64)
            kernel[8](x, out, n)
            if not torch.equal(out, x * n):
                failures.append((seed, n))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and kernel.compiled_count == 8


def test_an_error_while_threads_wait_for_it():
    @tl.kernel
    def kernel(x):
        tl.load(x, 0, 8) + undefined  # noqa: F821

    seen = []

    def run():
        seen.append(error_of(kernel[1], torch.zeros(8)).splitlines()[0])

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["TileSyntaxError: Undefined variable undefined"] * 6


WITHOUT_MEMORY = (
    f"TypeError: {X}: a tensor without memory, as fake ones are, cannot be launched on; "
    "give it to kernel.check(...) or kernel.ir(...)",
    f"NotImplementedError: {X}: a tensor on meta has no memory; launch on one of cpu or cuda, or "
    "give it to kernel.check(...) or kernel.ir(...)",
)


def test_checks_without_memory():
    with FakeTensorMode():
        fake = torch.empty(32)
    meta = torch.empty(32, device="meta")
    for tensor in (fake, meta):
        scaled.check(tensor, tensor, 1.0, 4)
        assert error_of(scaled[1], tensor, tensor, 1.0, 4) == WITHOUT_MEMORY[tensor is meta]
        assert error_of(scaled.check, tensor.view(4, 8), tensor, 1.0, 4).startswith(
            "TileTypeError: Index size 1 does not match the array rank 2\n"
        )
    assert "load %0" in scaled.ir(meta, meta, 1.0, 4)
    assert scaled.ir(meta, meta, 1.0, 4, passes=True).startswith("// trace\n")


def test_annotations_as_strings_and_of_arrays():
    def body(x, out, n):
        tl.static_assert(n == 4 and x.shape[0] == 8)
        tl.store(out, 0, tl.load(x, 0, n))

    body.__annotations__ = {"n": "tl.Constant[int]", "x": Annotated[tl.Array, tl.ArrayAnnotation(static_shape_dims=(-1,))]}
    kernel = tl.kernel(body)
    x, out = torch.randn(8), torch.zeros(4)
    kernel[1](x, out, 4)
    torch.testing.assert_close(out, x[:4])
    with pytest.raises(tl.TileStaticAssertionError):
        kernel[1](torch.randn(9), out, 4)
    assert error_of(tl.ArrayAnnotation, index_dtype=tl.int8) == "ValueError: index_dtype must be int32 or int64, got int8"
    assert (
        error_of(tl.ArrayAnnotation, static_shape_dims=1) == "TypeError: static_shape_dims must be a tuple of integers, got int"
    )
    body.__annotations__["x"] = Annotated[tl.Array, tl.ArrayAnnotation(static_shape_dims=(7,))]
    assert error_of(tl.kernel(body)[1], x, out, 4) == (
        "ValueError: Invalid kernel argument #0, 'x' of body: static_shape_dims contains axis 7, out of range for an array of "
        "rank 1"
    )


def test_the_package_has_kernel():
    assert tile_ops.kernel is tl.kernel
    assert scaled.__name__ == "scaled" and repr(scaled) == "<kernel scaled>"


def test_tensors_that_require_gradients_are_used_as_they_are():
    x, out = torch.randn(4, requires_grad=True), torch.zeros(4)
    scaled[1](x, out, 2.0, 4)
    torch.testing.assert_close(out, x.detach() * 2)


def test_an_error_lists_the_calls_that_lead_to_it():
    def inner(t):
        return tl.exp(t) @ 3

    @tl.kernel
    def outer(x):
        inner(tl.load(x, 0, 8))

    first = outer._pyfunc.__code__.co_firstlineno
    text = error_of(outer[1], torch.zeros(8))
    assert text == (
        f"TileTypeError: matmul: expected 1 to 3 axes, got Tile[int32,()]\n"
        f"  {__file__}:{first + 2}:9, in outer\n"
        f"    inner(tl.load(x, 0, 8))\n"
        f"    ^^^^^^^^^^^^^^^^^^^^^^^\n"
        f"  {__file__}:{first - 2}:16, in inner\n"
        f"    return tl.exp(t) @ 3\n"
        f"           ^^^^^^^^^^^^^"
    )
