"""The rows of layer_norm, rms_norm, add_rms_norm and group_norm in the table of operators."""

import random

import torch
import torch.nn.functional as F

import tile_ops
from operators.drawn import row_sizes, shape, tensor, whole_vectors
from operators.record import Bad, BadGradients, Operator, Sharded
from operators.tensors import (
    ALIGNED,
    COLUMNS,
    UNALIGNED,
    bf,
    double,
    f,
    f64,
    grad,
    i64,
    large_rows,
    leaf,
    meta,
    meta_leaf,
    transposed,
)
from operators.texts import FLOATS, HERE, LAST, MOVE, RESULT, SAVED

tile = torch.ops.tile


def layer_norm_backward(grad=None, mean=None, rstd=None, weight=None, shape=(3,)):
    one = f(2, 1)
    return tile.layer_norm_backward(
        f(2, 3) if grad is None else grad,
        f(2, 3),
        list(shape),
        weight,
        None,
        one if mean is None else mean,
        one if rstd is None else rstd,
        [True] * 3,
    )


def rms_norm_backward(grad=None, rstd=None, weight=None):
    return tile.rms_norm_backward(
        f(2, 3) if grad is None else grad, f(2, 3), [3], weight, f(2, 1) if rstd is None else rstd, [True] * 2
    )


def add_rms_norm_backward(grad=None, grad_sum=None, rstd=None):
    return tile.add_rms_norm_backward(grad, grad_sum, f(2, 3), [3], None, f(2, 1) if rstd is None else rstd, [True, False])


def group_norm_backward(grad=None, mean=None, rstd=None, x=None):
    x = f(2, 4, 3) if x is None else x
    two = f(2, 2)
    return tile.group_norm_backward(
        torch.ones_like(x) if grad is None else grad,
        x,
        2,
        None,
        None,
        "none",
        two if mean is None else mean,
        two if rstd is None else rstd,
        [True, False, False],
    )


def large_vectors(count=1, size=COLUMNS):
    return [torch.randn(size) for _ in range(count)]


def large_image(order):
    return torch.randn(4, 320, 125, 128).contiguous(memory_format=order)


def gate_rms_norm(dtype, rows, columns):
    return tile.rms_norm(meta_leaf(dtype, rows, columns), [columns], meta_leaf(dtype, columns), 1e-5)


def gate_add_rms_norm(dtype, rows, columns):
    x, residual = meta_leaf(dtype, rows, columns), meta_leaf(dtype, rows, columns)
    return tile.add_rms_norm(x, residual, [columns], meta_leaf(dtype, columns), 1e-5)


def gate_layer_norm(dtype, rows, columns):
    return tile.layer_norm(meta_leaf(dtype, rows, columns), [columns], meta_leaf(dtype, columns), meta_leaf(dtype, columns))


def gate_group_norm(dtype, images, channels, size, last):
    x = meta_leaf(dtype, images, channels, size, size)
    return tile.group_norm(
        channels_last(x) if last else x, 32, meta_leaf(dtype, channels), meta_leaf(dtype, channels), activation="silu"
    )


def channels_last(x):
    return x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()


def add_rms_norm_in_torch(input, residual, *options):
    return F.rms_norm(input + residual, *options), input + residual


def group_norm_in_torch(input, groups, weight, bias, *, activation="none"):
    out = F.group_norm(input, groups, weight, bias)
    return F.silu(out) if activation == "silu" else out


def expected_group_norm(x, groups, weight, bias):
    """Avoids torch's group_norm, which returns NaN as the gradient of a weight that multiplies no element."""
    grouped = x.unflatten(1, (groups, -1))
    centred = grouped - grouped.mean((2, 3), keepdim=True)
    normal = centred * (centred.square().mean((2, 3), keepdim=True) + 1e-5).rsqrt()
    return normal.flatten(1, 2) * weight.unsqueeze(1) + bias.unsqueeze(1)


