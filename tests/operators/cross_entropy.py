"""The rows of cross_entropy and linear_cross_entropy in the table of operators."""

import random

import torch
import torch.nn.functional as F

import tile_ops
from operators.drawn import extent, shape, tensor, whole_vectors
from operators.record import Bad, BadGradients, Operator, Sharded
from operators.tensors import (
    COLUMNS,
    ROWS,
    UNALIGNED,
    autocast_indices,
    autocast_weight,
    bf,
    double,
    f,
    f64,
    followed,
    grad,
    i64,
    integers,
    large_rows,
    leaf,
    meta,
    meta_leaf,
    targets,
    wide,
    zeros,
)
from operators.texts import HERE, MOVE, OTHERS, RESULT, SAVED

tile = torch.ops.tile


def cross_entropy_backward(reduction, divisors, grad=None, lse=None, target=None):
    return tile.cross_entropy_backward(
        f() if grad is None else grad,
        f(3, 5),
        i64(3) if target is None else target,
        None,
        -100,
        reduction,
        0.0,
        0.0,
        f(3, 2) if lse is None else lse,
        divisors,
    )


def linear_cross_entropy_backward(reduction, divisors, grad=None, lse=None, weight=None, target=None):
    return tile.linear_cross_entropy_backward(
        f() if grad is None else grad,
        f(3, 4),
        f(5, 4) if weight is None else weight,
        i64(3) if target is None else target,
        None,
        -100,
        reduction,
        0.0,
        0.0,
        f(3, 2) if lse is None else lse,
        divisors,
        [True] * 3,
    )


def gate_cross_entropy(dtype, rows, classes):
    target = torch.empty(rows, dtype=torch.int64, device="meta")
    return tile.cross_entropy(meta_leaf(dtype, rows, classes), target, z_loss=1e-4)


def gate_linear_cross_entropy(dtype, rows, depth, classes):
    target = torch.empty(rows, dtype=torch.int64, device="meta")
    return tile.linear_cross_entropy(meta_leaf(dtype, rows, depth), meta_leaf(dtype, classes, depth), target)


def sharded_loss(linear=False, weight=False, rank=2, **options):
    rows, classes = 7, 6
    target = torch.tensor([0, 5, -100, 2, 3, 3, 1])
    if linear:
        tensors = {
            "input": torch.randn(rows, 4),
            "weight": torch.randn(classes, 4),
            "target": target,
            "bias": torch.randn(classes),
        }
        run = lambda x, w, t, b: tile.linear_cross_entropy(x, w, t, bias=b, **options)  # noqa: E731
        return Sharded(tensors, run, ("input", "weight", "bias"))
    if rank == 3:
        tensors = {"input": torch.randn(4, classes, 3), "target": torch.randint(classes, (4, 3))}
    elif rank == 1:
        tensors = {"input": torch.randn(classes), "target": torch.tensor(4)}
    else:
        tensors = {"input": 3 * torch.randn(rows, classes), "target": target}
    if weight:
        tensors["weight"] = torch.rand(classes) + 0.5
        return Sharded(tensors, lambda x, t, w: tile.cross_entropy(x, t, weight=w, **options), ("input",))
    return Sharded(tensors, lambda x, t: tile.cross_entropy(x, t, **options), ("input",))


def cross_entropy_in_torch(input, target, *, label_smoothing=0.0, **kwargs):
    # torch's sum over classes overflows in float16.
    wide = input.float() if input.dtype == torch.float16 else input
    return F.cross_entropy(wide, target, label_smoothing=label_smoothing, **kwargs).to(input.dtype)


def linear_cross_entropy_in_torch(input, weight, target, *, bias=None, **options):
    logits = F.linear(input, weight, bias).to(torch.promote_types(input.dtype, torch.float32))
    return F.cross_entropy(logits, target, **options)


def draw_cross_entropy(dtype):
    sizes = random.choice([shape(random.randint(1, 4)), [extent(5), whole_vectors(random.choice([500, 3000, 17000, 40000]))]])
    axis = 0 if len(sizes) == 1 else 1
    target = torch.randint(0, sizes[axis], [*sizes[:axis], *sizes[axis + 1 :]])
    return tile.cross_entropy, (tensor(sizes, dtype), target), {"z_loss": random.random()}


