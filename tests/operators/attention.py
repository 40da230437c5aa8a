"""The rows of attention, attention_varlen and attention_decode in the table of operators."""

import math
import random

import torch
import torch.nn.functional as F
from attention_reference import inputs, peer

import tile_ops
from operators.drawn import tensor, whole_vectors
from operators.record import Bad, BadGradients, Operator, Sharded
from operators.tensors import (
    ALIGNED,
    UNALIGNED,
    X,
    bf,
    f,
    f64,
    followed,
    grad,
    i64,
    integers,
    leaf,
    meta,
    meta_leaf,
    wide,
    zeros,
)
from operators.texts import HERE, MOVE, RESULT, SAVED

tile = torch.ops.tile

Q, K, V = (2, 4, 5, 0), (2, 4, 7, 0), (2, 4, 7, 3)
BIAS = (5, 7)
STARTS = torch.tensor([0, 40, 45, 45], device="cpu"), torch.tensor([0, 70, 71, 90], device="cpu")


def attention_backward(dtype=torch.float32, **given):
    q, kv = f(1, 2, 3, 8, dtype=dtype), f(1, 2, 5, 8, dtype=dtype)
    saved = {
        "out": f(1, 2, 3, 8, dtype=dtype),
        "top": f(1, 2, 3),
        "weight": f(1, 2, 3),
        "residual": f(1, 2, 3, 0 if dtype == torch.float32 else 8, dtype=dtype),
        "mask": [True, True, True, False, False],
    } | given
    return tile.attention_backward(
        saved.get("grad_out", saved["out"]),
        None,
        q,
        kv,
        kv,
        saved["out"],
        saved["top"],
        saved["weight"],
        saved["residual"],
        attn_bias=None,
        is_causal=False,
        causal_align="bottom_right",
        scale=None,
        window=[-1, -1],
        softcap=0.0,
        alibi_slopes=None,
        sinks=None,
        dropout_p=0.0,
        seed=None,
        output_mask=saved["mask"],
    )


def attention_varlen_backward(starts=(0, 2, 3), **given):
    q = f(3, 2, 8)
    starts = torch.tensor(starts, dtype=torch.int32)
    saved = {"out": q, "top": f(2, 3), "weight": f(2, 3), "residual": f(3, 2, 0)} | given
    return tile.attention_varlen_backward(
        q,
        None,
        q,
        q,
        q,
        starts,
        starts,
        2,
        2,
        saved["out"],
        saved["top"],
        saved["weight"],
        saved["residual"],
        is_causal=False,
        causal_align="bottom_right",
        scale=None,
        window=[-1, -1],
        softcap=0.0,
        alibi_slopes=None,
        sinks=None,
        dropout_p=0.0,
        seed=None,
        output_mask=[True, True, True, False],
    )


def attention_with(**options):
    return tile.attention(f(*X), f(*X), f(*X), **options)


def large_attention(**options):
    q, k, v = (torch.randn(64, 16, 320, 64) for _ in range(3))
    return lambda q, k, v: tile.attention(q, k, v, **options), [q, k, v]


def large_grouped():
    large_rows = 8192 if torch.empty(0).is_cuda else 512  # a CPU would take minutes
    return tile.attention, [torch.randn(1, heads, large_rows, 128) for heads in (32, 8, 8)]


def large_varlen():
    starts = torch.arange(0, 64 * 320 + 1, 320, dtype=torch.int32)
    return (
        lambda q, k, v: tile.attention_varlen(q, k, v, starts, starts, 320, 320),
        [torch.randn(64 * 320, 16, 64) for _ in range(3)],
    )


def gate_attention(dtype, depth, causal, grad=True):
    inputs = (meta_leaf(dtype, 2, 16, 4096, depth).requires_grad_(grad) for _ in range(3))
    return tile.attention(*inputs, is_causal=causal)


def gate_attention_with(dtype, **options):
    def given(value):
        return torch.empty(value[0], dtype=value[1], device="meta") if isinstance(value, tuple) else value

    inputs = (meta_leaf(dtype, 2, 16, 4096, 128) for _ in range(3))
    return tile.attention(*inputs, is_causal=True, **{name: given(value) for name, value in options.items()})


