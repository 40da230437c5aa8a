"""Ours or torch's for a product of matrices: the classes for which ours was measured to be faster.

tile_ops.patch and torch.compile(backend="tile") ask here. A product of no class is torch's, so that none is slower because of us.
"""

import functools
import sys
from typing import NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

# The values of the option products, and the first as the default.
VALUES = ("measured", "tile", "torch")
# Kinds of products: alone, with elementwise operators on the result, and two of one left side that meet in such operators.
PLAIN, FUSED, PAIR = "plain", "fused", "pair"

NO_LIMIT = sys.maxsize
_16_BITS = (torch.bfloat16, torch.float16)


class Limits(NamedTuple):
    """Bounds of [rows, depth] @ [depth, columns]: the least of each extent, and the most rows and columns."""

    rows: tuple[int, int]
    depth: int = 1
    columns: int = 1
    weights: int = 1  # depth * columns
    trains: bool = True  # also where ours computes the gradients
    most_columns: int = NO_LIMIT


class Class(NamedTuple):
    """Products that are ours. ratios: torch's time / ours, which the command `measured` prints."""

    device: str
    dtypes: tuple
    kinds: tuple
    limits: Limits
    ratios: str
    measured: str


_ALL = (PLAIN, FUSED, PAIR)
_ON_CPU, _ON_GPU = "benchmarks/run.py --only 'linear of'", "benchmarks/gpu.py --only 'matmul|linear'"
_ONE_ROW = "benchmarks/gpu.py --only 'matmul 1x'"
_CLASSES = (
    # Few rows read weights in place, at the speed of memory. Gradients of one row and those in bfloat16 are not faster.
    Class("cpu", (torch.float32,), _ALL, Limits((1, 1), weights=512 * 512, trains=False), "1.0 to 1.7", _ON_CPU),
    Class("cpu", (torch.float32,), _ALL, Limits((2, 8), weights=512 * 512), "1.3 to 3.0", _ON_CPU),
    Class("cpu", (torch.bfloat16,), _ALL, Limits((1, 8), weights=512 * 512, trains=False), "1.2 to 3.0", _ON_CPU),
    Class("cpu", (torch.float32,), _ALL, Limits((128, NO_LIMIT), 512, 512), "0.97 to 1.3", _ON_CPU),
    # Products alone take cuBLAS' time, so that an epilogue saves its reads and writes. In training that is lost again in gradients
    # (`benchmarks/models.py --way training`). Smaller products are bound by launches, or by reading one operand, and shallow ones
    # have too few steps to hide an epilogue behind.
    Class("cuda", _16_BITS, (FUSED, PAIR), Limits((64, NO_LIMIT), 2048, 64, trains=False), "1.0 to 1.3", _ON_GPU),
    # One row, as of a decoded token. With more columns cuBLAS is as fast.
    Class("cuda", _16_BITS, _ALL, Limits((1, 1), 512, 64, 512 * 512, False, most_columns=4096), "0.93 to 4.2", _ONE_ROW),
)
# Products with fewer weights are in no class.
LEAST_WEIGHTS = min(max(each.limits.depth * each.limits.columns, each.limits.weights) for each in _CLASSES)
_ARCH = (9, 0)  # of the GPUs on which the classes were measured


def _is_measured(device):
    if device.type == "cuda":
        return torch.cuda.is_available() and torch.cuda.get_device_capability(device) == _ARCH
    # torch's kernels of a CPU without AVX2 were measured to be faster: benchmarks/results/cpu-baseline-xeon.md.
    return device.type == "cpu" and torch.backends.cpu.get_cpu_capability() != "DEFAULT"


@functools.cache
def classes(device, dtype, kind):
    """Returns the classes of products in which ours is faster."""
    if not _is_measured(device):
        return ()
    return tuple(each for each in _CLASSES if each.device == device.type and dtype in each.dtypes and kind in each.kinds)


