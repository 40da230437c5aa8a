"""Ours or torch's for a product: by what was measured, so that no product is slower because of us.

On an H100 or H200 products in 16 bits take 1.0 of cuBLAS' time and less (benchmarks/results/variants-h200.md), so that a fused
epilogue saves its reads and writes. On a CPU, and for float32, MKL and cuBLAS are ahead of a fused epilogue's gain.
"""

import torch

from .compat import hint

# Smaller products are bound by launches, or by reading one operand.
LEAST_ROWS, LEAST_COLUMNS, LEAST_DEPTH = 64, 64, 64


def is_ours(compile, input, other):
    """Returns True if input @ other is to be a product of ours. options: {"products": "tile" or "torch"} decides for all."""
    wanted = compile.options.get("products", "measured")
    dtype = input.get_dtype()
    if dtype != other.get_dtype() or dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return False
    if wanted != "measured":
        return wanted == "tile"
    if input.get_device().type != "cuda" or dtype == torch.float32:
        return False
    if torch.cuda.get_device_capability(input.get_device()) != (9, 0):
        return False
    rows, depth = (hint(each) for each in input.get_size()[-2:])
    return rows >= LEAST_ROWS and hint(other.get_size()[-1]) >= LEAST_COLUMNS and depth >= LEAST_DEPTH
