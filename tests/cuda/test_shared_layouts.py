"""Tiles in shared memory stand where the host's layouts say."""

import emulate
import pytest
import torch
from tile_ops import _C

TEXT = """#include "cuda/device/shared_tile.cuh"

namespace tile {{

TILE_KERNEL(32, 1) places(ArrayParameter<i32, 2> offsets) {{
  const SharedTile<{dtype}, {rows}, {width}> staged = {{shared_memory()}};
  constexpr int chunks = {width} * sizeof({dtype}) / 16;
  for (int i = thread(); i < {rows} * chunks; i += 32)
    offsets.data[i] = (i32)(staged.place(i / chunks, i % chunks) - shared_memory());
}}

}}  // namespace tile
"""


@pytest.mark.parametrize("width", [8, 16, 32, 64, 128, 256])
def test_staged_tiles_stand_where_the_layout_says(width):
    offsets = torch.zeros(64, width * 2 // 16, dtype=torch.int32)
    text = TEXT.format(dtype="bf16", rows=64, width=width)
    assert emulate.run_text(text, 32, 64 * width * 2, [offsets]) is None
    assert offsets.flatten().tolist() == _C.shared_offsets(64, width, 2)
