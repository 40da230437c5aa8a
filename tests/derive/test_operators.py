"""grad="auto": strides, sizes, shared memory, transforms of torch, and what is refused."""

import pytest
import tile_ops
import tile_ops.language as tl
import torch

from derive import kernels
from derive.kernels import embedding, layer_norm, polynomial, rms_norm, softmax, statistics
from derive.test_gradients import gradients_of


def reference_of(operator):
    return kernels.CASES[operator.__name__].reference


def compare(operator, arguments):
    results, gradients = gradients_of(operator, arguments)
    expected_results, expected = gradients_of(reference_of(operator), arguments)
    for ours, reference in zip((*results, *gradients), (*expected_results, *expected)):
        torch.testing.assert_close(ours, reference)


def random(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (0, 9), (4, 0)])
def test_sizes_of_zero_and_one(shape):
    compare(rms_norm, (random(*shape), random(shape[1]), 1e-5))


@pytest.mark.parametrize(
    "change",
    [lambda x: x.t().contiguous().t(), lambda x: x[:, ::2], lambda x: x[1:, 1:], lambda x: x[:1].expand(4, x.shape[1])],
)
def test_strided_arguments(change):
    compare(softmax, (change(random(5, 14)),))


def test_arguments_that_run_reshapes_with_a_copy():
    def run(x, out):
        kernels.swish_kernel[tl.cdiv(x.numel(), 8)](x.reshape(-1), out.view(-1), 8)

    flat = tile_ops.op(
        "derived::flat(Tensor x) -> Tensor", outputs=lambda x: torch.empty(x.shape, dtype=x.dtype, device=x.device), grad="auto"
    )(run)
    for x in (random(5, 14).t(), random(5, 28)[:, ::2]):
        (ours,) = torch.autograd.grad(flat(x).pow(2).sum(), x)
        torch.testing.assert_close(ours, torch.autograd.grad(torch.nn.functional.silu(x).pow(2).sum(), x)[0])


def test_expanded_incoming_gradients():
    x = random(3, 5)
    softmax(x).sum(0, keepdim=True).pow(2).sum().backward()
    expected = random(3, 5)
    expected.data.copy_(x.data)
    expected.softmax(1).sum(0, keepdim=True).pow(2).sum().backward()
    torch.testing.assert_close(x.grad, expected.grad)


def test_one_tensor_as_two_arguments():
    x = random(20)
    (ours,) = torch.autograd.grad(polynomial(x, x, 2.0).sum(), x)
    (reference,) = torch.autograd.grad(kernels.polynomial_reference(x, x, 2.0).sum(), x)
    torch.testing.assert_close(ours, reference)


def test_parts_of_one_tensor():
    x = random(2, 20)
    (ours,) = torch.autograd.grad(polynomial(x[0], x[1], 2.0).sum(), x)
    (reference,) = torch.autograd.grad(kernels.polynomial_reference(x[0], x[1], 2.0).sum(), x)
    torch.testing.assert_close(ours, reference)


def test_only_some_gradients_are_wanted():
    x, w, b = random(3, 7), random(7), torch.randn(7, dtype=torch.float64)
    out = layer_norm(x.detach(), w, b, 1e-5)
    (grad_w,) = torch.autograd.grad(out.sum(), w)
    expected = torch.nn.functional.layer_norm(x.detach(), (7,), w, b)
    torch.testing.assert_close(grad_w, torch.autograd.grad(expected.sum(), w)[0])


def test_a_missing_optional_argument():
    x, w = random(3, 7), random(7)
    out, expected = layer_norm(x, w, None, 1e-5), torch.nn.functional.layer_norm(x, (7,), w, None)
    for ours, reference in zip(torch.autograd.grad(out.sum(), (x, w)), torch.autograd.grad(expected.sum(), (x, w))):
        torch.testing.assert_close(ours, reference)


def test_a_result_without_a_gradient():
    x = random(3, 7)
    _, deviation = statistics(x)
    (ours,) = torch.autograd.grad(deviation.sum(), x)
    torch.testing.assert_close(ours, torch.autograd.grad(x.std(1, correction=0).sum(), x)[0])


