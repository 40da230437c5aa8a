"""Decoding over pages on the emulator: sizes of pages that tiles of keys do not divide, strides of caches, what lies in memory
behind a sequence, and how loops copy rows."""

import pytest
import torch
from attention_reference import triples
from combinations import by_turns, long
from emulate_operators import Emulation
from numerics import check

decode = torch.ops.tile.attention_decode
# name: a cache [pages, heads, page, depth] of random numbers, with these strides in memory.
LAYOUTS = {
    "heads first": lambda pages, heads, page, depth: torch.randn(pages, heads, page, depth),
    "keys first": lambda pages, heads, page, depth: torch.randn(pages, page, heads, depth).transpose(1, 2),
    "part of another": lambda pages, heads, page, depth: torch.randn(pages, 2, page, heads, depth)[:, 1].transpose(1, 2),
    "no whole rows apart": lambda pages, heads, page, depth: torch.randn(pages, heads * page * depth + 8)[:, 8:]
    .unflatten(1, (heads, page, depth)),
}  # fmt: skip


def check_pages(
    lengths, page, depth=64, queries=1, dtype=torch.bfloat16, heads=6, key_heads=2, layout="heads first", **options
):
    """Asserts the numerics rule for each sequence. Pages that no sequence has, and keys behind a sequence, are NaN, and so is
    the table where a sequence has no page."""
    each = -(-max(lengths) // page)
    table = torch.full((len(lengths), each), -7, dtype=torch.int32)
    numbers = iter(torch.randperm(each * len(lengths) + 3).tolist())
    for row, length in zip(table, lengths):
        row[: -(-length // page)] = torch.tensor([next(numbers) for _ in range(-(-length // page))])
    dense, caches = [], []
    for _ in range(2):
        cache = LAYOUTS[layout](each * len(lengths) + 3, key_heads, page, depth).to(dtype)
        dense.append(cache[table.clamp(min=0).long()].transpose(1, 2).flatten(2, 3))
        mine = torch.full_like(cache, torch.nan)
        for row, length in zip(table.tolist(), lengths):
            for i, number in enumerate(row[: -(-length // page)]):
                held = min(page, length - i * page)
                mine[number, :, :held] = cache[number, :, :held]
        caches.append(cache.copy_(mine))
    query = torch.randn(len(lengths), heads, queries, depth).to(dtype)
    emulation = Emulation()
    for what, *triple in triples(emulation.operator(decode), query, lengths, (dense, caches, table), options):
        check(*triple, what=what)
    return emulation


def copies_rows(emulation):
    return "copy_rows_async<" in emulation.programs[0]["text"]


@pytest.mark.parametrize("page", [1, 3, 16, long(48), 100])
def test_tiles_have_keys_of_several_pages(page):
    emulation = check_pages([130, 0, 77], page)
    assert copies_rows(emulation)
    text = emulation.programs[0]["text"]
    assert "copy_async_wait<1>()" in text, "rows are not copied ahead"


def test_pages_that_are_whole_tiles_need_no_row_indices():
    assert not copies_rows(check_pages([130, 200], 64))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    check_pages([90, 30], 16, layout=layout)


@pytest.mark.slow  # compiles more kernels for the emulator
@pytest.mark.parametrize("dtype, page", by_turns([torch.float16, torch.float32, torch.float64], [5, 16]))
def test_dtypes(dtype, page):
    check_pages([90, 30], page, dtype=dtype)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [20, long(40), long(128), 256])
def test_head_dims(depth):
    check_pages([90, 30], 8, depth)


@pytest.mark.parametrize("queries", [5, 20])
def test_queries(queries):
    check_pages([90, 21], 16, queries=queries, window=[10, 0])


@pytest.mark.parametrize("lengths, parts", [
    ([300], 2),
    ([1000, 90], 8),  # the shorter sequence has fewer
    ([2500], 20),
    pytest.param([8440], 66, marks=pytest.mark.slow),  # more than are put together at once
])  # fmt: skip
def test_parts_are_put_together(lengths, parts):
    emulation = check_pages(lengths, 20, depth=16, heads=3, key_heads=1, sinks=torch.randn(3))
    assert len(emulation.programs) == 2
    assert emulation.grids[0][0] == parts


def test_a_page_that_is_not_there():
    cache = torch.randn(4, 2, 16, 64).bfloat16()
    table = torch.tensor([[0, 1, 2, 3, 4]], dtype=torch.int32)
    call = Emulation().operator(decode)
    call(torch.ones(1, 2, 1, 64).bfloat16(), cache, cache, torch.tensor([64]), block_table=table)
    with pytest.raises(RuntimeError, match="every page of the block table is in the cache"):
        call(torch.ones(1, 2, 1, 64).bfloat16(), cache, cache, torch.tensor([65]), block_table=table)
