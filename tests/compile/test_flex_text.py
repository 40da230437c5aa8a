"""Functions of flex_attention as texts, and as windows of keys."""

import pytest
import torch
from tile_ops._compile import flex, flex_text
from tile_ops._compile.active import Refused

INDEX, SCORE = torch.empty((), dtype=torch.int32), torch.empty(())
BY_HEAD, TABLE, FLAGS, WHOLE = torch.randn(4), torch.randn(9, 12), torch.rand(2, 12) > 0.5, torch.arange(9)


def text_of(function, *captured):
    found = flex_text.score_of(function, [SCORE, *[INDEX] * 4, *captured], torch.float32, "cpu", [2, 4, 5000, 6000])
    return found.text, found.reads


TEXTS = [
    (lambda s, b, h, q, k: s, (), "", ()),
    (lambda s, b, h, q, k: s + (q - k), (), "t0 = (q - k); t1 = (score + t0); t1", ()),
    (lambda s, b, h, q, k: 5 * torch.tanh(s / 5), (), "t0 = (score / (5.0)); t1 = tanh(t0); t2 = (t1 * (5.0)); t2", ()),
    (lambda s, b, h, q, k: torch.where(q >= k, s, -float("inf")), (), "t0 = (q >= k); t1 = where(t0, score, (-inf)); t1", ()),
    (
        lambda s, b, h, q, k, x: s - x[h] * (q - k).abs(),
        (BY_HEAD,),
        "t0 = (q - k); t1 = abs(t0); t2 = (x0 * t1); t3 = (score - t2); t3",
        ((0, ("h",)),),
    ),
    (
        lambda s, b, h, q, k, x, y: torch.where(y[b, k], s, x[q, k]),
        (TABLE, FLAGS),
        "t0 = where(x0, score, x1); t0",
        ((1, ("b", "k")), (0, ("q", "k"))),
    ),
    (lambda s, b, h, q, k: s * (q >= k), (), "t0 = (q >= k); t1 = where(t0, 1.0, 0.0); t2 = (score * t1); t2", ()),
    (
        lambda s, b, h, q, k: torch.where((q >= k) & ~(h == 1), s, 0.0),
        (),
        "t0 = (q >= k); t1 = (h == (1.0)); t2 = (~t1); t3 = (t0 & t2); t4 = where(t3, score, (0.0)); t4",
        (),
    ),
    (lambda s, b, h, q, k: s.to(torch.bfloat16) * 2, (), "t0 = bfloat16(score); t1 = (t0 * (2.0)); t1", ()),
    (
        lambda s, b, h, q, k: s.clamp(-3, 4.5),
        (),
        "t0 = (score < (-3.0)); t1 = where(t0, (-3.0), score); t2 = (t1 > (4.5)); t3 = where(t2, (4.5), t1); t3",
        (),
    ),
    (lambda s, b, h, q, k, n: s * n, (3,), "t0 = (score * (3.0)); t0", ()),
    (lambda s, b, h, q, k: s + q // 2, (), "t0 = floordiv(iq, 2); t1 = float(t0); t2 = (score + t1); t2", ()),
    (lambda s, b, h, q, k: s + q % 2, (), "t0 = mod(iq, 2); t1 = float(t0); t2 = (score + t1); t2", ()),
    (
        lambda s, b, h, q, k: s + torch.div(q - k, 3, rounding_mode="trunc"),
        (),
        "t0 = (iq - ik); t1 = where(t0 < 0, -floordiv(-t0, 3), floordiv(t0, 3)); t2 = float(t1); t3 = (score + t2); t3",
        (),
    ),
    (lambda s, b, h, q, k: s + q * k, (), "t0 = (iq * ik); t1 = float(t0); t2 = (score + t1); t2", ()),
    (lambda s, b, h, q, k: s + s.to(torch.int32), (), "t0 = int32(score); t1 = float(t0); t2 = (score + t1); t2", ()),
    (
        lambda s, b, h, q, k, x: s + x[h, q - k],
        (TABLE,),
        "t0 = (iq - ik); t1 = x0[ih, t0]; t2 = (score + t1); t2",
        ((0, None),),
    ),
    (
        lambda s, b, h, q, k, x: s + x[h][2] + x[3, 1] + x[(k > 3).int(), (q - k).clamp(-2, 5) + 2],
        (TABLE,),
        "t0 = (score + x0); t1 = (t0 + x1); t2 = (k > (3.0)); t3 = int32(t2); t4 = (iq - ik); t5 = maximum(t4, (-2)); "
        "t6 = minimum(t5, 5); t7 = (t6 + 2); t8 = x2[t3, t7]; t9 = (t1 + t8); t9",
        ((0, ("h", 2)), (0, (3, 1)), (0, None)),
    ),
    (
        lambda s, b, h, q, k, x, y: torch.where(x[q] == x[k], s, y[x[q], 0]),
        (WHOLE, TABLE),
        "t0 = (x0 == x1); t1 = x2[x0, 0]; t2 = where(t0, score, t1); t2",
        ((0, ("q",)), (0, ("k",)), (1, None)),
    ),
    (lambda s, b, h, q, k, x: s + x[q], (WHOLE,), "t0 = float(x0); t1 = (score + t0); t1", ((0, ("q",)),)),
]


@pytest.mark.parametrize("function, captured, text, reads", TEXTS, ids=[each[2] for each in TEXTS])
def test_texts(function, captured, text, reads):
    assert text_of(function, *captured) == (text, reads)


REFUSED = [
    (lambda s, b, h, q, k, x: s + x[q, h, b, k, q - k], (torch.ones(1, 1, 1, 1, 1),), "of 5 axes that is read at computed"),
    (lambda s, b, h, q, k, x: s + x[:, 1][h], (TABLE,), "an element of another axis than the first"),
    (lambda s, b, h, q, k, x: s + (x * 2)[q - k], (BY_HEAD,), "an index of what is computed"),
    (lambda s, b, h, q, k, x: s + x[q], (WHOLE.to(torch.int16),), "a captured tensor of torch.int16"),
    (lambda s, b, h, q, k, x: s + x[h], (BY_HEAD.double(),), "a captured tensor of torch.float64"),
    (lambda s, b, h, q, k: s + q // (k + 1), (), "divided by another one than a positive constant"),
    (lambda s, b, h, q, k: s + q.fmod(2), (), "fmod of integers"),
    (lambda s, b, h, q, k, x: s + x[q - torch.full((), 1 << 33)], (BY_HEAD,), "a constant that is no integer of 32 bits"),
    (lambda s, b, h, q, k: s + (q << 2), (), "__lshift__ of integers"),
    (lambda s, b, h, q, k: (q - k) * 1.0, (), "a score that does not matter"),
    (lambda s, b, h, q, k: torch.erfinv(s), (), "erfinv of a score"),
]


@pytest.mark.parametrize("function, captured, why", REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_is_no_text(function, captured, why):
    with pytest.raises(Refused, match=why):
        text_of(function, *captured)


DOCUMENTS = torch.arange(12) // 5
WINDOWS = [
    (lambda b, h, q, k: torch.ones((), dtype=torch.bool), (None, None), ""),
    (lambda b, h, q, k: b.new_ones((), dtype=torch.bool), (None, None), ""),
    (lambda b, h, q, k: q >= k, (None, 0), "qk"),
    (lambda b, h, q, k: k <= q, (None, 0), "qk"),
    (lambda b, h, q, k: k < q + 1, (None, 0), "qk"),
    (lambda b, h, q, k: (q >= k) & (q - k <= 7), (7, 0), "qk"),
    (lambda b, h, q, k: (q - k < 4) & (k - q < 3) & (q - k < 9), (3, 2), "qk"),
    (lambda b, h, q, k: -k >= -q - 2, (None, 2), "qk"),
    (lambda b, h, q, k: q > k, None, "qk"),
    (lambda b, h, q, k: (q >= k) | (k < 3), None, "qk"),
    (lambda b, h, q, k: (q >= k) & (h > 1), None, "hqk"),
    (lambda b, h, q, k: q + k >= 3, None, "qk"),
    (lambda b, h, q, k: DOCUMENTS[q] == DOCUMENTS[k], None, "qk"),
    (lambda b, h, q, k: k < 5, None, "k"),
]


@pytest.mark.parametrize("function, window, reads", WINDOWS, ids=[str(i) for i in range(len(WINDOWS))])
def test_windows(function, window, reads):
    found = flex_text.seen_of(function, [INDEX] * 4, "cpu")
    assert found.window == window and found.reads == tuple(reads)


TWELVE = torch.arange(12.0)
INTEGERS = [  # as torch has them: 64 bits where a tensor of torch has these
    (lambda q, k: (q.long() * 1000003) % 7, "t0 = int64(iq); t1 = (t0 * 1000003); t2 = mod(t1, 7); t3 = x0[t2]"),
    (lambda q, k: (q.long() * 1000003).int() % 7, "t1 = (t0 * 1000003); t2 = int32(t1); t3 = mod(t2, 7); t4 = x0[t3]"),
    (lambda q, k: torch.where(q > k, 3, 5), "t0 = int64(3); t1 = int64(5); t2 = (q > k); t3 = where(t2, t0, t1); t4 = x0[t3]"),
    (lambda q, k: torch.where(q > k, q, 5), "t0 = int32(5); t1 = (q > k); t2 = where(t1, iq, t0); t3 = x0[t2]"),
    (lambda q, k: (q > k) * 3, "t0 = (q > k); t1 = int32(t0); t2 = (int64(t1) * 3); t3 = x0[t2]"),
    (lambda q, k: q + torch.tensor(5), "t0 = int64(5); t1 = (iq + t0); t2 = x0[t1]"),
    (lambda q, k: torch.ones((), dtype=torch.bool).long() + k, "t0 = int64(1); t1 = (t0 + ik); t2 = x0[t1]"),
]


@pytest.mark.parametrize("place, text", INTEGERS, ids=[each[1] for each in INTEGERS])
def test_integers_have_their_dtype(place, text):
    found, _ = text_of(lambda s, b, h, q, k, x: s + x[place(q, k)], TWELVE)
    assert text in found


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16], ids=str)
def test_narrow_integers_are_no_text(dtype):
    for function in (lambda s, b, h, q, k, x: s + x[q.to(dtype) + k], lambda s, b, h, q, k, x: s + q.to(dtype) * x[h]):
        with pytest.raises(Refused, match=f"integers of {str(dtype).split('.')[1]}"):
            text_of(function, TWELVE)


LEVELS = 30


def test_a_deep_choice_of_integers_is_written_once(monkeypatch):
    """A number that is tried in vain at one level is not tried again for each use at the next."""

    def deep(s, b, h, q, k):
        x = q // 2
        for level in range(LEVELS):
            x = torch.where(x == k + level, x + 1, x - 1)
        return s + x

    written = []
    for name in ("made", "made_integer"):
        own = getattr(flex_text.Text, name)
        monkeypatch.setattr(flex_text.Text, name, lambda self, node, own=own: written.append(node) or own(self, node))
    text, _ = text_of(deep)
    assert text.count("where") == LEVELS
    assert len(written) < LEVELS * LEVELS * 8


def test_biases_are_texts_as_they_are_written():
    both = [text_of(lambda s, b, h, q, k, x: s + x[q, k], TABLE), text_of(lambda s, b, h, q, k, x: x[q, k] + s, TABLE)]
    assert tuple(text for text, _ in both) == flex.BIASED
