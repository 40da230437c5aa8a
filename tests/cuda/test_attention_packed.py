"""Attention over packed samples with the kernels that a GPU gets: they run on warpgroup instructions, whose copies end where a
sample does."""

import pytest
import torch
from combinations import by_turns, long
from emulate_operators import Emulation
from numerics import check_call
from packed_samples import each_alone, ours, packed

PRODUCTS = {"kernel_attention_forward", "kernel_attention_backward_transposed"}
LENGTHS = {
    "odd": ([3, 150, 0, 70], [130, 3, 5, 0]),
    "about a tile": ([63, 1, 64, 65, 129], [65, 129, 64, 1, 63]),
    "one": ([70], [90]),
    "rows": ([1, 1, 1], [200, 7, 64]),
}


def check(name, options, heads=2, key_heads=1, depth=64, dtype=torch.bfloat16, longer=0, products=PRODUCTS):
    emulation = Emulation(wgmma=True)
    rows, keys = LENGTHS[name]
    args = packed(rows, keys, heads, key_heads, depth, depth, dtype)
    operator = emulation.operator(torch.ops.tile.attention_varlen)
    check_call(ours(rows, keys, operator, longer), each_alone(rows, keys), args, options)
    assert emulation.paths() == dict.fromkeys(products, "wgmma")


@pytest.mark.parametrize("name, align", by_turns(LENGTHS.keys(), ["bottom_right", "top_left"]))
def test_causal_samples(name, align):
    check(name, {"is_causal": True, "causal_align": align})


@pytest.mark.parametrize(
    "options",
    [{}, long({"window": (9, 4)}), pytest.param({"softcap": 2.0, "window": (70, -1)}, marks=pytest.mark.slow)],
    ids=str,
)
def test_options(options):
    check("odd", options)


@pytest.mark.slow  # compiles more kernels for the emulator
@pytest.mark.parametrize("depth, dtype", [long(128, torch.bfloat16), (64, torch.float16), (256, torch.bfloat16)], ids=str)
def test_head_dims(depth, dtype):
    check("odd", {"is_causal": True}, 2, 2, depth, dtype)


@pytest.mark.slow  # compiles more kernels for the emulator
@pytest.mark.usefixtures("deterministic")
def test_sums_in_a_fixed_order():
    check("odd", {"is_causal": True}, products={*PRODUCTS, "kernel_attention_backward_query"})


def test_blocks_behind_the_longest_sample():
    check("one", {"is_causal": True}, longer=1000)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("is_causal", [False, True])
def test_numbers_of_other_samples_do_not_matter(bad, is_causal):
    """The last tile of a sample is followed by rows of the next one, and the last tile of the array by nothing."""
    rows, keys = [70, 30, 90], [90, 40, 33]
    args = packed(rows, keys, 2, 1, 64, 64, torch.bfloat16)
    call = ours(rows, keys, Emulation(wgmma=True).operator(torch.ops.tile.attention_varlen))

    def results(args):
        out, lse = call(*args, is_causal=is_causal)
        incoming = [torch.ones_like(out), torch.ones_like(lse)]
        return [out, lse.T, *torch.autograd.grad((out, lse), args, incoming)]

    expected = results(args)
    with torch.no_grad():
        spoilt = [x.detach().clone() for x in args]
        for x, lengths in zip(spoilt, (rows, keys, keys)):
            x[lengths[0] : lengths[0] + lengths[1]] = bad
    for name, found, wanted in zip(
        ("out", "lse", "query", "key", "value"), results([x.requires_grad_() for x in spoilt]), expected
    ):
        lengths = keys if name in ("key", "value") else rows
        for i in (0, 2):
            assert torch.equal(found.split(lengths)[i], wanted.split(lengths)[i]), name


def test_starts_that_do_not_rise_are_found_before_copies_begin():
    q, k, v = packed([70, 30], [70, 30], 2, 2, 64, 64, torch.bfloat16)
    operator = Emulation(wgmma=True).operator(torch.ops.tile.attention_varlen)
    for wrong in ([0, 120, 100], [-5, 70, 100], [0, 70, 90]):
        begin = torch.tensor(wrong, dtype=torch.int32)
        with pytest.raises(RuntimeError, match="assertion failed: cu_seqlens_q rises from 0 to the rows of query"):
            operator(q, k, v, begin, begin, 70, 70)
