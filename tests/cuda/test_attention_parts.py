"""The launches of attention's gradient for a GPU: how many heads' sums of the queries' gradient stand in memory."""

import re

import pytest
import tile_ops
import torch


@pytest.mark.parametrize("batch, heads, key_heads, rows, depth, parts", [
    (2, 16, 16, 4096, 64, [(16, 2)]),
    (64, 16, 16, 320, 64, [(16, 32)] * 2),
    (3, 64, 32, 4096, 64, [(16, 1)] * 6),
    (1, 66, 33, 4096, 64, [(17, 1), (16, 1)]),
    (1, 32, 8, 8192, 128, [(8, 1)]),  # three heads would be 192 blocks
    (2, 4, 2, 100_000, 128, [(1, 1)] * 4),  # a key head's sums alone are more than these bytes
])  # fmt: skip
def test_attention_adds_gradients_of_some_heads_at_a_time(batch, heads, key_heads, rows, depth, parts):
    """As many as have 62 MiB of float32 sums, or 512 blocks."""
    q, k, v = (
        torch.empty(batch, h, rows, depth, dtype=torch.bfloat16, device="meta", requires_grad=True)
        for h in (heads, key_heads, key_heads)
    )

    def gradients(q, k, v):
        out = torch.ops.tile.attention(q, k, v)[0]
        return torch.autograd.grad(out, (q, k, v), out.detach())

    text = tile_ops.inspect(gradients, q, k, v, what="ir", chip=90)
    grids = re.findall(r"// attention_backward_turned, grid \((\d+), (\d+), (\d+)\)", text)
    assert [(int(own), int(samples)) for own, _, samples in grids] == parts
    group = heads // key_heads
    grids = re.findall(r"// attention_backward_rounded, grid \((\d+), (\d+), (\d+)\)", text)
    assert [(int(own), int(samples)) for _, own, samples in grids] == [(own * group, many) for own, many in parts]