def draw_layer_norm(dtype):
    sizes, axes = row_sizes()
    size = sizes[len(sizes) - axes :]
    return tile.layer_norm, (tensor(sizes, dtype), size, tensor(size, dtype), tensor(size, dtype)), {}


def draw_rms_norm(dtype):
    sizes, axes = row_sizes()
    size = sizes[len(sizes) - axes :]
    return tile.rms_norm, (tensor(sizes, dtype), size, tensor(size, dtype)), {}


def draw_add_rms_norm(dtype):
    sizes, axes = row_sizes()
    size = sizes[len(sizes) - axes :]
    return tile.add_rms_norm, (tensor(sizes, dtype), tensor(sizes, dtype), size, tensor(size, dtype)), {}


def draw_group_norm(dtype):
    groups, rank = random.choice([1, 2, 3, 32]), random.randint(0, 3)
    sizes = [random.randint(1, 3), groups * whole_vectors(random.choice([1, 2, 5, 20])), *shape(rank, 800)]
    if random.random() < 0.2:
        sizes = [1, 4 * groups * whole_vectors(1), *(whole_vectors(random.choice([40, 100])) for _ in range(2))]
    channels = sizes[1]
    return (
        tile.group_norm,
        (tensor(sizes, dtype), groups, tensor([channels], dtype), tensor([channels], dtype)),
        {"activation": "silu"},
    )


def errors_of_rows(norm, count=1):
    """Returns the (dtypes, shapes) that every norm of rows refuses. count: its arguments before normalized_shape."""

    def rows(*sizes, dtype=torch.float32):
        return [f(*sizes, dtype=dtype) for _ in range(count)]

    empty = "normalized_shape is empty; give the sizes of the last dimensions, to normalise over them"
    dtypes = [
        (lambda: norm(*rows(2, 3, dtype=torch.int64), [3]), f"'input' is Long; {FLOATS}"),
        (lambda: norm(*rows(2, 3), [3], f(3, dtype=torch.int32)), f"'weight' is Int; {FLOATS}"),
    ]
    shapes = [
        (lambda: norm(*rows(2, 3), []), empty),
        (lambda: norm(*rows(2, 3), [2]), f"normalized_shape is [2], but 'input' has sizes [2, 3]; {LAST}"),
        (lambda: norm(*rows(2, 3), [4]), f"normalized_shape is [4], but 'input' has sizes [2, 3]; {LAST}"),
        (lambda: norm(*rows(3), [2, 3]), f"normalized_shape is [2, 3], but 'input' has sizes [3]; {LAST}"),
        (lambda: norm(*rows(2, 3), [3], f(4)), "'weight' has sizes [4], but normalized_shape is [3]; they must be equal"),
    ]
    return dtypes, shapes


LAYER_NORM_ERRORS = errors_of_rows(tile.layer_norm)
RMS_NORM_ERRORS = errors_of_rows(tile.rms_norm)
ADD_RMS_NORM_ERRORS = errors_of_rows(tile.add_rms_norm, 2)

