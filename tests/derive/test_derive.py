"""tile_ops.derive: gradients of one kernel, reports and errors."""

import pytest
import tile_ops
import tile_ops.language as tl
import torch

from derive import kernels


def test_gradients_are_written():
    x, w, grad = torch.randn(5, 12), torch.randn(12), torch.randn(5, 12)
    out, grad_x, grad_w = torch.empty(5, 12), torch.full((5, 12), 7.0), torch.full((12,), 7.0)
    tile_ops.derive(kernels.rms_norm_kernel)[5](x, w, out, 1e-5, 16, grad, grad_x, grad_w)
    x.requires_grad_(), w.requires_grad_()
    expected = torch.autograd.grad(torch.nn.functional.rms_norm(x, (12,), w, 1e-5), (x, w), grad)
    torch.testing.assert_close(grad_x, expected[0])
    torch.testing.assert_close(grad_w, expected[1])


def test_some_arrays():
    derivative = tile_ops.derive(kernels.rms_norm_kernel, wrt="w")
    arguments = torch.randn(5, 12), torch.randn(12), torch.empty(5, 12), 1e-5, 16
    grad, grad_w = torch.randn(5, 12), torch.empty(12)
    derivative[lambda x, *_: x.shape[0]](*arguments, grad, grad_w)
    x, w = arguments[:2]
    w.requires_grad_()
    torch.testing.assert_close(grad_w, torch.autograd.grad(torch.nn.functional.rms_norm(x, (12,), w, 1e-5), w, grad)[0])


def test_report_and_source():
    arguments = torch.randn(5, 12), torch.randn(12), torch.empty(5, 12), 1e-5, 16
    derivative = tile_ops.derive(kernels.rms_norm_kernel)
    assert derivative.report(*arguments) == {"x": "stored", "w": "summed over grid axis 0"}
    assert "def rms_norm_kernel_backward(x, w, out, eps: float, N: tl.Constant[int], grad_out" in derivative.source(*arguments)
    assert derivative.ir(*arguments).startswith("kernel rms_norm_kernel_backward(")
    assert repr(derivative) == "<derivative of rms_norm_kernel>"


def test_report_of_values_that_are_kept():
    x, out = torch.randn(6, 11), torch.empty(6, 11)
    derivative, ways = tile_ops.derive(kernels.recurrence_kernel), {"x": "stored", "a": "stored"}
    assert derivative.report(x, x, out, 4) == {**ways, "kept for each iteration": ["f32[4]"]}
    assert derivative.report(x, x, out, 4, grid=3) == {**ways, "kept for each iteration": ["f32[4]"]}
    x = torch.empty(1000, 2000)
    assert derivative.report(x, x, x, 4) == {**ways, "kept for each iteration": ["f32[4]"]}
    # 8 million bytes are more than 4 MiB and a sixteenth of the arrays.
    assert derivative.report(x, x, x, 4, grid=lambda *_: (500,)) == {**ways, "kept every 32 iterations": ["f32[4]"]}
    assert derivative.report(x, x, x, 4, grid=300) == {**ways, "kept for each iteration": ["f32[4]"]}


def test_online_softmax_keeps_nothing_for_each_iteration():
    q, out = torch.randn(1, 8, 8), torch.empty(1, 8, 8)
    derivative, arguments = tile_ops.derive(kernels.online_attention_kernel), (q, q, q, out, 0.5, 4, 4, 8)
    both = "summed over grid axis 0, or stored by a kernel that loops over grid axis 0"
    assert derivative.report(*arguments) == {"q": "stored", "k": both, "v": both}
    texts = derivative.ir(*arguments, transposed=True)
    assert "kernel online_attention_kernel_backward(" in texts
    assert texts.count("kernel online_attention_kernel_backward_transposed(") == 1
    assert derivative.ir(*arguments).count("kernel ") == 1


def test_elements_that_are_counted():
    x, y, out = torch.randn(7, 10), torch.randn(10), torch.empty(7, 10)
    report = tile_ops.derive(kernels.elements_kernel).report(x, y, out, 4, 8)
    assert report == {"x": "stored", "y": "summed over grid axis 0"}
    report = tile_ops.derive(kernels.stencil_kernel).report(y, torch.empty(10), 8)
    assert report == {"x": "added by atomics"}


def test_indices_have_no_gradient():
    weight, index, out = torch.randn(5, 4), torch.tensor([1, 3]), torch.empty(2, 4)
    derivative = tile_ops.derive(kernels.embedding_kernel)
    assert derivative.report(weight, index, out, 4) == {"weight": "summed over grid axis 0"}
    with pytest.raises(
        TypeError, match="'index' of embedding_kernel is an array of i64; only arrays of floats have a gradient"
    ):
        tile_ops.derive(kernels.embedding_kernel, wrt=["index"]).report(weight, index, out, 4)


