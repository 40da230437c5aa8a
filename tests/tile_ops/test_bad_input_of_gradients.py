"""Bad input of the gradients' operators, called directly: what no forward gives or saves is an error, of exact text."""

import pytest
import tile_ops  # noqa: F401
import torch

tile = torch.ops.tile


def f(*sizes, dtype=torch.float32):
    return torch.ones(sizes, dtype=dtype)


def f64(*sizes):
    return f(*sizes, dtype=torch.float64)


def bf(*sizes):
    return f(*sizes, dtype=torch.bfloat16)


def i64(*sizes):
    return torch.ones(sizes, dtype=torch.int64)


ALL = [True] * 3
SAVED = "as the forward saves it"
RESULT = "that of the result"


def layer_norm(grad=None, mean=None, rstd=None, weight=None, shape=(3,)):
    one = f(2, 1)
    return tile.layer_norm_backward(
        f(2, 3) if grad is None else grad,
        f(2, 3),
        list(shape),
        weight,
        None,
        one if mean is None else mean,
        one if rstd is None else rstd,
        ALL,
    )


def rms_norm(grad=None, rstd=None, weight=None):
    return tile.rms_norm_backward(
        f(2, 3) if grad is None else grad, f(2, 3), [3], weight, f(2, 1) if rstd is None else rstd, [True] * 2
    )


def add_rms_norm(grad=None, grad_sum=None, rstd=None):
    return tile.add_rms_norm_backward(grad, grad_sum, f(2, 3), [3], None, f(2, 1) if rstd is None else rstd, [True, False])


def group_norm(grad=None, mean=None, rstd=None, x=None):
    x = f(2, 4, 3) if x is None else x
    two = f(2, 2)
    return tile.group_norm_backward(
        torch.ones_like(x) if grad is None else grad,
        x,
        2,
        None,
        None,
        "none",
        two if mean is None else mean,
        two if rstd is None else rstd,
        [True, False, False],
    )


def cross_entropy(reduction, divisors, grad=None, lse=None, target=None):
    return tile.cross_entropy_backward(
        f() if grad is None else grad,
        f(3, 5),
        i64(3) if target is None else target,
        None,
        -100,
        reduction,
        0.0,
        0.0,
        f(3, 2) if lse is None else lse,
        divisors,
    )


def linear_cross_entropy(reduction, divisors, grad=None, lse=None, weight=None, target=None):
    return tile.linear_cross_entropy_backward(
        f() if grad is None else grad,
        f(3, 4),
        f(5, 4) if weight is None else weight,
        i64(3) if target is None else target,
        None,
        -100,
        reduction,
        0.0,
        0.0,
        f(3, 2) if lse is None else lse,
        divisors,
        ALL,
    )


def matmul(grad=None, pre=None, bias=None, residual=None, activation="none"):
    return tile.matmul_backward(
        f(2, 4) if grad is None else grad, f(2, 3), f(3, 4), bias, activation, 1.0, pre, residual, [True, True, False, False]
    )


def matmul_twice(to_input=None, to_bias=None, to_residual=None, grad=None, residual=None):
    return tile.matmul_double_backward(
        to_input,
        None,
        to_bias,
        to_residual,
        f(2, 4) if grad is None else grad,
        f(2, 3),
        f(3, 4),
        None,
        "none",
        1.0,
        None,
        residual,
        [True] * 6,
    )


def gated_matmul(grad=None, gate=None, up=None, weight=None):
    own = f(2, 4)
    return tile.gated_matmul_backward(
        own if grad is None else grad,
        f(2, 3),
        f(3, 4),
        f(3, 4) if weight is None else weight,
        "silu",
        own if gate is None else gate,
        own if up is None else up,
        ALL,
    )


def attention(dtype=torch.float32, **given):
    q, kv = f(1, 2, 3, 8, dtype=dtype), f(1, 2, 5, 8, dtype=dtype)
    saved = {
        "out": f(1, 2, 3, 8, dtype=dtype),
        "top": f(1, 2, 3),
        "weight": f(1, 2, 3),
        "residual": f(1, 2, 3, 0 if dtype == torch.float32 else 8, dtype=dtype),
    } | given
    return tile.attention_backward(
        saved["out"],
        None,
        q,
        kv,
        kv,
        saved["out"],
        saved["top"],
        saved["weight"],
        saved["residual"],
        attn_bias=None,
        is_causal=False,
        causal_align="bottom_right",
        scale=None,
        window=[-1, -1],
        softcap=0.0,
        alibi_slopes=None,
        sinks=None,
        dropout_p=0.0,
        seed=None,
        output_mask=[True, True, True, False, False],
    )