LAYER_NORM = Operator(
    name="layer_norm",
    reference=F.layer_norm,
    few_rows=lambda x, w, b: (lambda x, w, b: tile.layer_norm(x, w.shape, w, b), [x, w, b]),
    bad=Bad(
        dtypes=[
            *LAYER_NORM_ERRORS[0],
            (
                lambda: tile.layer_norm(f(2, 3), [3], bf(3)),
                "'weight' is BFloat16 and 'input' Float; 'weight' must have the dtype of 'input', or be Float where that "
                "has 16 bits",
            ),
            (
                lambda: tile.layer_norm(f(2, 3, dtype=torch.half), [3], f(3), f(3, dtype=torch.half)),
                "'weight' is Float and 'bias' Half; convert one of them",
            ),
            (
                lambda: tile.layer_norm(f(2, 3), [3], f(3), f64(3)),
                "'bias' is Double and 'input' Float; 'bias' must have the dtype of 'input', or be Float where that has 16 bits",
            ),
        ],
        shapes=[
            *LAYER_NORM_ERRORS[1],
            (
                lambda: tile.layer_norm(f(2, 3), [3], None, f(2)),
                "'bias' has sizes [2], but normalized_shape is [3]; they must be equal",
            ),
            (
                lambda: tile.layer_norm(f(2, 3), [3], f(3), f(2)),
                "'bias' has sizes [2], but normalized_shape is [3]; they must be equal",
            ),
        ],
        devices=[
            (lambda: tile.layer_norm(f(2, 3), [3], f(3), meta(3)), f"'input' is on {HERE}, but 'bias' is on meta; {MOVE}")
        ],
        unaligned=[("bias", lambda: tile.layer_norm(ALIGNED, [3], ALIGNED[0], UNALIGNED[0]))],
    ),
    bad_gradients=BadGradients(
        good=[layer_norm_backward],
        shapes=[
            (
                lambda: tile.layer_norm_backward(f(2, 3), f(2, 3), [3], f(3), f(3), f(2, 0), f(2, 1), [True] * 3),
                "mean has shape [2, 0]; it must be [2, 1], as the forward saves it",
            ),
            (lambda: layer_norm_backward(grad=f(1, 3)), f"grad_out has shape [1, 3]; it must be [2, 3], {RESULT}"),
            (lambda: layer_norm_backward(mean=f(1, 1)), f"mean has shape [1, 1]; it must be [2, 1], {SAVED}"),
            (lambda: layer_norm_backward(rstd=f(2)), f"rstd has shape [2]; it must be [2, 1], {SAVED}"),
            (
                lambda: layer_norm_backward(weight=f(2)),
                "'weight' has sizes [2], but normalized_shape is [3]; they must be equal",
            ),
            (
                lambda: layer_norm_backward(shape=(4,)),
                "normalized_shape is [4], but 'input' has sizes [2, 3]; it must be the sizes of the last dimensions",
            ),
        ],
        dtypes=[
            (lambda: layer_norm_backward(grad=f64(2, 3)), f"grad_out is float64; it must be float32, {RESULT}"),
            (lambda: layer_norm_backward(mean=f64(2, 1)), f"mean is float64; it must be float32, {SAVED}"),
            (
                lambda: layer_norm_backward(weight=f64(3)),
                "'weight' is Double and 'input' Float; 'weight' must have the dtype of 'input', or be Float where "
                "that has 16 bits",
            ),
        ],
    ),
    autocast=(lambda x: tile_ops.layer_norm(x, [8]), lambda x: F.layer_norm(x, [8])),
    without_elements={
        "layer_norm": (
            lambda x, w, b: tile.layer_norm(x, [0], w, b),
            lambda x, w, b: F.layer_norm(x, [0], w, b),
            [(3, 0), (0,), (0,)],
        ),
        "layer_norm of no rows": (
            lambda x, w, b: tile.layer_norm(x, [3], w, b),
            lambda x, w, b: F.layer_norm(x, [3], w, b),
            [(0, 3), (3,), (3,)],
        ),
    },
    contract=lambda: [
        ((double(3, 5), [5], double(5), double(5), 1e-5), {}),
        ((double(2, 3, 4), [3, 4]), {"eps": 1e-5}),
        ((double(2, 3, 4), [4], None, double(4)), {}),
        ((double(2, 3, 4), [4], double(4)), {"eps": 1e-3}),
    ],
    good=[lambda: tile.layer_norm(grad(2, 3), [3], grad(3), grad(3))],
    draw=draw_layer_norm,
    memory={"layer_norm": lambda: (lambda x, w, b: tile.layer_norm(x, [COLUMNS], w, b), large_rows() + large_vectors(2))},
    gpu={
        "layer_norm": lambda randn: (
            lambda x, w, b: tile.layer_norm(x, [1000], w, b),
            [randn(300, 1000), randn(1000), randn(1000)],
        )
    },
    gates={
        "layer_norm[8192,4096]": lambda dtype: gate_layer_norm(dtype, 8192, 4096),
        "layer_norm[4096,16384]": lambda dtype: gate_layer_norm(dtype, 4096, 16384),
    },
    sharded={
        "layer_norm": lambda: Sharded(
            {"input": torch.randn(4, 5, 6), "weight": torch.randn(6), "bias": torch.randn(6)},
            lambda x, w, b: tile.layer_norm(x, [6], w, b),
            ("input", "weight", "bias"),
        ),
        "layer_norm of two axes": lambda: Sharded(
            {"input": torch.randn(4, 3, 5, 6), "weight": torch.randn(5, 6)},
            lambda x, w: tile.layer_norm(x, [5, 6], w),
            ("input", "weight"),
        ),
    },
    emulated={
        "layer_norm": lambda dtype: ((leaf(dtype, 9, 200), (200,), leaf(dtype, 200), leaf(dtype, 200)), {}),
        "layer_norm_alone": lambda dtype: ((leaf(dtype, 3, 5, 7), (5, 7)), {}),
        "layer_norm_of_exact_rows": lambda dtype: ((leaf(dtype, 3, 1280), (1280,), leaf(dtype, 1280), leaf(dtype, 1280)), {}),
        "layer_norm_of_long_rows": lambda dtype: ((leaf(dtype, 2, 9000), (9000,), leaf(dtype, 9000), leaf(dtype, 9000)), {}),
    },
)


