"""The cases of the GPU table with attention over packed documents: as sequences of different lengths, and by a mask."""

import functools
import inspect
from random import Random

import gpu_work
import torch
from gpu_attention_cases import named
from gpu_work import Case, Work, exactly, gradient, random
from torch.nn import functional as F

ops = torch.ops.tile
LENGTHS = tuple(Random(0).randint(256, 1024) for _ in range(16))
HEADS, DEPTH = 16, 128


def flash_varlen(q, k, v, starts, longest):
    from flash_attn import flash_attn_varlen_func

    return flash_attn_varlen_func(q, k, v, starts, starts, longest, longest, causal=True)


def torch_varlen(q, k, v, starts, longest):
    from torch.nn.attention.varlen import varlen_attn

    # Later versions of torch have a window instead.
    named = "is_causal" in inspect.signature(varlen_attn).parameters
    causal = {"is_causal": True} if named else {"window_size": (-1, 0)}
    return varlen_attn(q, k, v, starts, starts, longest, longest, **causal)


def flash_is_installed():
    try:
        import flash_attn

        return hasattr(flash_attn, "flash_attn_varlen_func")
    except ImportError:
        return False


class Documents:
    """Causal attention of q, k, v [tokens, heads, depth], each document by itself."""

    def __init__(self, lengths):
        places = torch.tensor([0, *lengths], device=gpu_work.device)
        self.starts, self.longest = places.cumsum(0).int(), max(lengths)
        number = torch.arange(len(lengths), device=places.device).repeat_interleave(places[1:])
        self.mask = (number[:, None] == number).tril()

    def packed(self, q, k, v):
        return ops.attention_varlen(q, k, v, *[self.starts] * 2, *[self.longest] * 2, is_causal=True)[0]

    def masked(self, q, k, v):
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        return ops.attention(q, k, v, attn_bias=self.mask)[0][0].transpose(0, 1)

    def plain(self, q, k, v):
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)[0].transpose(0, 1)

    def by(self, function):
        return lambda q, k, v: function(q, k, v, self.starts, self.longest)


def document_work(by_mask, backward, lengths=LENGTHS, heads=HEADS, depth=DEPTH):
    """by_mask: ours with a bool mask, beside ours of packed sequences."""
    documents = Documents(lengths)
    q, k, v = (random(sum(lengths), heads, depth) for _ in range(3))
    flops = 2 * heads * depth * sum(length**2 for length in lengths)
    functions = {"eager": documents.plain}
    if by_mask:
        ours, functions["packed"] = documents.masked, documents.packed
    else:
        ours, functions["torch's varlen"] = documents.packed, documents.by(torch_varlen)
        if flash_is_installed():
            functions["flash_attn"] = documents.by(flash_varlen)
    if not backward:
        peers = {name: lambda call=call: functools.partial(call, q, k, v) for name, call in functions.items()}
        return Work(lambda: ours(q, k, v), 8 * q.numel(), flops, peers, exactly(documents.plain, (q, k, v)))
    g = torch.randn_like(q)
    peers = {name: lambda call=call: gradient(call, (q, k, v), g) for name, call in functions.items()}
    exact = exactly(documents.plain, (q, k, v), grads=g)
    return Work(gradient(ours, (q, k, v), g), 14 * q.numel(), flops * 5 // 2, peers, exact)


def document_cases():
    packed = {"flash_attn" if flash_is_installed() else "torch's varlen": 0.9}
    for by_mask, ratios in ((False, packed), (True, {"packed": round(1 / 1.15, 2)})):
        name = f"attention of 16 documents of 256 to 1024 tokens, {'a bool mask' if by_mask else 'packed'}, causal"
        for each, make, _ in named(name, functools.partial(document_work, by_mask)):
            yield Case(each, make, ratios=ratios, product=True)
