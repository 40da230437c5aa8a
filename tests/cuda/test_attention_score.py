"""Attention with a text of scores as kernels for a GPU compute it, in the emulator: values and gradients."""

import gate_calls
import gates
import pytest
import torch
from attention_reference import inputs
from combinations import long
from emulate_operators import Emulation
from numerics import check_call
from score_texts import BATCH, HEADS, KEYS, ROWS, operands_of, peer
from test_attention_splits import LAUNCHES, launches, sums_of

attention = torch.ops.tile._attention_with_score
POSITIONS, CAPPED = "score + (q - k) * 0.01 * h - b", "t = tanh(score / 3); t * 3"
SLOPES, TABLES = "score - x0 * abs(q - k)", "score * sigmoid(score + x0) + x1"
QUOTIENTS = "score / x0 + log(x1)"


def check(text, depth=64, rows=ROWS, keys=KEYS, path="wgmma", **options):
    emulation = Emulation()
    args = inputs(BATCH, HEADS, 2, rows, keys, depth, dtype=torch.bfloat16)
    check_call(emulation.operator(attention), peer, (*args, operands_of(text)), {"score": text, **options})
    assert set(emulation.paths().values()) == {path}


@pytest.mark.parametrize("text", [SLOPES, long(CAPPED), long(POSITIONS)])
def test_texts_of_positions(text):
    check(text, is_causal=True)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [long(128), 256])
def test_deep_heads(depth):
    check(SLOPES, depth)


@pytest.mark.slow
def test_a_mask_beside_a_text():
    mask = torch.arange(140)[:, None] // 40 == torch.arange(304) // 40
    check(SLOPES, rows=140, keys=304, attn_bias=mask)


@pytest.mark.parametrize("text", [QUOTIENTS, long(TABLES)])
def test_operands_that_vary_by_position(text):
    """No tiles of theirs are copied ahead, so kernels on warpgroup instructions do not take them."""
    check(text, path="mma.sync")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, long(torch.float64)], ids=str)
def test_wide_floats(dtype):
    emulation = Emulation()
    args = inputs(1, 2, 1, 40, 50, 16, dtype=dtype)
    check_call(emulation.operator(attention), peer, (*args, []), {"score": CAPPED})


@pytest.mark.slow
@pytest.mark.parametrize("heads", [long(4), 1])
@pytest.mark.parametrize("text", [POSITIONS, SLOPES])
def test_launches_of_some_heads_know_their_numbers(text, heads):
    emulation = Emulation()
    args, operands = inputs(2, 6, 2, 40, 70, 64, dtype=torch.bfloat16), [torch.rand(6, 1, 1)] if text == SLOPES else []
    with sums_of(heads):
        check_call(emulation.operator(attention), peer, (*args, operands), {"score": text})
    assert launches(emulation) == LAUNCHES[heads]


CALLS = [(CAPPED, 128, ()), (SLOPES, 64, [(16, 1, 1)]), ("30 * tanh(score / 30) - x0 * abs(q - k)", 128, [(16, 1, 1)])]


@pytest.mark.slow
@pytest.mark.parametrize("text, depth, shapes", CALLS)
def test_registers_suffice(text, depth, shapes, monkeypatch):
    def call(dtype):
        leaves = [torch.empty(2, 16, 4096, depth, dtype=dtype, device="meta", requires_grad=True) for _ in range(3)]
        operands = [torch.empty(shape, device="meta") for shape in shapes]
        return attention(*leaves, operands, score=text, is_causal=True)

    monkeypatch.setitem(gate_calls.CALLS, "score", call)
    _, new = gates.brought_up([(90, torch.bfloat16, "score")], [])
    assert new and not list(gates.broken([], new))
