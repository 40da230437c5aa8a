"""Compares operators whose sums have no terms, or whose tensors have no elements, with torch: values and gradients."""

import math

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from numerics import check_call

tile = torch.ops.tile


def integers(*numbers):
    return torch.tensor(numbers, dtype=torch.int64)


def wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def expected_attention(q, k, v, causal=False, bias=None):
    """Computes attention by torch's basic operations, whose sums over no elements are 0."""
    scores = q @ k.transpose(-1, -2)
    if bias is not None:
        scores = scores + bias
    if causal:
        rows, keys = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows), -math.inf)
    return scores.softmax(-1) @ v, wide(scores).logsumexp(-1)


def expected_group_norm(x, groups, weight, bias):
    """Avoids torch's group_norm, which returns NaN as the gradient of a weight that multiplies no element."""
    grouped = x.unflatten(1, (groups, -1))
    centred = grouped - grouped.mean((2, 3), keepdim=True)
    normal = centred * (centred.square().mean((2, 3), keepdim=True) + 1e-5).rsqrt()
    return normal.flatten(1, 2) * weight.unsqueeze(1) + bias.unsqueeze(1)


def packed(x):
    return x[0].transpose(0, 1)


def varlen(q, k, v):
    return tile.attention_varlen(packed(q), packed(k), packed(v), integers(0, 2, 5), integers(0, 3, 7), 3, 4)


def each_sequence(q, k, v):
    parts = [expected_attention(q[:, :, a:b], k[:, :, c:d], v[:, :, c:d]) for a, b, c, d in ((0, 2, 0, 3), (2, 5, 3, 7))]
    return torch.cat([packed(out) for out, _ in parts]), torch.cat([lse[0] for _, lse in parts], 1)


Q, K, V = (2, 4, 5, 0), (2, 4, 7, 0), (2, 4, 7, 3)
BIAS = (5, 7)

