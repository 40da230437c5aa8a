"""Implements dropout of a shard with the mask that the whole tensor has at those elements."""

import itertools
import math

import torch

import tile_ops
import tile_ops.language as tl


@tl.kernel
def dropout_kernel(
    x,
    seed,
    scale,
    out,
    threshold: tl.ScalarInt64,
    first: tl.ScalarInt64,
    step: tl.ScalarInt64,
    R: tl.Constant[int],
    C: tl.Constant[int],
):
    """Drops elements of x: [rows, columns]. Element [i, j] has the number first + i * step + j in the whole tensor."""
    i, j = tl.bid(0), tl.bid(1)
    row = (i.astype(tl.int64) * R + tl.arange(R, dtype=tl.int64)) * step + first
    number = row[:, None] + (j.astype(tl.int64) * C + tl.arange(C, dtype=tl.int64))[None, :]
    bits = tl.random_bits((R, C), tl.load(seed, 0, ()), number, stream=tl.load(seed, 1, ()))
    factor = tl.load(scale, 0, ())
    values = tl.load(x, (i, j), (R, C)).astype(factor.dtype)
    tl.store(out, (i, j), tl.where(bits >= threshold.astype(tl.uint32), values * factor, 0).astype(out.dtype))


def _axes(sizes, steps):
    """Returns (extent, step) of each axis. Neighbouring axes that are numbered like one are merged."""
    axes = []
    for size, step in zip(reversed(sizes), reversed(steps)):
        if size == 1:
            continue
        if axes and step == axes[-1][0] * axes[-1][1]:
            axes[-1] = (axes[-1][0] * size, axes[-1][1])
        else:
            axes.append((size, step))
    return axes[::-1]


@tile_ops.op("tile_shards::dropout(Tensor input, float p, Tensor seed, SymInt first, SymInt[] steps) -> Tensor")
class dropout:
    """Drops elements as tile::dropout does; [i, j, ...] has the number first + i * steps[0] + j * steps[1] + ...."""

    sharding = "whole"

    def outputs(input):
        return torch.empty_like(input)

    def run(input, p, seed, first, steps, out):
        if input.numel() == 0:
            return
        if p in (0, 1):
            out.copy_(input) if p == 0 else out.zero_()
            return
        made = out if out.is_contiguous() else torch.empty(input.shape, dtype=input.dtype, device=input.device)
        wide = torch.float64 if input.dtype == torch.float64 else torch.float32
        scale = torch.full((1,), 1 / (1 - p), dtype=wide, device=input.device)
        threshold = min(int(math.ldexp(p, 32)), 2**32 - 1)
        axes = _axes(input.shape, steps)
        if not axes or axes[-1][1] != 1:  # the last axis has no more than one element here
            axes.append((1, 1))
        if len(axes) == 1:
            axes.insert(0, (1, 0))
        (rows, step), (columns, _) = axes[-2:]
        flat, flat_out = (each.reshape(-1, rows, columns) for each in (input.contiguous(), made))
        C = min(1024, 1 << (columns - 1).bit_length())
        R = min((16384 if input.is_cpu else 4096) // C, 1 << (rows - 1).bit_length())
        leading = itertools.product(*(range(size) for size, _ in axes[:-2]))
        for at, index in enumerate(leading):
            begin = first + sum(coordinate * axis[1] for coordinate, axis in zip(index, axes))
            dropout_kernel[tl.cdiv(rows, R), tl.cdiv(columns, C)](
                flat[at], seed, scale, flat_out[at], threshold, begin, step, R, C
            )
        if made is not out:
            out.copy_(made)
