"""Attention with masks of many tiles, with the kernels that a GPU gets: they run on warpgroup instructions, which read a mask's
bits where it hides a part of a tile, and a floating one where it has other numbers than 0 and -inf."""

import pytest
import tile_ops
import torch
from attention_reference import causal_mask, distances, inputs, peer
from combinations import long
from emulate_operators import Emulation
from numerics import check_call

ROWS, KEYS = 140, 300
PRODUCTS = {"kernel_attention_forward", "kernel_attention_backward_transposed"}


def masks():
    distance = distances(ROWS, KEYS, "bottom_right")
    random = torch.rand(1, 2, ROWS, KEYS) < 0.5
    return {
        "causal": causal_mask(ROWS, KEYS, "bottom_right"),
        "window": (distance >= 0) & (distance < 70),
        "of each head": random,
        "no key": random & False,
        "padding": torch.arange(KEYS) < 128,
    }


def check_on_warpgroup_instructions(mask, depth=128, dtype=torch.bfloat16, **options):
    emulation = Emulation(wgmma=True)
    args = inputs(1, 2, 1, ROWS, KEYS, depth, dtype=dtype)
    check_call(emulation.operator(torch.ops.tile.attention), peer, args, {"attn_bias": mask, **options})
    assert emulation.paths() == dict.fromkeys(PRODUCTS, "wgmma")


REPEATED = "window", "padding"  # numbers beside these are added below


@pytest.mark.parametrize("name", [long(name) if name in REPEATED else name for name in masks()])
def test_bool_masks_run_on_warpgroup_instructions(name):
    check_on_warpgroup_instructions(masks()[name])


def with_numbers(mask, dtype):
    """0 and -inf, and in the first columns other numbers."""
    bias = torch.zeros(mask.shape, dtype=dtype).masked_fill(~mask, -torch.inf)
    bias[..., :130] += torch.randn(bias[..., :130].shape, dtype=dtype)
    return bias


# Gradients of heads up to 64 read bits beside the numbers, those of longer ones the bias alone.
@pytest.mark.parametrize(
    "name, depth, dtype",
    [
        ("causal", 128, torch.bfloat16),
        pytest.param("window", 64, torch.bfloat16, marks=pytest.mark.slow),
        pytest.param("of each head", 64, torch.float32, marks=pytest.mark.long),
        pytest.param("of each head", 128, torch.float32, marks=pytest.mark.long),
        pytest.param("no key", 128, torch.bfloat16, marks=pytest.mark.long),
        pytest.param("padding", 64, torch.bfloat16, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_biases_run_on_warpgroup_instructions(name, depth, dtype):
    mask = masks()[name]
    check_on_warpgroup_instructions(with_numbers(mask, dtype), depth, is_causal=name == "of each head")


@pytest.mark.parametrize(
    "depth, dtype",
    [
        pytest.param(64, torch.float16, marks=pytest.mark.slow),
        pytest.param(192, torch.bfloat16, marks=pytest.mark.long),
        pytest.param(32, torch.float32, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_masks_of_other_tiles(depth, dtype):
    operator = Emulation(wgmma=True).operator(torch.ops.tile.attention)
    mask = masks()["of each head"]
    added = torch.zeros(mask.shape, dtype=dtype).masked_fill(~masks()["window"], -torch.inf)
    for given in (mask, added):
        check_call(operator, peer, inputs(1, 2, 1, ROWS, KEYS, depth, dtype=dtype), {"attn_bias": given, "is_causal": True})


@pytest.mark.slow
def test_long_queries():
    """Three groups of rows, each with its own bits."""
    mask = causal_mask(2048, 260, "top_left") & (torch.rand(2048, 260) < 0.9)
    args = inputs(1, 1, 1, 2048, 260, 64, dtype=torch.bfloat16, requires_grad=False)
    emulation = Emulation(wgmma=True)
    check_call(emulation.operator(torch.ops.tile.attention), peer, args, {"attn_bias": mask})
    assert [program["path"] for program in emulation.programs] == ["", "", "wgmma"]


@pytest.mark.long  # compiles the kernels
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_biases_whose_bits_would_take_too_much(dtype):
    def gradients(q, k, v, bias):
        out = torch.ops.tile.attention(q, k, v, attn_bias=bias)[0]
        return torch.autograd.grad(out, (q, k, v), out.detach())

    q, k, v = (torch.empty(1, 32, 4096, 64, dtype=torch.bfloat16, device="meta", requires_grad=True) for _ in range(3))
    bias = torch.empty(1, 32, 4096, 4096, dtype=dtype, device="meta")
    rows = tile_ops.inspect(gradients, q, k, v, bias, what="resources", arch=90)
    assert {"kernel_" + row["kernel"]: row["path"] for row in rows if row["path"]} == dict.fromkeys(PRODUCTS, "wgmma")


def launches(*shape):
    """The kernels of a call and of its gradient, at these extents of a mask [1, 1, queries, keys]."""

    def gradients(q, k, v, mask):
        out = torch.ops.tile.attention(q, k, v, attn_bias=mask)[0]
        return torch.autograd.grad(out, (q, k, v), out.detach())

    rows, keys = shape
    q, k, v = (torch.empty(2, 4, n, 128, dtype=torch.bfloat16, device="meta", requires_grad=True) for n in (rows, keys, keys))
    mask = torch.empty(1, 1, rows, keys, dtype=torch.bool, device="meta")
    return [(row["kernel"], row["grid"]) for row in tile_ops.inspect(gradients, q, k, v, mask, what="resources", arch=90)]


@pytest.mark.slow  # compiles the kernels
def test_a_mask_is_summed_up_once_for_all_heads():
    assert launches(1024, 2048)[:2] == [("attention_mask_flags", (16, 16, 1)), ("attention_mask_lists", (8, 1, 1))]
    assert [name for name, _ in launches(1024, 2048)] == [
        *("attention_mask_flags", "attention_mask_lists", "attention_forward"),
        *("attention_mask_flags", "attention_mask_lists", "attention_backward_rows"),
        *("attention_backward_transposed", "attention_backward_rounded"),
    ]
    assert not any("mask" in name for name, _ in launches(64, 2048))
