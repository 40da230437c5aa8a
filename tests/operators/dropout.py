"""The rows of dropout in the table of operators."""

import random

import torch
import torch.nn.functional as F

import tile_ops
from operators.drawn import shape, tensor
from operators.record import Bad, Operator, Sharded
from operators.tensors import UNALIGNED, f, followed, grad, i64, integers, large_rows, leaf, meta_leaf, twice
from operators.texts import HERE, MOVE, OTHERS

tile = torch.ops.tile


def gate_dropout(dtype, *shape):
    return tile.dropout(meta_leaf(dtype, *shape), 0.1, torch.empty(2, dtype=torch.int64, device="meta"))


def dropout_on_the_cpu(input, p, seed):
    """Returns our own result, as torch draws another mask. Tests compare a GPU with it."""
    return tile.dropout(input, p, seed)


def draw_dropout(dtype):
    return tile.dropout, (tensor(shape(random.randint(0, 5)), dtype), random.choice([0.1, 0.5]), torch.randint(9, (2,))), {}


DROPOUT = Operator(
    name="dropout",
    reference=dropout_on_the_cpu,
    bad=Bad(
        dtypes=[
            (lambda: tile.dropout(i64(2, 3), 0.5, i64(2)), f"input is int64; {OTHERS}"),
            (lambda: tile.dropout(f(2, 3), 0.5, f(2)), "seed is float32; it must be int64"),
        ],
        shapes=[
            (lambda: tile.dropout(f(2, 3), 2, i64(2)), "p is 2; it must be a probability, from 0 to 1"),
            (
                lambda: tile.dropout(f(2, 3), 0.5, i64(3)),
                "seed has shape [3] and input [2, 3]; it must be [2], or [..., 2] with leading extents of input",
            ),
        ],
        devices=[
            (
                lambda: tile.dropout(f(2, 3), 0.5, torch.ones(2, dtype=torch.int64, device="meta")),
                f"'input' is on {HERE}, but 'seed' is on meta; {MOVE}",
            )
        ],
        unaligned=[("input", lambda: tile.dropout(UNALIGNED, 0.5, torch.ones(2, dtype=torch.int64, device="cpu")))],
    ),
    autocast=(lambda x: tile_ops.dropout(x), lambda x: F.dropout(x)),
    without_elements={"dropout": (lambda x: tile.dropout(x, 0.5, integers(1, 2)), lambda x: x * 2, [(3, 0)])},
    good=[lambda: tile.dropout(grad(2, 3), 0.5, i64(2))],
    draw=draw_dropout,
    memory={"dropout": lambda: (lambda x: tile.dropout(x, 0.3, torch.tensor([1, 2])), large_rows())},
    gpu={"dropout": lambda randn: (followed(tile.dropout, 0.3, integers(1, 2)), [randn(300, 1000)])},
    gates={"dropout[8192,8192]": lambda dtype: gate_dropout(dtype, 8192, 8192)},
    sharded={
        "dropout": lambda: Sharded(
            {"input": torch.randn(4, 5, 6), "seed": integers(11, 12)}, lambda x, s: tile.dropout(x, 0.4, s), ("input",)
        ),
        "dropout of one axis": lambda: Sharded(
            {"input": torch.randn(37), "seed": integers(11, 12)}, lambda x, s: tile.dropout(x, 0.4, s), ("input",)
        ),
        "dropout of seeds": lambda: Sharded(
            {"input": torch.randn(4, 6), "seed": torch.arange(8).reshape(4, 2)},
            lambda x, s: tile.dropout(x, 0.4, s),
            ("input",),
        ),
        "dropout twice": lambda: twice(
            lambda x, s: tile.dropout(x, 0.4, s), "input", input=torch.randn(4, 6), seed=integers(11, 12)
        ),
    },
    emulated={
        "dropout": lambda dtype: ((leaf(dtype, 3, 1500), 0.3, torch.tensor([-5, 7])), {}),
        "dropout_of_columns": lambda dtype: ((leaf(dtype, 70, 9).t(), 0.3, torch.tensor([-5, 7])), {}),
    },
)
