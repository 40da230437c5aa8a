"""Bad input of every operator: the class and exact text of its error, with what was given and the fix."""

import math

import pytest
import tile_ops  # noqa: F401
import torch

tile = torch.ops.tile


def f(*sizes, dtype=torch.float32, device=None):
    return torch.ones(sizes, dtype=dtype, device=device)


def f64(*sizes):
    return f(*sizes, dtype=torch.float64)


def i64(*sizes):
    return f(*sizes, dtype=torch.int64)


def meta(*sizes):
    return f(*sizes, device="meta")


FLOATS = "it must be Half, BFloat16, Float or Double, convert it with .to()"
OTHERS = "it must be float16, bfloat16, float32 or float64"
MOVE = "move them to one device"
HERE = f().device
LAST = "it must be the sizes of the last dimensions"
X = (1, 2, 3, 4)

DTYPES = [
    (
        lambda: tile.softmax(i64(2, 3), 1),
        "tile::softmax: 'input' is Long; softmax is computed in Half, BFloat16, Float or Double, pass dtype=torch.float32",
    ),
    (
        lambda: tile.softmax(f(2, 3), 1, torch.int32),
        "tile::softmax: dtype is Int; softmax is computed in Half, BFloat16, Float or Double, pass one of these",
    ),
    (
        lambda: tile.log_softmax(i64(2, 3), 1),
        "tile::log_softmax: 'input' is Long; log_softmax is computed in Half, BFloat16, Float or Double, pass dtype=torch.float32",
    ),
    (lambda: tile.rms_norm(i64(2, 3), [3]), f"tile::rms_norm: 'input' is Long; {FLOATS}"),
    (lambda: tile.add_rms_norm(i64(2, 3), i64(2, 3), [3]), f"tile::add_rms_norm: 'input' is Long; {FLOATS}"),
    (
        lambda: tile.add_rms_norm(f(2, 3), f64(2, 3), [3]),
        "tile::add_rms_norm: 'residual' is Double and 'input' Float; convert one with .to()",
    ),
    (lambda: tile.layer_norm(i64(2, 3), [3]), f"tile::layer_norm: 'input' is Long; {FLOATS}"),
    (
        lambda: tile.layer_norm(f(2, 3), [3], f(3), f64(3)),
        "tile::layer_norm: 'bias' is Double and 'input' Float; 'bias' must have the dtype of 'input', or be Float where that has 16 bits",
    ),
    (lambda: tile.swiglu(i64(2, 3), i64(2, 3)), f"tile::swiglu: gate is int64; {OTHERS}"),
    (lambda: tile.geglu(f(2, 3), f64(2, 3)), "tile::geglu: gate is float32 and up is float64; convert one with .to()"),
    (lambda: tile.group_norm(i64(2, 4, 3), 2), f"tile::group_norm: 'input' is Long; {FLOATS}"),
    (
        lambda: tile.group_norm(f(2, 4, 3), 2, f64(4)),
        "tile::group_norm: 'weight' is Double and 'input' Float; 'weight' must have the dtype of 'input', or be Float where that has 16 bits",
    ),
    (lambda: tile.rope(i64(*X), f(*X), f(3, 4), f(3, 4)), f"tile::rope: query is int64; {OTHERS}"),
    (
        lambda: tile.rope(f(*X), f64(*X), f(3, 4), f(3, 4)),
        "tile::rope: query is float32 and key is float64; convert one with .to()",
    ),
    (
        lambda: tile.rope_(f(*X), f64(*X), f(3, 4), f(3, 4)),
        "tile::rope_: query is float32 and key is float64; convert one with .to()",
    ),
    (lambda: tile.adamw_([i64(3)], [f(3)], [f(3)], [f(3)], [f()]), f"tile::adamw_: params[0] is int64; {OTHERS}"),
    (lambda: tile.dropout(i64(2, 3), 0.5, i64(2)), f"tile::dropout: input is int64; {OTHERS}"),
    (lambda: tile.dropout(f(2, 3), 0.5, f(2)), "tile::dropout: seed is float32; it must be int64"),
    (lambda: tile.matmul(i64(2, 3), i64(3, 2)), f"tile::matmul: input is int64; {OTHERS}"),
    (lambda: tile.matmul(f(2, 3), f64(3, 2)), "tile::matmul: input is float32 and other is float64; convert one with .to()"),
    (lambda: tile.matmul(f(2, 3), f(3, 2), bias=i64(2)), f"tile::matmul: bias is int64; {OTHERS}"),
    (lambda: tile.cross_entropy(i64(2, 3), i64(2)), f"tile::cross_entropy: input is int64; {OTHERS}"),
    (lambda: tile.cross_entropy(f(2, 3), i64(2).bool()), "tile::cross_entropy: target is bool; it must be int64 or int32"),
    (
        lambda: tile.linear_cross_entropy(f(2, 3), f64(4, 3), i64(2)),
        "tile::linear_cross_entropy: input is float32 and weight is float64; convert one with .to()",
    ),
    (lambda: tile.embedding(i64(2, 3), i64(2)), f"tile::embedding: weight is int64; {OTHERS}"),
    (lambda: tile.embedding(f(2, 3), f(2)), "tile::embedding: indices is float32; it must be int64 or int32"),
    (lambda: tile.gated_matmul(i64(2, 3), i64(3, 2), i64(3, 2)), f"tile::gated_matmul: input is int64; {OTHERS}"),
    (
        lambda: tile.gated_matmul(f(2, 3), f64(3, 2), f(3, 2)),
        "tile::gated_matmul: input is float32 and gate_weight is float64; convert one with .to()",
    ),
    (
        lambda: tile.attention(i64(*X), i64(*X), i64(*X)),
        "tile::attention: 'query' is Long; convert it to Half, BFloat16, Float or Double",
    ),
    (
        lambda: tile.attention(f(*X), f64(*X), f(*X)),
        "tile::attention: 'query' is Float, 'key' Double and 'value' Float; convert them to one dtype",
    ),
    (
        lambda: tile.attention(f(*X), f(*X), f(*X), attn_bias=i64(3, 3)),
        "tile::attention: 'attn_bias' is Long; give a bool mask (True attends) or floats to add to the scores",
    ),
]
SHAPES = [
    (lambda: tile.softmax(f(2, 3), 2), "tile::softmax: dim 2 is out of range for 'input' of rank 2; give one in [-2, 1]"),
    (
        lambda: tile.log_softmax(f(2, 3), -3),
        "tile::log_softmax: dim -3 is out of range for 'input' of rank 2; give one in [-2, 1]",
    ),
    (lambda: tile.rms_norm(f(3), [2, 3]), f"tile::rms_norm: normalized_shape is [2, 3], but 'input' has sizes [3]; {LAST}"),
    (lambda: tile.rms_norm(f(2, 3), [4]), f"tile::rms_norm: normalized_shape is [4], but 'input' has sizes [2, 3]; {LAST}"),
    (
        lambda: tile.rms_norm(f(2, 3), [3], f(2)),
        "tile::rms_norm: 'weight' has sizes [2], but normalized_shape is [3]; they must be equal",
    ),
    (
        lambda: tile.add_rms_norm(f(2, 3), f(3), [3]),
        "tile::add_rms_norm: 'residual' has sizes [3], but 'input' has [2, 3]; they must be equal",
    ),
    (
        lambda: tile.add_rms_norm(f(2, 3), f(2, 3), [4]),
        f"tile::add_rms_norm: normalized_shape is [4], but 'input' has sizes [2, 3]; {LAST}",
    ),
    (lambda: tile.layer_norm(f(3), [2, 3]), f"tile::layer_norm: normalized_shape is [2, 3], but 'input' has sizes [3]; {LAST}"),
    (lambda: tile.layer_norm(f(2, 3), [4]), f"tile::layer_norm: normalized_shape is [4], but 'input' has sizes [2, 3]; {LAST}"),
    (
        lambda: tile.layer_norm(f(2, 3), [3], f(3), f(2)),
        "tile::layer_norm: 'bias' has sizes [2], but normalized_shape is [3]; they must be equal",
    ),
    (
        lambda: tile.swiglu(f(2, 3), f(2, 1)),
        "tile::swiglu: gate is [2, 3] and up is [2, 1]; give them one shape, neither is broadcast",
    ),
    (lambda: tile.geglu(f(2, 3), f(3)), "tile::geglu: gate is [2, 3] and up is [3]; give them one shape, neither is broadcast"),
    (lambda: tile.group_norm(f(3), 1), "tile::group_norm: 'input' has 1 dimensions; it must have 2 to 5: [N, C, …]"),
    (
        lambda: tile.group_norm(f(2, 5, 3), 2),
        "tile::group_norm: 'input' has 5 channels, which num_groups=2 does not divide; give a divisor",
    ),
    (
        lambda: tile.group_norm(f(2, 4, 3), 2, f(3)),
        "tile::group_norm: 'weight' has sizes [3], but the channels of 'input' are [4]; they must be equal",
    ),
    (
        lambda: tile.rope(f(2, 3, 4), f(*X), f(3, 4), f(3, 4)),
        "tile::rope: query has shape [2, 3, 4]; it must be [batch, heads, positions, head dim]",
    ),
    (
        lambda: tile.rope(f(*X), f(1, 2, 5, 4), f(3, 4), f(3, 4)),
        "tile::rope: query [1, 2, 3, 4] and key [1, 2, 5, 4] differ; only their number of heads may",
    ),
    (
        lambda: tile.rope(f(*X), f(*X), f(3, 3), f(3, 3)),
        "tile::rope: cos and sin have width 3, but rotary_dim is 4; the width must be rotary_dim or half of it",
    ),
    (
        lambda: tile.adamw_([f(3)], [f(4)], [f(3)], [f(3)], [f()]),
        "tile::adamw_: grads[0] has shape [4] and params[0] [3]; they must be alike",
    ),
    (
        lambda: tile.rope_(f(*X), f(1, 2, 5, 4), f(3, 4), f(3, 4)),
        "tile::rope_: query [1, 2, 3, 4] and key [1, 2, 5, 4] differ; only their number of heads may",
    ),
    (lambda: tile.dropout(f(2, 3), 2, i64(2)), "tile::dropout: p is 2; it must be a probability, from 0 to 1"),
    (
        lambda: tile.dropout(f(2, 3), 0.5, i64(3)),
        "tile::dropout: seed has shape [3] and input [2, 3]; it must be [2], or [..., 2] with leading extents of input",
    ),
    (lambda: tile.matmul(f(), f(3, 2)), "tile::matmul: input has no dimensions; both operands need at least one"),
    (
        lambda: tile.matmul(f(2, 3), f(4, 2)),
        "tile::matmul: cannot multiply input [2, 3] by other [4, 2]; the inner extents 3 and 4 differ",
    ),
    (
        lambda: tile.matmul(f(2, 2, 3), f(3, 3, 2)),
        "tile::matmul: cannot multiply input [2, 2, 3] by other [3, 3, 2]; the batch extents 2 and 3 do not broadcast",
    ),
    (
        lambda: tile.matmul(f(2, 3), f(3, 2), bias=f(3)),
        "tile::matmul: bias [3] does not broadcast to the product [2, 2]; its extents must be 1 or equal, counted from the last",
    ),
    (
        lambda: tile.cross_entropy(f(2, 3), i64(3)),
        "tile::cross_entropy: target has shape [3]; it must be [2], that of input without its classes",
    ),
    (
        lambda: tile.linear_cross_entropy(f(2, 3), f(4, 2), i64(2)),
        "tile::linear_cross_entropy: input is [2, 3] and weight [4, 2]; they must be [..., d] and [classes, d]",
    ),
    (lambda: tile.embedding(f(3), i64(2)), "tile::embedding: weight has shape [3]; it must be [rows, columns]"),
    (
        lambda: tile.gated_matmul(f(2, 3), f(4, 2), f(4, 2)),
        "tile::gated_matmul: cannot multiply input [2, 3] by gate_weight [4, 2]; the inner extents 3 and 4 differ",
    ),
    (
        lambda: tile.gated_matmul(f(2, 3), f(3, 2), f(3, 1)),
        "tile::gated_matmul: gate_weight is [3, 2] and up_weight [3, 1]; they must have one shape",
    ),
    (
        lambda: tile.attention(f(2, 3, 4), f(2, 3, 4), f(2, 3, 4)),
        "tile::attention: 'query' has shape [2, 3, 4]; give it 4 dimensions, [batch, heads, length, head_dim]",
    ),
    (
        lambda: tile.attention(f(*X), f(1, 2, 3, 5), f(*X)),
        "tile::attention: 'query' is [1, 2, 3, 4] but 'key' [1, 2, 3, 5]; their batch and head_dim must be equal",
    ),
    (
        lambda: tile.attention(f(*X), f(*X), f(1, 2, 5, 4)),
        "tile::attention: 'key' is [1, 2, 3, 4] but 'value' [1, 2, 5, 4]; their batch, heads and length must be equal",
    ),
    (
        lambda: tile.attention(f(1, 3, 3, 4), f(*X), f(*X)),
        "tile::attention: 'query' has 3 heads but 'key' 2; the heads of query must be a multiple of those of key",
    ),
    (
        lambda: tile.attention(f(*X), f(*X), f(*X), attn_bias=f(4, 4)),
        "tile::attention: 'attn_bias' is [4, 4], which does not broadcast to the scores, [1, 2, 3, 3]; every dimension must be equal or 1",
    ),
    # Gradients called directly, with what no forward gives.
    (
        lambda: tile.rope_backward(f(*X), f(*X), f(3, 4), f(3, 4), False, 2**31, None, [True, True]),
        "tile::rope_backward: rotary_dim is 2147483648; it must be even and from 0 to the head dim 4",
    ),
    (
        lambda: tile.rope_backward(None, None, f(3, 4), f(3, 4), False, None, None, [True, True]),
        "tile::rope_backward: grad_query_out and grad_key_out are both None; pass one of them",
    ),
    (
        lambda: tile.cross_entropy_backward(f(3, 2), f(3, 5, 2), i64(3, 2), None, -100, "none", 0.0, 0.0, f(3, 1), None),
        "tile::cross_entropy_backward: lse has shape [3, 1]; it must be [3, 2, 2], as the forward saves it",
    ),
    (
        lambda: tile.cross_entropy_backward(f(3), f(3, 5), i64(3), None, -100, "sum", 0.0, 0.0, f(3), None),
        "tile::cross_entropy_backward: grad_out has shape [3]; it must be [], that of the result",
    ),
    (
        lambda: tile.linear_cross_entropy_backward(
            f(2), f(3, 4), f(5, 4), i64(3), None, -100, "none", 0.0, 0.0, f(3), None, [True] * 3
        ),
        "tile::linear_cross_entropy_backward: grad_out has shape [2]; it must be [3], that of the result",
    ),
    (
        lambda: tile.linear_cross_entropy_backward(
            f(3), f(3, 4), f(5, 4), i64(3), None, -100, "sum", 0.0, 0.0, f(3), None, [True] * 3
        ),
        "tile::linear_cross_entropy_backward: grad_out has shape [3]; it must be [], that of the result",
    ),
    (
        lambda: tile.linear_cross_entropy_backward(
            f(), f(3, 4), f(5, 4), i64(3), None, -100, "sum", 0.0, 0.0, f(2), None, [True] * 3
        ),
        "tile::linear_cross_entropy_backward: lse has shape [2]; it must be [3, 2], as the forward saves it",
    ),
    (
        lambda: tile.layer_norm_backward(f(2, 3), f(2, 3), [3], f(3), f(3), f(2, 0), f(2, 1), [True] * 3),
        "tile::layer_norm_backward: mean has shape [2, 0]; it must be [2, 1], as the forward saves it",
    ),
    (
        lambda: tile.group_norm_backward(f(2, 4, 3), f(2, 4, 3), 0, f(4), f(4), "silu", f(2, 2), f(2, 2), [True] * 3),
        "tile::group_norm_backward: num_groups is 0; it must be at least 1",
    ),
    (
        lambda: tile.geglu_backward(f(2, 1), f(2, 1), f(2, 0), "tanh", [True, True]),
        "tile::geglu_backward: gate is [2, 1] and up is [2, 0]; give them one shape, neither is broadcast",
    ),
    (
        lambda: tile.matmul_backward(f(2, 2), f(2, 3), f(3, 2), None, "relu", 1.0, None, None, [True, True, False, False]),
        "tile::matmul_backward: activation is relu and 'pre' is not given; pass the product before the activation",
    ),
    (
        lambda: tile.matmul_backward(f(2, 2), f(2, 3), f(3, 2), None, "none", 1.0, None, None, [False, False, True, False]),
        "tile::matmul_backward: output_mask asks for the gradient of 'bias', which is not given; clear its bit",
    ),
    (
        lambda: tile.embedding_backward(f(2, 2, 3), f(5, 4), i64(2, 2), -1),
        "tile::embedding_backward: grad_out has shape [2, 2, 3]; it must be [2, 2, 4], that of the result",
    ),
]
DEVICES = [
    (lambda: tile.rms_norm(f(2, 3), [3], meta(3)), f"tile::rms_norm: 'input' is on {HERE}, but 'weight' is on meta; {MOVE}"),
    (
        lambda: tile.add_rms_norm(f(2, 3), meta(2, 3), [3]),
        f"tile::add_rms_norm: 'input' is on {HERE}, but 'residual' is on meta; {MOVE}",
    ),
    (
        lambda: tile.layer_norm(f(2, 3), [3], f(3), meta(3)),
        f"tile::layer_norm: 'input' is on {HERE}, but 'bias' is on meta; {MOVE}",
    ),
    (lambda: tile.swiglu(f(2, 3), meta(2, 3)), f"tile::swiglu: 'gate' is on {HERE}, but 'up' is on meta; {MOVE}"),
    (lambda: tile.geglu(f(2, 3), meta(2, 3)), f"tile::geglu: 'gate' is on {HERE}, but 'up' is on meta; {MOVE}"),
    (
        lambda: tile.group_norm(f(2, 4, 3), 2, meta(4)),
        f"tile::group_norm: 'input' is on {HERE}, but 'weight' is on meta; {MOVE}",
    ),
    (lambda: tile.rope(f(*X), meta(*X), f(3, 4), f(3, 4)), f"tile::rope: 'query' is on {HERE}, but 'key' is on meta; {MOVE}"),
    (lambda: tile.rope_(f(*X), meta(*X), f(3, 4), f(3, 4)), f"tile::rope_: 'query' is on {HERE}, but 'key' is on meta; {MOVE}"),
    (
        lambda: tile.adamw_([f(3), f(3)], [f(3), meta(3)], [f(3)] * 2, [f(3)] * 2, [f()] * 2),
        f"tile::adamw_: 'params' is on {HERE}, but 'grads' is on meta; {MOVE}",
    ),
    (
        lambda: tile.dropout(f(2, 3), 0.5, torch.ones(2, dtype=torch.int64, device="meta")),
        f"tile::dropout: 'input' is on {HERE}, but 'seed' is on meta; {MOVE}",
    ),
    (lambda: tile.matmul(f(2, 3), meta(3, 2)), f"tile::matmul: 'input' is on {HERE}, but 'other' is on meta; {MOVE}"),
    (
        lambda: tile.cross_entropy(f(2, 3), meta(2).long()),
        f"tile::cross_entropy: 'input' is on {HERE}, but 'target' is on meta; {MOVE}",
    ),
    (
        lambda: tile.linear_cross_entropy(f(2, 3), meta(4, 3), i64(2)),
        f"tile::linear_cross_entropy: 'input' is on {HERE}, but 'weight' is on meta; {MOVE}",
    ),
    (
        lambda: tile.embedding(f(2, 3), meta(2).long()),
        f"tile::embedding: 'weight' is on {HERE}, but 'indices' is on meta; {MOVE}",
    ),
    (
        lambda: tile.gated_matmul(f(2, 3), f(3, 2), meta(3, 2)),
        f"tile::gated_matmul: 'input' is on {HERE}, but 'up_weight' is on meta; {MOVE}",
    ),
    (lambda: tile.attention(f(*X), meta(*X), f(*X)), f"tile::attention: 'query' is on {HERE}, but 'key' is on meta; {MOVE}"),
]
CASES = [
    pytest.param(kind, call, text, id=f"{text.split(':')[2]}-{what}{i}")
    for what, kind, cases in (("dtype", TypeError, DTYPES), ("shape", ValueError, SHAPES), ("device", RuntimeError, DEVICES))
    for i, (call, text) in enumerate(cases)
]