RMS_NORM = Operator(
    name="rms_norm",
    reference=F.rms_norm,
    few_rows=lambda x, w, b: (lambda x, w: tile.rms_norm(x, w.shape, w), [x, w]),
    bad=Bad(
        dtypes=RMS_NORM_ERRORS[0],
        shapes=[
            *RMS_NORM_ERRORS[1],
            (
                lambda: tile.rms_norm(f(2, 3), [3], f(2)),
                "'weight' has sizes [2], but normalized_shape is [3]; they must be equal",
            ),
        ],
        devices=[(lambda: tile.rms_norm(f(2, 3), [3], meta(3)), f"'input' is on {HERE}, but 'weight' is on meta; {MOVE}")],
        unaligned=[("weight", lambda: tile.rms_norm(ALIGNED, [3], UNALIGNED[0]))],
    ),
    bad_gradients=BadGradients(
        good=[rms_norm_backward],
        shapes=[
            (lambda: rms_norm_backward(grad=f(2, 1)), f"grad_out has shape [2, 1]; it must be [2, 3], {RESULT}"),
            (lambda: rms_norm_backward(rstd=f(1, 1)), f"rstd has shape [1, 1]; it must be [2, 1], {SAVED}"),
            (lambda: rms_norm_backward(weight=f(4)), "'weight' has sizes [4], but normalized_shape is [3]; they must be equal"),
        ],
        dtypes=[
            (lambda: rms_norm_backward(grad=bf(2, 3)), f"grad_out is bfloat16; it must be float32, {RESULT}"),
            (lambda: rms_norm_backward(weight=f64(3)), f"rstd is float32; it must be float64, {SAVED}"),
        ],
    ),
    autocast=(lambda x: tile_ops.rms_norm(x, [8]), lambda x: F.rms_norm(x, [8])),
    without_elements={
        "rms_norm": (lambda x, w: tile.rms_norm(x, [0], w), lambda x, w: F.rms_norm(x, [0], w), [(3, 0), (0,)]),
        "rms_norm of no rows": (lambda x, w: tile.rms_norm(x, [3], w), lambda x, w: F.rms_norm(x, [3], w), [(0, 3), (3,)]),
    },
    contract=lambda: [
        ((double(3, 5), [5], double(5), 1e-5), {}),
        ((double(2, 3, 4), [3, 4]), {"eps": 1e-5}),
        ((double(2, 3, 4), [4], double(4)), {"eps": 1e-3}),
    ],
    good=[lambda: tile.rms_norm(grad(2, 3, 4), [3, 4], grad(3, 4))],
    draw=draw_rms_norm,
    memory={"rms_norm": lambda: (lambda x, w: tile.rms_norm(x, [COLUMNS], w), large_rows() + large_vectors())},
    gpu={"rms_norm": lambda randn: (lambda x, w: tile.rms_norm(x, [1000], w), [randn(300, 1000), randn(1000)])},
    gates={"rms_norm[4096,16384]": lambda dtype: gate_rms_norm(dtype, 4096, 16384)},
    gates_in_double={"rms_norm[8192,4096]": lambda dtype: gate_rms_norm(dtype, 8192, 4096)},
    sharded={
        "rms_norm": lambda: Sharded(
            {"input": torch.randn(4, 5, 6), "weight": torch.randn(6)},
            lambda x, w: tile.rms_norm(x, [6], w),
            ("input", "weight"),
        ),
        "rms_norm without weight": lambda: Sharded({"input": torch.randn(5, 6)}, lambda x: tile.rms_norm(x, [6]), ("input",)),
    },
    emulated={"rms_norm": lambda dtype: ((leaf(dtype, 11, 96), (96,), leaf(dtype, 96), 1e-5), {})},
)


