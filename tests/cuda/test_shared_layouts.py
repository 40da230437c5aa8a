"""Tiles in shared memory are where the host's layouts say."""

import emulate
import pytest
import torch
from tile_ops import _C

TEXT = """#include "cuda/device/shared_tile.cuh"

namespace tile {{

TILE_KERNEL(32, 1) element_offsets(ArrayParameter<i32, 2> offsets) {{
  const SharedTile<{dtype}, {rows}, {width}> staged = {{shared_memory()}};
  constexpr int chunks = {width} * sizeof({dtype}) / 16;
  for (int i = thread(); i < {rows} * chunks; i += 32)
    offsets.data[i] = (i32)(staged.address(i / chunks, i % chunks) - shared_memory());
}}

}}  // namespace tile
"""


BYTES = {"i8": 1, "bf16": 2, "f32": 4, "f64": 8}


def test_staged_tiles_are_where_the_layout_says():
    """Tests all numbers of chunks up to 25 and some more: they include rows of 80, 96, 176 and 192 elements of 16 bits."""
    cases = [(dtype, bytes, chunks) for dtype, bytes in BYTES.items() for chunks in (*range(1, 26), 33, 40, 44, 48)]
    texts = [TEXT.format(dtype=dtype, rows=32, width=chunks * 16 // bytes) for dtype, bytes, chunks in cases]
    emulate.compile_texts(texts)
    for text, (_, bytes, chunks) in zip(texts, cases):
        offsets = torch.zeros(32, chunks, dtype=torch.int32)
        assert emulate.run_text(text, 32, 32 * chunks * 16, [offsets]) is None
        assert offsets.flatten().tolist() == _C.shared_offsets(32, chunks * 16 // bytes, bytes), text
        # Each offset once.
        assert sorted(offsets.flatten().tolist()) == list(range(0, 32 * chunks * 16, 16))


COPY = """#include "cuda/device/shared_tile.cuh"

namespace tile {{

TILE_KERNEL({threads}, 1) copies(ArrayParameter<i32, 2> from, ArrayParameter<i32, 2> to) {{
  const SharedTile<i32, {rows}, {width}> staged = {{shared_memory()}};
  copy_tile_async<{threads}, {flags}>(staged, array_of<1, i32>(from), {{1, 4}}, true, 1);
  copy_async_commit();
  copy_async_wait<0>();
  synchronize(1);
  for (int i = thread(); i < {rows} * {width}; i += {threads}) {{
    const int row = i / {width}, column = i % {width};
    to.data[i] = load_shared<i32>(staged.address(row, column / 4) + column % 4 * 4, 1);
  }}
}}

}}  // namespace tile
"""


@pytest.mark.parametrize("threads", [32, 128])
def test_copies_of_rows_that_divide_the_threads_and_not(threads):
    """Also of rows longer than the block; the tile reaches beyond the array on both sides, in whole vectors and not."""
    cases = [
        (4 * chunks, rows, edge) for chunks in (3, 5, 8, 10, 12, 22, 24, 33, 48, 72) for rows in (8, 21) for edge in (0, 3)
    ]
    texts = [
        COPY.format(rows=rows, width=width, threads=threads, flags="plain" if edge else "whole_vectors")
        for width, rows, edge in cases
    ]
    emulate.compile_texts(texts)
    for text, (width, rows, edge) in zip(texts, cases):
        memory = torch.arange(1, (rows - 1) * width + 1, dtype=torch.int32).view(rows - 1, width)
        x, out, expected = (
            memory[:, : width - edge],
            torch.full((rows, width), -1, dtype=torch.int32),
            torch.zeros(rows, width, dtype=torch.int32),
        )
        expected[: rows - 2, : width - edge - 4] = x[1:, 4:]
        assert emulate.run_text(text, threads, rows * width * 4, [x, out]) is None
        assert torch.equal(out, expected), (rows, width)
