"""Writes of tiles that all groups of a wgmma kernel hold, in the emulator: one group writes them."""

import tile_ops
import tile_ops.language as tl
import torch
from emulate_operators import Emulation
from numerics import check


@tl.kernel
def product_kernel(x, w, out, row, counts, M: tl.Constant[int], N: tl.Constant[int], K: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    total = tl.zeros((M, N), tl.float32)
    for k in range(tl.cdiv(x.shape[1], K)):
        total = tl.mma(tl.load(x, (i, k), (M, K)), tl.load(w, (k, j), (K, N)), total)
    tl.store(out, (i, j), total.astype(out.dtype))
    tl.store(row, (i,), tl.full((M,), 3.0, tl.float32))
    counts.tiled_view((M,)).atomic_store_add((0,), tl.full((M,), 1.0, tl.float32))


def made(x, w):
    return [
        torch.empty(x.shape[0], w.shape[1], dtype=x.dtype, device=x.device),
        torch.empty(x.shape[0], dtype=torch.float32, device=x.device),
        torch.empty(128, dtype=torch.float32, device=x.device),
    ]


@tile_ops.op("writes_of_groups::product(Tensor x, Tensor w) -> (Tensor, Tensor, Tensor)", outputs=made)
def product(x, w, out0, out1, out2):
    out2.zero_()
    product_kernel[tl.cdiv(x.shape[0], 128), tl.cdiv(w.shape[1], 64)](x, w, out0, out1, out2, 128, 64, 64)


def test_one_group_writes_what_all_hold():
    torch.manual_seed(0)
    x, w = torch.randn(256, 128).bfloat16(), torch.randn(128, 64).bfloat16()
    emulation = Emulation()
    out, row, counts = emulation.operator(torch.ops.writes_of_groups.product)(x, w)
    assert emulation.paths() == {"kernel_product_kernel": "wgmma"}
    check(out, x @ w, x.double() @ w.double())
    assert torch.equal(row, torch.full((256,), 3.0))
    assert torch.equal(counts, torch.full((128,), 2.0))  # one for each of two blocks