ADD_RMS_NORM = Operator(
    name="add_rms_norm",
    reference=add_rms_norm_in_torch,
    few_rows=lambda x, w, b: (lambda x, r, w: tile.add_rms_norm(x, r, w.shape, w), [x, x.flip(0), w]),
    bad=Bad(
        dtypes=[
            *ADD_RMS_NORM_ERRORS[0],
            (
                lambda: tile.add_rms_norm(f(2, 3), bf(2, 3), [3]),
                "'residual' is BFloat16 and 'input' Float; convert one with .to()",
            ),
            (
                lambda: tile.add_rms_norm(f(2, 3), f64(2, 3), [3]),
                "'residual' is Double and 'input' Float; convert one with .to()",
            ),
        ],
        shapes=[
            (
                lambda: tile.add_rms_norm(f(2, 3), f(3), [3]),
                "'residual' has sizes [3], but 'input' has [2, 3]; they must be equal",
            ),
            *ADD_RMS_NORM_ERRORS[1],
            (
                lambda: tile.add_rms_norm(f(2, 3), f(2, 1), [3]),
                "'residual' has sizes [2, 1], but 'input' has [2, 3]; they must be equal",
            ),
        ],
        devices=[
            (lambda: tile.add_rms_norm(f(2, 3), meta(2, 3), [3]), f"'input' is on {HERE}, but 'residual' is on meta; {MOVE}")
        ],
        unaligned=[("residual", lambda: tile.add_rms_norm(ALIGNED, UNALIGNED, [3]))],
    ),
    bad_gradients=BadGradients(
        good=[lambda: add_rms_norm_backward(f(2, 3))],
        shapes=[
            (lambda: add_rms_norm_backward(grad=f(1, 3)), f"grad_out has shape [1, 3]; it must be [2, 3], {RESULT}"),
            (lambda: add_rms_norm_backward(grad_sum=f(2, 1)), f"grad_sum has shape [2, 1]; it must be [2, 3], {RESULT}"),
            (lambda: add_rms_norm_backward(rstd=f(2, 3)), f"rstd has shape [2, 3]; it must be [2, 1], {SAVED}"),
        ],
        dtypes=[(lambda: add_rms_norm_backward(grad_sum=f64(2, 3)), f"grad_sum is float64; it must be float32, {RESULT}")],
    ),
    autocast=(lambda x: tile_ops.add_rms_norm(x, x, [8])[0], lambda x: F.rms_norm(x + x, [8])),
    without_elements={
        "add_rms_norm": (
            lambda x, r, w: tile.add_rms_norm(x, r, [0], w),
            lambda x, r, w: (F.rms_norm(x + r, [0], w), x + r),
            [(3, 0), (3, 0), (0,)],
        )
    },
    contract=lambda: [
        ((double(3, 5), double(3, 5), [5], double(5), 1e-5), {}),
        ((double(2, 3, 4), double(2, 3, 4), [3, 4]), {"eps": 1e-5}),
    ],
    good=[lambda: tile.add_rms_norm(grad(2, 3), grad(2, 3), [3], grad(3))],
    draw=draw_add_rms_norm,
    memory={"add_rms_norm": lambda: (lambda x, r, w: tile.add_rms_norm(x, r, [COLUMNS], w), large_rows(2) + large_vectors())},
    gpu={
        "add_rms_norm": lambda randn: (
            lambda x, y, w: tile.add_rms_norm(x, y, [1000], w),
            [randn(300, 1000), randn(300, 1000), randn(1000)],
        )
    },
    gates={
        "add_rms_norm[8192,4096]": lambda dtype: gate_add_rms_norm(dtype, 8192, 4096),
        "add_rms_norm[4096,16384]": lambda dtype: gate_add_rms_norm(dtype, 4096, 16384),
    },
    sharded={
        "add_rms_norm": lambda: Sharded(
            {"input": torch.randn(4, 5, 6), "residual": torch.randn(4, 5, 6), "weight": torch.randn(6)},
            lambda x, r, w: tile.add_rms_norm(x, r, [6], w),
            ("input", "residual", "weight"),
        )
    },
    emulated={
        "add_rms_norm": lambda dtype: ((leaf(dtype, 11, 96), leaf(dtype, 11, 96), (96,), leaf(dtype, 96), 1e-5), {}),
        "add_rms_norm_of_long_columns": lambda dtype: (
            (transposed(leaf(dtype, 70, 40)), transposed(leaf(dtype, 70, 40)), (70,)),
            {},
        ),
        "add_rms_norm_of_wide_rows": lambda dtype: (
            (leaf(dtype, 2, 16384), leaf(dtype, 2, 16384), (16384,), leaf(dtype, 16384), 1e-5),
            {},
        ),
    },
)


