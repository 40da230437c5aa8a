"""Texts of scores, what they are in torch, and attention with one as the peer and, in float64, the reference."""

import math

import torch
from attention_reference import seen

BATCH, HEADS, ROWS, KEYS = 2, 4, 70, 133
INF = float("inf")
F32, BOOL, LONG, INT = torch.float32, torch.bool, torch.int64, torch.int32

# {text: (the same in torch, (shape, dtype) of its operands)}
TEXTS = {
    "score * 0.5 + 1": (lambda s, b, h, q, k: s * 0.5 + 1, ()),
    "t = tanh(score / 3); t * 3": (lambda s, b, h, q, k: torch.tanh(s / 3) * 3, ()),
    "score + (q - k) * 0.01 * h - b": (lambda s, b, h, q, k: s + (q - k) * 0.01 * h - b, ()),
    "where(q >= k - 3, score, -inf)": (lambda s, b, h, q, k: torch.where(q >= k - 3, s, -INF), ()),
    "score - x0 * abs(q - k)": (lambda s, b, h, q, k, x: s - x * (q - k).abs(), [((HEADS, 1, 1), F32)]),
    "score * sigmoid(score + x0) + x1": (
        lambda s, b, h, q, k, x, y: s * torch.sigmoid(s + x) + y,
        [((BATCH, 1, ROWS, KEYS), torch.bfloat16), ((1, HEADS, 1, KEYS), F32)],
    ),
    "where(x0, score * x1, -inf)": (
        lambda s, b, h, q, k, x, y: torch.where(x, s * y, -INF),
        [((BATCH, 1, 1, KEYS), BOOL), ((ROWS, 1), F32)],
    ),
    # The numbers past the last query and key are no numbers here.
    "score / x0 + log(x1)": (lambda s, b, h, q, k, x, y: s / x + torch.log(y), [((ROWS, 1), F32), ((KEYS,), F32)]),
    "x0 * tanh(score / x0)": (lambda s, b, h, q, k, x: x * torch.tanh(s / x), [((), F32)]),
    "where((x0 == x1) | (q == k), score, -inf)": (
        lambda s, b, h, q, k, x, y: torch.where((x == y) | (q == k), s, -INF),
        [((ROWS, 1), LONG), ((BATCH, 1, 1, KEYS), LONG)],
    ),
    "score + float(mod(x0 - ik, 3)) * 0.25": (
        lambda s, b, h, q, k, x: s + (x - k.long()).remainder(3) * 0.25,
        [((HEADS, 1, 1), INT)],
    ),
    # Elements of tables: by distances, by indices in a tensor, and from the end.
    "score + x0[ih, iq - ik + 133]": (
        lambda s, b, h, q, k, x: s + x[h.long(), (q - k).long() + KEYS],
        [((HEADS, ROWS + KEYS), F32)],
    ),
    "score * x1[x0, ih]": (
        lambda s, b, h, q, k, x, y: s * y[x, h.long()],
        [((ROWS, KEYS), LONG), ((4, HEADS), torch.bfloat16)],
    ),
    "t = int32(q / 8) - floordiv(ik, 16); score * x0[t] + log(x1[mod(ib + 1, 2), 3, ik])": (
        lambda s, b, h, q, k, x, y: (
            s * x[(q.long() // 8 - k.long() // 16)] + torch.log(y[1 - b.long(), torch.full_like(b.long(), 3), k.long()])
        ),
        [((20,), F32), ((BATCH, 4, KEYS), F32)],
    ),
}
# Those whose floating operands come last, and may be learned.
LEARNED = [text for text, (_, operands) in TEXTS.items() if any(dtype.is_floating_point for _, dtype in operands)]


def operands_of(text):
    made = []
    for shape, dtype in TEXTS[text][1]:
        if dtype.is_floating_point:
            made.append((torch.rand(shape) + 0.5).to(dtype))
        else:
            made.append(torch.rand(shape) > 0.3 if dtype == BOOL else torch.randint(0, 4, shape, dtype=dtype))
    return made


def learned_of(text):
    """Returns (operands, learned operands)."""
    operands = operands_of(text)
    count = sum(not each.is_floating_point() for each in operands)
    return operands[:count], [each.requires_grad_() for each in operands[count:]]


def peer(query, key, value, operands, *, learned=(), score, attn_bias=None, is_causal=False, scale=None, window=(-1, -1)):
    """(out, lse) in query's dtype, with the scores in float32 at least."""
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    group = query.shape[1] // key.shape[1]
    factor = 1 / math.sqrt(query.shape[3]) if scale is None else scale
    scores = query.to(dtype) @ key.to(dtype).repeat_interleave(group, 1).mT * factor
    sides = [
        torch.arange(n, dtype=dtype).reshape([n if i == axis else 1 for i in range(4)]) for axis, n in enumerate(scores.shape)
    ]
    scores = TEXTS[score][0](scores, *sides, *(x.to(dtype) if x.is_floating_point() else x for x in [*operands, *learned]))
    visible = seen(query.shape[2], key.shape[2], is_causal, "top_left", window)
    for mask in (attn_bias, visible):
        if mask is not None:
            scores = scores.masked_fill(~mask, -INF)
    empty = (scores == -INF).all(-1, keepdim=True)
    scores = scores.masked_fill(empty, 0)
    weights = scores.softmax(-1).masked_fill(empty, 0)
    out = weights.to(query.dtype) @ value.repeat_interleave(group, 1)
    return out, scores.logsumexp(-1).masked_fill(empty.squeeze(-1), -INF)
