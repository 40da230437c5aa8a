"""tile_ops.linear and tile_ops.scaled_dot_product_attention against torch.nn.functional."""

import inspect

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from numerics import check_call
from opinfo import DTYPES, check_samples

sdpa = tile_ops.scaled_dot_product_attention


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_opinfo(dtype):
    assert check_samples(tile_ops.linear, "nn.functional.linear", dtype) > 0


@pytest.mark.parametrize("activation, theirs", [("relu", torch.relu), ("gelu", F.gelu), ("silu", F.silu)])
def test_linear_with_an_activation(activation, theirs):
    args = (torch.randn(3, 5, 8, requires_grad=True), torch.randn(6, 8, requires_grad=True), torch.randn(6, requires_grad=True))
    check_call(lambda *a: tile_ops.linear(*a, activation), lambda *a: theirs(F.linear(*a)), args)


def test_linear_keeps_the_layout_of_the_weight_gradient():
    weight = torch.randn(6, 8, requires_grad=True)
    tile_ops.linear(torch.randn(5, 8), weight).sum().backward()
    assert weight.grad.is_contiguous()


def test_signature_is_that_of_torch():
    # A built-in: its signature is in its documentation, over several lines.
    text = "".join(F.scaled_dot_product_attention.__doc__.split("->")[0].split())
    plain = [each.replace(annotation=each.empty) for each in inspect.signature(sdpa).parameters.values()]
    ours = str(inspect.Signature(plain)).replace(" ", "")
    assert text == "scaled_dot_product_attention" + ours


@pytest.mark.parametrize(
    "q, k, mask",
    [
        ((3, 8), (5, 8), None),
        ((3, 8), (5, 8), (3, 5)),
        ((4, 3, 8), (4, 5, 8), (4, 1, 5)),
        ((2, 4, 3, 8), (2, 4, 5, 8), (2, 1, 3, 5)),
        ((2, 3, 4, 3, 8), (2, 3, 4, 5, 8), None),
        ((2, 3, 4, 3, 8), (2, 3, 4, 5, 8), (3, 5)),
        ((2, 3, 4, 3, 8), (2, 3, 4, 5, 8), (2, 1, 4, 1, 5)),
        ((4, 3, 8), (2, 4, 5, 8), None),
        ((2, 1, 4, 3, 8), (1, 3, 1, 5, 8), None),
    ],
)
@pytest.mark.parametrize("kind", ["bool", "added"])
def test_sdpa_leading_dimensions(q, k, mask, kind):
    args = [torch.randn(shape, requires_grad=True) for shape in (q, k, k)]
    kwargs = {}
    if mask:
        kwargs["attn_mask"] = torch.rand(mask) > 0.4 if kind == "bool" else torch.randn(mask, requires_grad=True)
    check_call(sdpa, F.scaled_dot_product_attention, args, kwargs)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_sdpa_gqa(leading):
    args = [torch.randn(*leading, heads, length, 8, requires_grad=True) for heads, length in ((6, 3), (2, 5), (2, 5))]
    check_call(sdpa, F.scaled_dot_product_attention, args, {"enable_gqa": True, "is_causal": True, "scale": 0.3})


def test_sdpa_dropout():
    # The values name the keys, so that the result says which were kept.
    q = k = torch.zeros(2, 3, 40, 8)
    v = torch.eye(40).expand(2, 3, 40, 40)
    torch.manual_seed(5)
    out = sdpa(q, k, v, dropout_p=0.25)
    kept = out != 0
    torch.testing.assert_close(out, kept / (40 * 0.75))
    assert abs(kept.float().mean().item() - 0.75) < 0.03
    assert not torch.equal(sdpa(q, k, v, dropout_p=0.25), out)
    torch.manual_seed(5)
    assert torch.equal(sdpa(q, k, v, dropout_p=0.25), out)
    assert not sdpa(q, k, v, dropout_p=1.0).any()


@pytest.mark.parametrize(
    "error, text, shapes, kwargs",
    [
        (
            ValueError,
            "both attn_mask and is_causal=True are given; put the causal mask into attn_mask",
            [(2, 4, 3, 8)] * 3,
            {"attn_mask": torch.ones(3, 3), "is_causal": True},
        ),
        (ValueError, "key has shape (8,); it must be [..., length, width]", [(3, 8), (8,), (3, 8)], {}),
    ],
)
def test_sdpa_errors(error, text, shapes, kwargs):
    with pytest.raises(error) as raised:
        sdpa(*(torch.randn(shape) for shape in shapes), **kwargs)
    assert str(raised.value) == f"scaled_dot_product_attention: {text}"