def draw_linear_cross_entropy(dtype):
    row_sizes, depth, classes = (extent() for _ in range(3))
    args = tensor([row_sizes, depth], dtype), tensor([classes, depth], dtype), torch.randint(0, classes, [row_sizes])
    return tile.linear_cross_entropy, args, {"bias": tensor([classes], dtype)}


CROSS_ENTROPY = Operator(
    name="cross_entropy",
    reference=cross_entropy_in_torch,
    bad=Bad(
        dtypes=[
            (lambda: tile.cross_entropy(i64(2, 3), i64(2)), f"input is int64; {OTHERS}"),
            (lambda: tile.cross_entropy(f(2, 3), i64(2).bool()), "target is bool; it must be int64 or int32"),
        ],
        shapes=[
            (
                lambda: tile.cross_entropy(f(2, 3), i64(3)),
                "target has shape [3]; it must be [2], that of input without its classes",
            )
        ],
        devices=[
            (lambda: tile.cross_entropy(f(2, 3), meta(2).long()), f"'input' is on {HERE}, but 'target' is on meta; {MOVE}")
        ],
        unaligned=[("input", lambda: tile.cross_entropy(UNALIGNED, torch.zeros(2, dtype=torch.int64, device="cpu")))],
    ),
    bad_gradients=BadGradients(
        good=[lambda: cross_entropy_backward("sum", None), lambda: cross_entropy_backward("mean", f(2))],
        shapes=[
            (
                lambda: tile.cross_entropy_backward(
                    f(3, 2), f(3, 5, 2), i64(3, 2), None, -100, "none", 0.0, 0.0, f(3, 1), None
                ),
                "lse has shape [3, 1]; it must be [3, 2, 2], as the forward saves it",
            ),
            (
                lambda: tile.cross_entropy_backward(f(3), f(3, 5), i64(3), None, -100, "sum", 0.0, 0.0, f(3), None),
                "grad_out has shape [3]; it must be [], that of the result",
            ),
            (lambda: cross_entropy_backward("sum", None, grad=f(1)), f"grad_out has shape [1]; it must be [], {RESULT}"),
            (lambda: cross_entropy_backward("sum", None, lse=f(2)), f"lse has shape [2]; it must be [3, 2], {SAVED}"),
            (lambda: cross_entropy_backward("mean", f(1)), f"divisors has shape [1]; it must be [2], {SAVED}"),
            (lambda: cross_entropy_backward("mean", f()), f"divisors has shape []; it must be [2], {SAVED}"),
            (
                lambda: cross_entropy_backward("mean", None),
                'divisors is not given and reduction is "mean"; pass what the forward saved',
            ),
            (lambda: cross_entropy_backward("sum", f(2)), 'divisors is given and reduction is "sum"; pass None'),
            (lambda: cross_entropy_backward("none", f(2), grad=f(3)), 'divisors is given and reduction is "none"; pass None'),
        ],
        dtypes=[
            (lambda: cross_entropy_backward("sum", None, grad=f64()), f"grad_out is float64; it must be float32, {RESULT}"),
            (lambda: cross_entropy_backward("sum", None, lse=bf(3, 2)), f"lse is bfloat16; it must be float32, {SAVED}"),
            (lambda: cross_entropy_backward("mean", i64(2)), f"divisors is int64; it must be float32, {SAVED}"),
        ],
        values=[
            (
                lambda: cross_entropy_backward("sum", None, target=torch.tensor([1, 5, 0])),
                "target[1] is 5, but there are 5 classes; it must be from 0 to 4, or ignore_index, -100",
            )
        ],
    ),
    autocast=(
        lambda x: tile_ops.cross_entropy(x, autocast_indices(x, 2, 8, 8)),
        lambda x: F.cross_entropy(x, autocast_indices(x, 2, 8, 8)),
    ),
    without_elements={
        f"cross_entropy of no rows, {how}": (
            lambda x, how=how: tile.cross_entropy(x, integers(), reduction=how),
            lambda x, how=how: F.cross_entropy(x, integers(), reduction=how),
            [(0, 4)],
        )
        for how in ("none", "sum", "mean")
    },
    contract=lambda: [
        ((double(6, 5), integers(0, 4, -100, 2, 1, 1)), {"label_smoothing": 0.1, "z_loss": 0.1}),
        (
            (double(6, 5), integers(0, 4, -100, 2, 1, 1)),
            {"weight": torch.rand(5, dtype=torch.double), "reduction": "none", "label_smoothing": 0.2},
        ),
        ((double(2, 4, 3), integers([0, 3, 1], [-100, 2, 2])), {"reduction": "none", "z_loss": 0.1}),
        ((double(2, 4, 3), integers([0, 3, 1], [-100, 2, 2])), {"reduction": "sum"}),
        ((double(5), torch.tensor(3)), {}),
        ((double(6, 5), integers(0, 4, -100, 2, 1, 1)), {}),
    ],
    good=[
        lambda: tile.cross_entropy(grad(3, 5), zeros(3), weight=grad(5).detach(), label_smoothing=0.1, z_loss=0.1),
        lambda: tile.cross_entropy(grad(3, 5, 2), zeros(3, 2), reduction="none"),
    ],
    draw=draw_cross_entropy,
    memory={"cross_entropy": lambda: (lambda x: tile.cross_entropy(x, torch.arange(ROWS) % COLUMNS), large_rows())},
    gpu={
        "cross_entropy": lambda randn: (
            followed(tile.cross_entropy, targets(), label_smoothing=0.1, z_loss=0.1),
            [randn(300, 1000)],
        )
    },
    gates={"cross_entropy[8192,128256]": lambda dtype: gate_cross_entropy(dtype, 8192, 128256)},
    sharded={
        "cross_entropy": sharded_loss,
        "cross_entropy of weights": lambda: sharded_loss(weight=True, label_smoothing=0.1, z_loss=0.01),
        "cross_entropy summed": lambda: sharded_loss(weight=True, reduction="sum", z_loss=0.01),
        "cross_entropy of rows": lambda: sharded_loss(reduction="none", label_smoothing=0.1),
        "cross_entropy of images": lambda: sharded_loss(rank=3),
        "cross_entropy of one row": lambda: sharded_loss(rank=1),
    },
    emulated={
        "cross_entropy": lambda dtype: ((leaf(dtype, 5, 300), torch.tensor([0, 299, -100, 7, 123])), {}),
        "cross_entropy_of_long_rows": lambda dtype: (
            (leaf(dtype, 3, 8200), torch.tensor([8199, 0, 4000])),
            {"reduction": "sum"},
        ),
        "cross_entropy_of_columns": lambda dtype: (
            (leaf(dtype, 2, 9, 7), torch.arange(14).reshape(2, 7) % 9),
            {"reduction": "none", "label_smoothing": 0.1},
        ),
    },
)