def test_wrong_arguments():
    with pytest.raises(TypeError, match="is no kernel; make one with tile_ops.language.kernel"):
        tile_ops.derive(len)
    with pytest.raises(ValueError, match="rms_norm_kernel has no parameter 'z'; they are x, w, out, eps, N"):
        tile_ops.derive(kernels.rms_norm_kernel, wrt=["z"])
    arguments = torch.randn(5, 12), torch.randn(12), torch.empty(5, 12), 1e-5, 16
    with pytest.raises(TypeError, match="the gradient of out, the gradient of x, the gradient of w; got 5"):
        tile_ops.derive(kernels.rms_norm_kernel)[5](*arguments)
    with pytest.raises(TypeError, match="the gradient of x is torch.float64"):
        grad = torch.randn(5, 12)
        tile_ops.derive(kernels.rms_norm_kernel)[5](*arguments, grad, grad.double(), torch.empty(12))


def test_gradients_in_memory_of_other_arguments():
    x, out, grad = torch.randn(3, 8)
    with pytest.raises(ValueError, match="derivative of squares_kernel: the gradient of x shares memory with another argument"):
        tile_ops.derive(kernels.squares_kernel)[1](x, out, 8, grad, grad)


@tl.kernel
def counted_kernel(x, n, out, N: tl.Constant[int]):
    t = tl.load(x, (tl.bid(0),), (N,))
    for _ in range(tl.load(n, (0,), ())):
        t = t * t
    tl.store(out, (tl.bid(0),), t)


@tl.kernel
def bits_kernel(x, out, N: tl.Constant[int]):
    t = tl.load(x, (tl.bid(0),), (N,))
    tl.store(out, (tl.bid(0),), tl.bitcast(tl.bitcast(t, tl.int32) & 0x7FFFFFFF, tl.float32))


@tl.kernel
def in_place_kernel(x, N: tl.Constant[int]):
    tl.store(x, (tl.bid(0),), tl.load(x, (tl.bid(0),), (N,)) * 2.0)


@tl.kernel
def last_wins_kernel(x, out, N: tl.Constant[int]):
    for i in range(x.shape[0]):
        tl.store(out, (tl.bid(0),), tl.load(x, (i,), (N,)))


@tl.kernel
def shared_store_kernel(x, out, N: tl.Constant[int]):
    tl.store(out, (0,), tl.load(x, (tl.bid(0),), (N,)))


@tl.kernel
def twice_kernel(x, out, N: tl.Constant[int]):
    at = tl.bid(0) // 2 * N + tl.arange(N, dtype=tl.int32)
    tl.scatter(out, (at,), tl.gather(x, (at,)))


@tl.kernel
def magnitudes_kernel(x, out, N: tl.Constant[int]):
    def larger(a, b):
        return tl.bitcast((tl.bitcast(a, tl.int32) & 0x7FFFFFFF) | tl.bitcast(b, tl.int32), tl.float32)

    tl.store(out, (tl.bid(0),), tl.scan(tl.load(x, (tl.bid(0),), (N,)), 0, larger, 0.0))


@tl.kernel
def bytes_kernel(x, out, N: tl.Constant[int]):
    t = tl.load(x, (tl.bid(0),), (N,))
    tl.store(out, (tl.bid(0),), tl.unpack_from_bytes(tl.pack_to_bytes(t), tl.float32))


X, OUT = torch.rand(8), torch.empty(8)


@pytest.mark.parametrize(
    "kernel, arguments, text",
    [
        (bits_kernel, (X, OUT, 8), "bitcast: has no derivative; bits of a number do not change continuously; use arithmetic"),
        (bytes_kernel, (X, OUT, 8), "pack_to_bytes: has no derivative; bits of a number do not change continuously"),
        (last_wins_kernel, (X, OUT, 8), "store: has no derivative: iterations of a loop may store the same elements"),
        (shared_store_kernel, (X, OUT, 8), "store: has no derivative: blocks along axis 0 of the grid may store the same"),
        (
            twice_kernel,
            (X, OUT, 8),
            "scatter: has no derivative: its indices may name an element twice; count them by arange()",
        ),
        (magnitudes_kernel, (X, OUT, 8), "bitcast: has no derivative; bits of a number do not change continuously"),
    ],
)
def test_what_has_no_derivative(kernel, arguments, text):
    with pytest.raises(NotImplementedError) as raised:
        tile_ops.derive(kernel).report(*arguments)
    assert text in str(raised.value)
    assert "test_derive.py:" in str(raised.value)