def gate_attention_of_few(dtype, queries, mask):
    """Decoded tokens over a static cache."""
    query, key, value = (meta_leaf(dtype, 1, *shape, 128).detach() for shape in ((32, queries), (8, 8192), (8, 8192)))
    return tile.attention(query, key, value, attn_bias=torch.empty(1, 1, queries, 8192, dtype=mask or dtype, device="meta"))


def gate_attention_varlen(dtype):
    starts = torch.empty(9, dtype=torch.int32, device="meta")
    inputs = (meta_leaf(dtype, 8192, 16, 128) for _ in range(3))
    return tile.attention_varlen(*inputs, starts, starts, 1024, 1024, is_causal=True)


def gate_attention_decode(dtype, page=0):
    lengths = torch.empty(32, dtype=torch.int32, device="meta")
    cache = (32 * 8192 // page, 8, page, 128) if page else (32, 8, 8192, 128)
    query, key, value = (meta_leaf(dtype, *shape).detach() for shape in ((32, 32, 1, 128), cache, cache))
    table = torch.empty(32, 8192 // page, dtype=torch.int32, device="meta") if page else None
    return tile.attention_decode(query, key, value, lengths, block_table=table)


def sharded_attention(heads, key_heads, **options):
    tensors = {
        "query": torch.randn(4, heads, 6, 8),
        "key": torch.randn(4, key_heads, 8, 8),
        "value": torch.randn(4, key_heads, 8, 8),
    }
    extra = {name: value for name, value in options.items() if isinstance(value, torch.Tensor)}
    plain = {name: value for name, value in options.items() if name not in extra}
    floating = [name for name in ("attn_bias", "sinks") if name in extra and extra[name].is_floating_point()]
    wanted = ("query", "key", "value", *floating)
    names = tuple(extra)

    def run(query, key, value, *more):
        return tile.attention(query, key, value, **dict(zip(names, more)), **plain)[0]

    return Sharded({**tensors, **extra}, run, wanted)


def sharded_varlen():
    starts = torch.tensor([0, 3, 7, 10], dtype=torch.int32)
    tensors = {
        "query": torch.randn(10, 4, 8),
        "key": torch.randn(10, 2, 8),
        "value": torch.randn(10, 2, 8),
        "q": starts,
        "k": starts,
    }
    return Sharded(tensors, lambda query, key, value, q, k: tile.attention_varlen(query, key, value, q, k, 4, 4, is_causal=True)[0],
                ("query", "key", "value"))  # fmt: skip


def sharded_decode(paged):
    lengths = torch.tensor([3, 9, 16, 12])
    if not paged:
        tensors = {
            "query": torch.randn(4, 4, 1, 8),
            "key": torch.randn(4, 2, 16, 8),
            "value": torch.randn(4, 2, 16, 8),
            "lengths": lengths,
        }
        return Sharded(tensors, lambda *given: tile.attention_decode(*given))
    table = torch.tensor([[3], [1], [0], [2]], dtype=torch.int32)
    tensors = {"query": torch.randn(4, 4, 1, 8), "key": torch.randn(4, 2, 16, 8), "value": torch.randn(4, 2, 16, 8), "lengths": lengths,
               "table": table}  # fmt: skip
    return Sharded(tensors, lambda q, k, v, n, table: tile.attention_decode(q, k, v, n, block_table=table))


def packed_inputs(dtype):
    query, key = leaf(dtype, 45, 2, 64), leaf(dtype, 90, 1, 64)
    return query, key, leaf(dtype, 90, 1, 64), *(start.to(query.device) for start in STARTS), 40, 70


def of_packed(query, key, value, *starts, is_causal):
    results = []
    for i in range(2):
        rows, keys = (slice(*start[i : i + 2].tolist()) for start in STARTS)
        one = peer(*(x.transpose(0, 1).unsqueeze(0) for x in (query[rows], key[keys], value[keys])), is_causal=is_causal)
        results.append((one[0][0].transpose(0, 1), one[1][0]))
    return torch.cat([out for out, _ in results]), torch.cat([lse for _, lse in results], 1)


def decode_inputs(dtype, length, paged=False):
    shape = (4, 1, 16, 64) if paged else (2, 1, length, 64)
    tensors = (torch.randn(size).to(dtype) for size in ((2, 3, 1, 64), shape, shape))
    return *tensors, torch.tensor([length, length // 2])


def decoded(query, key, value, lengths, *, block_table=None):
    if block_table is not None:
        key, value = (cache[block_table.long()].transpose(1, 2).flatten(2, 3) for cache in (key, value))
    results = [peer(query[b : b + 1], key[b : b + 1, :, :n], value[b : b + 1, :, :n]) for b, n in enumerate(lengths.tolist())]
    return tuple(torch.cat(each) for each in zip(*results))


def expected_attention(q, k, v, causal=False, bias=None):
    """Computes attention by torch's basic operations, whose sums over no elements are 0."""
    scores = q @ k.transpose(-1, -2)
    if bias is not None:
        scores = scores + bias
    if causal:
        rows, keys = scores.shape[-2:]
        scores = scores.masked_fill(~torch.ones(rows, keys, dtype=torch.bool).tril(keys - rows), -math.inf)
    return scores.softmax(-1) @ v, wide(scores).logsumexp(-1)


def packed(x):
    return x[0].transpose(0, 1)


def varlen_without_depth(q, k, v):
    return tile.attention_varlen(packed(q), packed(k), packed(v), integers(0, 2, 5), integers(0, 3, 7), 3, 4)


def each_sequence(q, k, v):
    results = [expected_attention(q[:, :, a:b], k[:, :, c:d], v[:, :, c:d]) for a, b, c, d in ((0, 2, 0, 3), (2, 5, 3, 7))]
    return torch.cat([packed(out) for out, _ in results]), torch.cat([lse[0] for _, lse in results], 1)


def draw_attention(dtype):
    batch, key_heads, group = random.randint(1, 3), random.choice([1, 2, 8]), random.choice([1, 1, 2, 3])
    row_sizes, keys = (whole_vectors(random.choice([1, 5, 33, 64, 130])) for _ in range(2))
    depth, width = (whole_vectors(random.choice([1, 8, 64, 65, 96, 128, 160])) for _ in range(2))
    query = tensor([batch, key_heads * group, row_sizes, depth], dtype)
    key, value = tensor([batch, key_heads, keys, depth], dtype), tensor([batch, key_heads, keys, width], dtype)
    return tile.attention, (query, key, value), {"is_causal": random.random() < 0.5}


def gpu_attention_with_options(randn):
    options = {"window": (40, 9), "softcap": 5.0, "dropout_p": 0.1}
    tensors = {"alibi_slopes": torch.rand(4), "seed": integers(1, 2)}
    key_sizes = (2, 2, 100, 64)
    return (
        lambda q, k, v, s: tile.attention(q, k, v, sinks=s, **options, **tensors),
        [randn(2, 4, 100, 64), randn(*key_sizes), randn(*key_sizes), randn(4)],
    )


ATTENTION = Operator(
    name="attention",
    reference=peer,
    flops=lambda: (tile.attention, [f(2, 4, 5, 8), f(2, 2, 6, 8), f(2, 2, 6, 16)], 2 * 2 * 4 * 5 * 6 * (8 + 16)),
    bad=Bad(
        dtypes=[
            (
                lambda: tile.attention(i64(*X), i64(*X), i64(*X)),
                "'query' is Long; convert it to Half, BFloat16, Float or Double",
            ),
            (
                lambda: tile.attention(f(*X), f64(*X), f(*X)),
                "'query' is Float, 'key' Double and 'value' Float; convert them to one dtype",
            ),
            (
                lambda: tile.attention(f(*X), f(*X), f(*X), attn_bias=i64(3, 3)),
                "'attn_bias' is Long; give a bool mask (True attends) or floats to add to the scores",
            ),
            (lambda: attention_with(alibi_slopes=i64(2)), "'alibi_slopes' is Long; convert it to Float"),
            (
                lambda: attention_with(sinks=f64(2)),
                "'sinks' is Double and 'query' Float; convert it to the dtype of query, or to Float",
            ),
        ],
        shapes=[
            (
                lambda: tile.attention(f(2, 3, 4), f(2, 3, 4), f(2, 3, 4)),
                "'query' has shape [2, 3, 4]; give it 4 dimensions, [batch, heads, length, head_dim]",
            ),
            (
                lambda: tile.attention(f(*X), f(1, 2, 3, 5), f(*X)),
                "'query' is [1, 2, 3, 4] but 'key' [1, 2, 3, 5]; their batch and head_dim must be equal",
            ),
            (
                lambda: tile.attention(f(*X), f(*X), f(1, 2, 5, 4)),
                "'key' is [1, 2, 3, 4] but 'value' [1, 2, 5, 4]; their batch, heads and length must be equal",
            ),
            (
                lambda: tile.attention(f(1, 3, 3, 4), f(*X), f(*X)),
                "'query' has 3 heads but 'key' 2; the heads of query must be a multiple of those of key",
            ),
            (
                lambda: tile.attention(f(*X), f(*X), f(*X), attn_bias=f(4, 4)),
                "'attn_bias' is [4, 4], which does not broadcast to the scores, [1, 2, 3, 3]; every dimension must be equal or 1",
            ),
            (
                lambda: tile.attention(f(*X), f(2, 2, 3, 4), f(2, 2, 3, 4)),
                "'query' is [1, 2, 3, 4] but 'key' [2, 2, 3, 4]; their batch and head_dim must be equal",
            ),
            (lambda: attention_with(causal_align="left"), "causal_align is 'left'; give 'bottom_right' or 'top_left'"),
            (
                lambda: attention_with(window=[-2, 0]),
                "window is [-2, 0]; give the number of keys before and after a query's own place, -1 for all",
            ),
            (lambda: attention_with(softcap=-1.0), "softcap is -1; give a positive number, or 0 for none"),
            (
                lambda: attention_with(alibi_slopes=f(3)),
                "'alibi_slopes' has shape [3]; it must be [2], a slope a head, or [1, 2]",
            ),
            (lambda: attention_with(sinks=f(2, 4)), "'sinks' has shape [2, 4]; it must be [2], a score a head"),
            (lambda: attention_with(dropout_p=1.5), "dropout_p is 1.5; give a fraction from 0 to 1"),
            (
                lambda: attention_with(dropout_p=0.5),
                "dropout_p is 0.5 and there is no seed; pass torch.randint(2**63 - 1, (2,)), on the device of query",
            ),
            (lambda: attention_with(dropout_p=0.5, seed=f(2)), "'seed' is Float[2]; it must be Long[2]"),
        ],
        devices=[(lambda: tile.attention(f(*X), meta(*X), f(*X)), f"'query' is on {HERE}, but 'key' is on meta; {MOVE}")],
        unaligned=[
            ("key", lambda: tile.attention(ALIGNED.view(1, 1, 2, 3), UNALIGNED.view(1, 1, 2, 3), ALIGNED.view(1, 1, 2, 3)))
        ],
    ),
    bad_gradients=BadGradients(
        good=[attention_backward, lambda: attention_backward(torch.bfloat16)],
        shapes=[
            (lambda: attention_backward(out=f(1, 2, 3, 7)), f"out has shape [1, 2, 3, 7]; it must be [1, 2, 3, 8], {RESULT}"),
            (lambda: attention_backward(top=f(1, 2, 1)), f"top has shape [1, 2, 1]; it must be [1, 2, 3], {SAVED}"),
            (lambda: attention_backward(weight=f(1, 2)), f"weight has shape [1, 2]; it must be [1, 2, 3], {SAVED}"),
            (
                lambda: attention_backward(torch.bfloat16, residual=bf(1, 2, 3, 0)),
                f"residual has shape [1, 2, 3, 0]; it must be [1, 2, 3, 8], {SAVED}",
            ),
            (
                lambda: attention_backward(grad_out=f(2, 2, 3, 8)),
                "'grad_out' is Float[2, 2, 3, 8] but 'out' Float[1, 2, 3, 8]; they must agree",
            ),
            *(
                (
                    lambda mask=mask: attention_backward(mask=mask),
                    f"output_mask asks for the gradient of '{name}', which is not given; clear its bit",
                )
                for name, mask in (("attn_bias", [True] * 5), ("sinks", [True] * 3 + [False, True]))
            ),
        ],
        dtypes=[
            (lambda: attention_backward(top=f64(1, 2, 3)), f"top is float64; it must be float32, {SAVED}"),
            (lambda: attention_backward(out=bf(1, 2, 3, 8)), f"out is bfloat16; it must be float32, {RESULT}"),
        ],
    ),
    autocast=(lambda x: tile_ops.attention(x, x, x)[0], lambda x: F.scaled_dot_product_attention(x, x, x)),
    without_elements={
        "attention": (tile.attention, expected_attention, [Q, K, V]),
        "attention, causal": (
            lambda q, k, v: tile.attention(q, k, v, is_causal=True),
            lambda q, k, v: expected_attention(q, k, v, True),
            [Q, K, V],
        ),
        "attention with a bias": (
            lambda q, k, v, b: tile.attention(q, k, v, attn_bias=b),
            lambda q, k, v, b: expected_attention(q, k, v, bias=b),
            [Q, K, V, BIAS],
        ),
        "attention of no width either": (tile.attention, expected_attention, [Q, K, (2, 4, 7, 0)]),
        "attention, no batch": (tile.attention, expected_attention, [(0, 4, 5, 0), (0, 4, 7, 0), (0, 4, 7, 3)]),
        "scaled_dot_product_attention": (tile_ops.scaled_dot_product_attention, F.scaled_dot_product_attention, [Q, K, V]),
    },
    good=[
        lambda: tile.attention(grad(*X), grad(*X), grad(*X), attn_bias=grad(3, 3), is_causal=True, sinks=grad(2)),
        lambda: tile.attention(
            grad(*X),
            grad(1, 1, 5, 4),
            grad(1, 1, 5, 2),
            window=[2, 1],
            softcap=1.0,
            dropout_p=0.1,
            seed=i64(2),
            alibi_slopes=torch.ones(2),
        ),
    ],
    draw=draw_attention,
    memory={
        "attention": large_attention,
        "attention, causal": lambda: large_attention(is_causal=True),
        "attention of few key heads": large_grouped,
    },
    gpu={
        "attention": lambda randn: (
            lambda q, k, v: tile.attention(q, k, v, is_causal=True),
            [randn(2, 4, 100, 64), randn(2, 2, 100, 64), randn(2, 2, 100, 64)],
        ),
        "attention_with_options": gpu_attention_with_options,
    },
    gates={
        "attention[64],causal": lambda dtype: gate_attention(dtype, 64, True),
        "attention[96]": lambda dtype: gate_attention(dtype, 96, False),
        "attention[96],without_gradient": lambda dtype: gate_attention(dtype, 96, False, grad=False),
        "attention[128]": lambda dtype: gate_attention(dtype, 128, False),
        "attention[128],without_gradient": lambda dtype: gate_attention(dtype, 128, False, grad=False),
    },
    gate_variants={
        "attention[128],window": lambda dtype: gate_attention_with(dtype, window=[1024, 0], sinks=((16,), torch.float32)),
        "attention[128],mask": lambda dtype: gate_attention_with(dtype, attn_bias=((1, 1, 4096, 4096), torch.bool)),
        "attention[128],bias": lambda dtype: gate_attention_with(dtype, attn_bias=meta_leaf(dtype, 1, 16, 4096, 4096)),
        "attention[128],softcap": lambda dtype: gate_attention_with(dtype, softcap=30.0),
        "attention[128],alibi": lambda dtype: gate_attention_with(dtype, alibi_slopes=((16,), torch.float32)),
        "attention[128],1_query": lambda dtype: gate_attention_of_few(dtype, 1, torch.bool),
        "attention[128],4_queries": lambda dtype: gate_attention_of_few(dtype, 4, None),
        "attention[128],dropout": lambda dtype: gate_attention_with(dtype, dropout_p=0.1, seed=((2,), torch.int64)),
    },
    sharded={
        "attention": lambda: sharded_attention(4, 2, is_causal=True),
        "attention of equal heads": lambda: sharded_attention(4, 4),
        "attention of one key head": lambda: sharded_attention(4, 1, sinks=torch.randn(4)),
        "attention with a bias": lambda: sharded_attention(4, 2, attn_bias=torch.randn(1, 4, 6, 8)),
        "attention with a mask": lambda: sharded_attention(4, 2, attn_bias=torch.rand(4, 1, 1, 8) > 0.3),
        "attention with slopes": lambda: sharded_attention(4, 2, alibi_slopes=torch.rand(4), is_causal=True),
        "attention with dropout": lambda: sharded_attention(4, 2, seed=integers(11, 12), dropout_p=0.3),
    },
    emulated={
        "attention": lambda dtype: (inputs(1, 2, 1, 20, 33, 16, dtype=dtype), {}),
        "attention_in_stages": lambda dtype: (inputs(1, 2, 1, 70, 130, 64, dtype=dtype), {}),
        "attention_causal": lambda dtype: (inputs(2, 2, 2, 40, 40, 40, dtype=dtype), {"is_causal": True}),
        "attention_of_odd_depth": lambda dtype: (inputs(1, 2, 1, 40, 70, 20, dtype=dtype), {"is_causal": True}),
        "attention_of_deep_odd_depth": lambda dtype: (inputs(1, 2, 1, 40, 70, 68, dtype=dtype), {"is_causal": True}),
        "attention_deep": lambda dtype: (inputs(1, 2, 1, 100, 150, 128, dtype=dtype), {"is_causal": True}),
        "attention_of_80": lambda dtype: (inputs(1, 2, 1, 70, 130, 80, dtype=dtype), {}),
        "attention_of_96": lambda dtype: (inputs(1, 2, 2, 70, 70, 96, dtype=dtype), {"is_causal": True}),
        "attention_of_176": lambda dtype: (inputs(1, 2, 1, 40, 70, 176, dtype=dtype), {}),
        "attention_of_192": lambda dtype: (inputs(1, 1, 1, 40, 40, 192, dtype=dtype), {"is_causal": True}),
        "attention_of_256": lambda dtype: (inputs(1, 2, 1, 70, 140, 256, dtype=dtype), {"is_causal": True}),
        "attention_with_bias": lambda dtype: (
            inputs(1, 2, 2, 40, 70, 64, dtype=dtype),
            {"attn_bias": torch.linspace(-3, 2, 2800).reshape(40, 70)},
        ),
        "attention_with_mask": lambda dtype: (
            inputs(1, 2, 2, 40, 70, 64, dtype=dtype),
            {"attn_bias": torch.arange(2800).reshape(40, 70) % 3 > 0},
        ),
        "attention_with_options": lambda dtype: (
            inputs(1, 2, 1, 70, 130, 64, dtype=dtype),
            {"window": (40, 5), "softcap": 3.0, "alibi_slopes": torch.linspace(0, 1, 2), "sinks": torch.linspace(-1, 1, 2)},
        ),
    },
)


ATTENTION_VARLEN = Operator(
    name="attention_varlen",
    reference=of_packed,
    flops=lambda: (
        tile.attention_varlen,
        [f(5, 4, 8), f(7, 2, 8), f(7, 2, 8), integers(0, 2, 5), integers(0, 3, 7), 3, 4],
        4 * 4 * 8 * (2 * 3 + 3 * 4),
    ),
    bad=Bad(
        dtypes=[
            (
                lambda: tile.attention_varlen(f(3, 2, 8), f64(3, 2, 8), f(3, 2, 8), *[integers(0, 3)] * 2, 3, 3),
                "'query' is Float, 'key' Double and 'value' Float; convert them to one dtype",
            )
        ],
        shapes=[
            (
                lambda: tile.attention_varlen(f(3, 8), f(3, 2, 8), f(3, 2, 8), *[integers(0, 3)] * 2, 3, 3),
                "'query' has shape [3, 8]; give it 3 dimensions, [all rows, heads, head_dim]",
            )
        ],
    ),
    bad_gradients=BadGradients(
        good=[attention_varlen_backward],
        shapes=[
            (lambda: attention_varlen_backward(out=f(3, 2, 9)), f"out has shape [3, 2, 9]; it must be [3, 2, 8], {RESULT}"),
            (lambda: attention_varlen_backward(weight=f(3, 2)), f"weight has shape [3, 2]; it must be [2, 3], {SAVED}"),
            (
                lambda: attention_varlen_backward(residual=f(3, 2, 8)),
                f"residual has shape [3, 2, 8]; it must be [3, 2, 0], {SAVED}",
            ),
        ],
        dtypes=[(lambda: attention_varlen_backward(top=bf(2, 3)), f"top is bfloat16; it must be float32, {SAVED}")],
        values=[
            (
                lambda: attention_varlen_backward(starts=(0, 2, 4)),
                "'cu_seqlens_q' runs from 0 to 4; it must begin with 0 and end with the number of rows, 3",
            )
        ],
    ),
    without_elements={"attention_varlen": (varlen_without_depth, each_sequence, [(1, 4, 5, 0), (1, 4, 7, 0), (1, 4, 7, 3)])},
    good=[
        lambda: tile.attention_varlen(grad(3, 2, 4), grad(3, 2, 4), grad(3, 2, 4), *[integers(0, 3)] * 2, 3, 3, sinks=grad(2))
    ],
    memory={"attention_varlen": large_varlen},
    gpu={
        "attention_varlen": lambda randn: (
            followed(tile.attention_varlen, *[integers(0, 60, 100)] * 2, 60, 60, is_causal=True),
            [randn(100, 4, 64), randn(100, 2, 64), randn(100, 2, 64)],
        )
    },
    gates={"attention_varlen[128]": gate_attention_varlen},
    sharded={"attention_varlen": sharded_varlen},
    emulated={"attention_of_packed": lambda dtype: (packed_inputs(dtype), {"is_causal": True})},
)


ATTENTION_DECODE = Operator(
    name="attention_decode",
    reference=decoded,
    flops=lambda: (
        tile.attention_decode,
        [f(2, 4, 1, 8), f(2, 2, 32, 8), f(2, 2, 32, 8), integers(3, 20)],
        4 * 4 * 8 * (3 + 20),
    ),
    bad=Bad(
        dtypes=[
            (
                lambda: tile.attention_decode(f(2, 4, 1, 8), f(2, 2, 32, 8), f(2, 2, 32, 8), f(2)),
                "'lengths' is Float; convert it to Int or Long",
            )
        ],
        shapes=[
            (
                lambda: tile.attention_decode(f(2, 4, 8), f(2, 2, 32, 8), f(2, 2, 32, 8), i64(2)),
                "'query' has shape [2, 4, 8]; give it 4 dimensions, [batch, heads, length, head_dim]",
            )
        ],
    ),
    good=[
        lambda: tile.attention_decode(torch.ones(X), *(f(1, 2, 16, 4) for _ in range(2)), 3 + zeros(1)),
        lambda: tile.attention_decode(
            torch.ones(X), *(f(1, 2, 16, 4) for _ in range(2)), 3 + zeros(1), block_table=zeros(1, 1)
        ),
    ],
    memory={
        "attention_decode": lambda: (
            lambda q, k, v: tile.attention_decode(q.detach(), k.detach(), v.detach(), torch.full((16,), 2500)),
            [torch.randn(16, 32, 1, 64), *(torch.randn(16, 8, 2500, 64) for _ in range(2))],
        )
    },
    gates={"attention_decode[128]": gate_attention_decode},
    gate_variants={
        "attention_decode[128],pages": lambda dtype: gate_attention_decode(dtype, 64),
        "attention_decode[128],short_pages": lambda dtype: gate_attention_decode(dtype, 16),
    },
    sharded={"attention_decode": lambda: sharded_decode(False), "attention_decode of pages": lambda: sharded_decode(True)},
    emulated={
        "attention_decode": lambda dtype: (decode_inputs(dtype, 33), {}),
        "attention_decode_in_splits": lambda dtype: (decode_inputs(dtype, 600), {}),
        "attention_decode_in_pages": lambda dtype: (
            decode_inputs(dtype, 32, paged=True),
            {"block_table": torch.tensor([[2, 1], [0, 3]], dtype=torch.int32)},
        ),
    },
)
