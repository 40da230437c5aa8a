"""A peer in host.py: adds two tensors with Triton, which must be installed."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, count, WIDTH: tl.constexpr):
    i = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = i < count
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


def add(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(out.numel(), 1024),)](x, y, out, out.numel(), WIDTH=1024)
    return out
