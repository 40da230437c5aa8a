"""The rows of embedding in the table of operators."""

import random

import torch
import torch.nn.functional as F

import tile_ops
from operators.drawn import extent, shape, tensor, whole_vectors
from operators.record import Bad, BadGradients, Operator, Sharded
from operators.tensors import (
    ROWS,
    UNALIGNED,
    autocast_indices,
    autocast_weight,
    bf,
    double,
    f,
    followed,
    grad,
    i64,
    integers,
    large_rows,
    leaf,
    meta,
    meta_leaf,
    targets,
    twice,
    zeros,
)
from operators.texts import HERE, MOVE, OTHERS, RESULT

tile = torch.ops.tile


def gate_embedding(dtype, rows, columns, count):
    return tile.embedding(meta_leaf(dtype, rows, columns), torch.empty(count, dtype=torch.int64, device="meta"))


def embedding_in_torch(weight, indices, padding_idx=-1):
    return F.embedding(indices, weight, padding_idx)


def draw_embedding(dtype):
    row_sizes, columns = extent(3000), whole_vectors(random.choice([1, 30, 64, 200, 300, 1100]))
    return (
        tile.embedding,
        (tensor([row_sizes, columns], dtype), torch.randint(0, row_sizes, shape(random.randint(0, 2), 500))),
        {},
    )


EMBEDDING = Operator(
    name="embedding",
    reference=embedding_in_torch,
    bad=Bad(
        dtypes=[
            (lambda: tile.embedding(i64(2, 3), i64(2)), f"weight is int64; {OTHERS}"),
            (lambda: tile.embedding(f(2, 3), f(2)), "indices is float32; it must be int64 or int32"),
        ],
        shapes=[(lambda: tile.embedding(f(3), i64(2)), "weight has shape [3]; it must be [rows, columns]")],
        devices=[(lambda: tile.embedding(f(2, 3), meta(2).long()), f"'weight' is on {HERE}, but 'indices' is on meta; {MOVE}")],
        unaligned=[("weight", lambda: tile.embedding(UNALIGNED, torch.zeros(2, dtype=torch.int64, device="cpu")))],
    ),
    bad_second_gradients=BadGradients(
        good=[lambda: tile.embedding_double_backward(f(7, 6), f(7, 6), i64(5), -1, [True, False])],
        shapes=[
            (
                lambda: tile.embedding_double_backward(f(6, 6), f(7, 6), i64(5), -1, [True, False]),
                "grad_grad_weight has shape [6, 6]; it must be [7, 6], that of the gradient",
            )
        ],
    ),
    bad_gradients=BadGradients(
        shapes=[
            (
                lambda: tile.embedding_backward(f(2, 2, 3), f(5, 4), i64(2, 2), -1),
                "grad_out has shape [2, 2, 3]; it must be [2, 2, 4], that of the result",
            )
        ],
        dtypes=[
            (
                lambda: tile.embedding_backward(bf(2, 4), f(3, 4), i64(2), -1),
                f"grad_out is bfloat16; it must be float32, {RESULT}",
            )
        ],
        values=[
            (
                lambda: tile.embedding_backward(f(2, 4), f(3, 4), torch.tensor([0, 3]), -1),
                "indices[1] is 3, but weight has 3 rows; it must be from 0 to 2",
            )
        ],
    ),
    autocast=(
        lambda x: tile_ops.embedding(autocast_weight(x), autocast_indices(x, 3)),
        lambda x: F.embedding(autocast_indices(x, 3), autocast_weight(x)),
    ),
    without_elements={
        "embedding of no indices": (lambda w: tile.embedding(w, integers()), lambda w: F.embedding(integers(), w), [(4, 3)]),
        # torch 2.11's gradient of its own embedding reads outside of memory here on a GPU.
        "embedding of no columns": (lambda w: tile.embedding(w, integers(1, 2)), lambda w: w[1:3] * 1, [(4, 0)]),
    },
    contract=lambda: [
        ((double(7, 3), integers([0, 6, 2], [2, 2, 1])), {}),
        ((double(7, 3), integers(0, 6, 2)), {"padding_idx": 3}),
    ],
    good=[lambda: tile.embedding(grad(5, 3), zeros(2, 2), 1)],
    draw=draw_embedding,
    memory={"embedding": lambda: (lambda w: tile.embedding(w, torch.arange(30000) % ROWS), large_rows())},
    gpu={
        "embedding": lambda randn: (followed(tile.embedding, targets()), [randn(1000, 96)]),
        "embedding of two rows": lambda randn: (followed(tile.embedding, targets() % 2), [randn(2, 96)]),
    },
    gates={"embedding[128256,4096]": lambda dtype: gate_embedding(dtype, 128256, 4096, 8192)},
    sharded={
        "embedding": lambda: Sharded(
            {"weight": torch.randn(7, 6), "indices": torch.randint(7, (4, 3))},
            lambda w, i: tile.embedding(w, i, 2),
            ("weight",),
        ),
        "embedding without padding": lambda: Sharded(
            {"weight": torch.randn(8, 6), "indices": torch.randint(8, (5,))}, tile.embedding, ("weight",)
        ),
        "embedding twice": lambda: twice(
            lambda w, i: tile.embedding(w, i, 2), "weight", weight=torch.randn(7, 6), indices=torch.randint(7, (4, 3))
        ),
    },
    emulated={
        "embedding": lambda dtype: ((leaf(dtype, 30, 70), torch.arange(40).reshape(4, 10) ** 2 % 30, 4), {}),
        # Indices that name each row often are added up in parts.
        "embedding_of_few_rows": lambda dtype: ((leaf(dtype, 3, 70), torch.arange(400) ** 2 % 3, 2), {}),
        # The operator copies these indices.
        "embedding_of_transposed_indices": lambda dtype: (
            (leaf(dtype, 50, 40), (torch.arange(48).reshape(6, 8) ** 2 % 50).int().t(), 3),
            {},
        ),
    },
)
