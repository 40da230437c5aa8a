"""tile::scaled_matmul by torch's basic operations, and the scales that tests give it."""

import torch

BLOCK = 128
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def blocks(extent):
    return -(-extent // BLOCK)


def shapes_of_scales(rows, k, along):
    """All shapes that scales may have, by name; along: the axis of the rows or columns that have them."""
    shapes = {"one": (), "each": (rows, 1), "each, in blocks of k": (rows, blocks(k)), "blocks": (blocks(rows), blocks(k))}
    return {name: shape if along == 0 else shape[::-1] for name, shape in shapes.items()}


def repeated(scales, matrix, along):
    """The scales with an element for each one of the matrix, or axes of extent 1."""
    if scales.numel() == 1:
        return scales.reshape(1, 1)
    for axis, extent in enumerate(matrix.shape):
        if scales.shape[axis] not in (1, extent) or (axis != along and scales.shape[axis] != 1):
            scales = scales.repeat_interleave(BLOCK, axis).narrow(axis, 0, extent)
    return scales


def scaled_matmul(input, other, scale_input, scale_other, *, bias=None, out_dtype=None, fast_accum=False):
    """In float64 where the operands are, else in float32."""
    wide = torch.float64 if input.dtype == torch.float64 else torch.float32
    x = input.to(wide) * repeated(scale_input, input, 0).to(wide)
    y = other.to(wide) * repeated(scale_other, other, 1).to(wide)
    out = x @ y
    if bias is not None:
        out = out + bias.to(wide)
    return out.to(out_dtype or (torch.bfloat16 if wide == torch.float32 else wide))


def matrices(m, n, k, dtypes=(torch.float8_e4m3fn,) * 2):
    """Random operands, contiguous along k."""
    return torch.randn(m, k).to(dtypes[0]), torch.randn(n, k).to(dtypes[1]).t()


def scales(shape):
    return torch.rand(shape) + 0.5