def test_transforms_of_torch():
    x, w = random(3, 7, dtype=torch.float32), random(7, dtype=torch.float32)
    torch.library.opcheck(rms_norm.overload, (x, w, 1e-5))
    loss = lambda x, w: rms_norm(x, w, 1e-5).pow(2).sum()  # noqa: E731
    expected = torch.func.grad(lambda x, w: reference_of(rms_norm)(x, w, 1e-5).pow(2).sum())(x, w)
    torch.testing.assert_close(torch.func.grad(loss)(x, w), expected)
    batch = torch.randn(4, 3, 7)
    each = torch.func.vmap(torch.func.grad(loss), (0, None))(batch, w)
    torch.testing.assert_close(each[2], torch.func.grad(loss)(batch[2], w))


def test_compiled():
    x, w = random(3, 7, dtype=torch.float32), random(7, dtype=torch.float32)
    compiled = torch.compile(lambda x, w: rms_norm(x * 2, w, 1e-5).sin(), fullgraph=True, dynamic=True, backend="aot_eager")
    expected = lambda x, w: rms_norm(x * 2, w, 1e-5).sin()  # noqa: E731
    for ours, reference in zip(
        torch.autograd.grad(compiled(x, w).sum(), (x, w)), torch.autograd.grad(expected(x, w).sum(), (x, w))
    ):
        torch.testing.assert_close(ours, reference)


def test_second_derivatives_are_refused():
    x = random(3, 5)
    (gradient,) = torch.autograd.grad(softmax(x).pow(2).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="double backward of derived::softmax is not implemented"):
        gradient.sum().backward()


def define(name, run, schema="(Tensor x) -> Tensor"):
    return tile_ops.op(f"derived::{name}{schema}", outputs="x", grad="auto")(run)


def refused(operator, *arguments):
    with pytest.raises(NotImplementedError) as raised:
        operator(*arguments).sum().backward()
    assert raised.type is NotImplementedError
    return str(raised.value)


def test_computations_of_torch_are_refused():
    def run(x, out):
        kernels.swish_kernel[1](x * 2, out, 8)

    assert refused(define("scaled_first", run), random(8)) == (
        "derived::scaled_first: run computes aten::mul outside of our kernels, so that its gradient is not derived; do it in a "
        "kernel, or write the gradient by hand"
    )


def test_fills_with_a_float_tensor_are_refused():
    def run(x, out):
        kernels.swish_kernel[1](torch.empty_like(x).fill_(x[0]), out, 8)

    assert "run computes aten::fill_ outside of our kernels" in refused(define("filled_first", run), random(8))


def test_results_changed_by_torch_are_refused():
    def run(x, out):
        kernels.swish_kernel[1](x, out, 8)
        out.mul_(2)

    assert "run computes aten::mul_ outside of our kernels" in refused(define("scaled_last", run), random(8))


def test_operators_in_run_are_refused():
    def run(x, out):
        out.copy_(torch.ops.tile.softmax(x, -1))

    assert "outside of our kernels" in refused(define("other_operator", run), random(8))


def test_memory_that_is_used_again_is_refused():
    def run(x, out):
        scratch = torch.ones_like(x)
        kernels.sum_kernel[1](x, scratch, out, 8)
        kernels.squares_kernel[1](x, scratch, 8)

    assert refused(define("used_again", run), random(8)) == (
        "derived::used_again: run's launch of squares_kernel overwrites memory that sum_kernel reads, so that its gradient is not "
        "derived; write to other memory"
    )


def test_memory_as_another_object_is_refused():
    def run(x, out):
        kernels.squares_kernel[1](x.detach().numpy(), out, 8)

    assert refused(define("of_numpy", run), torch.randn(8, requires_grad=True, device="cpu")) == (
        "derived::of_numpy: run gives squares_kernel memory of a tensor as another object, so that its gradient is not derived; "
        "pass the tensor, or a view of it"
    )


def test_copies_of_arguments_are_refused():
    def run(x, out):
        kernels.squares_kernel[1](x.clone(), out, 8)

    assert "run computes aten::clone outside of our kernels" in refused(define("of_a_copy", run), random(8))


