"""The row of scaled_matmul in the table of operators."""

import torch
from torch.distributed.tensor import DTensor, Replicate

import scaled_reference
from operators.record import Bad, Operator, Sharded
from operators.tensors import bf, f, f64
from operators.texts import HERE, MOVE

tile = torch.ops.tile

EIGHT_BITS = "it must be float8_e4m3fn or float8_e5m2"
OUTPUTS = "it must be float16, bfloat16 or float32"


def e4m3(*sizes, device=None):
    return torch.ones(sizes, device=device).to(torch.float8_e4m3fn)


def call(x=None, y=None, x_scales=None, y_scales=None, **options):
    given = (e4m3(2, 3), e4m3(3, 4), f(2, 1), f(1, 4))
    return tile.scaled_matmul(
        *(own if other is None else other for own, other in zip(given, (x, y, x_scales, y_scales))), **options
    )


def meta_call(m, n, k, x_scales, y_scales, **options):
    """A call without memory, of operands that are contiguous along k."""
    x, y = (torch.empty(rows, k, dtype=torch.float8_e4m3fn, device="meta") for rows in (m, n))
    scales = (torch.empty(shape, device="meta") for shape in (x_scales, y_scales))
    return tile.scaled_matmul(x, y.t(), *scales, **options)


def emulated(m, n, k, x_scales, y_scales, dtype, bias=False, **options):
    x, y = scaled_reference.matrices(m, n, k)
    out_dtype = torch.float32 if dtype == torch.float64 else dtype
    scales = (scaled_reference.scales(scaled_reference.shapes_of_scales(rows, k, along)[name])
              for along, (rows, name) in enumerate(((m, x_scales), (n, y_scales))))  # fmt: skip
    return (x, y, *scales), {"bias": torch.randn(n).to(out_dtype) if bias else None, "out_dtype": out_dtype, **options}


def placed(x, y, split_columns):
    """Placements that the operator need not change: the gloo of the tests exchanges no 8-bit floats, as NCCL does."""
    rows = [place if place.is_shard(0) else Replicate() for place in x.placements]
    columns = [
        place if place.is_shard(1) and not row.is_shard() and split_columns else Replicate()
        for place, row in zip(y.placements, rows)
    ]
    return x.redistribute(placements=rows), y.redistribute(placements=columns)


def sharded(x_scales, y_scales):
    def run(x, y, x_scales, y_scales, bias):
        if isinstance(x, DTensor):
            x, y = placed(x, y, y_scales.numel() == 1 or y_scales.shape[1] == y.shape[1])
        x, y = (each.to(torch.float8_e4m3fn) for each in (x, y))
        return tile.scaled_matmul(x, y, x_scales, y_scales, bias=bias, out_dtype=torch.float32)

    tensors = {"input": torch.randn(4, 300), "other": torch.randn(300, 6), "scale_input": torch.rand(x_scales)}
    return Sharded({**tensors, "scale_other": torch.rand(y_scales), "bias": torch.randn(6)}, run)


SCALED_MATMUL = Operator(
    name="scaled_matmul",
    reference=scaled_reference.scaled_matmul,
    flops=lambda: (tile.scaled_matmul, [e4m3(5, 7), e4m3(7, 3), f(1), f(1)], 2 * 5 * 7 * 3),
    bad=Bad(
        dtypes=[
            (lambda: call(x=bf(2, 3)), f"input is bfloat16; {EIGHT_BITS}"),
            (lambda: call(y=f(3, 4)), f"other is float32; {EIGHT_BITS}"),
            (lambda: call(x_scales=f64(2, 1)), "scale_input is float64; it must be float32"),
            (lambda: call(y_scales=bf(1, 4)), "scale_other is bfloat16; it must be float32"),
            (lambda: call(bias=f64(4)), f"bias is float64; {OUTPUTS}"),
            (lambda: call(out_dtype=torch.float8_e4m3fn), f"out_dtype is float8_e4m3fn; {OUTPUTS}"),
        ],
        shapes=[
            (lambda: call(x=e4m3(3)), "input has shape [3]; it must be a matrix"),
            (lambda: call(y=e4m3(1, 3, 4)), "other has shape [1, 3, 4]; it must be a matrix"),
            (lambda: call(y=e4m3(5, 4)), "cannot multiply input [2, 3] by other [5, 4]; the inner extents 3 and 5 differ"),
            (
                lambda: call(x=e4m3(300, 3), x_scales=f(2, 1)),
                "scale_input has shape [2, 1] for input [300, 3]; it must have one element, or be [300, 1] or [3, 1]",
            ),
            (
                lambda: call(x=e4m3(2, 300), y=e4m3(300, 140), x_scales=f(2, 3), y_scales=f(2, 3)),
                "scale_other has shape [2, 3] for other [300, 140]; it must have one element, or be [1, 140], [3, 140] or "
                "[3, 2]",
            ),
            (
                lambda: call(y_scales=f(4)),
                "scale_other has shape [4] for other [3, 4]; it must have one element, or be [1, 4] or [1, 1]",
            ),
            (lambda: call(bias=f(3)), "bias has shape [3]; it must be [4], an element for each column of other"),
        ],
        devices=[(lambda: call(y=e4m3(3, 4, device="meta")), f"'input' is on {HERE}, but 'other' is on meta; {MOVE}")],
    ),
    good=[lambda: call(), lambda: call(x_scales=f(1), y_scales=f(1), bias=f(4), out_dtype=torch.float32, fast_accum=True)],
    gates={"scaled_matmul[8192]": lambda dtype: meta_call(8192, 8192, 8192, (8192, 1), (1, 8192), out_dtype=dtype)},
    gate_variants={
        "scaled_matmul[8192],fast": lambda dtype: meta_call(
            8192, 8192, 8192, (8192, 1), (1, 8192), out_dtype=dtype, fast_accum=True
        ),
        "scaled_matmul[4096,16384],blocks": lambda dtype: meta_call(4096, 7168, 16384, (4096, 128), (128, 56), out_dtype=dtype),
        "scaled_matmul[16,4096],blocks": lambda dtype: meta_call(16, 4096, 4096, (16, 32), (32, 32), out_dtype=dtype),
    },
    sharded={
        "scaled_matmul": lambda: sharded((4, 1), (1, 6)),
        "scaled_matmul of blocks": lambda: sharded((4, 3), (3, 1)),
        "scaled_matmul with one scale": lambda: sharded((), (1, 1)),
    },
    emulated={
        "scaled_matmul": lambda dtype: emulated(200, 136, 272, "each", "each", dtype, bias=True),
        "scaled_matmul_in_blocks": lambda dtype: emulated(136, 144, 272, "each, in blocks of k", "blocks", dtype),
        "scaled_matmul_of_other_strides": lambda dtype: emulated(5, 7, 30, "one", "each", dtype),
    },
)
