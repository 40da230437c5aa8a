"""tile_ops.nn: modules load the state_dict of their torch twins and agree with them."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from tile_ops import nn

TWINS = [
    (nn.Linear, torch.nn.Linear, (8, 6), {}, (3, 8)),
    (nn.Linear, torch.nn.Linear, (8, 6), {"bias": False}, (2, 3, 8)),
    (nn.GroupNorm, torch.nn.GroupNorm, (2, 6), {}, (3, 6, 4, 5)),
    (nn.GroupNorm, torch.nn.GroupNorm, (3, 6), {"affine": False, "eps": 1e-3}, (3, 6, 4)),
    (nn.LayerNorm, torch.nn.LayerNorm, (8,), {}, (3, 8)),
    (nn.LayerNorm, torch.nn.LayerNorm, ((4, 8),), {"bias": False}, (3, 4, 8)),
    (nn.RMSNorm, torch.nn.RMSNorm, (8,), {}, (3, 8)),
    (nn.RMSNorm, torch.nn.RMSNorm, ((4, 8),), {"elementwise_affine": False, "eps": 1e-3}, (3, 4, 8)),
]


def gradients(module, *inputs, **kwargs):
    inputs = [x.clone().requires_grad_() for x in inputs]
    out = module(*inputs, **kwargs)
    out = out[0] if isinstance(out, tuple) else out
    out.square().sum().backward()
    return out, [x.grad for x in inputs] + [p.grad for p in module.parameters()]


@pytest.mark.parametrize("ours, theirs, args, kwargs, shape", TWINS)
def test_twins(ours, theirs, args, kwargs, shape):
    twin = theirs(*args, **kwargs)
    for parameter in twin.parameters():
        torch.nn.init.normal_(parameter)
    module = ours(*args, **kwargs)
    module.load_state_dict(twin.state_dict())
    x = torch.randn(shape)
    torch.testing.assert_close(gradients(module, x), gradients(twin, x))
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(other(x), twin(x))
    twin.load_state_dict(module.state_dict())


def test_activations():
    x = torch.randn(3, 8)
    linear = nn.Linear(8, 6, activation="gelu")
    torch.testing.assert_close(linear(x), F.gelu(F.linear(x, linear.weight, linear.bias)))
    assert repr(linear) == "Linear(in_features=8, out_features=6, bias=True, activation=gelu)"
    norm, x = nn.GroupNorm(2, 6, activation="silu"), torch.randn(3, 6, 5)
    torch.testing.assert_close(norm(x), F.silu(F.group_norm(x, 2)))
    assert repr(norm).endswith("activation=silu)")


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotary_dim", [None, 8])
def test_rotary_embedding(interleaved, rotary_dim):
    rotary = rotary_dim or 16
    module = nn.RotaryEmbedding(16, 32, base=500.0, rotary_dim=rotary_dim, interleaved=interleaved)
    query, key = torch.randn(2, 4, 7, 16), torch.randn(2, 2, 7, 16)
    angle = torch.arange(32)[:, None] * 500.0 ** (-torch.arange(0, rotary, 2) / rotary)
    turned = torch.polar(torch.ones_like(angle), angle)[:7]
    for out, x in zip(module(query, key), (query, key)):
        part = x[..., :rotary]
        pairs = part.unflatten(-1, (-1, 2)) if interleaved else part.unflatten(-1, (2, -1)).transpose(-1, -2)
        expected = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turned)
        expected = expected.flatten(-2) if interleaved else expected.transpose(-1, -2).flatten(-2)
        torch.testing.assert_close(out, torch.cat((expected, x[..., rotary:]), -1))
    ids = torch.arange(5, 12)
    shifted = module(query, key, ids)[0]
    padded = module(F.pad(query, (0, 0, 5, 0)), F.pad(key, (0, 0, 5, 0)))[0][..., 5:, :]
    torch.testing.assert_close(shifted, padded)


def test_rotary_embedding_keeps_its_tables_wide():
    module = torch.nn.Sequential(nn.RotaryEmbedding(16, 32)).bfloat16()[0]
    assert module.cos.dtype == torch.float32 and module.state_dict() == {}
    out, _ = module(torch.randn(1, 2, 5, 16).bfloat16(), torch.randn(1, 2, 5, 16).bfloat16())
    assert out.dtype == torch.bfloat16
    module.double()
    assert module.cos.dtype == torch.float64
    assert (module.cos.square() + module.sin.square() - 1).abs().max() < 1e-15


def test_rotary_embedding_errors():
    with pytest.raises(ValueError) as error:
        nn.RotaryEmbedding(16, 32, rotary_dim=7)
    assert str(error.value) == "RotaryEmbedding: rotary_dim is 7; it must be even, above 0 and at most head_dim 16"
    with pytest.raises(ValueError) as error:
        nn.RotaryEmbedding(16, 4)(torch.randn(1, 2, 5, 16), torch.randn(1, 2, 5, 16))
    assert str(error.value) == "RotaryEmbedding: 5 positions, but the tables hold 4; raise max_positions"


def attention_pair(**kwargs):
    twin = torch.nn.MultiheadAttention(16, 4, **kwargs)
    for parameter in twin.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    module = nn.MultiheadAttention(16, 4, **kwargs)
    module.load_state_dict(twin.state_dict())
    return module, twin


def compare(module, twin, *inputs, **kwargs):
    ours = gradients(module, *inputs, **kwargs)
    theirs = gradients(twin, *inputs, **kwargs, need_weights=False)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
    assert module(*inputs, **kwargs)[1] is None


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_multihead_attention(batch_first, bias):
    module, twin = attention_pair(batch_first=batch_first, bias=bias)
    order = (lambda x: x) if batch_first else (lambda x: x.transpose(0, 1))
    query, key, value = torch.randn(2, 5, 16), torch.randn(2, 7, 16), torch.randn(2, 7, 16)
    compare(module, twin, order(query), order(key), order(value))
    compare(module, twin, query[0], key[0], value[0])
    x = order(query)
    torch.testing.assert_close(module(x, x, x)[0], twin(x, x, x, need_weights=False)[0], rtol=1e-4, atol=1e-5)


def test_multihead_attention_of_other_widths():
    module, twin = attention_pair(kdim=6, vdim=10, batch_first=True)
    compare(module, twin, torch.randn(2, 5, 16), torch.randn(2, 7, 6), torch.randn(2, 7, 10))


@pytest.mark.parametrize("padding", [None, "bool", "added"])
@pytest.mark.parametrize("mask", [None, "bool", "added", "heads"])
def test_multihead_attention_masks(padding, mask):
    module, twin = attention_pair(batch_first=True)
    kwargs = {}
    if padding:
        ignored = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
        kwargs["key_padding_mask"] = ignored if padding == "bool" else torch.where(ignored, -2.0, 0.5)
    if mask:
        kwargs["attn_mask"] = {
            "bool": torch.ones(5, 7).triu(3) > 0,
            "added": torch.randn(5, 7),
            "heads": torch.randn(8, 5, 7) > 1.0,
        }[mask]
    if padding == "bool" and mask == "heads":
        kwargs["attn_mask"][:, :, 0] = False  # torch gives NaN for rows with nothing to attend to
    compare(module, twin, torch.randn(2, 5, 16), torch.randn(2, 7, 16), torch.randn(2, 7, 16), **kwargs)


@pytest.mark.parametrize("added", [{"add_bias_kv"}, {"add_zero_attn"}, {"add_bias_kv", "add_zero_attn"}], ids=sorted)
def test_multihead_attention_of_keys_behind_the_others(added):
    ignored = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
    excluded = torch.ones(5, 7).triu(3) > 0
    for given in ({}, {"kdim": 6, "vdim": 10}, {"bias": False}, {"dtype": torch.float64}):
        module, twin = attention_pair(batch_first=True, **dict.fromkeys(added, True), **given)
        x, k, v = (
            torch.randn(2, n, width, dtype=given.get("dtype"))
            for n, width in ((5, 16), (7, given.get("kdim", 16)), (7, given.get("vdim", 16)))
        )
        for kwargs in (
            {},
            {"key_padding_mask": ignored},
            {"attn_mask": excluded},
            {"attn_mask": torch.randn(5, 7)},
            {"attn_mask": excluded, "key_padding_mask": ignored},
            {"attn_mask": torch.rand(8, 5, 7) > 0.5, "key_padding_mask": torch.where(ignored, -2.0, 0.5)},
        ):
            kwargs = {name: mask if mask.dtype == torch.bool else mask.to(x.dtype) for name, mask in kwargs.items()}
            compare(module, twin, x, k, v, **kwargs)
        theirs = twin(x, k, v, attn_mask=torch.ones(5, 7).triu(1) > 0, need_weights=False)[0]
        torch.testing.assert_close(module(x, k, v, is_causal=True)[0], theirs, rtol=1e-4, atol=1e-5)


def test_multihead_attention_causal():
    module, twin = attention_pair(batch_first=True)
    x = torch.randn(2, 5, 16)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    for kwargs in ({}, {"key_padding_mask": padding}):
        theirs = twin(x, x, x, attn_mask=mask, need_weights=False, **kwargs)[0]
        torch.testing.assert_close(module(x, x, x, is_causal=True, **kwargs)[0], theirs, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(module(x, x, x, attn_mask=mask, is_causal=True, **kwargs)[0], theirs, rtol=1e-4, atol=1e-5)


def test_multihead_attention_drops_in_training():
    module, x = nn.MultiheadAttention(16, 4, dropout=0.5, batch_first=True), torch.randn(2, 50, 16)
    without_dropout = module.eval()(x, x, x)[0]
    module.train()
    torch.manual_seed(3)
    first = module(x, x, x)[0]
    torch.manual_seed(3)
    assert torch.equal(module(x, x, x)[0], first) and not torch.equal(module(x, x, x)[0], first)
    assert not torch.allclose(first, without_dropout)
    mean = torch.stack([module(x, x, x)[0] for _ in range(400)]).mean(0)
    assert (mean - without_dropout).abs().max() < 0.2 * without_dropout.abs().max()


def test_multihead_attention_errors():
    x = torch.randn(2, 5, 16)
    module = nn.MultiheadAttention(16, 4, dropout=0.1)
    for error, text, call in [
        (
            NotImplementedError,
            "need_weights=True is not implemented, the weights are never stored; pass need_weights=False",
            lambda: module(x, x, x, need_weights=True),
        ),
        (
            ValueError,
            "query, key and value have shapes (2, 5, 16), (5, 16) and (2, 5, 16); all must have 3 dimensions, or 2 without a batch",
            lambda: module.eval()(x, x[0], x),
        ),
        (
            ValueError,
            "attn_mask has shape (5,); it must be [L, S] or [N * num_heads, L, S]",
            lambda: module.eval()(x, x, x, attn_mask=torch.zeros(5)),
        ),
    ]:
        with pytest.raises(error) as raised:
            call()
        assert str(raised.value) == f"MultiheadAttention: {text}"
