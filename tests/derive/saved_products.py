"""A product with an activation, whose sums the forward saves."""

import tile_ops.language as tl
import torch

from derive.cases import wide


@tl.kernel
def silu_product_kernel(x, w, b, out, M: tl.Constant[int], N: tl.Constant[int], K: tl.Constant[int]):
    row, column = tl.bid(0), tl.bid(1)
    total = tl.zeros((M, N), wide(x))
    for k in range(tl.cdiv(x.shape[1], K)):
        total = tl.mma(tl.load(x, (row, k), (M, K)), tl.load(w, (k, column), (K, N)), total)
    t = total + tl.load(b, (column,), (N,)).astype(wide(x))
    tl.store(out, (row, column), (t * tl.sigmoid(t)).astype(out.dtype))


def product_outputs(x, w):
    return torch.empty(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device)