# (the operator, the reference in torch, the shapes of the floating-point arguments)
CASES = {
    "attention": (tile.attention, expected_attention, [Q, K, V]),
    "attention, causal": (
        lambda q, k, v: tile.attention(q, k, v, is_causal=True), lambda q, k, v: expected_attention(q, k, v, True), [Q, K, V]
    ),
    "attention with a bias": (
        lambda q, k, v, b: tile.attention(q, k, v, attn_bias=b), lambda q, k, v, b: expected_attention(q, k, v, bias=b),
        [Q, K, V, BIAS]
    ),
    "attention of no width either": (tile.attention, expected_attention, [Q, K, (2, 4, 7, 0)]),
    "attention, no batch": (tile.attention, expected_attention, [(0, 4, 5, 0), (0, 4, 7, 0), (0, 4, 7, 3)]),
    "scaled_dot_product_attention": (tile_ops.scaled_dot_product_attention, F.scaled_dot_product_attention, [Q, K, V]),
    "attention_varlen": (varlen, each_sequence, [(1, 4, 5, 0), (1, 4, 7, 0), (1, 4, 7, 3)]),
    "matmul": (tile.matmul, torch.matmul, [(5, 0), (0, 3)]),
    "matmul of vectors": (tile.matmul, torch.matmul, [(0,), (0,)]),
    "matmul, batched": (tile.matmul, torch.matmul, [(2, 5, 0), (0, 3)]),
    "matmul with a bias": (
        lambda x, y, b: tile.matmul(x, y, bias=b, activation="gelu"), lambda x, y, b: F.gelu(x @ y + b), [(5, 0), (0, 3), (3,)]
    ),
    "gated_matmul": (tile.gated_matmul, lambda x, g, u: F.silu(x @ g) * (x @ u), [(5, 0), (0, 3), (0, 3)]),
    "gated_matmul of no rows": (tile.gated_matmul, lambda x, g, u: F.silu(x @ g) * (x @ u), [(0, 4), (4, 3), (4, 3)]),
    "linear_cross_entropy": (
        lambda x, w: tile.linear_cross_entropy(x, w, integers(0, 3, 2)),
        lambda x, w: F.cross_entropy(wide(x @ w.t()), integers(0, 3, 2)), [(3, 0), (4, 0)]
    ),
    "linear_cross_entropy with a bias": (
        lambda x, w, b: tile.linear_cross_entropy(x, w, integers(0, 3, 2), bias=b, label_smoothing=0.1),
        lambda x, w, b: F.cross_entropy(wide(x @ w.t() + b), integers(0, 3, 2), label_smoothing=0.1), [(3, 0), (4, 0), (4,)]
    ),
    **{
        f"{name} of no rows, {how}": (
            lambda *t, call=call, how=how: call(*t, reduction=how), lambda *t, theirs=theirs, how=how: theirs(*t, how), shapes
        )
        for how in ("none", "sum", "mean")
        for name, call, theirs, shapes in (
            ("cross_entropy", lambda x, reduction: tile.cross_entropy(x, integers(), reduction=reduction),
             lambda x, how: F.cross_entropy(x, integers(), reduction=how), [(0, 4)]),
            ("linear_cross_entropy", lambda x, w, reduction: tile.linear_cross_entropy(x, w, integers(), reduction=reduction),
             lambda x, w, how: F.cross_entropy(wide(x @ w.t()), integers(), reduction=how), [(0, 5), (4, 5)]),
        )
    },
    "softmax": (lambda x: tile.softmax(x, -1), lambda x: x.softmax(-1), [(3, 0)]),
    "softmax of no rows": (lambda x: tile.softmax(x, -1), lambda x: x.softmax(-1), [(0, 3)]),
    "log_softmax": (lambda x: tile.log_softmax(x, 1), lambda x: x.log_softmax(1), [(3, 0, 2)]),
    "layer_norm": (
        lambda x, w, b: tile.layer_norm(x, [0], w, b), lambda x, w, b: F.layer_norm(x, [0], w, b), [(3, 0), (0,), (0,)]
    ),
    "layer_norm of no rows": (
        lambda x, w, b: tile.layer_norm(x, [3], w, b), lambda x, w, b: F.layer_norm(x, [3], w, b), [(0, 3), (3,), (3,)]
    ),
    "rms_norm": (lambda x, w: tile.rms_norm(x, [0], w), lambda x, w: F.rms_norm(x, [0], w), [(3, 0), (0,)]),
    "rms_norm of no rows": (lambda x, w: tile.rms_norm(x, [3], w), lambda x, w: F.rms_norm(x, [3], w), [(0, 3), (3,)]),
    "add_rms_norm": (
        lambda x, r, w: tile.add_rms_norm(x, r, [0], w), lambda x, r, w: (F.rms_norm(x + r, [0], w), x + r),
        [(3, 0), (3, 0), (0,)]
    ),
    "group_norm of no places": (
        lambda x, w, b: tile.group_norm(x, 2, w, b), lambda x, w, b: expected_group_norm(x, 2, w, b), [(2, 4, 0), (4,), (4,)]
    ),
    "group_norm of no samples": (
        lambda x, w, b: tile.group_norm(x, 2, w, b), lambda x, w, b: F.group_norm(x, 2, w, b), [(0, 4, 3), (4,), (4,)]
    ),
    "swiglu": (tile.swiglu, lambda g, u: F.silu(g) * u, [(3, 0), (3, 0)]),
    "geglu": (tile.geglu, lambda g, u: F.gelu(g) * u, [(0, 3), (0, 3)]),
    "dropout": (lambda x: tile.dropout(x, 0.5, integers(1, 2)), lambda x: x * 2, [(3, 0)]),
    "embedding of no indices": (lambda w: tile.embedding(w, integers()), lambda w: F.embedding(integers(), w), [(4, 3)]),
    # torch 2.11's gradient of its own embedding reads outside of memory here on a GPU.
    "embedding of no columns": (lambda w: tile.embedding(w, integers(1, 2)), lambda w: w[1:3] * 1, [(4, 0)]),
    "rope of no columns": (
        lambda q, k: tile.rope(q, k, torch.ones(5, 0), torch.ones(5, 0)), lambda q, k: (q * 1, k * 1), [Q, (2, 4, 5, 0)]
    ),
    "rope of no rotated columns": (
        lambda q, k: tile.rope(q, k, torch.ones(5, 0), torch.ones(5, 0), rotary_dim=0), lambda q, k: (q * 1, k * 1),
        [(2, 4, 5, 6), (2, 1, 5, 6)]
    ),
    "rope of no positions": (
        lambda q, k: tile.rope(q, k, torch.ones(0, 4), torch.ones(0, 4)), lambda q, k: (q * 1, k * 1),
        [(2, 4, 0, 4), (2, 1, 0, 4)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_as_torch(name, dtype):
    ours, theirs, shapes = CASES[name]
    check_call(ours, theirs, [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes], what=name)


@pytest.mark.parametrize("paged", [False, True])
def test_attention_decode(paged):
    q, k, v = torch.randn(2, 4, 1, 0), torch.randn(2, 2, 32, 0), torch.randn(2, 2, 32, 3)
    table = torch.arange(4).view(2, 2) if paged else None
    pages = [x.unflatten(2, (2, 16)).transpose(1, 2).flatten(0, 1).contiguous() if paged else x for x in (k, v)]
    out, lse = tile.attention_decode(q, *pages, integers(20, 3), block_table=table)
    for i, length in enumerate((20, 3)):
        mean = v[i, :, :length].mean(1, keepdim=True).repeat_interleave(2, 0)
        torch.testing.assert_close(out[i], mean)
        torch.testing.assert_close(lse[i], torch.full((4, 1), math.log(length)))


def test_options_of_attention_without_a_head_dim():
    """Tests an explicit scale, and scores that differ only by an ALiBi bias."""
    q, k, v = torch.randn(1, 2, 5, 0), torch.randn(1, 2, 5, 0), torch.randn(1, 2, 5, 3)
    out, _ = tile.attention(q, k, v, scale=3.0)
    torch.testing.assert_close(out, v.mean(2, keepdim=True).expand_as(out))
    distance = (torch.arange(5).unsqueeze(1) - torch.arange(5)).abs()
    out, _ = tile.attention(q, k, v, alibi_slopes=torch.tensor([0.5, 0.25]), softcap=2.0)
    scores = -distance * torch.tensor([0.5, 0.25]).view(1, 2, 1, 1)
    torch.testing.assert_close(out, scores.softmax(-1) @ v)
