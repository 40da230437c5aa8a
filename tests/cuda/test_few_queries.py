"""Attention of few queries without gradients on the emulator: blocks share a head's keys, whatever hides some of them."""

import few_queries
import pytest
import tile_ops
import torch
from attention_reference import inputs, peer
from combinations import long
from emulate_operators import Emulation
from numerics import check_call

attention = torch.ops.tile.attention
HALVES = {"kernel_attention_decode", "kernel_attention_decode_combine"}


def entries(emulation):
    return {program["entry"] for program in emulation.programs}


def check(args, options):
    emulation = Emulation()
    check_call(emulation.operator(attention), peer, args, options)
    assert entries(emulation) <= HALVES
    return emulation


# A kernel of each way of reading a bias runs always.
USUAL = (
    "a mask",
    "a static cache",
    "numbers of each query",
    "numbers of each head and query",
    "nothing seen",
    "windows on both sides",
)


@pytest.mark.parametrize("name", [name if name in USUAL else long(name) for name in few_queries.CALLS])
def test_calls(name):
    check(*few_queries.CALLS[name](torch.bfloat16))


@pytest.mark.slow  # compiles more kernels for the emulator
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "name", ["a static cache", "numbers of each head and query", "nothing seen", "head dim 256, width 200"]
)
def test_dtypes(name, dtype):
    check(*few_queries.CALLS[name](dtype))


def test_layouts():
    make = few_queries.strided(torch.bfloat16)
    for queries in (1, 3):
        bias = torch.randn(1, 1, 1, 600).bfloat16()[..., ::2]
        check((make(6, queries), make(2, 300), make(2, 300)), {"attn_bias": bias})


@pytest.mark.parametrize("keys, parts", [(64, 1), (600, 5), long(5000, 27)])
def test_parts_are_put_together(keys, parts):
    args = inputs(1, 4, 1, 1, keys, 64, dtype=torch.bfloat16, requires_grad=False)
    emulation = check(args, {"attn_bias": torch.rand(1, keys) < 0.1})
    assert emulation.grids[0] == (parts, 1, 1)
    assert len(emulation.programs) == 1 + (parts > 1)


def test_a_bias_of_all_heads_is_not_copied():
    """The kernel reads a row of scores for all rows of a tile."""
    args = inputs(1, 8, 2, 1, 600, 64, dtype=torch.bfloat16, requires_grad=False)
    emulation = check(args, {"attn_bias": torch.randn(1, 1, 1, 600).bfloat16()})
    assert len(emulation.programs) == 2
    assert "{tile_start<1>(0), tile_start<64>(" in emulation.programs[0]["text"]


def kernels(function, *args):
    return {row["kernel"] for row in tile_ops.inspect(function, *args, what="resources", arch=90)}


@pytest.mark.parametrize(
    "rows, grad, options",
    [
        (9, False, {}),  # 36 rows of a key head
        (1, True, {}),
        (1, False, {"dropout_p": 0.5, "seed": True}),
    ],
    ids=["many rows", "gradients", "dropout"],
)
def test_other_calls_have_the_usual_kernel(rows, grad, options):
    q, k, v = (
        torch.empty(1, heads, length, 64, dtype=torch.bfloat16, device="meta", requires_grad=grad)
        for heads, length in ((8, rows), (2, 600), (2, 600))
    )
    if "seed" in options:
        options = {**options, "seed": torch.empty(2, dtype=torch.int64, device="meta")}
    assert kernels(lambda q, k, v: attention(q, k, v, **options)[0].detach(), q, k, v) == {"attention_forward"}


def test_forward_mode_has_the_usual_kernel():
    q, k, v = (torch.empty(1, 2, 1, 64, device="meta") for _ in range(3))
    found = kernels(lambda q, k, v: torch.func.jvp(lambda q: attention(q, k, v)[0], (q,), (q,)), q, k, v)
    assert all("decode" not in kernel for kernel in found), found
