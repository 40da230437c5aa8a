"""Attention with a bias, an operator whose gradients transposed kernels own, and the fixture that asks for them."""

import pytest
import tile_ops
import tile_ops.language as tl
import torch

from derive.ways import OWNER, launched


@pytest.fixture
def owners(monkeypatch):
    """Launches of derived gradients have transposed kernels, however small the copies would be."""
    launched(monkeypatch, OWNER, -1)


@tl.kernel
def biased_attention_kernel(q, k, v, bias, out, scale: float, M: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    block, head = tl.bid(0), tl.bid(1)
    acc_type = tl.float64 if q.dtype == tl.float64 else tl.float32
    queries = tl.load(q, (head, block, 0), (1, M, D)).reshape((M, D))
    top, total = tl.full((M, 1), float("-inf"), acc_type), tl.zeros((M, 1), acc_type)
    acc = tl.zeros((M, D), acc_type)
    for i in range(tl.cdiv(k.shape[1], N)):
        keys = tl.load(k, (head, i, 0), (1, N, D)).reshape((N, D))
        scores = tl.mma(queries, keys.transpose(), tl.zeros((M, N), acc_type)) * scale
        scores = scores + tl.load(bias, (block, i), (M, N)).astype(acc_type)
        scores = tl.where(tl.arange(N, dtype=tl.int32)[None, :] + i * N < k.shape[1], scores, float("-inf"))
        high = tl.maximum(top, tl.max(scores, axis=1, keepdims=True))
        p, less = tl.exp(scores - high), tl.exp(top - high)
        total = total * less + tl.sum(p, axis=1, keepdims=True)
        acc = tl.mma(p.astype(v.dtype), tl.load(v, (head, i, 0), (1, N, D)).reshape((N, D)), acc * less)
        top = high
    tl.store(out, (head, block, 0), (acc / total).astype(out.dtype)[None, :, :])


@tile_ops.op(
    "derived::biased_attention(Tensor q, Tensor k, Tensor v, Tensor bias, float scale, int rows, int columns) -> Tensor",
    outputs="q",
    grad="auto",
)
def biased_attention(q, k, v, bias, scale, rows, columns, out):
    biased_attention_kernel[tl.cdiv(q.shape[1], rows), q.shape[0]](q, k, v, bias, out, scale, rows, columns, q.shape[2])


def attention_reference(q, k, v, bias, scale, rows, columns):
    return torch.softmax(q @ k.transpose(1, 2) * scale + bias, -1) @ v


def attention_arguments(heads, length, keys, depth, rows, columns, dtype=torch.float64):
    make = lambda *shape: torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_()  # noqa: E731
    shapes = (heads, length, depth), (heads, keys, depth), (heads, keys, depth), (length, keys)
    return *(make(*shape) for shape in shapes), 0.25, rows, columns
