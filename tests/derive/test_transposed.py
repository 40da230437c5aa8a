"""Gradients by transposed kernels, whose blocks own what they add to, against torch's."""

import pytest
import tile_ops
import tile_ops.language as tl
import torch

from derive import kernels, test_gradients
from derive.biased_attention import attention_arguments, attention_reference, biased_attention, owners

__all__ = ["owners"]  # a fixture


def compare(operator, reference, arguments, tolerance=1e-9):
    results, gradients = test_gradients.gradients_of(operator, arguments)
    exact = [each.detach().double().requires_grad_() if isinstance(each, torch.Tensor) else each for each in arguments]
    expected_results, expected = test_gradients.gradients_of(reference, exact)
    for ours, theirs in zip((*results, *gradients), (*expected_results, *expected)):
        if ours.numel():
            scale = theirs.abs().max().clamp(min=1)
            assert ((ours.double() - theirs).abs().max() / scale).item() < tolerance


@pytest.mark.parametrize("name", kernels.CASES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_gradients_of_all_kernels(name, dtype, owners):
    test_gradients.test_gradients_equal_torchs(name, dtype)


@pytest.mark.parametrize("name", ["matmul", "grouped_matmul", "attention", "online_attention", "recurrence"])
def test_gradcheck(name, owners):
    test_gradients.test_gradcheck(name)


@pytest.mark.parametrize(
    "rows, inner, columns", [(1, 1, 1), (8, 8, 8), (17, 33, 7), (9, 40, 25), (0, 5, 3), (5, 0, 3), (3, 5, 0)]
)
def test_sizes_of_products(rows, inner, columns, owners):
    make = lambda *shape: torch.randn(shape, dtype=torch.float64, requires_grad=True)  # noqa: E731
    compare(kernels.matmul, kernels.CASES["matmul"].reference, (make(rows, inner), make(inner, columns), make(columns)))


@pytest.mark.parametrize(
    "change", [lambda x: x.t().contiguous().t(), lambda x: x[:, ::2], lambda x: x[:1].expand(9, x.shape[1])]
)
def test_strides_of_products(change, owners):
    make = lambda *shape: torch.randn(shape, dtype=torch.float64, requires_grad=True)  # noqa: E731
    x = change(make(9, 20))
    compare(kernels.matmul, kernels.CASES["matmul"].reference, (x, make(x.shape[1], 11), make(11)))


@pytest.mark.parametrize("length, keys", [(1, 1), (4, 4), (7, 9), (12, 3), (3, 17), (0, 4)])
@pytest.mark.parametrize("rows, columns", [(4, 4), (4, 8), (8, 4)])
def test_sizes_of_attention(length, keys, rows, columns, owners):
    compare(biased_attention, attention_reference, attention_arguments(2, length, keys, 8, rows, columns))


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-4), (torch.bfloat16, 6e-2)])
def test_dtypes_of_attention(dtype, tolerance, owners):
    compare(biased_attention, attention_reference, attention_arguments(2, 13, 11, 8, 4, 4, dtype), tolerance)


@tl.kernel
def causal_kernel(q, k, v, out, scale: float, M: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    block, head = tl.bid(0), tl.bid(1)
    queries = tl.load(q, (head, block, 0), (1, M, D)).reshape((M, D))
    rows = block * M + tl.arange(M, dtype=tl.int32)[:, None]
    top, total = tl.full((M, 1), float("-inf"), tl.float64), tl.zeros((M, 1), tl.float64)
    acc = tl.zeros((M, D), tl.float64)
    for i in range(min(tl.cdiv(k.shape[1], N), tl.cdiv((block + 1) * M, N))):
        keys = tl.load(k, (head, i, 0), (1, N, D)).reshape((N, D))
        scores = tl.mma(queries, keys.transpose(), tl.zeros((M, N), tl.float64)) * scale
        columns = i * N + tl.arange(N, dtype=tl.int32)[None, :]
        scores = tl.where(columns <= rows, scores, float("-inf"))
        high = tl.maximum(top, tl.max(scores, axis=1, keepdims=True))
        p, less = tl.exp2(scores - high), tl.exp2(top - high)
        total = total * less + tl.sum(p, axis=1, keepdims=True)
        acc = tl.mma(p, tl.load(v, (head, i, 0), (1, N, D)).reshape((N, D)), acc * less)
        top = high
    tl.store(out, (head, block, 0), (acc / total)[None, :, :])


@tile_ops.op("derived::causal(Tensor q, Tensor k, Tensor v, int rows, int columns) -> Tensor", outputs="q", grad="auto")
def causal(q, k, v, rows, columns, out):
    causal_kernel[tl.cdiv(q.shape[1], rows), q.shape[0]](q, k, v, out, 0.25, rows, columns, q.shape[2])


def causal_reference(q, k, v, rows, columns):
    scores = q @ k.transpose(1, 2) * (0.25 * torch.log(torch.tensor(2.0, dtype=torch.float64)))
    return torch.softmax(scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), float("-inf")), -1) @ v


