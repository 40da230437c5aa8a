"""Tests tile::_run_kernel, launches of Tile IR text: arrays of known and of run-time sizes, far arrays, and errors."""

import pytest
import tile_ops.language as tl
import torch
from raised import error_of
from threads import in_threads

run = torch.ops.tile._run_kernel


@tl.kernel
def add(x, y, out):
    i, j = tl.bid(1), tl.bid(0)
    tl.store(out, (i, j), tl.load(x, (i, j), (4, 16)) + tl.load(y, (i, j), (4, 16)))


@tl.kernel
def scale(x, out, factor):
    i = tl.bid(0)
    tl.store(out, i, tl.load(x, i, 16) * factor)


@tl.kernel
def last(x, out):
    """Writes the extent of x, and its last element."""
    count = x.shape[0]
    tl.store(out, (0,), tl.astype(count, tl.float32))
    tl.store(out, (1,), tl.astype(tl.load(x, (count - 1,), ()), tl.float32))


def text(kernel, *arguments):
    return kernel._ir(arguments, False)


def add_text(dtype=torch.float32):
    return text(add, *(torch.empty(8, 8, dtype=dtype) for _ in range(3)))


KNOWN = "array 0 0 {0} {1} {1} 1\narray 1 0 {0} {1} {1} 1\narray 2 0 {0} {1} {1} 1\ngrid {3} {2} 1"


