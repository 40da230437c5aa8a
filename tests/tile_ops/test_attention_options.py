"""Attention's options against torch: sliding windows, softcap, ALiBi, sinks and dropout, values and gradients."""

import contract
import pytest
import tile_ops  # noqa: F401
import torch
from attention_reference import inputs, kept_by, peer, seen
from numerics import check_call
from opinfo import DTYPES

pytestmark = pytest.mark.usefixtures("deterministic")

attention = torch.ops.tile.attention


def check(args, **kwargs):
    check_call(attention, peer, args, kwargs)


def check_of_single_keys(args, **kwargs):
    """Checks rows that see one key, whose gradients of scores are only the rounding error of two equal sums.

    The gradient of lse would be added to that, so it is zero here."""
    out, lse = attention(*args, **kwargs)
    check_call(attention, peer, args, kwargs, grad_outputs=[torch.randn_like(out), torch.zeros_like(lse)])


def slopes(heads=4, batch=None):
    return torch.rand(heads) if batch is None else torch.rand(batch, heads)


def sinks(dtype, heads=4):
    return torch.randn(heads).to(dtype).requires_grad_()


WINDOWS = [(20, 10), (5, -1), (-1, 3), (200, 200), (64, 0)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", WINDOWS)
def test_windows(window, dtype):
    for is_causal in (False, True):
        check(inputs(2, 4, 2, 70, 130, 16, dtype=dtype), window=window, is_causal=is_causal)


@pytest.mark.parametrize("dtype", DTYPES)
def test_windows_of_one_key(dtype):
    for is_causal in (False, True):
        check_of_single_keys(inputs(2, 4, 2, 70, 130, 16, dtype=dtype), window=(0, 0), is_causal=is_causal)


@pytest.mark.parametrize("align", ["bottom_right", "top_left"])
@pytest.mark.parametrize("rows, keys", [(1, 1), (1, 300), (300, 1), (150, 60), (200, 333), (333, 200)])
def test_windows_of_lengths(rows, keys, align):
    compare = check_of_single_keys if keys == 1 else check
    compare(inputs(1, 2, 1, rows, keys, 16), window=(37, 5), causal_align=align)


def test_a_window_is_a_mask():
    args = inputs(1, 2, 2, 300, 330, 16, dtype=torch.float64, requires_grad=False)
    for window in [*WINDOWS, (0, 0)]:
        for mine, other in zip(
            attention(*args, window=window), attention(*args, attn_bias=seen(300, 330, False, "bottom_right", window))
        ):
            torch.testing.assert_close(mine, other, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("softcap", [0.5, 30.0])
def test_softcap(softcap, dtype):
    args = inputs(2, 4, 2, 70, 90, 16, dtype=dtype)
    check(args, softcap=softcap, is_causal=True)
    check(args, softcap=softcap, attn_bias=torch.randn(70, 90).to(dtype).requires_grad_())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("align", ["bottom_right", "top_left"])
def test_alibi(align, dtype):
    for given in (slopes(), slopes(batch=2)):
        check(inputs(2, 4, 2, 70, 90, 16, dtype=dtype), alibi_slopes=given, causal_align=align)
    check(
        inputs(2, 4, 4, 70, 90, 16, dtype=dtype),
        alibi_slopes=slopes(),
        is_causal=True,
        attn_bias=torch.randn(70, 90).to(dtype).requires_grad_(),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_sinks(dtype):
    args = inputs(2, 4, 2, 70, 90, 16, dtype=dtype)
    check(args, sinks=sinks(dtype))
    check(args, sinks=sinks(dtype), is_causal=True, attn_bias=torch.randn(70, 1).to(dtype).requires_grad_())
    check(args, sinks=sinks(torch.float64 if dtype == torch.float64 else torch.float32))


def test_sinks_of_rows_that_see_nothing():
    args = inputs(1, 4, 4, 150, 40, 16, dtype=torch.float64)
    sink = sinks(torch.float64)
    out, lse = attention(*args, sinks=sink, is_causal=True)
    assert not out[:, :, :110].any()
    torch.testing.assert_close(lse[:, :, :110], sink[None, :, None].expand(1, 4, 110))
    check(args, sinks=sink, is_causal=True)


def test_sinks_far_from_all_scores():
    for value in (-1e4, 1e4, -torch.inf):
        args = inputs(1, 2, 2, 40, 50, 16, dtype=torch.float64)
        check(args, sinks=torch.full((2,), value, dtype=torch.float64))


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_at_once(dtype):
    # From 8 key heads on, the gradient is computed in one pass.
    for heads, key_heads in ((4, 2), (8, 8)):
        check(
            inputs(2, heads, key_heads, 140, 200, 24, dtype=dtype),
            window=(50, 20),
            softcap=3.0,
            alibi_slopes=slopes(heads),
            sinks=sinks(dtype, heads),
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
def test_dropout(p, dtype):
    seed = torch.randint(2**63 - 1, (2,))
    kept = kept_by(seed, p, 2, 4, 70, 130)
    for key_heads in (2, 4):
        check_call(
            lambda *a, **k: attention(*a, dropout_p=p, seed=seed, **k),
            lambda *a, **k: peer(*a, kept=kept, **k),
            inputs(2, 4, key_heads, 70, 130, 16, dtype=dtype),
            {"is_causal": key_heads == 2},
        )


def test_dropout_draws_independently():
    seed = torch.randint(2**63 - 1, (2,))
    p, n = 0.3, 3 * 4 * 100 * 300
    kept = kept_by(seed, p, 3, 4, 100, 300) != 0
    assert abs(kept.double().mean().item() - (1 - p)) < 5 * (p * (1 - p) / n) ** 0.5
    flat = kept.flatten(0, 2)
    assert len(torch.unique(flat, dim=0)) == len(flat)
    assert torch.equal(kept, kept_by(seed, p, 3, 4, 100, 300) != 0)
    assert not torch.equal(kept, kept_by(seed + 1, p, 3, 4, 100, 300) != 0)
    # One seed keeps the same probabilities, whatever their values.
    q, k, v = inputs(3, 4, 4, 100, 300, 16, dtype=torch.float64, requires_grad=False)
    v = torch.eye(300, dtype=torch.float64)[:, :256].expand(3, 4, 300, 256)
    assert torch.equal(attention(q, k, v, dropout_p=p, seed=seed)[0] != 0, kept[..., :256])


def test_no_dropout_needs_no_seed():
    args = inputs(1, 2, 2, 5, 7, 8)
    assert torch.equal(attention(*args)[0], attention(*args, seed=torch.tensor([1, 2]))[0])


CASES = [
    {"window": [3, 1]},
    {"softcap": 1.5, "alibi_slopes": torch.rand(4), "is_causal": True},
    {"sinks": torch.randn(4, dtype=torch.double), "dropout_p": 0.25, "seed": torch.tensor([3, 4])},
]


@pytest.mark.parametrize("kwargs", CASES)
@pytest.mark.parametrize(
    "check",
    [pytest.param(c, marks=pytest.mark.slow if c is contract.gradcheck else ()) for c in contract.CHECKS],
    ids=lambda c: c.__name__,
)
def test_contract(check, kwargs):
    kwargs = {
        name: value.to(torch.get_default_device()) if isinstance(value, torch.Tensor) else value
        for name, value in kwargs.items()
    }
    check(attention, inputs(2, 4, 2, 3, 6, 4, dtype=torch.float64), kwargs)  # gradcheck moves every element


def test_slopes_have_no_gradient():
    args = inputs(1, 4, 4, 5, 7, 8)
    with pytest.raises(NotImplementedError, match="'alibi_slopes'"):
        attention(*args, alibi_slopes=torch.rand(4, requires_grad=True))[0].sum().backward()
