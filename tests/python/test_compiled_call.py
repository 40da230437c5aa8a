"""Tests CompiledCall, the launches of generated code: arrays of known and of run-time sizes, numbers, grids and errors."""

import gc
import threading
import weakref

import emulate_operators
import pytest
import tile_ops.language as tl
import torch
from raised import error_of
from threads import in_threads
from tile_ops import _C


@tl.kernel
def add(x, y, out):
    i, j = tl.bid(1), tl.bid(0)
    tl.store(out, (i, j), tl.load(x, (i, j), (4, 16)) + tl.load(y, (i, j), (4, 16)))


@tl.kernel
def scale(x, out, factor, count, far: tl.ScalarInt64):
    i = tl.bid(0)
    tl.store(out, i, tl.load(x, i, 16) * factor + count + tl.astype(far, tl.float32) * 2.0**-33)


@tl.kernel
def sizes(x, out):
    for axis in tl.static_iter(range(x.ndim)):
        tl.store(out, (axis,), x.shape[axis])


def array(tensor, view, offset=0):
    """Returns the entry of a view; its offset is counted from the tensor's first element."""
    return ("array", tensor, offset, tuple(view.shape), tuple(view.stride()))


def grid_of(rows, columns):
    return (-(-columns // 16), -(-rows // 4), 1)


def add_of(x, y, out):
    return _C.CompiledCall(add, (array(0, x), array(1, y), array(2, out), grid_of(*out.shape)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("shape", [(8, 8), (1, 1), (5, 37), (33, 1), (64, 128)])
def test_known_arrays(shape, dtype, device):
    x, y = (torch.randn(2, *shape, device=device) * 100).to(dtype)
    call = add_of(x, y, out := torch.empty_like(x))
    assert call(x, y, out) is None
    assert torch.equal(out, x + y)
    call(x, out, out)  # in place
    assert torch.equal(out, x + (x + y))


def test_axes_of_stride_zero_and_permuted_axes(device):
    x, y = torch.randn(7, 1, device=device), torch.randn(40, 7, device=device)
    out = torch.empty(7, 40, device=device)
    call = add_of(x.expand(7, 40), y.t(), out)
    call(x, y, out)
    assert torch.equal(out, x + y.t())


def test_offsets_count_from_the_tensor(device):
    memory, out = torch.randn(2000, device=device), torch.zeros(1000, device=device)
    tensor = memory[3:]  # its own offset comes on top
    entries = [("array", 0, at, (5, 37), (37, 1)) for at in (1, 250)]
    call = _C.CompiledCall(add, (*entries, ("array", 1, 11, (5, 37), (40, 1)), grid_of(5, 37)))
    call(tensor, out)
    expected = torch.zeros_like(out)
    x, y = (tensor.as_strided((5, 37), (37, 1), 3 + at) for at in (1, 250))
    expected.as_strided((5, 37), (40, 1), 11).copy_(x + y)
    assert torch.equal(out, expected)


def test_sizes_and_strides_of_run_time(device):
    entries = [("array", at, "n2", ("n0", "n1"), ("n3", 1)) for at in range(3)]
    call = _C.CompiledCall(add, (*entries, ("n4", "n5", 1)))
    for rows, columns in ((8, 8), (1, 1), (33, 5), (4, 100), (0, 8), (3, 0)):
        for gap, offset in ((0, 0), (3, 2)):
            x, y, out = torch.randn(3, offset + rows * (columns + gap), device=device)
            views = [
                each.as_strided((rows, columns), (columns + gap, 1), each.storage_offset() + offset) for each in (x, y, out)
            ]
            expected = views[0] + views[1]
            x_columns, y_rows, _ = grid_of(rows, columns)
            call(x, y, out, rows, columns, offset, columns + gap, x_columns, y_rows)
            assert torch.equal(views[2], expected)


def test_one_kernel_for_all_sizes():
    @tl.kernel
    def twice(x, out):
        i = tl.bid(0)
        tl.store(out, i, tl.load(x, i, 16) * 2)

    call = _C.CompiledCall(twice, (("array", 0, 0, ("n0",), (1,)), ("array", 1, 0, ("n0",), (1,)), ("n1", 1, 1)))
    for size in (0, 1, 5, 16, 33):
        x, out = torch.randn(2, size, device="cpu")
        call(x, out, size, -(-size // 16))
        assert torch.equal(out, x * 2)
        twice[-(-size // 16)](x, out)
    assert twice.compiled_count == 1  # kernel[grid] has the same one


def test_numbers(device):
    x, out = torch.randn(2, 40, device=device)
    entries = array(0, x), array(1, out)
    far = 2**33
    known = _C.CompiledCall(scale, (*entries, ("float", 0.5), ("number", 3), ("number", far), (3, 1, 1)))
    known(x, out)
    assert torch.equal(out, x * 0.5 + 3 + 1)
    given = _C.CompiledCall(scale, (*entries, ("float", "n2"), ("number", "n0"), ("number", "n1"), (3, 1, 1)))
    for factor, count in ((0.25, 7), (2, -1)):
        given(x, out, count, far, factor)
        assert torch.equal(out, x * factor + count + 1)


def test_rank_zero(device):
    @tl.kernel
    def one(x, out):
        tl.store(out, (), tl.load(x, (), ()) + 1)

    x, out = torch.randn((), device=device), torch.empty((), device=device)
    _C.CompiledCall(one, (("array", 0, 0, (), ()), ("array", 1, 0, (), ()), (1, 1, 1)))(x, out)
    assert torch.equal(out, x + 1)


def test_dtypes_may_change_between_calls(device):
    x = torch.arange(64, device=device).view(8, 8)
    call = add_of(x, x, x)
    for dtype in (torch.float32, torch.int32, torch.float32, torch.float64):
        given = x.to(dtype)
        call(given, given, out := torch.empty_like(given))
        assert torch.equal(out, given * 2)
    mixed = x.to(torch.float32)
    call(mixed, x.to(torch.float32), mixed)
    assert torch.equal(mixed, (x * 2).float())


def test_far_arrays_have_int64_extents():
    x = torch.full((1, 1), 3.0, device="cpu")
    out = torch.empty(2, dtype=torch.int64, device="cpu")
    call = _C.CompiledCall(sizes, (("array", 0, 0, ("n0", "n1"), (0, 0)), array(1, out), (1, 1, 1)))
    for shape in ((3, 5), (2**20, 2**20), (2**40, 2), (1, 1)):
        call(x, out, *shape)
        assert tuple(out.tolist()) == shape


def test_an_empty_grid_launches_nothing(device):
    @tl.kernel
    def wrong(x):
        tl.no_such_function(x)

    x = torch.zeros(4, device=device)
    call = _C.CompiledCall(wrong, (array(0, x), ("n0", 1, 1)))
    call(x, 0)
    assert wrong.compiled_count == 0
    assert "no_such_function" in error_of(call, x, 1)
    assert error_of(call, x, -1).endswith("the grid is (-1, 1, 1); an axis must be at least 0")


more = 1


def test_a_kernel_whose_constants_change_is_compiled_again(device, monkeypatch):
    @tl.kernel
    def plus(x, out):
        tl.store(out, 0, tl.load(x, 0, 16) + more)

    x, out = torch.randn(2, 16, device=device)
    call = _C.CompiledCall(plus, (array(0, x), array(1, out), (1, 1, 1)))
    for value in (1, 2, 1):
        monkeypatch.setitem(globals(), "more", value)
        call(x, out)
        assert torch.equal(out, x + value)


def test_threads_share_a_call(device):
    x = torch.randn(4, 300, 128, device=device)
    y, out = torch.randn(300, 128, device=device), torch.empty(4, 300, 128, device=device)
    call = add_of(x[0], y, out[0])
    start = threading.Barrier(4)

    def work(at):
        start.wait()
        for _ in range(50):
            call(x[at], y, out[at])

    in_threads(work, [(at,) for at in range(4)], start)
    assert torch.equal(out, x + y)


def test_threads_share_a_call_with_run_time_sizes(device):
    entries = [("array", at, 0, ("n0", "n1"), ("n1", 1)) for at in range(3)]
    call = _C.CompiledCall(add, (*entries, ("n2", "n3", 1)))
    start = threading.Barrier(4)

    def work(rows):
        x, y, out = torch.randn(3, rows, 50, device=device)
        start.wait()
        for _ in range(200):
            call(x, y, out, rows, 50, *grid_of(rows, 50)[:2])
            assert torch.equal(out, x + y)

    in_threads(work, [(rows,) for rows in (1, 7, 64, 129)], start)


def test_autograd_does_not_see_writes(device):
    x, y = torch.randn(2, 8, 8, device=device)
    out = torch.empty(8, 8, device=device)
    call, version = add_of(x, y, out), out._version
    call(x.requires_grad_(), y, out)
    assert out._version == version and not out.requires_grad


@pytest.mark.at_home
def test_on_the_emulator():
    emulation = emulate_operators.Emulation()
    x, y = torch.randn(33, 40), torch.randn(40)
    known = add_of(x, y.expand(33, 40), torch.empty(33, 40))
    entries = ("array", 0, 0, ("n0", 40), (40, 1)), ("array", 1, 0, ("n0", 40), (0, 1)), ("array", 2, "n1", ("n0", 40), (41, 1))
    dynamic = _C.CompiledCall(add, (*entries, (3, "n2", 1)))
    for call, numbers, offset, stride in ((known, (), 0, 40), (dynamic, (33, 1, 9), 1, 41), (dynamic, (2, 0, 1), 0, 41)):
        rows = numbers[0] if numbers else 33
        out = torch.zeros(33 * 41 + 1)
        there = [emulate_operators.to_gpu(each) for each in (x, y, out)]
        emulation.call(lambda: call(*there, *numbers))
        expected = torch.zeros_like(out)
        expected.as_strided((rows, 40), (stride, 1), offset).copy_((x + y)[:rows])
        assert torch.equal(emulate_operators.to_host(there[2]), expected)


def test_a_cycle_through_the_kernel_is_collected():
    kernel = tl.kernel(add._pyfunc)
    kernel.call = _C.CompiledCall(kernel, (*[("array", at, 0, (8, 8), (8, 1)) for at in range(3)], (1, 2, 1)))
    assert kernel.call.kernel is kernel
    gone = weakref.ref(kernel)
    del kernel
    gc.collect()
    assert gone() is None


X, OUT = torch.zeros(8, 8, device="cpu"), torch.zeros(8, 8, device="cpu")
GOOD = tuple(("array", at, 0, (8, 8), (8, 1)) for at in range(3))
ENTRY = 'write ("array", tensor, offset, sizes, strides), ("number", value) or ("float", value)'


@tl.kernel
def with_a_constant(x, N: tl.Constant[int]):
    pass


@tl.kernel
def with_a_wide_number(n: tl.ScalarInt64):
    pass


@pytest.mark.parametrize(
    "layout, text",
    [
        ([], "ValueError: @a layout is a tuple of an entry for each of the 3 parameters, and the grid"),
        (GOOD, "ValueError: @a layout is a tuple of an entry for each of the 3 parameters, and the grid"),
        ((*GOOD, (1, 1)), "ValueError: @the last entry of a layout is the grid, three numbers"),
        ((*GOOD, 1), "ValueError: @the last entry of a layout is the grid, three numbers"),
        ((*GOOD, (1, 1, 1.5)), "TypeError: @1.5 is no integer"),
        ((*GOOD, (1, 1, "m0")), "ValueError: @'m0' is no run-time number; write n0, n1, ..."),
        ((*GOOD, (1, 1, "n")), "ValueError: @'n' is no run-time number; write n0, n1, ..."),
        ((*GOOD, (1, 1, "n-1")), "ValueError: @'n-1' is no run-time number; write n0, n1, ..."),
        ((*GOOD, (1, 1, "")), "ValueError: @'' is no run-time number; write n0, n1, ..."),
        (
            (*GOOD, (1, 1, "n99999999999999999999")),
            "ValueError: @'n99999999999999999999' is no run-time number; write n0, n1, ...",
        ),
        (
            (*GOOD, (1, 1, "n1")),
            "ValueError: @nothing in the layout refers to the run-time number n0; number them from 0 without gaps",
        ),
        (
            (GOOD[1], GOOD[1], GOOD[2], (1, 1, 1)),
            "ValueError: @nothing in the layout refers to tensor 0; number them from 0 without gaps",
        ),
        ((("text", 1), *GOOD[1:], (1, 1, 1)), f"ValueError: @entry 0: {ENTRY}"),
        ((("array", 0, 0, (8, 8)), *GOOD[1:], (1, 1, 1)), f"ValueError: @entry 0: {ENTRY}"),
        ((GOOD[0], None, GOOD[2], (1, 1, 1)), f"ValueError: @entry 1: {ENTRY}"),
        ((GOOD[0], (), GOOD[2], (1, 1, 1)), f"ValueError: @entry 1: {ENTRY}"),
        ((("array", -1, 0, (8,), (1,)), *GOOD[1:], (1, 1, 1)), "ValueError: @entry 0: -1 is no index of a tensor"),
        ((("array", 0, 0, (8,), ()), *GOOD[1:], (1, 1, 1)), "ValueError: @entry 0: sizes and strides are tuples of one length"),
        ((("array", 0, 0, 8, 1), *GOOD[1:], (1, 1, 1)), "ValueError: @entry 0: sizes and strides are tuples of one length"),
        (
            (("array", 0, 0, (1,) * 9, (1,) * 9), *GOOD[1:], (1, 1, 1)),
            "ValueError: @entry 0: the array has rank 9; the most is 8",
        ),
        (
            (("array", 0, 0, ("n0", 8), (8, 1)), GOOD[1], ("float", "n0"), (1, 1, 1)),
            "ValueError: @n0 is a float in one entry and an integer in another",
        ),
    ],
)
def test_errors_of_layouts(layout, text):
    assert error_of(_C.CompiledCall, add, layout) == text.replace("@", "CompiledCall of add: ")


def test_errors_of_kernels():
    assert error_of(_C.CompiledCall, 3, ()) == "TypeError: CompiledCall: takes a kernel, not an object of type int"
    assert error_of(_C.CompiledCall, with_a_constant, (GOOD[0], ("number", 3), (1, 1, 1))) == (
        "TypeError: CompiledCall of with_a_constant: entry 1: the kernel's parameter is a constant or a structure; write the "
        "constant into the kernel"
    )
    assert error_of(_C.CompiledCall, with_a_wide_number, (("float", 1.0), (1, 1, 1))) == (
        "TypeError: CompiledCall of with_a_wide_number: entry 0: a float for a parameter that is annotated as an integer"
    )


def with_entry(entry, grid=(1, 2, 1)):
    return _C.CompiledCall(add, (entry, *GOOD[1:], grid))


OUTSIDE = "ValueError: @an array of sizes ({}), strides ({}) and offset {} does not lie within the memory of tensor 0"


@pytest.mark.parametrize(
    "call, arguments, text",
    [
        (
            _C.CompiledCall(add, (*GOOD, (1, 2, 1))),
            (X, X),
            "TypeError: @takes 3 tensors and 0 numbers but is given 2 arguments",
        ),
        (
            _C.CompiledCall(add, (*GOOD, (1, "n0", 1))),
            (X, X, OUT),
            "TypeError: @takes 3 tensors and 1 numbers but is given 3 arguments",
        ),
        (_C.CompiledCall(add, (*GOOD, (1, "n0", 1))), (X, X, OUT, 1.5), "TypeError: @1.5 is no integer"),
        (
            _C.CompiledCall(add, (*GOOD, (1, "n0", 1))),
            (X, X, OUT, 2**63),
            "ValueError: @9223372036854775808 is out of range of int64",
        ),
        (with_entry(GOOD[0]), (X, 3, OUT), "TypeError: @argument 1 is of type int; pass a tensor"),
        (
            with_entry(GOOD[0]),
            (X.to_sparse(), X, OUT),
            "TypeError: @argument 0: a kernel cannot take a tensor of layout Sparse; convert it with to_dense()",
        ),
        (
            with_entry(GOOD[0]),
            (torch.zeros(8, 8, device="meta"), X, OUT),
            "NotImplementedError: @argument 0: a kernel cannot take a tensor on meta; move it to cpu or cuda",
        ),
        (
            with_entry(GOOD[0]),
            (torch._neg_view(X), X, OUT),
            "NotImplementedError: @argument 0: a kernel cannot take a tensor with a lazy negation; call resolve_neg() first",
        ),
        (
            with_entry(GOOD[0]),
            (X.to(torch.complex64), X, OUT),
            "TypeError: @argument 0: a kernel cannot take a ComplexFloat tensor; convert it to bool, an integer or a real floating dtype "
            "(complex: torch.view_as_real)",
        ),
        (with_entry(GOOD[0]), (X[:7], X[:7], X[:7].clone()), OUTSIDE.format("8, 8", "8, 1", 0).replace("tensor 0", "tensor 2")),
        (with_entry(("array", 0, 1, (8, 8), (8, 1))), (X, X, OUT), OUTSIDE.format("8, 8", "8, 1", 1)),
        (with_entry(("array", 0, -1, (8, 8), (8, 1))), (X, X, OUT), OUTSIDE.format("8, 8", "8, 1", -1)),
        (with_entry(("array", 0, 0, (8, 8), (8, 1))), (X[:0], X, OUT), OUTSIDE.format("8, 8", "8, 1", 0)),
        (with_entry(("array", 0, 8, (8, 8), (-8, 1))), (X, X, OUT), OUTSIDE.format("8, 8", "-8, 1", 8)),
        (with_entry(("array", 0, 2**63 - 1, (1,), (1,))), (X[1:], X, OUT), OUTSIDE.format("1", "1", 2**63 - 1)),
        (with_entry(("array", 0, 0, (2**62, 9), (2**62, 1))), (X, X, OUT), OUTSIDE.format(f"{2**62}, 9", f"{2**62}, 1", 0)),
        (
            with_entry(("array", 0, 0, ("n0", 8), (8, 1))),
            (X, X, OUT, -1),
            "ValueError: @the size of an array is -1 along axis 0",
        ),
    ],
)
def test_errors_of_calls(call, arguments, text):
    assert error_of(call, *arguments) == text.replace("@", "CompiledCall of add: ")


def test_a_call_goes_on_after_an_error():
    call = with_entry(GOOD[0])
    for _ in range(2):
        call(X + 1, X + 2, OUT)
        assert torch.equal(OUT, X + 3)
        with pytest.raises(TypeError):
            call(X.to(torch.complex64), X, OUT)
        with pytest.raises(ValueError):
            call(X, X[:0], OUT)


def test_errors_of_numbers():
    out = torch.zeros(16, device="cpu")
    entries = array(0, out), array(0, out), ("float", "n0"), ("number", "n1"), ("number", 0)
    call = _C.CompiledCall(scale, (*entries, (1, 1, 1)))
    assert error_of(call, out, 1.0, 2**31) == (
        "ValueError: CompiledCall of scale: 2147483648 is out of range of int32; annotate the parameter with ScalarInt64"
    )
    assert error_of(call, out, "text", 1) == "TypeError: CompiledCall of scale: 'text' is no number"
    assert error_of(lambda: call(out, 1.0, n=1)) == "TypeError: CompiledCall: takes no named arguments"


def test_subclasses_of_tensors_are_refused():
    class Subclass(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise AssertionError

    wrapper = torch.Tensor._make_wrapper_subclass(Subclass, (8, 8))
    assert error_of(with_entry(GOOD[0]), wrapper, X, OUT) == (
        "TypeError: CompiledCall of add: argument 0 is a tensor of a subclass of torch.Tensor; pass the tensor that it holds"
    )


def test_errors_of_the_source_name_its_line():
    @tl.kernel
    def wrong(x):
        tl.store(x, 0, 0, 0, 0)

    call = _C.CompiledCall(wrong, (array(0, X), (1, 1, 1)))
    text = error_of(call, X)
    assert "test_compiled_call.py" in text and "store" in text
    assert error_of(call, X) == text


@pytest.mark.at_home
def test_arrays_on_two_devices():
    emulation = emulate_operators.Emulation()
    there = emulate_operators.to_gpu(X)
    for tensors in ((X, there, there), (there, there, OUT)):
        text = error_of(emulation.call, lambda: with_entry(GOOD[0])(*tensors))
        assert text.endswith("launch of add: its arrays are on different devices; move them to one")


def test_misaligned_memory():
    inside = torch.frombuffer(bytearray(8 * 8 * 4 + 1), dtype=torch.float32, offset=1)
    assert "which is not a multiple of the 4 bytes of f32; copy it first" in error_of(with_entry(GOOD[0]), X, X, inside)