GROUP_NORM = Operator(
    name="group_norm",
    reference=group_norm_in_torch,
    bad=Bad(
        dtypes=[
            (lambda: tile.group_norm(i64(2, 4, 3), 2), f"'input' is Long; {FLOATS}"),
            (
                lambda: tile.group_norm(f(2, 4, 3), 2, f64(4)),
                "'weight' is Double and 'input' Float; 'weight' must have the dtype of 'input', or be Float where that has 16 bits",
            ),
        ],
        shapes=[
            (lambda: tile.group_norm(f(3), 1), "'input' has 1 dimensions; it must have 2 to 5: [N, C, …]"),
            (
                lambda: tile.group_norm(f(2, 5, 3), 2),
                "'input' has 5 channels, which num_groups=2 does not divide; give a divisor",
            ),
            (
                lambda: tile.group_norm(f(2, 4, 3), 2, f(3)),
                "'weight' has sizes [3], but the channels of 'input' are [4]; they must be equal",
            ),
        ],
        devices=[(lambda: tile.group_norm(f(2, 4, 3), 2, meta(4)), f"'input' is on {HERE}, but 'weight' is on meta; {MOVE}")],
        unaligned=[("input", lambda: tile.group_norm(UNALIGNED.view(2, 3, 1), 1))],
    ),
    bad_gradients=BadGradients(
        good=[group_norm_backward],
        shapes=[
            (
                lambda: tile.group_norm_backward(f(2, 4, 3), f(2, 4, 3), 0, f(4), f(4), "silu", f(2, 2), f(2, 2), [True] * 3),
                "num_groups is 0; it must be at least 1",
            ),
            (lambda: group_norm_backward(grad=f(2, 4)), f"grad_out has shape [2, 4]; it must be [2, 4, 3], {RESULT}"),
            (lambda: group_norm_backward(mean=f(2, 1)), f"mean has shape [2, 1]; it must be [2, 2], {SAVED}"),
            (lambda: group_norm_backward(rstd=f(4)), f"rstd has shape [4]; it must be [2, 2], {SAVED}"),
        ],
        dtypes=[
            (lambda: group_norm_backward(grad=bf(2, 4, 3)), f"grad_out is bfloat16; it must be float32, {RESULT}"),
            (lambda: group_norm_backward(mean=f64(2, 2)), f"mean is float64; it must be float32, {SAVED}"),
            (lambda: group_norm_backward(x=bf(2, 4, 3), rstd=bf(2, 2)), f"rstd is bfloat16; it must be float32, {SAVED}"),
        ],
    ),
    autocast=(lambda x: tile_ops.group_norm(x, 2), lambda x: F.group_norm(x, 2)),
    without_elements={
        "group_norm without positions": (
            lambda x, w, b: tile.group_norm(x, 2, w, b),
            lambda x, w, b: expected_group_norm(x, 2, w, b),
            [(2, 4, 0), (4,), (4,)],
        ),
        "group_norm of no samples": (
            lambda x, w, b: tile.group_norm(x, 2, w, b),
            lambda x, w, b: F.group_norm(x, 2, w, b),
            [(0, 4, 3), (4,), (4,)],
        ),
    },
    contract=lambda: [
        ((double(2, 4, 3), 2, double(4), double(4)), {"activation": "silu"}),
        ((channels_last(double(2, 4, 3, 2)), 2, double(4), double(4)), {}),
        ((double(3, 4), 2), {"activation": "silu"}),
    ],
    good=[lambda: tile.group_norm(grad(2, 4, 3), 2, grad(4), grad(4), activation="silu")],
    draw=draw_group_norm,
    memory={
        "group_norm": lambda: (
            lambda x, w, b: tile.group_norm(x, 32, w, b, activation="silu"),
            [large_image(torch.contiguous_format), *large_vectors(2, 320)],
        ),
        "group_norm, channels last": lambda: (
            lambda x, w, b: tile.group_norm(x, 32, w, b),
            [large_image(torch.channels_last), *large_vectors(2, 320)],
        ),
    },
    gpu={
        "group_norm": lambda randn: (
            lambda x, w, b: tile.group_norm(x, 8, w, b, activation="silu"),
            [randn(2, 64, 24, 24), randn(64), randn(64)],
        )
    },
    gates={
        "group_norm[16,320,64,64]": lambda dtype: gate_group_norm(dtype, 16, 320, 64, False),
        "group_norm[16,320,64,64],last": lambda dtype: gate_group_norm(dtype, 16, 320, 64, True),
        "group_norm[4,128,512,512]": lambda dtype: gate_group_norm(dtype, 4, 128, 512, False),
        "group_norm[8,512,128,128]": lambda dtype: gate_group_norm(dtype, 8, 512, 128, False),
        "group_norm[8,512,128,128],last": lambda dtype: gate_group_norm(dtype, 8, 512, 128, True),
        "group_norm[2,1280,16,16]": lambda dtype: gate_group_norm(dtype, 2, 1280, 16, False),
        "group_norm[2,1280,16,16],last": lambda dtype: gate_group_norm(dtype, 2, 1280, 16, True),
    },
    sharded={
        "group_norm": lambda: Sharded(
            {"input": torch.randn(4, 6, 5), "weight": torch.randn(6), "bias": torch.randn(6)},
            lambda x, w, b: tile.group_norm(x, 3, w, b, activation="silu"),
            ("input", "weight", "bias"),
        )
    },
    emulated={
        "group_norm": lambda dtype: ((leaf(dtype, 2, 6, 5, 7), 3, leaf(dtype, 6), leaf(dtype, 6)), {}),
        "group_norm_silu": lambda dtype: (
            (channels_last(leaf(dtype, 2, 32, 4, 4)), 8, leaf(dtype, 32), leaf(dtype, 32)),
            {"activation": "silu"},
        ),
        "group_norm_in_a_tile": lambda dtype: (
            (leaf(dtype, 2, 6, 16, 16), 2, leaf(dtype, 6), leaf(dtype, 6)),
            {"activation": "silu"},
        ),
        "group_norm_of_large_groups": lambda dtype: ((leaf(dtype, 1, 2, 190, 190), 2, leaf(dtype, 2), leaf(dtype, 2)), {}),
    },
)
