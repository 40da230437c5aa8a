"""The rows of rope and rope_ in the table of operators."""

import random

import torch
from rope_reference import rotate

from operators.drawn import extent, tensor, whole_vectors
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
    leaf,
    meta,
    meta_leaf,
    rotation,
    twice,
    zeros,
)
from operators.texts import HERE, MOVE, OTHERS

tile = torch.ops.tile


def gate_rope(dtype, order, operator=tile.rope):
    def heads(count):
        return (
            meta_leaf(dtype, 4, count, 4096, 128) if order == "BHSD" else meta_leaf(dtype, 4, 4096, count, 128).transpose(1, 2)
        )

    tables = (meta_leaf(dtype, 4096, 64).detach() for _ in range(2))
    return operator(heads(32), heads(8), *tables)


def gate_rope_in_place(dtype):
    with torch.no_grad():
        gate_rope(dtype, "BSHD", tile.rope_)
    return ()


def sharded_rope(**options):
    positions = options.pop("positions", None)
    tensors = {"query": torch.randn(4, 4, 6, 8), "key": torch.randn(4, 2, 6, 8)}
    rows = 9 if positions is not None else 6
    tensors["cos"], tensors["sin"] = rotation(rows, 4)
    if positions is None:
        return Sharded(tensors, lambda q, k, c, s: tile.rope(q, k, c, s, **options), ("query", "key"))
    tensors["positions"] = positions
    return Sharded(tensors, lambda q, k, c, s, p: tile.rope(q, k, c, s, position_ids=p, **options), ("query", "key"))


def sharded_rope_in_place():
    case = sharded_rope()

    return Sharded(case.tensors, lambda q, k, cos, sin: rope_in_place(q.clone(), k.clone(), cos, sin), written=True)


def rope_in_place(query, key, cos, sin):
    torch.ops.tile.rope_(query, key, cos, sin)
    return query, key


def rope_in_torch(query, key, cos, sin, *, interleaved=False, rotary_dim=None):
    return tuple(rotate(x, cos, sin, interleaved, rotary_dim) for x in (query, key))