@pytest.mark.parametrize("length", [1, 8, 13, 30])
@pytest.mark.parametrize("rows, columns", [(4, 4), (4, 8), (8, 4)])
def test_iterations_that_only_some_blocks_have(length, rows, columns, owners):
    make = lambda: torch.randn(2, length, 8, dtype=torch.float64, requires_grad=True)  # noqa: E731
    q, k, v = make(), make(), make()
    report = tile_ops.derive(causal_kernel).report(q, k, v, q, 0.25, rows, columns, 8)
    both = "summed over grid axis 0, or stored by a kernel that loops over grid axis 0"
    assert report == {"q": "stored", "k": both, "v": both}
    compare(causal, causal_reference, (q, k, v, rows, columns))


def test_gradients_that_are_added_to(owners):
    def run(x, y, out):
        once = torch.empty_like(x)
        plain_product_kernel[2, 2](x, y, once, 8)
        plain_product_kernel[2, 2](once, y, out, 8)

    twice = tile_ops.op("derived::product_twice(Tensor x, Tensor y) -> Tensor", outputs="x", grad="auto")(run)
    make = lambda *shape: torch.randn(shape, dtype=torch.float64, requires_grad=True)  # noqa: E731
    compare(twice, lambda x, y: x @ y @ y, (make(13, 13), make(13, 13)))


@tl.kernel
def plain_product_kernel(x, y, out, N: tl.Constant[int]):
    row, column = tl.bid(0), tl.bid(1)
    total = tl.zeros((N, N), tl.float64)
    for k in range(tl.cdiv(x.shape[1], N)):
        total = tl.mma(tl.load(x, (row, k), (N, N)), tl.load(y, (k, column), (N, N)), total)
    tl.store(out, (row, column), total)


def test_large_copies_are_replaced():
    """There would be 17 copies of 136 x 136 numbers, 1.2 MiB. Owners add in a fixed order."""
    arguments = [torch.randn(136, 136, requires_grad=True) for _ in range(2)] + [torch.randn(136, requires_grad=True)]
    compare(kernels.matmul, kernels.CASES["matmul"].reference, arguments, 1e-5)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        first, second = (test_gradients.gradients_of(kernels.matmul, arguments)[1] for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(before)
    assert all(torch.equal(x, y) for x, y in zip(first, second))


def test_report_and_source():
    x = torch.randn(9, 9)
    arguments = x, x, x[0], x, 8, 8, 8, tl.float32
    derivative = tile_ops.derive(kernels.matmul_kernel)
    assert derivative.report(*arguments) == {
        "x": "summed over grid axis 1, or stored by a kernel that loops over grid axis 1",
        "w": "summed over grid axis 0, or stored by a kernel that loops over grid axis 0",
        "b": "summed over grid axis 0",
    }
    text = derivative.ir(*arguments, transposed=True)
    assert [line.split("(")[0] for line in text.splitlines() if line.startswith("kernel ")] == [
        "kernel matmul_kernel_backward",
        "kernel matmul_kernel_backward_remainder",
        "kernel matmul_kernel_backward_transposed",
        "kernel matmul_kernel_backward_transposed",
    ]
    rows = torch.randn(5, 12), torch.randn(12), torch.empty(5, 12), 1e-5, 16
    assert tile_ops.derive(kernels.rms_norm_kernel).source(*rows, transposed=True) == ""