@pytest.mark.parametrize("kind, call, text", CASES)
def test_bad_input(kind, call, text):
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind and str(error.value).splitlines()[0] == text


def between(*sizes):
    """On the CPU a tensor whose elements begin at no multiple of their size."""
    x = torch.frombuffer(bytearray(4 * math.prod(sizes) + 1), dtype=torch.float32, offset=1).reshape(sizes)
    return (
        x
        if x.data_ptr() % 4
        else torch.frombuffer(bytearray(4 * math.prod(sizes) + 2), dtype=torch.float32, offset=2).reshape(sizes)
    )


good, bad = torch.ones(2, 3, device="cpu"), between(2, 3)


@pytest.mark.parametrize(
    "operator, name, call",
    [
        ("softmax", "input", lambda: tile.softmax(bad, -1)),
        ("log_softmax", "input", lambda: tile.log_softmax(bad, -1)),
        ("rms_norm", "weight", lambda: tile.rms_norm(good, [3], bad[0])),
        ("add_rms_norm", "residual", lambda: tile.add_rms_norm(good, bad, [3])),
        ("layer_norm", "bias", lambda: tile.layer_norm(good, [3], good[0], bad[0])),
        ("swiglu", "up", lambda: tile.swiglu(good, bad)),
        ("geglu", "gate", lambda: tile.geglu(bad, good)),
        ("group_norm", "input", lambda: tile.group_norm(bad.view(2, 3, 1), 1)),
        ("rope", "query", lambda: tile.rope(bad.view(1, 1, 3, 2), good.view(1, 1, 3, 2), good.view(3, 2), good.view(3, 2))),
        (
            "rope_",
            "key",
            lambda: tile.rope_(torch.ones(1, 1, 3, 2, device="cpu"), bad.view(1, 1, 3, 2), good.view(3, 2), good.view(3, 2)),
        ),
        ("adamw_", "exp_avgs", lambda: tile.adamw_([good], [good.clone()], [bad], [good.clone()], [good[0, 0].clone()])),
        ("dropout", "input", lambda: tile.dropout(bad, 0.5, torch.ones(2, dtype=torch.int64, device="cpu"))),
        ("matmul", "other", lambda: tile.matmul(good, bad.view(3, 2))),
        ("cross_entropy", "input", lambda: tile.cross_entropy(bad, torch.zeros(2, dtype=torch.int64, device="cpu"))),
        ("embedding", "weight", lambda: tile.embedding(bad, torch.zeros(2, dtype=torch.int64, device="cpu"))),
        ("gated_matmul", "up_weight", lambda: tile.gated_matmul(good, good.view(3, 2), bad.view(3, 2))),
        ("attention", "key", lambda: tile.attention(good.view(1, 1, 2, 3), bad.view(1, 1, 2, 3), good.view(1, 1, 2, 3))),
        ("softmax_backward", "grad_out", lambda: tile.softmax_backward(bad, good, -1)),
    ],
)
def test_elements_between_their_places(operator, name, call):
    with pytest.raises(ValueError) as error:
        call()
    address = f"{(bad[0] if name in ('weight', 'bias') else bad).data_ptr():#x}"
    assert str(error.value).splitlines()[0] == (
        f"tile::{operator}: '{name}' begins at address {address}, which is not a multiple of the 4 bytes of float32; "
        f"copy it first, with {name}.clone()"
    )
