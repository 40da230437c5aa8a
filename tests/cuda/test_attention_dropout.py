"""Attention with dropout, with the kernels that a GPU gets: they run on warpgroup instructions and drop what a CPU drops."""

import pytest
import tile_ops
import torch
from attention_reference import inputs, kept_by, peer
from emulate_operators import Emulation
from numerics import check_call

attention = torch.ops.tile.attention
PRODUCTS = {"kernel_attention_forward", "kernel_attention_backward_transposed"}
ROWS, KEYS, P = 140, 190, 0.3
SEED = torch.tensor([2**62 + 12345, 2**33 + 7], device="cpu")


def check(args, kept, p=P, **options):
    emulation = Emulation(wgmma=True)
    operator = emulation.operator(attention)
    check_call(
        lambda *a, **k: operator(*a, dropout_p=p, seed=SEED, **k), lambda *a, **k: peer(*a, kept=kept, **k), args, options
    )
    assert emulation.paths() == dict.fromkeys(PRODUCTS, "wgmma")


@pytest.mark.parametrize(
    "depth, dtype, options",
    [
        (128, torch.bfloat16, {"is_causal": True}),
        pytest.param(64, torch.float16, {}, marks=pytest.mark.long),
        pytest.param(64, torch.bfloat16, {"window": (60, 20), "softcap": 5.0}, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_values_and_gradients(depth, dtype, options):
    check(inputs(1, 2, 1, ROWS, KEYS, depth, dtype=dtype), kept_by(SEED, P, 1, 2, ROWS, KEYS), **options)


@pytest.mark.long
def test_a_mask_beside_dropout():
    mask = torch.rand(ROWS, 300) < 0.5
    check(inputs(2, 2, 2, ROWS, 300, 64, dtype=torch.bfloat16), kept_by(SEED, P, 2, 2, ROWS, 300), attn_bias=mask)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1e-12, 1.0])
def test_fractions_that_drop_almost_nothing_or_all(p):
    check(inputs(1, 1, 1, 70, 90, 64, dtype=torch.bfloat16), torch.full((1, 1, 70, 90), 1.0 if p < 1 else 0.0), p=p)


def test_the_elements_that_are_dropped_are_those_of_a_cpu():
    """Equal scores, and values that show each key's probability."""
    q, k = (torch.zeros(2, 3, length, 64, dtype=torch.bfloat16) for length in (150, 128))
    v = torch.eye(128, dtype=torch.bfloat16)[None, None].expand(2, 3, 128, 128).contiguous()
    emulation = Emulation(wgmma=True)
    out = emulation.operator(attention)(q, k, v, dropout_p=P, seed=SEED)[0]
    assert [program["path"] for program in emulation.programs] == ["wgmma"]
    assert torch.equal(out != 0, kept_by(SEED, P, 2, 3, 150, 128) != 0)


@pytest.mark.long  # compiles the kernels
@pytest.mark.parametrize("depth", (64, 128))
def test_registers(depth):
    q, k, v = (torch.empty(1, 8, 4096, depth, dtype=torch.bfloat16, device="meta", requires_grad=True) for _ in range(3))

    def gradients(q, k, v):
        out = attention(q, k, v, is_causal=True, dropout_p=P, seed=SEED.to("meta"))[0]
        return torch.autograd.grad(out, (q, k, v), out.detach())

    rows = [row for row in tile_ops.inspect(gradients, q, k, v, what="resources", arch=90) if row["path"]]
    assert [row["path"] for row in rows] == ["wgmma", "wgmma"]
    assert all(row["spill_stores"] <= 64 for row in rows)
