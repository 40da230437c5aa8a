"""The cases of the GPU table with changes of attention's scores, against FlexAttention."""

import functools
from typing import Callable, NamedTuple

import gpu_work
import torch
from gpu_user_cases import halved_attention
from gpu_work import Case, Work, exactly, random

ops = torch.ops.tile
CAP, WINDOW = 30.0, 1024
SHORT = 2048  # above, eager's matrices of scores would take most of the time of a run


class Change(NamedTuple):
    """A change of scores in the terms of our operator, of torch and of FlexAttention. `extra`: a tensor or None."""

    ours: Callable  # of q, k, v, extra
    plain: Callable  # of scores, the distances of keys before queries, extra
    flex: Callable | None = None  # of extra, gives a score_mod
    extra: Callable = lambda heads, length: None  # makes it
    gradient: bool = False  # of extra
    window: int | None = None


def by_options(options):
    def call(q, k, v, extra):
        return ops.attention(q, k, v, is_causal=True, **options(extra))[0]

    return call


def slopes(heads, length):
    return 2.0 ** (-8 / heads * torch.arange(1, heads + 1, device=gpu_work.device))


CHANGES = {
    "softcap 30": Change(
        by_options(lambda _: {"softcap": CAP}),
        lambda scores, distance, _: CAP * torch.tanh(scores / CAP),
        lambda _: lambda score, batch, head, query, key: CAP * torch.tanh(score / CAP),
    ),
    "ALiBi": Change(
        by_options(lambda slope: {"alibi_slopes": slope}),
        lambda scores, distance, slope: scores - slope[:, None, None] * distance,
        lambda slope: lambda score, batch, head, query, key: score - slope[head] * (query - key),
        slopes,
    ),
    "window 1024": Change(by_options(lambda _: {"window": [WINDOW, 0]}), lambda scores, distance, _: scores, window=WINDOW),
    "an added bias with its gradient": Change(
        by_options(lambda bias: {"attn_bias": bias}),
        lambda scores, distance, bias: scores + bias,
        lambda bias: lambda score, batch, head, query, key: score + bias[0, head, query, key],
        lambda heads, length: random(1, heads, length, length),
        gradient=True,
    ),
    "a user's change": Change(
        lambda q, k, v, _: halved_attention(q, k, v),
        lambda scores, distance, _: torch.where(distance % 2 == 0, scores, scores * 0.5),
        lambda _: lambda score, batch, head, query, key: torch.where((query - key) % 2 == 0, score, score * 0.5),
    ),
}


def both(function, inputs, grads):
    """Returns a call of function(*inputs) and of its backward."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    return lambda: torch.autograd.grad(function(*inputs), inputs, grads)


def flex_of(change, extra, length):
    """Returns FlexAttention with the change, as torch's documentation writes it."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def seen(batch, head, query, key):
        causal = query >= key
        return causal & (query - key <= change.window) if change.window else causal

    mask = create_block_mask(seen, None, None, length, length, device=gpu_work.device)
    compiled = torch.compile(flex_attention, dynamic=False)

    score_mods = {}  # one for each tensor: torch.compile may compile again for another

    def call(q, k, v, bias=None):
        given = extra if bias is None else bias
        if change.flex and id(given) not in score_mods:
            score_mods[id(given)] = change.flex(given)
        return compiled(q, k, v, score_mod=score_mods.get(id(given)), block_mask=mask)

    return call


def change_work(name, backward, batch=4, heads=16, length=4096, depth=128):
    """Forward, or forward and backward; causal."""
    change = CHANGES[name]
    q, k, v = (random(batch, heads, length, depth) for _ in range(3))
    extra = change.extra(heads, length)
    inputs = (q, k, v, extra) if change.gradient else (q, k, v)
    place = torch.arange(length, device=q.device)
    distance = place[:, None] - place
    hidden = (distance < 0) | (distance > (change.window or length))
    flops = 4 * batch * heads * depth * int((~hidden).sum())

    def plain(q, k, v, bias=None):
        given = extra if bias is None else bias
        given = given if given is None else given.to(q.dtype)
        scores = change.plain(q @ k.mT * depth**-0.5, distance, given)
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v

    def ours(q, k, v, bias=None):
        return change.ours(q, k, v, extra if bias is None else bias)

    moved = 8 * q.numel() + (2 * extra.numel() if change.gradient else 0)
    functions = {"FlexAttention": lambda: flex_of(change, extra, length)}
    if length <= SHORT:
        functions = {"eager": lambda: plain} | functions
    if not backward:
        peers = {each: lambda make=make: functools.partial(make(), *inputs) for each, make in functions.items()}
        return Work(lambda: ours(*inputs), moved, flops, peers, exactly(plain, inputs))
    g = torch.randn_like(q)
    peers = {each: lambda make=make: both(make(), inputs, g) for each, make in functions.items()}
    return Work(both(ours, inputs, g), moved * 11 // 4, flops * 7 // 2, peers, exactly(plain, inputs, grads=g))


def change_cases():
    for name in CHANGES:
        for backward in (False, True):
            make = functools.partial(change_work, name, backward)
            direction = "forward and backward" if backward else "forward"
            title = f"attention [4,16,4096,128] causal, {name}, {direction}"
            yield Case(title, make, ratios={"FlexAttention": 1.3}, product=True)