def known(rows, columns):
    return KNOWN.format(rows, columns, -(-rows // 4), -(-columns // 16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape", [(8, 8), (1, 1), (5, 37), (33, 1), (64, 128)])
def test_known_sizes(shape, dtype, device):
    x, y = (torch.randn(2, *shape, device=device) * 100).to(dtype)
    out = torch.empty_like(x)
    assert run(add_text(dtype), "", known(*shape), [x, y], [out], []) is None
    assert torch.equal(out, x + y)


RUN_TIME = "array 0 0 n0 n1 n1 1\narray 1 n2 n0 1 n1 n0\narray 2 0 n0 n1 n1 1\ngrid n3 n4 1"


@pytest.mark.parametrize("shape", [(8, 8), (1, 1), (5, 37), (33, 1), (0, 7), (64, 128)])
def test_run_time_sizes_and_offsets(shape, device):
    rows, columns = shape
    x, flat = torch.randn(shape, device=device), torch.randn(3 + rows * columns, device=device)
    y, out = flat[3:].view(columns, rows).t(), torch.empty_like(x)
    numbers = [rows, columns, 3, -(-columns // 16), -(-rows // 4)]
    run(add_text(), "", RUN_TIME, [x, flat], [out], numbers)
    assert torch.equal(out, x + y)


def test_in_place(device):
    x = torch.randn(5, 37, device=device)
    expected = x + x
    run(add_text(), "", known(5, 37).replace("array 1", "array 0").replace("array 2", "array 0"), [], [x], [])
    assert torch.equal(x, expected)


def test_numbers_of_the_kernel(device):
    x = torch.arange(20, device=device, dtype=torch.int32)
    out = torch.empty_like(x)
    kernel = text(scale, x, out, 1)
    run(kernel, "", "array 0 0 20 1\narray 1 0 20 1\nnumber -3\ngrid 2 1 1", [x], [out], [])
    assert torch.equal(out, x * -3)
    run(kernel, "", "array 0 0 20 1\narray 1 0 20 1\nnumber n0\ngrid 2 1 1", [x], [out], [7])
    assert torch.equal(out, x * 7)


def test_arrays_whose_elements_are_far_apart():
    stride = 2**31 + 8
    out = torch.empty(2)

    def text_of(by):
        return text(last, torch.empty_strided((2,), (by,), dtype=torch.int8, device="meta"), out)

    layout = "array 0 0 n0 n1\narray 1 0 2 1\ngrid 1 1 1"
    x = torch.arange(9, dtype=torch.int8)
    run(text_of(1), text_of(stride), layout, [x], [out], [5, 2])
    assert out.tolist() == [5, 8]
    x = torch.empty(stride + 1, dtype=torch.int8)  # of which two pages are touched
    x[stride] = 9
    run(text_of(1), text_of(stride), layout, [x], [out], [2, stride])
    assert out.tolist() == [2, 9]


def test_threads_share_a_kernel(device):
    kernel = add_text()

    def repeat(n):
        for i in range(50):
            shape = (n + 1, 8 * (i % 5) + 1)
            x, y = torch.randn(2, *shape, device=device)
            out = torch.empty_like(x)
            numbers = [*shape, 0, -(-shape[1] // 16), -(-shape[0] // 4)]
            run(kernel, "", RUN_TIME.replace("n0 1 n1 n0", "n0 n1 n1 1"), [x, y], [out], numbers)
            assert torch.equal(out, x + y)

    in_threads(repeat, [(n,) for n in range(4)])


def test_a_fake_call_does_nothing():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(5, 37)
        run("no kernel", "", "", [x, x], [torch.empty_like(x)], [])


LINE = "write 'array TENSOR OFFSET SIZE STRIDE ...', 'number VALUE' or, at the end, 'grid X Y Z'"


@pytest.mark.parametrize(
    "layout, message",
    [
        ("", "a layout has a line for each of the 3 parameters, and one for the grid"),
        ("grid 1 1 1", "a layout has a line for each of the 3 parameters, and one for the grid"),
        (known(5, 37).replace("grid 3 2 1", ""), "a layout has a line for each of the 3 parameters, and one for the grid"),
        (known(5, 37).replace("grid", "grids"), f"'grids 3 2 1' is no line of a layout; {LINE}"),
        (known(5, 37).replace("grid 3", "grid"), f"'grid 2 1' is no line of a layout; {LINE}"),
        (known(5, 37) + "\ngrid 1 1 1", f"'grid 1 1 1' is no line of a layout; {LINE}"),
        (known(5, 37).replace("array 1 0", "number"), f"'number 5 37 37 1' is no line of a layout; {LINE}"),
        (known(5, 37).replace("array 1 0 5", "array 1 0"), f"'array 1 0 37 37 1' is no line of a layout; {LINE}"),
        (known(5, 37).replace("array 1", "array x"), f"'array x 0 5 37 37 1' is no line of a layout; {LINE}"),
        (known(5, 37).replace("array 1", "array -1"), "entry 1: -1 is no index of a tensor"),
        (
            known(5, 37).replace("array 2", "array 3"),
            "nothing in the layout refers to tensor 2; number them from 0 without gaps",
        ),
        (known(5, 37).replace("grid 3", "grid m"), f"'grid m 2 1' is no line of a layout; {LINE}"),
        (known(5, 37).replace("grid 3", "grid nx"), "'nx' is no run-time number; write n0, n1, ..."),
        (known(5, 37).replace("grid 3", "grid n0"), "takes 3 tensors and 1 numbers but is given 3 and 0"),
        (known(5, 38), "an array of sizes (5, 38), strides (38, 1) and offset 0 does not lie within the memory of tensor 0"),
        (
            known(5, 37).replace("array 1 0 5 37 37 1", "array 1 0 5 37"),
            "takes (array<f32,2>, array<f32,2>, array<f32,2>) but is given (array<f32,2>, array<f32,1>, array<f32,2>); "
            "give one argument of its type for each parameter",
        ),
    ],
)
def test_errors_of_layouts(layout, message):
    x = torch.randn(5, 37)
    found = error_of(run, add_text(), "", layout, [x, x], [torch.empty_like(x)], [])
    assert found.splitlines()[0].partition(": ")[2] == f"tile::_run_kernel: launch of add: {message}"


def test_other_errors():
    x, out = torch.randn(5, 37), torch.empty(5, 37)
    layout = known(5, 37)

    def error(*arguments):
        return error_of(run, *arguments).splitlines()[0]

    assert error("kernel", "", layout, [x, x], [out], []).startswith("ValueError: tile::_run_kernel: ")
    assert error(add_text(), "", layout, [x], [out], []) == (
        "ValueError: tile::_run_kernel: launch of add: takes 3 tensors and 0 numbers but is given 2 and 0"
    )
    assert error(add_text(), "", layout, [x, x.double()], [out], []).startswith(
        "TypeError: tile::_run_kernel: launch of add: takes (array<f32,2>, array<f32,2>, array<f32,2>) but is given"
    )
    assert error(add_text(), text(last, x[0], out[0]), layout, [x, x], [out], []) == (
        "ValueError: tile::_run_kernel: launch of add: the kernel of far arrays has other parameters"
    )
    assert error(add_text(), "", layout, [x, x, out], [], []) == (
        "ValueError: tile::_run_kernel: launch of add: the kernel writes argument 2, which is not among those that it may write"
    )
    assert error(add_text(), "", layout, [x, x + 1j], [out], []) == (
        "TypeError: tile::_run_kernel: launch of add: argument 1: a kernel cannot take a ComplexFloat tensor; convert it to bool, an "
        "integer or a real floating dtype (complex: torch.view_as_real)"
    )
