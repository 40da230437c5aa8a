"""The cases of the GPU table with attention."""

import functools
import itertools

import torch
from gpu_work import Case, Work, bf16, exactly, gradient, random
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ops = torch.ops.tile
# Batch, heads, length and depth: those of earlier tables, then 16384 tokens of 2048 elements each.
SHAPES = [
    (2, 16, 4096, 64),
    (2, 16, 4096, 128),
    *((16384 // length, 2048 // depth, length, depth) for depth in (64, 128) for length in (1024, 4096, 16384)),
    (4, 8, 4096, 256),
]


def flash_attention_4(q, k, v, causal):
    from flash_attn.cute import flash_attn_func

    return flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)[0].transpose(1, 2)


def attention_work(batch, heads, length, depth, causal, backward, keys=None, key_heads=None, dtype=bf16, peers=None):
    """keys, key_heads: where they differ from the queries' length and heads. peers: names, by default those of tables."""
    q = random(batch, heads, length, depth).to(dtype)
    k, v = (random(batch, key_heads or heads, keys or length, depth).to(dtype) for _ in range(2))
    flops = 4 * q.numel() * k.shape[2] // (2 if causal else 1)

    def plain(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=k.shape[1] != q.shape[1])

    def backend(kind):
        def call(q, k, v):
            with sdpa_kernel(kind):
                return plain(q, k, v)

        return call

    def ours(q, k, v):
        return ops.attention(q, k, v, is_causal=causal)[0]

    functions = {
        "FlashAttention-2": backend(SDPBackend.FLASH_ATTENTION),
        "cuDNN": backend(SDPBackend.CUDNN_ATTENTION),
        "memory-efficient": backend(SDPBackend.EFFICIENT_ATTENTION),
        "FlashAttention-4": functools.partial(flash_attention_4, causal=causal),
    }
    functions = {name: functions[name] for name in peers or ("FlashAttention-2", "cuDNN", "FlashAttention-4")}
    if not backward:
        peers = {name: lambda call=call: lambda: call(q, k, v) for name, call in functions.items()}
        return Work(lambda: ours(q, k, v), 4 * (q.numel() + k.numel()), flops, peers, exactly(plain, (q, k, v)))
    g = torch.randn_like(q)
    peers = {name: lambda call=call: gradient(call, (q, k, v), g) for name, call in functions.items()}
    exact = exactly(plain, (q, k, v), grads=g)
    return Work(gradient(ours, (q, k, v), g), 6 * q.numel() + 8 * k.numel(), flops * 5 // 2, peers, exact)


def named(name, make):
    """Yields (name, work) forward and backward."""
    for backward in (False, True):
        yield f"{name}, {'backward' if backward else 'forward'}", functools.partial(make, backward=backward), backward


def attention_cases():
    for shape, causal in itertools.product(SHAPES, (False, True)):
        name = f"attention [{','.join(map(str, shape))}]{' causal' if causal else ''}"
        for each, make, backward in named(name, functools.partial(attention_work, *shape, causal)):
            ratios = {"FlashAttention-2": 1.0, "cuDNN": 1.0 if backward else 0.97}
            yield Case(each, make, ratios=ratios, product=True)


# The attention of Stable Diffusion's levels: batch, heads, pixels, depth, and keys, those of the pixels or of a text.
LEVELS = [(8, 8, 4096, 40, 4096), (8, 8, 4096, 40, 77), (8, 8, 1024, 80, 1024), (8, 8, 256, 160, 256)]
BACKENDS = ("FlashAttention-2", "cuDNN", "memory-efficient")


def unet_cases():
    """Against the best of torch's backends, so that each of them is a bar."""
    for (*shape, keys), dtype in itertools.product(LEVELS, (bf16, torch.float16)):
        name = f"attention of a U-Net [{','.join(map(str, shape))}], {keys} keys, {str(dtype)[6:]}"
        work = functools.partial(attention_work, *shape, False, keys=keys, dtype=dtype, peers=BACKENDS)
        for each, make, _ in named(name, work):
            yield Case(each, make, ratios=dict.fromkeys(BACKENDS, 1.0), product=True)


def shared_key_cases():
    work = functools.partial(attention_work, 4, 32, 4096, 128, True, key_heads=8, peers=("cuDNN", "FlashAttention-2"))
    for each, make, backward in named("attention [4,32,4096,128] causal, 8 heads of keys", work):
        yield Case(each, make, ratios={"cuDNN": 1.0 if backward else 0.97}, product=True)


# Rules that a mask tells as well as an option does: the option, and the distances to keys that it leaves.
RULES = {
    "causal": ({"is_causal": True}, lambda distance: distance >= 0),
    "window": ({"is_causal": True, "window": [1024, 0]}, lambda distance: (distance >= 0) & (distance <= 1024)),
}


def mask_work(rule, backward, added=False, batch=4, heads=32, length=4096, depth=128):
    """A rule given as a mask [1, 1, query, key], bool or added, beside the same rule given as an option."""
    q, k, v = (random(batch, heads, length, depth) for _ in range(3))
    option, leaves = RULES[rule]
    position = torch.arange(length, device=q.device)
    seen = leaves(position[:, None] - position)
    mask = torch.zeros(seen.shape, device=q.device, dtype=q.dtype).masked_fill(~seen, -torch.inf) if added else seen
    mask = mask[None, None]
    flops = 4 * batch * heads * depth * int(seen.sum())

    def plain(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype) if added else mask)

    def ours(q, k, v):
        return ops.attention(q, k, v, attn_bias=mask)[0]

    def by_option(q, k, v):
        return ops.attention(q, k, v, **option)[0]

    if not backward:
        peers = {"eager": lambda: lambda: plain(q, k, v), "the option": lambda: lambda: by_option(q, k, v)}
        return Work(lambda: ours(q, k, v), 8 * q.numel(), flops, peers, exactly(plain, (q, k, v)))
    g = torch.randn_like(q)
    peers = {"eager": lambda: gradient(plain, (q, k, v), g), "the option": lambda: gradient(by_option, (q, k, v), g)}
    exact = exactly(plain, (q, k, v), grads=g)
    return Work(gradient(ours, (q, k, v), g), 14 * q.numel(), flops * 5 // 2, peers, exact)


def mask_cases():
    for (rule, added), backward in itertools.product((("causal", False), ("window", False), ("causal", True)), (False, True)):
        name = f"attention [4,32,4096,128], a {rule} mask{' that is added' if added else ''}"
        make = functools.partial(mask_work, rule, backward, added)
        direction = "backward" if backward else "forward"
        yield Case(f"{name}, {direction}", make, ratios={"the option": round(1 / 1.15, 2)}, product=True)


def decode_work(page=0, batch=32, length=8192, heads=32, key_heads=8, depth=128):
    """One query per head over a cache; all sequences have the cache's length. The bytes are those of the cache."""
    query = random(batch, heads, 1, depth)
    key, value = (random(batch, key_heads, length, depth) for _ in range(2))
    lengths = torch.full((batch,), length, dtype=torch.int32, device=query.device)
    given, table = (key, value), None
    if page:
        given = [x.unflatten(2, (-1, page)).transpose(1, 2).flatten(0, 1).contiguous() for x in given]
        table = torch.arange(batch * length // page, dtype=torch.int32, device=query.device).view(batch, -1)

    def plain(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    return Work(
        lambda: ops.attention_decode(query, *given, lengths, block_table=table)[0],
        2 * key.numel() * key.element_size(),
        4 * batch * heads * length * depth,
        {"eager": lambda: lambda: plain(query, key, value)},
        exactly(plain, (query, key, value)),
    )


# Sequences, the page size or 0, and the required part of the speed of a copy of the cache.
DECODED = [(32, 0, 0.95), (32, 16, 0.9), (32, 64, 0.9), (1, 0, 0.8)]


def decode_cases():
    for batch, page, fraction in DECODED:
        sequences = f"{batch} sequences" if batch > 1 else "1 sequence"
        name = f"attention decode, {sequences} of 8192 keys, 32 heads, 8 of keys{f', pages of {page}' if page else ''}"
        yield Case(name, functools.partial(decode_work, page, batch), fraction=fraction)


def static_cache_work(length, depth, added, heads=32, key_heads=8):
    """The query of a decoded token over a static cache: a mask, bool or added, leaves the first half of its keys."""
    query = random(1, heads, 1, depth)
    key, value = (random(1, key_heads, length, depth) for _ in range(2))
    seen = torch.arange(length, device=query.device)[None, None, None] < length // 2
    mask = torch.zeros(seen.shape, device=query.device, dtype=query.dtype).masked_fill(~seen, -torch.inf) if added else seen

    def plain(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype) if added else mask, enable_gqa=True)

    return Work(
        lambda: ops.attention(query, key, value, attn_bias=mask)[0],
        2 * key.numel() * key.element_size(),
        4 * heads * length * depth,
        {"eager": lambda: lambda: plain(query, key, value)},
        exactly(plain, (query, key, value)),
    )


def static_cache_cases():
    for depth, length, added in itertools.product((64, 128), (512, 2048, 8192), (False, True)):
        kind = "a mask that is added" if added else "a mask"
        name = f"attention [1,32,1,{depth}], 1 query of {length} keys with {kind}, 8 heads of keys"
        yield Case(name, functools.partial(static_cache_work, length, depth, added), ratios={"eager": 1.0})
