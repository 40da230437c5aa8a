"""The launches of attention's gradient for a GPU: how many heads' sums of the queries' gradient are in memory at once, and
results where groups of query heads are split."""

import contextlib
import ctypes
import pathlib
import re

import pytest
import tile_ops
import torch
from attention_reference import inputs, kept_by, peer
from emulate_operators import Emulation
from numerics import check_call
from packed_samples import each_alone, ours, packed

MIB = 1 << 20


def tile_rows(depth, options="plain", dtype=torch.bfloat16):
    """The rows of a tile of queries: with warpgroup instructions short heads of bfloat16 have 128, but not beside options."""
    return 128 if depth <= 64 and options in ("plain", "causal") and dtype == torch.bfloat16 else 64


@pytest.mark.parametrize("batch, heads, key_heads, rows, depth, splits", [
    (2, 16, 16, 4096, 64, [(16, 2, 1)]),
    (64, 16, 16, 320, 64, [(16, 32, 1)] * 2),
    (3, 64, 32, 4096, 64, [(16, 1, 2)] * 6),
    (1, 66, 33, 4096, 64, [(17, 1, 2), (16, 1, 2)]),
    (1, 32, 8, 8192, 128, [(8, 1, 1)] * 4),  # three key heads with their groups would be 192 blocks
    (1, 64, 8, 8192, 64, [(8, 1, 3), (8, 1, 3), (8, 1, 2)]),
    (2, 4, 2, 100_000, 128, [(1, 1, 1)] * 8),  # a key head's sums alone are more than these bytes
    (1, 32, 1, 8192, 128, []),  # 64 blocks
    (1, 2, 2, 130_000, 128, []),  # a query head's sums are more than these bytes
])  # fmt: skip
def test_attention_adds_gradients_of_some_heads_at_a_time(batch, heads, key_heads, rows, depth, splits):
    """As many as have 62 MiB of float32 sums: key heads, samples, and query heads of each key head. Without sums a
    kernel of its own makes the gradient."""
    q, k, v = (
        torch.empty(batch, h, rows, depth, dtype=torch.bfloat16, device="meta", requires_grad=True)
        for h in (heads, key_heads, key_heads)
    )

    def gradients(q, k, v):
        out = torch.ops.tile.attention(q, k, v)[0]
        return torch.autograd.grad(out, (q, k, v), out.detach())

    text = tile_ops.inspect(gradients, q, k, v, what="ir", arch=90)

    def grids(kernel):
        return [tuple(map(int, each)) for each in re.findall(rf"// {kernel}, grid \((\d+), (\d+), (\d+)\)", text)]

    transposed, rounded = grids("attention_backward_transposed"), grids("attention_backward_rounded")
    expected = [(own, samples) for own, samples, _ in splits] or [(key_heads, batch)]
    assert [(own, samples) for own, _, samples in transposed] == expected
    assert [(own, samples) for _, own, samples in rounded] == [(own * count, samples) for own, samples, count in splits]
    assert bool(grids("attention_backward_query")) != bool(splits)
    assert all(row_tiles * own * samples * tile_rows(depth) * depth * 4 <= 62 * MIB for row_tiles, own, samples in rounded)
    assert sum(own * samples for _, own, samples in grids("attention_backward_rows")) == heads * batch


@pytest.mark.parametrize("masks", (0, 1, 4, 6))
def test_bits_of_masks_and_sums_share_the_memory(masks):
    samples = max(masks, 4)
    q, k, v = (torch.empty(samples, 8, 8192, 64, dtype=torch.bfloat16, device="meta", requires_grad=True) for _ in range(3))
    mask = [torch.empty(masks, 1, 8192, 8192, dtype=torch.bool, device="meta").expand(samples, 1, 8192, 8192)] if masks else []

    def gradients(q, k, v, *mask):
        out = torch.ops.tile.attention(q, k, v, attn_bias=mask[0] if mask else None)[0]
        return torch.autograd.grad(out, (q, k, v), out.detach())

    text = tile_ops.inspect(gradients, q, k, v, *mask, what="ir", arch=90)
    rounded = [
        tuple(map(int, each)) for each in re.findall(r"// attention_backward_rounded, grid \((\d+), (\d+), (\d+)\)", text)
    ]
    bits, rows = masks * 8192 * 8192 // 8, tile_rows(64)
    if bits > 40 * MIB:  # the kernels read the mask itself, and those of the gradients run on mma.sync
        kernels = tile_ops.inspect(gradients, q, k, v, *mask, what="resources", arch=90)
        assert "wgmma" not in {row["path"] for row in kernels if "backward" in row["kernel"]}
        bits, rows = 0, 32
    assert rounded and sum(heads * samples for _, heads, samples in rounded) == 8 * len(q)
    assert all(tiles * heads * samples * rows * 64 * 4 + bits <= 62 * MIB for tiles, heads, samples in rounded)


@contextlib.contextmanager
def sums_of(heads, depth=64, rows=64, copied=0):
    """Launches have the sums of so many query heads at most, of a tile's rows, beside so many bytes of copies; few blocks are
    enough."""
    library = ctypes.CDLL(str(pathlib.Path(tile_ops.__file__).parent / "lib" / "libtile_ops.so"))
    limits = (ctypes.c_int64 * 3).in_dll(library, "_ZN4tile9attention12split_limitsE")  # bytes, blocks, fewest
    before = list(limits)
    limits[:] = heads * rows * depth * 4 + copied, before[1], 1
    try:
        yield
    finally:
        limits[:] = before


