"""Attention with a text of scores as kernels for a GPU compute it, in the emulator: values and gradients."""

import gate_calls
import gates
import pytest
import torch
from attention_reference import inputs
from combinations import long
from emulate_operators import Emulation
from numerics import check_call
from score_texts import BATCH, HEADS, KEYS, ROWS, learned_of, operands_of, peer
from test_attention_splits import LAUNCHES, launches, sums_of

attention = torch.ops.tile._attention_with_score
POSITIONS, CAPPED = "score + (q - k) * 0.01 * h - b", "t = tanh(score / 3); t * 3"
SLOPES, TABLES = "score - x0 * abs(q - k)", "score * sigmoid(score + x0) + x1"
QUOTIENTS = "score / x0 + log(x1)"
DISTANCES, PLACES = "score + x0[ih, iq - ik + 133]", "score * x1[x0, ih]"
# The buckets of T5's relative positions.
T5 = (
    "near = abs(q - k); far = int32(log(near / 8) / 2.772588722239781 * 8) + 8; first = int32(q < k) * 16; "
    "score + x0[first + where(near < 8, abs(iq - ik), minimum(far, 15)), ih]"
)


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


def check_learned(text, path="wgmma", dtype=torch.bfloat16, depth=64, **options):
    emulation, (operands, learned) = Emulation(), learned_of(text)
    args = inputs(BATCH, HEADS, 2, ROWS, KEYS, depth, dtype=dtype)
    check_call(emulation.operator(attention), peer, (*args, operands), {"learned": learned, "score": text, **options})
    assert set(emulation.paths().values()) == {path}


@pytest.mark.parametrize("text", [DISTANCES, SLOPES, long("x0 * tanh(score / x0)")])
def test_learned_operands(text):
    check_learned(text, is_causal=True)


@pytest.mark.slow
@pytest.mark.parametrize("text", [PLACES, QUOTIENTS])
def test_learned_operands_that_vary_by_position(text):
    check_learned(text, path="mma.sync")


@pytest.mark.slow
@pytest.mark.parametrize("text, depth", [(DISTANCES, 128), long(SLOPES, 256)])
def test_learned_operands_of_deep_heads(text, depth):
    check_learned(text, depth=depth)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, long(torch.float64)], ids=str)
def test_learned_operands_in_wide_floats(dtype):
    emulation, (operands, learned) = Emulation(), learned_of(DISTANCES)
    args = inputs(1, HEADS, 2, 40, 50, 16, dtype=dtype)
    check_call(emulation.operator(attention), peer, (*args, operands), {"learned": learned, "score": DISTANCES})


@pytest.mark.slow
def test_a_mask_beside_learned_operands():
    emulation, slopes = Emulation(), torch.rand(4, 1, 1, requires_grad=True)
    mask = torch.arange(140)[:, None] // 40 == torch.arange(304) // 40
    args = inputs(BATCH, HEADS, 2, 140, 304, 64, dtype=torch.bfloat16)
    check_call(emulation.operator(attention), peer, (*args, []), {"learned": [slopes], "score": SLOPES, "attn_bias": mask})
    assert set(emulation.paths().values()) == {"wgmma"}


def test_an_index_past_the_end_reads_nothing_on_a_gpu():
    emulation, args = Emulation(), inputs(1, 2, 2, 20, 30, 64, dtype=torch.bfloat16, requires_grad=False)
    table = torch.rand(30)
    out, _ = emulation.operator(attention)(*args, [table], score="score + x0[ik + 20]")
    longer = torch.cat([table, torch.zeros(20)])
    expected, _ = emulation.operator(attention)(*args, [longer], score="score + x0[ik + 20]")
    assert torch.equal(out, expected)


def test_a_gradient_in_no_fixed_order(deterministic):
    emulation, args = Emulation(), inputs(1, 2, 2, 20, 30, 64, dtype=torch.bfloat16)
    table = torch.rand(60, requires_grad=True)
    out, _ = emulation.operator(attention)(*args, [], learned=[table], score="score + x0[iq - ik]")
    with pytest.raises(
        NotImplementedError, match="the gradient of x0, whose elements are read at computed places, is added up in"
    ):
        out.sum().backward()


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


SOFTCAPPED = "30 * tanh(score / 30) - x0 * abs(q - k)"
CALLS = [(CAPPED, 128, (), False), (SLOPES, 64, [(16, 1, 1)], False), (SOFTCAPPED, 128, [(16, 1, 1)], False)]
OF_LEARNED = [(SLOPES, 128, [(16, 1, 1)], True), (T5, 64, [(32, 16)], True), (T5, 128, [(32, 16)], True)]


@pytest.mark.slow
@pytest.mark.parametrize("text, depth, shapes, learns", CALLS + OF_LEARNED)
def test_registers_suffice(text, depth, shapes, learns, monkeypatch):
    def call(dtype):
        leaves = [torch.empty(2, 16, 4096, depth, dtype=dtype, device="meta", requires_grad=True) for _ in range(3)]
        operands = [torch.empty(shape, device="meta", requires_grad=learns) for shape in shapes]
        given = {"operands": [], "learned": operands} if learns else {"operands": operands}
        return attention(*leaves, **given, score=text, is_causal=True)

    monkeypatch.setitem(gate_calls.CALLS, "score", call)
    _, new = gates.brought_up([(90, torch.bfloat16, "score")], [])
    assert new and not list(gates.broken([], new))