def test_two_stores_to_one_result_are_refused():
    def run(x, out):
        kernels.squares_kernel[1](x, out, 8)
        kernels.swish_kernel[1](x, out, 8)

    assert refused(define("stored_twice", run), random(8)) == (
        "derived::stored_twice: run's launches of squares_kernel and swish_kernel write the same memory, so that its gradient is "
        "not derived; write to different memory"
    )


def test_launches_that_write_parts_of_a_result():
    def run(x, out):
        for part in range(2):
            kernels.squares_kernel[2](x[:, part], out[:, part], 4)

    x = random(8, 2)
    define("parts", run)(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


@tl.kernel
def transposed_sum_kernel(x, y, out, N: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    tl.store(out, (i, j), tl.load(x, (i, j), (N, N)) * tl.sin(tl.load(y, (i, j), (N, N))))


def test_one_array_as_two_parameters():
    def run(x, out):
        transposed_sum_kernel[3, 3](x, x.t(), out, 4)

    x = random(11, 11)
    (ours,) = torch.autograd.grad(define("with_transposed", run)(x).pow(2).sum(), x)
    torch.testing.assert_close(ours, torch.autograd.grad((x * x.t().sin()).pow(2).sum(), x)[0])


@pytest.mark.parametrize("shape", [(16, 8), (15, 7), (20, 9)])
def test_grids_that_cover_a_part(shape):
    def run(x, out):
        out.zero_()
        transposed_sum_kernel[3, 2](x, y, out, 4)

    x, y = random(*shape), torch.randn(shape, dtype=torch.float64)
    (ours,) = torch.autograd.grad(define("of_a_part", run)(x).pow(2).sum(), x)
    part = torch.zeros(shape, dtype=torch.float64)
    part[:12, :8] = 1
    torch.testing.assert_close(ours, torch.autograd.grad((part * x * y.sin()).pow(2).sum(), x)[0])


@tl.kernel
def same_for_all_kernel(x, out, N: tl.Constant[int]):
    tl.store(out, (0,), tl.load(x, (0,), (N,)) * 2.0)


def test_blocks_that_repeat_each_other_are_refused():
    def run(x, out):
        same_for_all_kernel[3](x, out, 8)

    with pytest.raises(ValueError, match=r"the grid has 3 blocks along axis 0, but the kernel does not use bid\(0\)"):
        define("repeated", run)(random(8)).sum().backward()


@tl.kernel
def column_sums_kernel(x, out, M: tl.Constant[int], N: tl.Constant[int]):
    t = tl.load(x, (tl.bid(0), tl.bid(1)), (M, N))
    tl.atomic_add(out, (tl.bid(1) * N + tl.arange(N, dtype=tl.int32),), tl.sum(t * t, axis=0))


def test_additions_to_a_result_that_begins_with_zeros():
    @tile_ops.op(
        "derived::column_sums(Tensor x) -> Tensor",
        outputs=lambda x: torch.empty(x.shape[1], dtype=x.dtype, device=x.device),
        grad="auto",
    )
    def column_sums(x, out):
        out.zero_()
        column_sums_kernel[tl.cdiv(x.shape[0], 4), tl.cdiv(x.shape[1], 4)](x, out, 4, 4)

    x = random(7, 6)
    out = column_sums(x)
    torch.testing.assert_close(out, (x * x).sum(0))
    incoming = torch.randn(6, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(out, x, incoming)
    torch.testing.assert_close(gradient, 2 * x * incoming)


def test_deterministic_algorithms():
    weight, index = random(5, 4), torch.tensor([1, 3, 1])
    torch.use_deterministic_algorithms(True)
    try:
        compare(rms_norm, (random(3, 7), random(7), 1e-5))
        out = embedding(weight, index)
        assert torch.autograd.grad(out.sum(), weight)[0].sum() == out.numel()  # summed over the blocks
        x, y = random(3, 5), torch.tensor([1, 2, 0])
        with pytest.raises(RuntimeError, match="added by atomics, which is not deterministic"):
            kernels.cross_entropy(x, y).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)


def test_definitions_that_cannot_be_derived():
    with pytest.raises(NotImplementedError, match='grad="auto" is for operators with results'):
        tile_ops.op("derived::written(Tensor(a!) x) -> ()", grad="auto")(lambda x: None)