LINEAR_CROSS_ENTROPY = Operator(
    name="linear_cross_entropy",
    reference=linear_cross_entropy_in_torch,
    flops=lambda: (tile.linear_cross_entropy, [f(6, 8), f(11, 8), i64(6)], 2 * 6 * 8 * 11),
    bad=Bad(
        dtypes=[
            (
                lambda: tile.linear_cross_entropy(f(2, 3), f64(4, 3), i64(2)),
                "input is float32 and weight is float64; convert one with .to()",
            )
        ],
        shapes=[
            (
                lambda: tile.linear_cross_entropy(f(2, 3), f(4, 2), i64(2)),
                "input is [2, 3] and weight [4, 2]; they must be [..., d] and [classes, d]",
            )
        ],
        devices=[
            (
                lambda: tile.linear_cross_entropy(f(2, 3), meta(4, 3), i64(2)),
                f"'input' is on {HERE}, but 'weight' is on meta; {MOVE}",
            )
        ],
    ),
    bad_gradients=BadGradients(
        good=[lambda: linear_cross_entropy_backward("mean", f(2))],
        shapes=[
            (
                lambda: tile.linear_cross_entropy_backward(
                    f(2), f(3, 4), f(5, 4), i64(3), None, -100, "none", 0.0, 0.0, f(3), None, [True] * 3
                ),
                "grad_out has shape [2]; it must be [3], that of the result",
            ),
            (
                lambda: tile.linear_cross_entropy_backward(
                    f(3), f(3, 4), f(5, 4), i64(3), None, -100, "sum", 0.0, 0.0, f(3), None, [True] * 3
                ),
                "grad_out has shape [3]; it must be [], that of the result",
            ),
            (
                lambda: tile.linear_cross_entropy_backward(
                    f(), f(3, 4), f(5, 4), i64(3), None, -100, "sum", 0.0, 0.0, f(2), None, [True] * 3
                ),
                "lse has shape [2]; it must be [3, 2], as the forward saves it",
            ),
            (lambda: linear_cross_entropy_backward("mean", f(3)), f"divisors has shape [3]; it must be [2], {SAVED}"),
            (
                lambda: linear_cross_entropy_backward("mean", None),
                'divisors is not given and reduction is "mean"; pass what the forward saved',
            ),
            (
                lambda: linear_cross_entropy_backward("sum", None, weight=f(5, 3)),
                "input is [3, 4] and weight [5, 3]; they must be [..., d] and [classes, d]",
            ),
        ],
        dtypes=[
            (lambda: linear_cross_entropy_backward("mean", f64(2)), f"divisors is float64; it must be float32, {SAVED}"),
            (
                lambda: linear_cross_entropy_backward("sum", None, weight=bf(5, 4)),
                "input is float32 and weight is bfloat16; convert one with .to()",
            ),
        ],
        values=[
            (
                lambda: linear_cross_entropy_backward("sum", None, target=torch.tensor([1, 5, 0])),
                "target[1] is 5, but there are 5 classes; it must be from 0 to 4, or ignore_index, -100",
            )
        ],
    ),
    autocast=(
        lambda x: tile_ops.linear_cross_entropy(x, autocast_weight(x), autocast_indices(x, 2, 4, 8)),
        lambda x: F.cross_entropy(F.linear(x, autocast_weight(x)).flatten(0, -2), autocast_indices(x, 64)),
    ),
    without_elements={
        **{
            f"linear_cross_entropy of no rows, {how}": (
                lambda x, w, how=how: tile.linear_cross_entropy(x, w, integers(), reduction=how),
                lambda x, w, how=how: F.cross_entropy(wide(x @ w.t()), integers(), reduction=how),
                [(0, 5), (4, 5)],
            )
            for how in ("none", "sum", "mean")
        },
        "linear_cross_entropy": (
            lambda x, w: tile.linear_cross_entropy(x, w, integers(0, 3, 2)),
            lambda x, w: F.cross_entropy(wide(x @ w.t()), integers(0, 3, 2)),
            [(3, 0), (4, 0)],
        ),
        "linear_cross_entropy with a bias": (
            lambda x, w, b: tile.linear_cross_entropy(x, w, integers(0, 3, 2), bias=b, label_smoothing=0.1),
            lambda x, w, b: F.cross_entropy(wide(x @ w.t() + b), integers(0, 3, 2), label_smoothing=0.1),
            [(3, 0), (4, 0), (4,)],
        ),
    },
    contract=lambda: [
        ((double(6, 5), double(7, 5), integers(0, 6, -100, 2, 1, 1)), {"label_smoothing": 0.1, "z_loss": 0.1}),
        ((double(2, 3, 5), double(7, 5), integers([0, 6, -100], [2, 1, 1])), {"bias": double(7), "reduction": "none"}),
        ((double(6, 5), double(7, 5), integers(0, 6, -100, 2, 1, 1)), {}),
    ],
    good=[lambda: tile.linear_cross_entropy(grad(3, 4), grad(5, 4), zeros(3), bias=grad(5), reduction="sum")],
    draw=draw_linear_cross_entropy,
    gpu={
        "linear_cross_entropy": lambda randn: (
            followed(tile.linear_cross_entropy, targets()),
            [randn(300, 64), randn(1000, 64)],
        ),
        "linear_cross_entropy of rows": lambda randn: (
            followed(tile.linear_cross_entropy, targets(), reduction="none"),
            [randn(300, 64), randn(1000, 64)],
        ),
    },
    gates={"linear_cross_entropy[4096,4096,32000]": lambda dtype: gate_linear_cross_entropy(dtype, 4096, 4096, 32000)},
    sharded={
        "linear_cross_entropy": lambda: sharded_loss(linear=True, z_loss=0.01),
        "linear_cross_entropy of rows": lambda: sharded_loss(linear=True, reduction="none"),
    },
    emulated={
        "linear_cross_entropy": lambda dtype: ((leaf(dtype, 40, 64), leaf(dtype, 72, 64), torch.arange(40) * 7 % 72), {}),
        # Without early gradients.
        "linear_cross_entropy of rows": lambda dtype: (
            (leaf(dtype, 40, 64), leaf(dtype, 72, 64), torch.arange(40) * 7 % 72),
            {"bias": leaf(dtype, 72), "reduction": "none", "label_smoothing": 0.1},
        ),
    },
)