def varlen(starts=(0, 2, 3), **given):
    q = f(3, 2, 8)
    starts = torch.tensor(starts, dtype=torch.int32)
    saved = {"out": q, "top": f(2, 3), "weight": f(2, 3), "residual": f(3, 2, 0)} | given
    return tile.attention_varlen_backward(
        q,
        None,
        q,
        q,
        q,
        starts,
        starts,
        2,
        2,
        saved["out"],
        saved["top"],
        saved["weight"],
        saved["residual"],
        is_causal=False,
        causal_align="bottom_right",
        scale=None,
        window=[-1, -1],
        softcap=0.0,
        alibi_slopes=None,
        sinks=None,
        dropout_p=0.0,
        seed=None,
        output_mask=[True, True, True, False],
    )


SHAPES = [
    (lambda: layer_norm(grad=f(1, 3)), f"layer_norm_backward: grad_out has shape [1, 3]; it must be [2, 3], {RESULT}"),
    (lambda: layer_norm(mean=f(1, 1)), f"layer_norm_backward: mean has shape [1, 1]; it must be [2, 1], {SAVED}"),
    (lambda: layer_norm(rstd=f(2)), f"layer_norm_backward: rstd has shape [2]; it must be [2, 1], {SAVED}"),
    (
        lambda: layer_norm(weight=f(2)),
        "layer_norm_backward: 'weight' has sizes [2], but normalized_shape is [3]; they must be equal",
    ),
    (
        lambda: layer_norm(shape=(4,)),
        "layer_norm_backward: normalized_shape is [4], but 'input' has sizes [2, 3]; it must be the sizes of the last dimensions",
    ),
    (lambda: rms_norm(grad=f(2, 1)), f"rms_norm_backward: grad_out has shape [2, 1]; it must be [2, 3], {RESULT}"),
    (lambda: rms_norm(rstd=f(1, 1)), f"rms_norm_backward: rstd has shape [1, 1]; it must be [2, 1], {SAVED}"),
    (
        lambda: rms_norm(weight=f(4)),
        "rms_norm_backward: 'weight' has sizes [4], but normalized_shape is [3]; they must be equal",
    ),
    (lambda: add_rms_norm(grad=f(1, 3)), f"add_rms_norm_backward: grad_out has shape [1, 3]; it must be [2, 3], {RESULT}"),
    (lambda: add_rms_norm(grad_sum=f(2, 1)), f"add_rms_norm_backward: grad_sum has shape [2, 1]; it must be [2, 3], {RESULT}"),
    (lambda: add_rms_norm(rstd=f(2, 3)), f"add_rms_norm_backward: rstd has shape [2, 3]; it must be [2, 1], {SAVED}"),
    (lambda: group_norm(grad=f(2, 4)), f"group_norm_backward: grad_out has shape [2, 4]; it must be [2, 4, 3], {RESULT}"),
    (lambda: group_norm(mean=f(2, 1)), f"group_norm_backward: mean has shape [2, 1]; it must be [2, 2], {SAVED}"),
    (lambda: group_norm(rstd=f(4)), f"group_norm_backward: rstd has shape [4]; it must be [2, 2], {SAVED}"),
    (lambda: cross_entropy("sum", None, grad=f(1)), f"cross_entropy_backward: grad_out has shape [1]; it must be [], {RESULT}"),
    (lambda: cross_entropy("sum", None, lse=f(2)), f"cross_entropy_backward: lse has shape [2]; it must be [3, 2], {SAVED}"),
    (lambda: cross_entropy("mean", f(1)), f"cross_entropy_backward: divisors has shape [1]; it must be [2], {SAVED}"),
    (lambda: cross_entropy("mean", f()), f"cross_entropy_backward: divisors has shape []; it must be [2], {SAVED}"),
    (
        lambda: cross_entropy("mean", None),
        'cross_entropy_backward: divisors is not given and reduction is "mean"; pass what the forward saved',
    ),
    (lambda: cross_entropy("sum", f(2)), 'cross_entropy_backward: divisors is given and reduction is "sum"; pass None'),
    (
        lambda: cross_entropy("none", f(2), grad=f(3)),
        'cross_entropy_backward: divisors is given and reduction is "none"; pass None',
    ),
    (
        lambda: linear_cross_entropy("mean", f(3)),
        f"linear_cross_entropy_backward: divisors has shape [3]; it must be [2], {SAVED}",
    ),
    (
        lambda: linear_cross_entropy("mean", None),
        'linear_cross_entropy_backward: divisors is not given and reduction is "mean"; pass what the forward saved',
    ),
    (
        lambda: linear_cross_entropy("sum", None, weight=f(5, 3)),
        "linear_cross_entropy_backward: input is [3, 4] and weight [5, 3]; they must be [..., d] and [classes, d]",
    ),
    (lambda: matmul(grad=f(2, 1)), f"matmul_backward: grad_out has shape [2, 1]; it must be [2, 4], {RESULT}"),
    (
        lambda: matmul(bias=f(3)),
        "matmul_backward: bias [3] does not broadcast to the product [2, 4]; its extents must be 1 or equal, counted from the last",
    ),
    (
        lambda: matmul(residual=f(1, 2, 4)),
        "matmul_backward: residual_like [1, 2, 4] does not broadcast to the product [2, 4]; its extents must be 1 or equal, "
        "counted from the last",
    ),
    (lambda: matmul(pre=f(2, 3), activation="relu"), f"matmul_backward: pre has shape [2, 3]; it must be [2, 4], {SAVED}"),
    (lambda: matmul_twice(grad=f(4, 2)), f"matmul_double_backward: grad_out has shape [4, 2]; it must be [2, 4], {RESULT}"),
    (
        lambda: matmul_twice(to_input=f(3, 2)),
        "matmul_double_backward: grad_grad_input has shape [3, 2]; it must be [2, 3], that of the gradient",
    ),
    (
        lambda: matmul_twice(to_bias=f(4)),
        "matmul_double_backward: grad_grad_bias is given, but what it is of is not; pass None",
    ),
    (
        lambda: matmul_twice(to_residual=f(2, 4), residual=f(4)),
        "matmul_double_backward: grad_grad_residual has shape [2, 4]; it must be [4], that of the gradient",
    ),
    (lambda: gated_matmul(grad=f(2, 1)), f"gated_matmul_backward: grad_out has shape [2, 1]; it must be [2, 4], {RESULT}"),
    (lambda: gated_matmul(gate=f(4)), f"gated_matmul_backward: pre_gate has shape [4]; it must be [2, 4], {SAVED}"),
    (lambda: gated_matmul(up=f(2, 5)), f"gated_matmul_backward: pre_up has shape [2, 5]; it must be [2, 4], {SAVED}"),
    (
        lambda: gated_matmul(weight=f(3, 5)),
        "gated_matmul_backward: gate_weight is [3, 4] and up_weight [3, 5]; they must have one shape",
    ),
    (
        lambda: attention(out=f(1, 2, 3, 7)),
        f"attention_backward: out has shape [1, 2, 3, 7]; it must be [1, 2, 3, 8], {RESULT}",
    ),
    (lambda: attention(top=f(1, 2, 1)), f"attention_backward: top has shape [1, 2, 1]; it must be [1, 2, 3], {SAVED}"),
    (lambda: attention(weight=f(1, 2)), f"attention_backward: weight has shape [1, 2]; it must be [1, 2, 3], {SAVED}"),
    (
        lambda: attention(torch.bfloat16, residual=bf(1, 2, 3, 0)),
        f"attention_backward: residual has shape [1, 2, 3, 0]; it must be [1, 2, 3, 8], {SAVED}",
    ),
    (lambda: varlen(out=f(3, 2, 9)), f"attention_varlen_backward: out has shape [3, 2, 9]; it must be [3, 2, 8], {RESULT}"),
    (lambda: varlen(weight=f(3, 2)), f"attention_varlen_backward: weight has shape [3, 2]; it must be [2, 3], {SAVED}"),
    (
        lambda: varlen(residual=f(3, 2, 8)),
        f"attention_varlen_backward: residual has shape [3, 2, 8]; it must be [3, 2, 0], {SAVED}",
    ),
]
VALUES = [  # looked at on the CPU alone
    (
        lambda: varlen(starts=(0, 2, 4)),
        "attention_varlen_backward: 'cu_seqlens_q' runs from 0 to 4; it must begin with 0 and end with the number of rows, 3",
    ),
    (
        lambda: tile.embedding_backward(f(2, 4), f(3, 4), torch.tensor([0, 3]), -1),
        "embedding_backward: indices[1] is 3, but weight has 3 rows; it must be from 0 to 2",
    ),
    (
        lambda: cross_entropy("sum", None, target=torch.tensor([1, 5, 0])),
        "cross_entropy_backward: target[1] is 5, but there are 5 classes; it must be from 0 to 4, or ignore_index, -100",
    ),
    (
        lambda: linear_cross_entropy("sum", None, target=torch.tensor([1, 5, 0])),
        "linear_cross_entropy_backward: target[1] is 5, but there are 5 classes; it must be from 0 to 4, or ignore_index, -100",
    ),
]
DTYPES = [
    (lambda: layer_norm(grad=f64(2, 3)), f"layer_norm_backward: grad_out is float64; it must be float32, {RESULT}"),
    (lambda: layer_norm(mean=f64(2, 1)), f"layer_norm_backward: mean is float64; it must be float32, {SAVED}"),
    (
        lambda: layer_norm(weight=f64(3)),
        "layer_norm_backward: 'weight' is Double and 'input' Float; 'weight' must have the dtype of 'input', or be Float where "
        "that has 16 bits",
    ),
    (lambda: rms_norm(grad=bf(2, 3)), f"rms_norm_backward: grad_out is bfloat16; it must be float32, {RESULT}"),
    (lambda: rms_norm(weight=f64(3)), f"rms_norm_backward: rstd is float32; it must be float64, {SAVED}"),
    (lambda: add_rms_norm(grad_sum=f64(2, 3)), f"add_rms_norm_backward: grad_sum is float64; it must be float32, {RESULT}"),
    (lambda: group_norm(grad=bf(2, 4, 3)), f"group_norm_backward: grad_out is bfloat16; it must be float32, {RESULT}"),
    (lambda: group_norm(mean=f64(2, 2)), f"group_norm_backward: mean is float64; it must be float32, {SAVED}"),
    (lambda: group_norm(x=bf(2, 4, 3), rstd=bf(2, 2)), f"group_norm_backward: rstd is bfloat16; it must be float32, {SAVED}"),
    (
        lambda: cross_entropy("sum", None, grad=f64()),
        f"cross_entropy_backward: grad_out is float64; it must be float32, {RESULT}",
    ),
    (lambda: cross_entropy("sum", None, lse=bf(3, 2)), f"cross_entropy_backward: lse is bfloat16; it must be float32, {SAVED}"),
    (lambda: cross_entropy("mean", i64(2)), f"cross_entropy_backward: divisors is int64; it must be float32, {SAVED}"),
    (
        lambda: linear_cross_entropy("mean", f64(2)),
        f"linear_cross_entropy_backward: divisors is float64; it must be float32, {SAVED}",
    ),
    (
        lambda: linear_cross_entropy("sum", None, weight=bf(5, 4)),
        "linear_cross_entropy_backward: input is float32 and weight is bfloat16; convert one with .to()",
    ),
    (
        lambda: tile.embedding_backward(bf(2, 4), f(3, 4), i64(2), -1),
        f"embedding_backward: grad_out is bfloat16; it must be float32, {RESULT}",
    ),
    (lambda: matmul(grad=i64(2, 4)), "matmul_backward: grad_out is int64; it must be float16, bfloat16, float32 or float64"),
    (lambda: matmul(pre=bf(2, 4), activation="relu"), f"matmul_backward: pre is bfloat16; it must be float32, {SAVED}"),
    (
        lambda: matmul_twice(to_input=bf(2, 3)),
        "matmul_double_backward: grad_grad_input is bfloat16; it must be float32, that of the gradient",
    ),
    (lambda: gated_matmul(gate=bf(2, 4)), f"gated_matmul_backward: pre_gate is bfloat16; it must be float32, {SAVED}"),
    (lambda: attention(top=f64(1, 2, 3)), f"attention_backward: top is float64; it must be float32, {SAVED}"),
    (lambda: attention(out=bf(1, 2, 3, 8)), f"attention_backward: out is bfloat16; it must be float32, {RESULT}"),
    (lambda: varlen(top=bf(2, 3)), f"attention_varlen_backward: top is bfloat16; it must be float32, {SAVED}"),
]
CASES = [
    pytest.param(kind, call, text, id=f"{text.split(':')[0]}-{what}{i}")
    for what, kind, cases in (("shape", ValueError, SHAPES), ("dtype", TypeError, DTYPES))
    for i, (call, text) in enumerate(cases)
]


@pytest.mark.parametrize("kind, call, text", CASES)
def test_bad_input_of_a_gradient(kind, call, text):
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind and str(error.value).splitlines()[0] == "tile::" + text


@pytest.mark.parametrize("call, text", VALUES)
def test_bad_values_of_a_gradient(call, text):
    with torch.device("cpu"), pytest.raises(ValueError) as error:
        call()
    assert str(error.value).splitlines()[0] == "tile::" + text


@pytest.mark.parametrize(
    "call",
    [
        layer_norm,
        rms_norm,
        lambda: add_rms_norm(f(2, 3)),
        group_norm,
        lambda: cross_entropy("sum", None),
        lambda: cross_entropy("mean", f(2)),
        lambda: linear_cross_entropy("mean", f(2)),
        matmul,
        matmul_twice,
        gated_matmul,
        attention,
        lambda: attention(torch.bfloat16),
        varlen,
    ],
)
def test_what_is_changed_is_good(call):
    assert call() is not None
