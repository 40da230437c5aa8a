"""Attention with a bias of numbers, and the bias's gradient, with the kernels that a GPU gets: they run on warpgroup instructions,
and the copy unit moves the bias's tiles ahead."""

import pytest
import torch
from attention_reference import inputs, peer
from emulate_operators import Emulation
from numerics import check_call

ROWS, KEYS = 140, 304
PRODUCTS = {"kernel_attention_forward", "kernel_attention_backward_transposed", "kernel_attention_backward_bias_tiles"}


def bias_of(*shape, dtype=torch.bfloat16, requires_grad=True):
    return torch.randn(shape).to(dtype).requires_grad_(requires_grad)


def check(bias, depth=64, rows=ROWS, keys=KEYS, batch=2, heads=2, key_heads=1, products=PRODUCTS, **options):
    emulation = Emulation(wgmma=True)
    args = inputs(batch, heads, key_heads, rows, keys, depth, dtype=torch.bfloat16)
    check_call(emulation.operator(torch.ops.tile.attention), peer, args, {"attn_bias": bias, **options})
    assert emulation.paths() == dict.fromkeys(products, "wgmma")


# Samples and heads that share a bias share its gradient.
@pytest.mark.parametrize(
    "shape, dtype, depth",
    [
        ((1, 2, ROWS, KEYS), torch.bfloat16, 128),
        pytest.param((2, 1, ROWS, KEYS), torch.bfloat16, 64, marks=pytest.mark.long),
        pytest.param((1, 1, ROWS, KEYS), torch.float32, 128, marks=pytest.mark.slow),
        pytest.param((2, 2, ROWS, KEYS), torch.float16, 64, marks=pytest.mark.long),
        pytest.param((ROWS, KEYS), torch.float32, 64, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_biases_of_numbers(shape, dtype, depth):
    check(bias_of(*shape, dtype=dtype), depth, is_causal=depth == 128)


@pytest.mark.slow
def test_hidden_tiles_have_no_gradient():
    check(bias_of(1, 2, ROWS, KEYS), is_causal=True, window=[40, 0])


@pytest.mark.slow
def test_rows_that_see_nothing():
    bias = bias_of(1, 2, ROWS, KEYS, requires_grad=False)
    bias[:, :, 3] = -torch.inf
    bias[..., 100:] = -torch.inf
    check(bias.requires_grad_(), softcap=2.0)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_biases_of_adjacent_rows(dtype):
    bias = torch.randn(1, 2, 200, 136).to(dtype).transpose(2, 3).requires_grad_()
    check(bias, rows=136, keys=200, batch=1, key_heads=2, is_causal=True)


@pytest.mark.long
def test_slopes_beside_a_bias():
    check(bias_of(2, 2, ROWS, KEYS), alibi_slopes=torch.rand(2), depth=128)


@pytest.mark.long
def test_short_calls():
    """Calls of so few rows and keys make no summary of their bias."""
    check(
        bias_of(1, 2, 64, 96, requires_grad=False),
        rows=64,
        keys=96,
        products=PRODUCTS - {"kernel_attention_backward_bias_tiles"},
    )


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_deep_heads(dtype):
    """Groups divide the columns of their tiles."""
    bias = bias_of(1, 2, 100, 200, dtype=dtype, requires_grad=False)
    check(bias, 192, rows=100, keys=200, products=PRODUCTS - {"kernel_attention_backward_bias_tiles"})


@pytest.mark.long
def test_deeper_heads():
    """Their tiles leave no room for those of a bias."""
    bias = bias_of(1, 2, ROWS, KEYS, requires_grad=False)
    check(bias, 256, products=PRODUCTS - {"kernel_attention_backward_bias_tiles"})


# The gradient of these has a kernel without warpgroup instructions: sums of rows or columns, and what no tensor map describes.
@pytest.mark.long
@pytest.mark.parametrize("shape", [(2, 1, 1, KEYS), (1, 2, ROWS, 1), (1, 1, 1, 1)], ids=str)
def test_biases_of_rows_or_keys(shape):
    emulation = Emulation(wgmma=True)
    args = inputs(2, 2, 1, ROWS, KEYS, 64, dtype=torch.bfloat16)
    check_call(emulation.operator(torch.ops.tile.attention), peer, args, {"attn_bias": bias_of(*shape)})


@pytest.mark.parametrize("keys", [pytest.param(keys, marks=pytest.mark.long) for keys in (1, 301)])
def test_odd_lengths(keys):
    """The copy unit cannot move rows that begin at odd places, so they are copied first."""
    bias = torch.randn(1, 2, 130, keys + 7).bfloat16()[..., 3 : keys + 3].requires_grad_()
    check(bias, rows=130, keys=keys, batch=1, key_heads=2)