def test_arrays_that_are_changed_in_place():
    with pytest.raises(NotImplementedError, match="load: has no derivative: it reads an array that the kernel writes"):
        tile_ops.derive(in_place_kernel).report(X, 8)


def test_iterations_that_depend_on_loaded_values():
    n, grad_x = torch.tensor([2]), torch.empty(8)
    derivative = tile_ops.derive(counted_kernel)
    assert derivative.report(X, n, OUT, 8) == {"x": "stored", "kept for some iterations": ["f32[8]"]}
    derivative[1](X, n, OUT, 8, torch.ones(8), grad_x)
    torch.testing.assert_close(grad_x, 4 * X**3)


@tl.kernel
def chunks_kernel(x, out, N: tl.Constant[int]):
    row = tl.bid(0)
    for k in range(tl.cdiv(x.shape[1], N)):
        t = tl.load(x, (row, k), (1, N))
        tl.store(out, (row, k), t * t)


@tl.kernel
def some_chunks_kernel(x, out, count: int, N: tl.Constant[int]):
    row = tl.bid(0)
    for k in range(count):
        t = tl.load(x, (row, k), (1, N))
        tl.store(out, (row, k), t * t)


@pytest.mark.parametrize(
    "kernel, grid, constants, rows, columns",
    [
        (chunks_kernel, 5, (8,), 5, 19),
        (chunks_kernel, 3, (8,), 3, 19),
        (some_chunks_kernel, 5, (2, 8), 5, 16),
        (some_chunks_kernel, 4, (3, 8), 4, 19),
    ],
)
def test_memory_that_holds_numbers_is_written_everywhere(kernel, grid, constants, rows, columns):
    x, grad = torch.randn(2, 5, 19)
    grad_x = torch.full((5, 19), float("nan"))
    tile_ops.derive(kernel)[grid](x, torch.empty(5, 19), *constants, grad, grad_x)
    expected = torch.zeros(5, 19)
    expected[:rows, :columns] = (2 * x * grad)[:rows, :columns]
    torch.testing.assert_close(grad_x, expected)


@tl.kernel
def positive_kernel(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)
    t, u = tl.load(x, (i,), (N,)), tl.load(y, (i,), (N,))
    tl.store(out, (i,), tl.where(u > 0, t, 0.0) + tl.floor(u))


def test_arrays_that_only_decide_have_gradients_of_zero():
    x, y, grad = torch.randn(3, 16)
    grad_x, grad_y = torch.full((2, 16), float("nan"))
    tile_ops.derive(positive_kernel)[2](x, y, torch.empty(16), 8, grad, grad_x, grad_y)
    torch.testing.assert_close(grad_x, torch.where(y > 0, grad, 0))
    assert not grad_y.any()


def test_rows_that_are_dealt_to_blocks():
    x, grad = torch.randn(2, 7, 13)
    grad_x = torch.full((7, 13), float("nan"))
    tile_ops.derive(kernels.dealt_softmax_kernel)[3](x, torch.empty(7, 13), 16, grad, grad_x)
    x.requires_grad_()
    torch.testing.assert_close(grad_x, torch.autograd.grad(x.softmax(1), x, grad)[0])


@tl.kernel
def detached_kernel(x, out, N: tl.Constant[int]):
    t = tl.load(x, (tl.bid(0),), (N,))
    tl.store(out, (tl.bid(0),), tl.detach(t) * t + t.detach() + tl.detach(2.0))


def test_detached_tiles_are_constants():
    x, out, grad_x = torch.randn(13), torch.empty(13), torch.empty(13)
    detached_kernel[2](x, out, 8)
    torch.testing.assert_close(out, x * x + x + 2)
    tile_ops.derive(detached_kernel)[2](x, out, 8, torch.ones(13), grad_x)
    torch.testing.assert_close(grad_x, x)


@tl.kernel
def doubled_kernel(x, out, N: tl.Constant[int]):
    tl.store(out, tl.bid(0), tl.load(x, tl.bid(0), N) * 2.0)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"of": "x"}, "derive: 'x' is no array of floats that doubled_kernel writes; `of` names results: out"),
        ({"of": "N"}, "derive: 'N' is no array of floats that doubled_kernel writes; `of` names results: out"),
        ({"wrt": "N"}, "derive: 'N' of doubled_kernel is no array; only arrays of floats have a gradient"),
        ({"wrt": "out"}, "derive: 'out' of doubled_kernel is written by it; wrt names arrays that it only reads"),
    ],
    ids=str,
)
def test_names_of_other_parameters(options, text):
    x, out = torch.randn(8), torch.empty(8)
    with pytest.raises(TypeError) as error:
        tile_ops.derive(doubled_kernel, **options)[1](x, out, 8, torch.ones(8), torch.empty(8))
    assert str(error.value) == text