@functools.cache
def limits(device, dtype, kind):
    """Returns the Limits of these classes, as plain tuples, which a traced call can hold."""
    return tuple(tuple(each.limits) for each in classes(device, dtype, kind))


@torch.compiler.assume_constant_result
def traced_limits(device, dtype, kind):
    """Returns what limits does, for traced calls: a graph holds the result."""
    return limits(device, dtype, kind)


def fits(limits, rows, depth, columns, trains):
    """Returns True if a product is in one of the classes. trains: True if ours has to compute the gradients, too."""
    for (least, most), least_depth, least_columns, least_weights, with_gradients, most_columns in limits:
        large = depth >= least_depth and columns >= least_columns and depth * columns >= least_weights
        if least <= rows <= most and large and columns <= most_columns and (with_gradients or not trains):
            return True
    return False


def fits_for_all(limits, rows, depth, columns, trains):
    """As fits, but True only if that is so for all values of symbolic sizes, so that a graph gets no guard."""
    for (least, most), least_depth, least_columns, least_weights, with_gradients, most_columns in limits:
        large = statically_known_true(depth >= least_depth) and statically_known_true(columns >= least_columns)
        large = large and statically_known_true(depth * columns >= least_weights)
        if (
            large
            and statically_known_true(columns <= most_columns)
            and statically_known_true(rows >= least)
            and statically_known_true(rows <= most)
        ):
            if with_gradients or not trains:
                return True
    return False


# A loss of a linear layer that keeps no logits saves torch's copies of them in float32, of which each is written and read; where
# their gradient is not early it computes them twice. `benchmarks/models.py --way training --only 'Llama|Qwen3'` compares. With a
# small depth its products, of some rows at a time, are slower: BERT's, of depth 768, made the step longer (`--only 'BERT, training'`).
LEAST_CLASSES, LEAST_LOSS_DEPTH = 4096, 1024
LEAST_LOSSES = {"cpu": 256, "cuda": 1024}  # rows


def loss_is_ours(products, device, dtype, rows, depth, classes):
    """Returns True if the loss of a linear layer is to be computed without its logits in training. products: patch's option."""
    if products != "measured":
        return products == "tile"
    large = classes >= LEAST_CLASSES and rows >= LEAST_LOSSES["cuda"] and depth >= LEAST_LOSS_DEPTH
    return large and device.type == "cuda" and dtype in _16_BITS and _is_measured(device)


# cuBLAS is slow where rows of 16-bit matrices begin at no multiple of 16 bytes, as the logits of 50257 classes and their gradients:
# GPT-2's training step takes 2.5 times as long in eager mode as under inductor, which pads them
# (`benchmarks/models.py --only 'GPT-2, training'`).
_LEAST_PADDED = 4096  # an extent that is padded
_LEAST_USES = 512  # products of each element that is copied


@functools.cache
def _pads(device, dtype):
    return device.type == "cuda" and dtype in _16_BITS and _is_measured(device)


def pays_to_pad(device, dtype, extents):
    """Returns which extents of torch's product are padded to a multiple of 8 because it is faster, although operands are copied.

    extents: rows, depth, columns."""
    if not _pads(device, dtype):
        return False, False, False
    rows, depth, columns = extents
    uses = columns, min(rows, columns), rows
    return tuple(each >= _LEAST_PADDED and each % 8 != 0 and use >= _LEAST_USES for each, use in zip(extents, uses))


def described(device, dtype, depth, columns, kind):
    """Returns a text for a report: for which rows a product of these sizes is ours, and by which ratios; "" if for none."""
    found = classes(device, dtype, kind)
    return " and ".join(_line(each) for each in found if fits([each.limits], each.limits.rows[0], depth, columns, False))


def _line(each):
    least, most = each.limits.rows
    rows = f"from {least} rows" if most == NO_LIMIT else "for 1 row" if most == 1 else f"for {least} to {most} rows"
    return f"{rows}{'' if each.limits.trains else ' without gradients'} ({each.ratios})"
