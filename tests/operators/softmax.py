"""The rows of softmax and log_softmax in the table of operators."""

import random

import torch

import tile_ops
from operators.drawn import extent, shape, tensor, whole_vectors
from operators.record import Bad, BadGradients, Operator, Sharded
from operators.tensors import ALIGNED, UNALIGNED, double, f, grad, i64, large_rows, leaf, meta_leaf

tile = torch.ops.tile


def draw_softmax(dtype):
    sizes = random.choice([shape(random.randint(0, 5)), [extent(5), whole_vectors(random.choice([500, 1000, 3000, 17000]))]])
    if random.random() < 0.05:
        sizes = [2, whole_vectors(random.choice([40000, 140000]))]
    random.shuffle(sizes)
    return tile.softmax, (tensor(sizes, dtype), random.randrange(max(len(sizes), 1))), {}


def draw_log_softmax(dtype):
    _, args, kwargs = draw_softmax(dtype)
    return tile.log_softmax, args, kwargs


SOFTMAX = Operator(
    name="softmax",
    reference=torch.softmax,
    few_rows=lambda x, w, b: (lambda x: tile.softmax(x, -1), [x]),
    bad=Bad(
        dtypes=[
            (
                lambda: tile.softmax(i64(2, 3), 1),
                "'input' is Long; softmax is computed in Half, BFloat16, Float or Double, pass dtype=torch.float32",
            ),
            (
                lambda: tile.softmax(f(2, 3), 1, torch.int32),
                "dtype is Int; softmax is computed in Half, BFloat16, Float or Double, pass one of these",
            ),
        ],
        shapes=[(lambda: tile.softmax(f(2, 3), 2), "dim 2 is out of range for 'input' of rank 2; give one in [-2, 1]")],
        unaligned=[("input", lambda: tile.softmax(UNALIGNED, -1))],
    ),
    bad_gradients=BadGradients(unaligned=[("grad_out", lambda: tile.softmax_backward(UNALIGNED, ALIGNED, -1))]),
    autocast=(lambda x: tile_ops.softmax(x, -1), lambda x: torch.softmax(x, -1)),
    without_elements={
        "softmax": (lambda x: tile.softmax(x, -1), lambda x: x.softmax(-1), [(3, 0)]),
        "softmax of no rows": (lambda x: tile.softmax(x, -1), lambda x: x.softmax(-1), [(0, 3)]),
    },
    contract=lambda: [((double(3, 5),), {"dim": 1}), ((double(3, 4, 5),), {"dim": 1}), ((double(4, 3),), {"dim": -2})],
    good=[lambda: tile.softmax(grad(2, 3), -1)],
    draw=draw_softmax,
    memory={
        "softmax": lambda: (lambda x: tile.softmax(x, -1), large_rows()),
        "softmax over rows": lambda: (lambda x: tile.softmax(x, 0), large_rows()),
    },
    gpu={"softmax": lambda randn: (lambda x: tile.softmax(x, -1), [randn(300, 1000)])},
    gates={"softmax[64,1024,96],axis=1": lambda dtype: tile.softmax(meta_leaf(dtype, 64, 1024, 96), 1)},
    gates_in_double={"softmax[8192,8192]": lambda dtype: tile.softmax(meta_leaf(dtype, 8192, 8192), 1)},
    sharded={"softmax": lambda: Sharded({"input": torch.randn(4, 5, 6)}, lambda x: tile.softmax(x, 1), ("input",))},
    emulated={
        "softmax": lambda dtype: ((leaf(dtype, 5, 300), -1), {}),
        "softmax_of_columns": lambda dtype: ((leaf(dtype, 3, 37, 6), 1), {}),
        "softmax_of_one": lambda dtype: ((leaf(dtype, 7, 1), -1), {}),
    },
)


LOG_SOFTMAX = Operator(
    name="log_softmax",
    reference=torch.log_softmax,
    few_rows=lambda x, w, b: (lambda x: tile.log_softmax(x, -1), [x]),
    bad=Bad(
        dtypes=[
            (
                lambda: tile.log_softmax(i64(2, 3), 1),
                "'input' is Long; log_softmax is computed in Half, BFloat16, Float or Double, pass dtype=torch.float32",
            )
        ],
        shapes=[(lambda: tile.log_softmax(f(2, 3), -3), "dim -3 is out of range for 'input' of rank 2; give one in [-2, 1]")],
        unaligned=[("input", lambda: tile.log_softmax(UNALIGNED, -1))],
    ),
    autocast=(lambda x: tile_ops.log_softmax(x, -1), lambda x: torch.log_softmax(x, -1)),
    without_elements={"log_softmax": (lambda x: tile.log_softmax(x, 1), lambda x: x.log_softmax(1), [(3, 0, 2)])},
    contract=lambda: [((double(3, 5),), {"dim": 1}), ((double(3, 4, 5),), {"dim": 1}), ((double(4, 3),), {"dim": -2})],
    good=[lambda: tile.log_softmax(grad(2, 3, 2), 1, torch.float64)],
    draw=draw_log_softmax,
    memory={"log_softmax": lambda: (lambda x: tile.log_softmax(x, -1), large_rows())},
    gpu={"log_softmax": lambda randn: (lambda x: tile.log_softmax(x, -1), [randn(300, 1000)])},
    gates={"log_softmax[8192,8192]": lambda dtype: tile.log_softmax(meta_leaf(dtype, 8192, 8192), 1)},
    sharded={"log_softmax": lambda: Sharded({"input": torch.randn(4, 5, 6)}, lambda x: tile.log_softmax(x, -1), ("input",))},
    emulated={
        "log_softmax": lambda dtype: ((leaf(dtype, 5, 300), -1), {}),
        "log_softmax_of_long_columns": lambda dtype: ((leaf(dtype, 2, 70, 6), 1), {}),
    },
)
