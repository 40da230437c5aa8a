"""Attention's values and gradients against torch in every dtype: shapes, head counts, masks, layouts, empty rows."""

import math

import pytest
import tile_ops  # noqa: F401
import torch
from attention_reference import causal_mask, inputs, peer
from combinations import long
from numerics import check_call
from opinfo import DTYPES, check_samples
from threads import with_torch_threads

pytestmark = pytest.mark.usefixtures("deterministic")

attention = torch.ops.tile.attention


def check(args, **kwargs):
    check_call(attention, peer, args, kwargs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth", [1, 16, 32, 40, 59, 64, 80, 96, 111, 128, 160, 192, 224, 256])
def test_head_dims(depth, dtype):
    check(inputs(1, 2, 1, 70, 97, depth, dtype=dtype), is_causal=depth % 3 == 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(
    "rows, keys", [(1, 1), (1, 130), (130, 1), (64, 64), (97, 97), (113, 203), (217, 128), (200, 257), (64, 256), (256, 64)]
)
def test_lengths(rows, keys, is_causal, dtype):
    for align in ("bottom_right", "top_left") if is_causal else ("bottom_right",):
        check(inputs(1, 2, 2, rows, keys, 24, dtype=dtype), is_causal=is_causal, causal_align=align)


CORNERS = (1, 63, 64, 65, 127, 128, 129)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("align", ["bottom_right", "top_left"])
@pytest.mark.parametrize("rows", CORNERS)
def test_causal_corners(rows, align, dtype):
    """Lengths beside those of tiles: the diagonal then leaves a tile by its side or its end, or rows that see nothing."""
    for keys in CORNERS:
        # With a single key the gradients of scores are the rounding of two equal sums alone.
        args = inputs(2, 4, 2, rows, keys, 64, dtype=dtype)
        out, lse = attention(*args)
        grads = [torch.randn_like(out), torch.zeros_like(lse) if 1 in (rows, keys) else torch.randn_like(lse)]
        check_call(attention, peer, args, {"is_causal": True, "causal_align": align}, grad_outputs=grads)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("rows, keys", [(384, 512), (1023, 1024), (1024, 1023)])
def test_long_lengths(rows, keys, is_causal):
    check(inputs(1, 1, 1, rows, keys, 32), is_causal=is_causal)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, keys", [(1, 127), (1, 129), (1, 600), (2, 300), (16, 300), (17, 300)])
def test_few_rows(rows, keys, dtype):
    """A step of decoding has few queries, for which a CPU takes shorter tiles."""
    args, far = inputs(2, 4, 2, rows, keys, 40, dtype=dtype), keys - keys // 3
    mask = torch.ones(2, 1, rows, keys, dtype=torch.bool)
    mask[0, ..., :7], mask[1, ..., far:] = False, False
    for options in ({}, {"is_causal": True}, {"attn_bias": mask}, {"attn_bias": torch.randn(4, rows, keys).to(dtype)}):
        check(args, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch, heads, key_heads", [(1, 1, 1), (2, 6, 2), (2, 6, 1), (3, 8, 8), (5, 4, 2)])
def test_heads(batch, heads, key_heads, dtype):
    # From 8 key heads on, the gradient is computed in one pass.
    check(inputs(batch, heads, key_heads, 75, 90, 20, dtype=dtype), is_causal=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth, value_depth", [(8, 72), (72, 8), (64, 130), (200, 1)])
def test_value_depth(depth, value_depth, dtype):
    check(inputs(3, 2, 1, 33, 70, depth, value_depth, dtype=dtype))


MASKS = [
    (70, 90),
    (1, 90),
    (70, 1),
    (90,),
    (1,),
    (),
    (1, 70, 90),
    (4, 70, 90),
    (4, 1, 90),
    (1, 1, 70, 90),
    (2, 1, 1, 90),
    (2, 1, 70, 90),
    (1, 4, 70, 1),
    (2, 4, 70, 90),
    (2, 4, 1, 1),
]


@pytest.mark.parametrize("kind", ["bool", "same", "float32"])
@pytest.mark.parametrize("shape", MASKS)
def test_masks(shape, kind):
    for dtype in DTYPES if shape in MASKS[:2] else (torch.float32, torch.bfloat16):
        args = inputs(2, 4, 2, 70, 90, 16, dtype=dtype)
        if kind == "bool":
            bias = torch.rand(shape) < 0.7
        else:
            bias = torch.randn(shape).to(dtype if kind == "same" else torch.float32).requires_grad_()
        check(args, attn_bias=bias)
        check(args, attn_bias=bias, is_causal=True)


def test_mask_gradient_is_exact_over_many_tiles():
    args = inputs(2, 4, 2, 150, 200, 16, dtype=torch.float64)
    for shape in ((150, 200), (1, 200), (150, 1), (2, 1, 1, 200), (2, 4, 150, 200)):
        check(args, attn_bias=torch.randn(shape, dtype=torch.float64, requires_grad=True), is_causal=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_attend_to_nothing(dtype):
    args = inputs(2, 4, 4, 70, 66, 16, dtype=dtype)
    keep = torch.rand(70, 66) < 0.5
    keep[3] = keep[69] = False
    bias = torch.zeros(70, 66, dtype=dtype).masked_fill(~keep, -math.inf).requires_grad_()
    for mask in (keep, bias):
        check(args, attn_bias=mask)
        out, lse = attention(*args, attn_bias=mask)
        assert not out[:, :, (3, 69)].any() and torch.all(lse[:, :, (3, 69)] == -math.inf)
        leaves = [*args, mask] if mask is bias else args
        for grad in torch.autograd.grad(out.sum() + lse[:, :, :3].sum(), leaves):
            assert torch.isfinite(grad).all()
    # More queries than keys, aligned at the bottom: the first rows see nothing.
    check(inputs(1, 2, 1, 150, 40, 16, dtype=dtype), is_causal=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_most_negative_float_is_no_mask(dtype):
    # A row of them is a row of equal scores, as in torch.
    args = inputs(1, 2, 2, 20, 70, 16, dtype=dtype, requires_grad=False)
    bias = torch.zeros(20, 70, dtype=dtype)
    bias[2:7] = bias[:, 5:9] = torch.finfo(dtype).min
    # Without gradients: torch's have the logarithm lost in lse, and so probabilities of 1.
    check(args, attn_bias=bias)


def test_large_scores():
    # Many rows: where one key has all the weight a row has no error, and the rule compares the others' worst.
    q, k, v = inputs(4, 8, 8, 40, 70, 16)
    for factor in (-300.0, 300.0):
        check(((q * factor).detach().requires_grad_(), k, v))


def test_nan_spreads_to_its_rows():
    q, k, v = inputs(1, 1, 1, 100, 100, 16, requires_grad=False)
    q[0, 0, 7, 3] = math.nan
    out, lse = attention(q, k, v)
    assert torch.equal(out.isnan().any(-1).nonzero(), torch.tensor([[0, 0, 7]]))
    assert torch.equal(lse.isnan().nonzero(), torch.tensor([[0, 0, 7]]))


@pytest.mark.parametrize("scale", [0.0, 1.0, -0.5, 0.3])
def test_scale(scale):
    check(inputs(1, 2, 2, 40, 50, 16), scale=scale, is_causal=True)


@pytest.mark.parametrize(
    "shape", [(0, 2, 2, 5, 7, 8), (2, 0, 0, 5, 7, 8), (2, 2, 2, 0, 7, 8), (2, 2, 2, 5, 0, 8), (2, 2, 2, 0, 0, 8)]
)
@pytest.mark.parametrize("masked", [False, True])
def test_zero_sizes(shape, masked):
    batch, heads, key_heads, rows, keys, depth = shape
    for copies in (1, 4):  # few and many key heads
        args = inputs(batch * copies, heads * copies, key_heads * copies, rows, keys, depth)
        bias = torch.randn(rows, keys, requires_grad=True) if masked else None
        out, lse = attention(*args, attn_bias=bias, is_causal=True)
        assert out.shape == args[0].shape and lse.shape == out.shape[:3]
        assert not out.any() and torch.all(lse == -math.inf)
        leaves = [*args, bias] if masked else args
        for leaf, grad in zip(leaves, torch.autograd.grad(out.sum() + lse.sum(), leaves)):
            assert grad.shape == leaf.shape and not grad.any()


def test_values_without_columns():
    q, k, v = inputs(1, 2, 1, 5, 7, 8)
    out, lse = attention(q, k, v[..., :0])
    assert out.shape == (1, 2, 5, 0)
    torch.testing.assert_close(lse, peer(q, k, v)[1])


def test_gradients_through_lse_only_and_through_out_only():
    args = inputs(2, 4, 2, 70, 90, 16, dtype=torch.float64)
    for which in (0, 1):
        ours = torch.autograd.grad(attention(*args, is_causal=True)[which].sin().sum(), args, allow_unused=True)
        theirs = torch.autograd.grad(peer(*args, is_causal=True)[which].sin().sum(), args, allow_unused=True)
        for mine, other, leaf in zip(ours, theirs, args):
            torch.testing.assert_close(mine, torch.zeros_like(leaf) if other is None else other, rtol=1e-12, atol=1e-12)


def test_gradients_of_some_arguments():
    for heads in (2, 8):
        args = inputs(1, heads, heads, 70, 90, 16, dtype=torch.float64, requires_grad=False)
        bias = torch.randn(70, 90, dtype=torch.float64)
        everything = [*args, bias]
        for wanted in range(1, 16):
            leaves = [t.clone().requires_grad_(bool(wanted >> i & 1)) for i, t in enumerate(everything)]
            chosen = [leaf for leaf in leaves if leaf.requires_grad]
            grads = []
            for function in (attention, peer):
                out, lse = function(*leaves[:3], attn_bias=leaves[3], is_causal=True)
                grads.append(torch.autograd.grad(out.sin().sum() + lse.sum(), chosen))
            for mine, other in zip(*grads):
                torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def transposed(tensor):
    return tensor.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()


def spread(tensor):
    memory = torch.full([2 * extent for extent in tensor.shape], math.nan, dtype=tensor.dtype)
    view = memory[:, ::2, ::2, ::2][: tensor.shape[0]]
    view.copy_(tensor.detach())
    return view.requires_grad_()


def column_major(tensor):
    return tensor.detach().mT.contiguous().mT.requires_grad_()


@pytest.mark.parametrize("layout", [transposed, spread, column_major])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layouts(layout, dtype):
    args = [layout(t) for t in inputs(2, 4, 2, 70, 90, 24, 40, dtype=dtype)]
    out, lse = attention(*args, is_causal=True)
    expected = attention(*(t.detach().contiguous() for t in args), is_causal=True)
    assert torch.equal(out, expected[0]) and torch.equal(lse, expected[1])
    grad = torch.randn_like(out)
    bias = layout(torch.randn(2, 4, 70, 90).to(dtype))
    check_call(attention, peer, args, {"attn_bias": bias, "is_causal": True}, grad_outputs=[grad, torch.randn_like(lse)])


def order(tensor):
    return sorted(range(tensor.dim()), key=tensor.stride, reverse=True)


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3), (1, 0, 2, 3), (0, 1, 3, 2)])
def test_results_keep_the_order_of_strides(axes):
    back = [axes.index(i) for i in range(4)]
    args = [t.detach().permute(axes).contiguous().permute(back).requires_grad_() for t in inputs(2, 4, 2, 6, 7, 8, 5)]
    out, lse = attention(*args)
    assert order(out) == order(args[0]) and out.shape == (2, 4, 6, 5) and lse.is_contiguous()
    for grad, leaf in zip(torch.autograd.grad(out.sum(), args), args):
        assert order(grad) == order(leaf)
    meta = attention(*(t.detach().to("meta") for t in args))
    assert meta[0].stride() == out.stride() and meta[1].stride() == lse.stride()


def test_expanded_inputs_and_gradients():
    q, k, v = inputs(1, 1, 1, 70, 90, 16, dtype=torch.float64)
    args = q.expand(2, 4, 70, 16), k.expand(2, 2, 90, 16), v.expand(2, 2, 90, 16)
    ours, theirs = (
        torch.autograd.grad([t.sum() for t in function(*args, is_causal=True)], (q, k, v)) for function in (attention, peer)
    )
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


def test_attention_is_deterministic():
    args = inputs(2, 4, 4, 150, 200, 32)
    bias = torch.randn(150, 200, requires_grad=True)

    def once():
        out, lse = attention(*args, attn_bias=bias, is_causal=True)
        return out, lse, *torch.autograd.grad(out.sin().sum() + lse.sum(), (*args, bias))

    first = once()
    for again in with_torch_threads((1, 2, 2), once):
        for mine, other in zip(again, first):
            assert torch.equal(mine, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    "heads, key_heads, rows, dropout_p", [long(64, 64, 4096, 0.2), (128, 64, 4096, 0.0), (8, 8, 21000, 0.2)]
)
def test_gradients_of_many_queries_of_16_bits(heads, key_heads, rows, dropout_p, device):
    """A GPU keeps some heads' sums at a time next to the result, or, on a CPU, there are two passes."""
    torch.use_deterministic_algorithms(False)  # a GPU keeps no such sums for them
    keys = 100 if device.type == "cpu" else 1100  # so many that some heads keep a GPU busy
    shapes = (1, heads, rows, 64), (1, key_heads, keys, 64), (1, key_heads, keys, 64), (1, heads, rows, 64)
    *inputs, incoming = (torch.randn(shape).half() for shape in shapes)
    found, seed = [], torch.tensor([3, 4]) if dropout_p else None
    for dtype in (torch.float16, torch.float32):
        leaves = [x.to(dtype).requires_grad_() for x in inputs]
        out, _ = torch.ops.tile.attention(*leaves, dropout_p=dropout_p, seed=seed)
        found.append(torch.autograd.grad(out, leaves, incoming.to(dtype)))
    for own, wide in zip(*found):
        torch.testing.assert_close(own.float(), wide, rtol=0, atol=2e-3 * wide.abs().max().item())


def test_causal_offsets_against_a_mask():
    args = inputs(1, 2, 2, 70, 130, 16, dtype=torch.float64, requires_grad=False)
    for align in ("top_left", "bottom_right"):
        causal = attention(*args, is_causal=True, causal_align=align)
        masked = attention(*args, attn_bias=causal_mask(70, 130, align))
        for mine, other in zip(causal, masked):
            torch.testing.assert_close(mine, other, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
def test_opinfo_samples(dtype):
    count = check_samples(
        tile_ops.scaled_dot_product_attention,
        "nn.functional.scaled_dot_product_attention",
        dtype,
        accept=lambda sample: sample.kwargs.get("dropout_p", 0.0) == 0.0,
    )
    assert count > 8
