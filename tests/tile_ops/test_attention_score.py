"""tile::_attention_with_score: texts of scores against torch, values and gradients, and errors."""

import pytest
import tile_ops  # noqa: F401
import torch
from attention_reference import inputs
from numerics import check_call
from opinfo import DTYPES
from score_texts import BATCH, HEADS, KEYS, LEARNED, ROWS, TEXTS, learned_of, operands_of, peer

pytestmark = pytest.mark.usefixtures("deterministic")

attention = torch.ops.tile._attention_with_score


def check(text, args=None, operands=None, **options):
    args = inputs(BATCH, HEADS, 2, ROWS, KEYS, 16) if args is None else args
    operands = operands_of(text) if operands is None else operands
    check_call(attention, peer, (*args, operands), {"score": text, **options})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", TEXTS)
def test_texts(text, dtype):
    check(text, inputs(BATCH, HEADS, 2, ROWS, KEYS, 16, dtype=dtype))


OPTIONS = [{"is_causal": True}, {"window": [9, 20], "scale": 0.3}, {"is_causal": True, "window": [30, -1]}, {"scale": -0.5}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("text", ["t = tanh(score / 3); t * 3", "score / x0 + log(x1)"])
def test_options(text, options):
    check(text, **options)


@pytest.mark.parametrize("shape", [(ROWS, KEYS), (BATCH, 1, 1, KEYS), (BATCH, HEADS, ROWS, KEYS)], ids=str)
def test_masks(shape):
    mask = torch.rand(shape) > 0.4
    if shape[-2] != 1:
        mask[..., 5, :] = False  # a row without keys
    check("score - x0 * abs(q - k)", attn_bias=mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_long_calls_with_masks(dtype):
    """Masks of long calls are summarised by tile, so that hidden tiles are skipped."""
    args = inputs(1, 2, 1, 600, 700, 32, dtype=dtype)
    mask = torch.arange(600)[:, None] // 100 == torch.arange(700) // 100
    check("score + (q - k) * 0.01 * h - b", args, attn_bias=mask)


@pytest.mark.parametrize("batch, heads, key_heads", [(1, 8, 8), (3, 16, 4)])
def test_many_heads(batch, heads, key_heads):
    for dtype in (torch.float32, torch.bfloat16):
        check("score + (q - k) * 0.01 * h - b", inputs(batch, heads, key_heads, 40, 50, 8, dtype=dtype))


@pytest.mark.parametrize("rows, keys", [(1, 1), (1, 9), (9, 1), (0, 4), (4, 0), (130, 257)])
def test_sizes(rows, keys):
    args, options = inputs(2, 2, 2, rows, keys, 24, value_depth=40), {"score": "where(q >= k - 3, score, -inf)"}
    out, lse = attention(*args, [], **options)
    # With one key the gradients of scores are the rounding of equal sums, to which that of lse is added.
    grad_lse = torch.zeros_like(lse) if keys == 1 else torch.randn_like(lse)
    check_call(attention, peer, (*args, []), options, grad_outputs=[torch.randn_like(out), grad_lse])


def test_strides_of_operands():
    text = "score * sigmoid(score + x0) + x1"
    table = torch.randn(BATCH, 1, KEYS, ROWS).transpose(2, 3)[:, :, :, ::1]
    check(text, operands=[table, torch.randn(1, HEADS, 1, 2 * KEYS)[..., ::2]])


def test_operands_of_one_number():
    check("score - x0 * abs(q - k)", operands=[torch.tensor(0.25)])


@pytest.fixture
def in_any_order(deterministic, device):
    """A GPU adds up the gradients of tables by atomic additions, which it refuses where all must be deterministic."""
    if device.type != "cpu":
        torch.use_deterministic_algorithms(False)


def check_learned(text, args, **options):
    operands, learned = learned_of(text)
    check_call(attention, peer, (*args, operands), {"learned": learned, "score": text, **options})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", LEARNED)
def test_learned_operands(text, dtype, in_any_order):
    check_learned(text, inputs(BATCH, HEADS, 2, ROWS, KEYS, 16, dtype=dtype))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("text", ["score - x0 * abs(q - k)", "score / x0 + log(x1)", "score * x1[x0, ih]"])
def test_learned_operands_beside_options(text, options, in_any_order):
    check_learned(text, inputs(BATCH, HEADS, 2, ROWS, KEYS, 16), **options)


SHAPES = [(), (KEYS,), (ROWS, 1), (HEADS, 1, 1), (BATCH, 1, 1, 1), (HEADS, 1, KEYS), (ROWS, KEYS), (BATCH, 1, 1, KEYS)]


@pytest.mark.parametrize("shape", [*SHAPES, (BATCH, HEADS, ROWS, 1), (BATCH, HEADS, 1, KEYS), (BATCH, 1, ROWS, KEYS)], ids=str)
def test_gradients_are_added_up_where_an_operand_does_not_vary(shape):
    args, learned = inputs(BATCH, HEADS, 2, ROWS, KEYS, 16, dtype=torch.float64), torch.rand(shape, dtype=torch.float64)

    def scaled(query, key, value, factor):
        scores = query @ key.repeat_interleave(2, 1).mT / 4
        return (scores * factor).softmax(-1) @ value.repeat_interleave(2, 1)

    def ours(query, key, value, factor):
        return attention(query, key, value, [], learned=[factor], score="score * x0")[0]

    check_call(ours, scaled, (*args, learned.requires_grad_()))


def test_gradcheck(in_any_order):
    table, slopes = (torch.rand(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 7), (2, 1, 1)))
    text = "score * x0[ih, mod(iq - ik, 7)] - x1 * abs(q - k)"

    def call(*args):
        return attention(*args[:3], [], learned=list(args[3:]), score=text, is_causal=True)

    assert torch.autograd.gradcheck(call, (*inputs(1, 2, 1, 5, 6, 4, dtype=torch.float64), table, slopes))


def test_learned_operands_beside_a_mask(in_any_order):
    mask = torch.rand(ROWS, KEYS) > 0.4
    mask[5] = False
    for text in ("score - x0 * abs(q - k)", "score / x0 + log(x1)", "score + x0[ih, iq - ik + 133]"):
        check_learned(text, inputs(BATCH, HEADS, 2, ROWS, KEYS, 16), attn_bias=mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_learned_operands_of_long_calls_with_masks(dtype):
    """Masks of long calls are summarised by tile, so that hidden tiles are skipped."""
    args, mask = inputs(1, 2, 1, 600, 700, 32, dtype=dtype), torch.arange(600)[:, None] // 100 == torch.arange(700) // 100
    text = "score - x0 * abs(q - k)"
    for shape in ((2, 1, 1), (1, 700), (600, 1)):
        learned = [torch.rand(shape, requires_grad=True)]
        check_call(attention, peer, (*args, []), {"learned": learned, "score": text, "attn_bias": mask})


@pytest.mark.parametrize("rows, keys", [(1, 1), (1, 9), (9, 1), (0, 4), (4, 0), (130, 257)])
def test_learned_operands_of_sizes(rows, keys, in_any_order):
    args = inputs(2, 2, 2, rows, keys, 24, value_depth=40, dtype=torch.float64)
    learned = [torch.rand(shape, dtype=torch.float64, requires_grad=True) for shape in ((keys,), (rows, 1), (rows, keys), (5,))]
    text = "score * x0 * x1 * x2 * x3[mod(iq, 5)]"

    def theirs(query, key, value, *learned):
        x, y, z, table = learned
        scores = query @ key.mT / 24**0.5 * (x * y * z * table[torch.arange(rows) % 5, None])
        return scores.softmax(-1) @ value

    def ours(query, key, value, *learned):
        return attention(query, key, value, [], learned=list(learned), score=text)[0]

    check_call(ours, theirs, (*args, *learned))


def test_strides_of_tables(in_any_order):
    table = torch.rand(2 * (ROWS + KEYS), HEADS)
    text = "score + x0[ih, iq - ik + 133]"
    args = inputs(BATCH, HEADS, 2, ROWS, KEYS, 16)
    check_call(attention, peer, (*args, []), {"learned": [table[::2].t().requires_grad_()], "score": text})


def test_gradients_on_a_cpu_have_one_order():
    with torch.device("cpu"):
        args, table = inputs(2, 4, 2, 300, 310, 16), torch.rand(5, 4, requires_grad=True)

    def grads():
        out, _ = attention(*args, [], learned=[table], score="score + x0[mod(iq - ik, 5), ih]")
        return torch.autograd.grad(out.square().sum(), table)[0]

    first = grads()
    assert all(torch.equal(first, grads()) for _ in range(4))


PAST_THE_END = [
    ("ik + 1", "where(ik < 5, x0[minimum(ik + 1, 5)], 0.0)"),
    ("ik - 7", "where(ik > 0, x0[maximum(ik - 7, -6)], 0.0)"),
]


@pytest.mark.parametrize("index, read", PAST_THE_END)
def test_an_index_past_the_end_of_a_table(index, read, device):
    """It is an error on a CPU; a GPU reads 0."""
    args, table = inputs(1, 2, 2, 5, 6, 8, requires_grad=False), torch.rand(6)
    if device.type == "cpu":
        with pytest.raises(RuntimeError, match="each index into a table of the score is in its range"):
            attention(*args, [table], score=f"score + x0[{index}]")
    else:
        expected, _ = attention(*args, [table], score=f"score + {read}")
        torch.testing.assert_close(attention(*args, [table], score=f"score + x0[{index}]")[0], expected)


def test_indices_of_hidden_scores_do_not_matter():
    args, table = inputs(1, 2, 2, 70, 133, 8), torch.rand(4)
    text = "score + x0[iq - ik]"
    out, _ = attention(*args, [table], score=text, is_causal=True, window=[3, -1])
    expected, _ = attention(*args, [table], score="score + x0[minimum(maximum(iq - ik, 0), 3)]", is_causal=True, window=[3, -1])
    assert torch.equal(out, expected)


def test_an_operand_has_no_gradient():
    args, slope = inputs(1, 4, 4, 5, 6, 8), torch.rand(4, 1, 1, requires_grad=True)
    out, _ = attention(*args, [slope], score="score - x0 * abs(q - k)")
    with pytest.raises(NotImplementedError, match="has no gradient for 'operands', which requires grad; detach it"):
        out.sum().backward()


def test_fake_tensors():
    args = inputs(BATCH, HEADS, 2, ROWS, KEYS, 16)
    text = "score - x0 * abs(q - k)"
    torch.library.opcheck(attention, (*args, operands_of(text)), {"score": text})


ERRORS = [
    ({"score": "q - k"}, [], ValueError, "score 'q - k' does not use score; add it to the text"),
    ({"score": "score + z"}, [], ValueError, "score 'score \\+ z', column 9: there is no 'z'; the names are score, b, h, q, k"),
    ({"score": "score > q"}, [], ValueError, "score 'score > q', column 1: the value is a condition"),
    ({"score": "score + x0"}, [(3, 1)], ValueError, "operand x0 is \\[3, 1\\], which does not broadcast to the scores"),
    ({"score": "score + x0"}, [(1,)] * 9, ValueError, "operands has 9 tensors; the most is 8"),
    ({"score": "score", "window": [-2, 0]}, [], ValueError, "window is \\[-2, 0\\]"),
    (
        {"score": "score + x0[iq]"},
        [(5, 6)],
        ValueError,
        "operand x0 is \\[5, 6\\] and the text reads it with 1 index; give an index for each axis; a table has at most 4 axes",
    ),
    ({"score": "score + x0[iq, ik, 0, 0, 0]"}, [(1,) * 5], ValueError, "reads it with 5 indices; give an index for each axis"),
]


@pytest.mark.parametrize("options, shapes, error, text", ERRORS, ids=[each[-1] for each in ERRORS])
def test_errors(options, shapes, error, text):
    args = inputs(1, 2, 2, 5, 6, 8, requires_grad=False)
    with pytest.raises(error, match=text):
        attention(*args, [torch.ones(shape) for shape in shapes], **options)


def test_errors_of_dtypes():
    args = inputs(1, 2, 2, 5, 6, 8, requires_grad=False)
    with pytest.raises(TypeError, match="operand x0 is Short; convert it to a floating dtype, Int, Long or bool"):
        attention(*args, [torch.ones(6, dtype=torch.int16)], score="score + x0")
    with pytest.raises(ValueError, match=r"'\+' takes \(number, number\), and is given \(number, integer\); float\(i\) makes"):
        attention(*args, [torch.ones(6, dtype=torch.int64)], score="score + x0")
    with pytest.raises(TypeError, match="learned operand x0 is Long, which has no gradient"):
        attention(*args, [], learned=[torch.ones(6, dtype=torch.int64)], score="score + float(x0)")
    with pytest.raises(TypeError, match="'attn_bias' is Float; give a bool mask, and add numbers in the text"):
        attention(*args, [], score="score", attn_bias=torch.ones(5, 6))


def test_a_text_without_a_derivative():
    args = inputs(1, 2, 2, 5, 6, 8)
    with torch.no_grad():
        attention(*args, [], score="atan2(score, 2)")