def draw_rope(dtype):
    batch, length, width = random.randint(1, 3), extent(), whole_vectors(2 * random.choice([1, 4, 16, 32, 33, 64, 65, 100]))
    rotary = whole_vectors(2 * random.randint(0, width // 2))
    tables = [batch] if random.random() < 0.5 else []
    cos, sin = (torch.randn(*tables, length, random.choice([rotary, rotary // 2]) if i else rotary) for i in (0, 0))
    query, key = (tensor([batch, random.choice([1, 2, 4, 17]), length, width], dtype) for _ in range(2))
    positions = torch.randint(0, length, random.choice([[length], [batch, length]]))
    return (
        tile.rope,
        (query, key, cos, sin),
        {"rotary_dim": rotary, "position_ids": positions, "interleaved": random.random() < 0.5},
    )


def draw_rope_(dtype):
    _, args, kwargs = draw_rope(dtype)
    return tile.rope_, [tensor.detach() for tensor in args], kwargs


ROPE = Operator(
    name="rope",
    reference=rope_in_torch,
    bad=Bad(
        dtypes=[
            (lambda: tile.rope(i64(*X), f(*X), f(3, 4), f(3, 4)), f"query is int64; {OTHERS}"),
            (
                lambda: tile.rope(f(*X), f64(*X), f(3, 4), f(3, 4)),
                "query is float32 and key is float64; convert one with .to()",
            ),
            (
                lambda: tile.rope(bf(*X), bf(*X), f64(3, 4), f64(3, 4)),
                "cos and sin are float64; they must be float32 or bfloat16 as query is",
            ),
            (
                lambda: tile.rope(f(*X), f(*X), f(3, 4), f(3, 4), position_ids=f(3)),
                "position_ids is float32; it must be int64 or int32",
            ),
        ],
        shapes=[
            (
                lambda: tile.rope(f(2, 3, 4), f(*X), f(3, 4), f(3, 4)),
                "query has shape [2, 3, 4]; it must be [batch, heads, positions, head dim]",
            ),
            (
                lambda: tile.rope(f(*X), f(1, 2, 5, 4), f(3, 4), f(3, 4)),
                "query [1, 2, 3, 4] and key [1, 2, 5, 4] differ; only their number of heads may",
            ),
            (
                lambda: tile.rope(f(*X), f(*X), f(3, 3), f(3, 3)),
                "cos and sin have width 3, but rotary_dim is 4; the width must be rotary_dim or half of it",
            ),
            *(
                (
                    lambda rotary=rotary: tile.rope(f(*X), f(*X), f(3, 4), f(3, 4), rotary_dim=rotary),
                    f"rotary_dim is {rotary}; it must be even and from 0 to the head dim 4",
                )
                for rotary in (3, 6)
            ),
            (
                lambda: tile.rope(f(*X), f(*X), f(3, 2), f(3, 4)),
                "cos is float32[3, 2] and sin is float32[3, 4]; they must be alike",
            ),
            (
                lambda: tile.rope(f(*X), f(*X), f(4, 4), f(4, 4)),
                "cos and sin have 4 positions and query has 3; slice them, or pass position_ids",
            ),
            (
                lambda: tile.rope(f(2, 2, 3, 4), f(2, 2, 3, 4), f(3, 3, 4), f(3, 3, 4)),
                "cos and sin have shape [3, 3, 4]; it must be [positions, width] or [batch, positions, width] with batch 2",
            ),
            (
                lambda: tile.rope(f(2, 2, 3, 4), f(2, 2, 3, 4), f(3, 4), f(3, 4), position_ids=zeros(4)),
                "position_ids has shape [4]; it must be [3] or [2, 3]",
            ),
        ],
        devices=[(lambda: tile.rope(f(*X), meta(*X), f(3, 4), f(3, 4)), f"'query' is on {HERE}, but 'key' is on meta; {MOVE}")],
        unaligned=[
            (
                "query",
                lambda: tile.rope(UNALIGNED.view(1, 1, 3, 2), ALIGNED.view(1, 1, 3, 2), ALIGNED.view(3, 2), ALIGNED.view(3, 2)),
            )
        ],
    ),
    bad_gradients=BadGradients(
        shapes=[
            (
                lambda: tile.rope_backward(f(*X), f(*X), f(3, 4), f(3, 4), False, 2**31, None, [True, True]),
                "rotary_dim is 2147483648; it must be even and from 0 to the head dim 4",
            ),
            (
                lambda: tile.rope_backward(None, None, f(3, 4), f(3, 4), False, None, None, [True, True]),
                "grad_query_out and grad_key_out are both None; pass one of them",
            ),
        ]
    ),
    without_elements={
        "rope of no columns": (
            lambda q, k: tile.rope(q, k, torch.ones(5, 0), torch.ones(5, 0)),
            lambda q, k: (q * 1, k * 1),
            [(2, 4, 5, 0), (2, 4, 5, 0)],
        ),
        "rope of no rotated columns": (
            lambda q, k: tile.rope(q, k, torch.ones(5, 0), torch.ones(5, 0), rotary_dim=0),
            lambda q, k: (q * 1, k * 1),
            [(2, 4, 5, 6), (2, 1, 5, 6)],
        ),
        "rope of no positions": (
            lambda q, k: tile.rope(q, k, torch.ones(0, 4), torch.ones(0, 4)),
            lambda q, k: (q * 1, k * 1),
            [(2, 4, 0, 4), (2, 1, 0, 4)],
        ),
    },
    good=[lambda: tile.rope(grad(*X), grad(*X), torch.ones(3, 2), torch.ones(3, 2), rotary_dim=2, position_ids=zeros(1, 3))],
    draw=draw_rope,
    memory={"rope": lambda: (lambda q, k: tile.rope(q, k, *rotation(320)), [torch.randn(64, 16, 320, 64) for _ in range(2)])},
    gpu={"rope": lambda randn: (followed(tile.rope, *rotation(64, 32)), [randn(2, 4, 64, 64), randn(2, 2, 64, 64)])},
    gates={"rope[BSHD]": lambda dtype: gate_rope(dtype, "BSHD")},
    gates_in_double={"rope[BHSD]": lambda dtype: gate_rope(dtype, "BHSD")},
    sharded={
        "rope": sharded_rope,
        "rope by positions": lambda: sharded_rope(positions=torch.randint(9, (4, 6)), interleaved=True),
        "rope twice": lambda: twice(tile.rope, "query", "key", **sharded_rope().tensors),
    },
    emulated={
        "rope": lambda dtype: ((leaf(dtype, 2, 4, 5, 64), leaf(dtype, 2, 2, 5, 64), *rotation(5, 32)), {}),
        "rope_interleaved": lambda dtype: (
            (leaf(dtype, 1, 3, 7, 20), leaf(dtype, 1, 1, 7, 20), *rotation(7, 4)),
            {"interleaved": True, "rotary_dim": 8},
        ),
    },
)


ROPE_IN_PLACE = Operator(
    name="rope_",
    reference=rope_in_torch,
    functional=rope_in_place,
    bad=Bad(
        dtypes=[
            (
                lambda: tile.rope_(f(*X), f64(*X), f(3, 4), f(3, 4)),
                "query is float32 and key is float64; convert one with .to()",
            )
        ],
        shapes=[
            (
                lambda: tile.rope_(f(*X), f(1, 2, 5, 4), f(3, 4), f(3, 4)),
                "query [1, 2, 3, 4] and key [1, 2, 5, 4] differ; only their number of heads may",
            )
        ],
        devices=[
            (lambda: tile.rope_(f(*X), meta(*X), f(3, 4), f(3, 4)), f"'query' is on {HERE}, but 'key' is on meta; {MOVE}")
        ],
        unaligned=[
            (
                "key",
                lambda: tile.rope_(
                    torch.ones(1, 1, 3, 2, device="cpu"), UNALIGNED.view(1, 1, 3, 2), ALIGNED.view(3, 2), ALIGNED.view(3, 2)
                ),
            )
        ],
    ),
    good=[lambda: tile.rope_(torch.ones(X), torch.ones(X), torch.ones(3, 4), torch.ones(3, 4), interleaved=True)],
    draw=draw_rope_,
    gate_variants={"rope_[BSHD]": gate_rope_in_place},
    sharded={"rope_": sharded_rope_in_place},
    emulated={
        "rope_in_place": lambda dtype: (
            (*(leaf(dtype, 1, 7, heads, 68).detach().transpose(1, 2) for heads in (3, 1)), *rotation(7, 34)),
            {},
        )
    },
)
