"""Tests the limit of 2^27 elements per tile: every operation raises an error with the location, the size and the limit."""

import pathlib

import pytest
import tile_ops.language as tl
import torch

HERE = pathlib.Path(__file__).name


@tl.kernel
def made(x, WAY: tl.Constant):
    tl.static_assert(WAY(x) is not None)


def error_of(way):
    x = torch.zeros(4, 4, device="cpu")
    with pytest.raises((tl.TileTypeError, tl.TileValueError)) as raised:
        made[1](x, way)
    return raised.value


WAYS = {
    "full": (lambda x: tl.full((65536, 65536), 1.0, tl.float32), "shape (65536, 65536) has 4294967296 elements"),
    "beyond int64": (lambda x: tl.zeros((2**31, 2**31, 2**31), tl.float32), f"shape {(2**31,) * 3} has {2**93} elements"),
    "one extent": (lambda x: tl.ones((2**27 + 1,), tl.int8), "shape (134217729,) has 134217729 elements"),
    "load": (lambda x: tl.load(x, (0, 0), (65536, 65536)), "shape (65536, 65536) has 4294967296 elements"),
    "tiled_view": (lambda x: x.tiled_view((65536, 65536)), "shape (65536, 65536) has 4294967296 elements"),
    "broadcast_to": (
        lambda x: tl.broadcast_to(tl.zeros((1, 65536), tl.int8), (65536, 65536)), "shape (65536, 65536) has 4294967296 elements"
    ),
    "reshape": (lambda x: tl.zeros((4,), tl.int8).reshape((2**32,)), "shape (4294967296,) has 4294967296 elements"),
    "arange": (lambda x: tl.arange(2**28, dtype=tl.int32), "arange: the tile of size 268435456 has 268435456 elements"),
    "cat": (
        lambda x: tl.cat((tl.zeros((2**27,), tl.int8), tl.zeros((2**27,), tl.int8)), 0),
        "cat: the tile i8[268435456] has 268435456 elements",
    ),
    "outer sum": (
        lambda x: tl.zeros((65536, 1), tl.int8) + tl.zeros((1, 65536), tl.int8),
        "add: the common shape (65536,65536) has 4294967296 elements",
    ),
    "where": (
        lambda x: tl.where(tl.zeros((65536, 1), tl.bool_), tl.zeros((1, 65536), tl.int8), 0),
        "where: the common shape (65536,65536) has 4294967296 elements",
    ),
    "matmul": (
        lambda x: tl.matmul(tl.zeros((65536, 16), tl.float16), tl.zeros((16, 65536), tl.float16)),
        "4294967296 elements",
    ),
    "uniform": (lambda x: tl.uniform((65536, 65536), 1), "shape (65536, 65536) has 4294967296 elements"),
    "rows": (
        lambda x: tl.load_advanced_indexing(x, (tl.arange(65536, dtype=tl.int32), tl.Slice(0, 65536))), "4294967296 elements"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_every_way_to_make_one(name):
    way, text = WAYS[name]
    error = error_of(way)
    assert text in str(error) and "134217728" in str(error) and HERE in str(error)