def rows_in_tiles(lengths, tile):
    """The rows that tiles of packed samples take: for each sample a tile more than all rows do."""
    return tile * (sum(lengths) // tile + len(lengths))


def launches(emulation):
    return [program["entry"] for program in emulation.programs].count("kernel_attention_backward_transposed")


SEED = torch.tensor([5, 11])


# name: options of ours, and of the peer where these are others.
OPTIONS = {
    "plain": lambda: ({}, None),
    "causal": lambda: ({"is_causal": True}, None),
    "bias": lambda: ({"attn_bias": torch.randn(2, 1, 40, 70).bfloat16()}, None),
    "bias of heads": lambda: ({"attn_bias": torch.randn(6, 40, 70).bfloat16(), "is_causal": True}, None),
    "slopes": lambda: ({"alibi_slopes": torch.rand(6)}, None),
    "slopes of samples": lambda: ({"alibi_slopes": torch.rand(2, 6), "is_causal": True}, None),
    "dropout": lambda: ({"dropout_p": 0.25, "seed": SEED}, {"kept": kept_by(SEED, 0.25, 2, 6, 40, 70)}),
}
TOGETHER = ("causal", "slopes")  # "slopes of samples" has both
# Query heads whose sums fit, and the launches of 2 samples of 2 key heads of 3 each: splits of groups, of groups and
# samples, and of groups and key heads.
LAUNCHES = {8: 2, 4: 3, 2: 6, 1: 12}


def bytes_in_aligned_rows(bias):
    """The bytes of a bias that is copied, because its rows do not begin at multiples of 16 bytes."""
    return 0 if bias is None else bias.numel() // bias.shape[-1] * (-(-bias.shape[-1] * 2 // 16) * 16)


def check(options, heads, dtype=torch.bfloat16, depth=64):
    emulation = Emulation()
    given, theirs = OPTIONS[options]()
    operator = emulation.operator(torch.ops.tile.attention)
    with sums_of(heads, depth, tile_rows(depth, options, dtype), bytes_in_aligned_rows(given.get("attn_bias"))):
        check_call(
            lambda q, k, v: operator(q, k, v, **given),
            lambda q, k, v: peer(q, k, v, **(given if theirs is None else theirs)),
            inputs(2, 6, 2, 40, 70, depth, dtype=dtype),
            what=f"{options}, sums of {heads}",
        )
    assert launches(emulation) == LAUNCHES[heads]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(name, marks=[] if name == "plain" else pytest.mark.long if name in TOGETHER else pytest.mark.slow)
        for name in OPTIONS
    ],
)
def test_groups_are_split(options, long):
    for heads in LAUNCHES if long or options == "plain" else (1,):
        check(options, heads)


@pytest.mark.slow  # compiles more kernels for the emulator
@pytest.mark.parametrize(
    "dtype, depth", [pytest.param(torch.float16, 64, marks=pytest.mark.long), (torch.bfloat16, 128)], ids=str
)
def test_groups_of_other_tiles_are_split(dtype, depth):
    for heads in (8, 1):
        check("causal", heads, dtype, depth)


@pytest.mark.slow  # compiles more kernels for the emulator
@pytest.mark.parametrize(
    "heads, splits", [pytest.param(6, 1, marks=pytest.mark.long), pytest.param(4, 2, marks=pytest.mark.long), (1, 6)]
)
def test_groups_of_packed_samples_are_split(heads, splits):
    """A launch has all samples."""
    rows, keys = [40, 0, 33], [70, 9, 130]
    args = packed(rows, keys, 6, 2, 64, 64, torch.bfloat16)
    emulation = Emulation()
    operator = emulation.operator(torch.ops.tile.attention_varlen)
    with sums_of(heads, 64, rows_in_tiles(rows, tile_rows(64))):
        check_call(ours(rows, keys, operator, starts_of_keys=torch.int32), each_alone(rows, keys), args, {"is_causal": True})
    assert launches(emulation) == splits


@pytest.mark.slow  # compiles more kernels for the emulator
def test_parts_of_packed_samples_drop_the_same_probabilities():
    rows, keys = [40, 0, 33], [70, 9, 130]
    args = packed(rows, keys, 6, 2, 64, 64, torch.bfloat16)
    grad, seed, grads, counts = torch.randn(sum(rows), 6, 64).bfloat16(), torch.tensor([3, 5]), [], []
    for heads in (6, 1):
        emulation = Emulation()
        operator = emulation.operator(torch.ops.tile.attention_varlen)
        with sums_of(heads, 64, rows_in_tiles(rows, 64)):
            out = ours(rows, keys, operator, starts_of_keys=torch.int32)(*args, dropout_p=0.5, seed=seed)[0]
            grads.append(torch.autograd.grad(out, args, grad))
        counts.append(launches(emulation))
    assert counts[0] < counts[1]
    for one, parts in zip(*grads):
        torch.testing.assert_close(one.float(), parts.float(), rtol=0.02, atol=0.02)
