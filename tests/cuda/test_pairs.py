"""Products in pairs of CTAs, which copy a tile once if both multiply it: their values in the emulator, what it reports of wrong
texts, and their code for sm_90a."""

import dataclasses

import emulate
import emulate_operators
import pytest
import tile_ops
import tile_ops.language as tl
import torch
from combinations import by_turns
from divisions import OTHERS, divided
from test_wgmma import OPERATORS, Product, check_operator, hot_loop, with_epilogue
from tile_ops import _C

ops = torch.ops.tile
bf16, f16 = torch.bfloat16, torch.float16


def in_pairs(product):
    product.case = dataclasses.replace(product.case, pairs=emulate.ALL_PAIRS)
    return product


# Extents and tiles of products, as those of Product, and the axis of the grid along which blocks are neighbours.
CASES = {
    **{f"rows, {majors}": (0, (264, 136, 328), (64, 128, 64), majors) for majors in ("nn", "nt", "tn", "tt")},
    **{f"columns, {majors}": (1, (136, 200, 328), (128, 64, 64), majors) for majors in ("nn", "nt", "tn", "tt")},
    "one row of blocks": (0, (64, 264, 136), (64, 128, 64)),
    "one block": (0, (60, 120, 40), (64, 128, 64)),
    "two groups": (0, (392, 264, 136), (128, 256, 64), "nt"),
    "three groups": (1, (192, 232, 72), (192, 72, 32), "nt"),
    "halves of rows of several panels": (0, (200, 192, 264), (128, 192, 64), "nn", f16),
    "more iterations than stages": (0, (136, 136, 1096), (64, 128, 64), "nt"),
    "no iteration": (0, (128, 128, 64), (64, 128, 64), "nn", bf16, 1, (), None, 1),
    "two products of one left operand": (0, (136, 64, 136), (128, 64, 64), "nn", bf16, 2),
    "an epilogue": (0, *with_epilogue((392, 136, 136), (128, 128, 64), "nt")),
    "panels in turn": (0, *with_epilogue((264, 200, 136), (128, 192, 64), "nn", in_turn=True)),
}


@pytest.fixture(scope="module")
def products():
    made = {name: in_pairs(Product(*case)) for name, (_, *case) in CASES.items()}
    emulate.functions([each.program for each in made.values()])
    return made


@pytest.mark.parametrize("name", CASES)
def test_values(products, name):
    program = products[name].program
    assert (program["cluster"], program["pair_axis"]) == (2, CASES[name][0])
    assert "copy_tensor_to_cluster<" in program["text"]
    products[name].check()


MEETING = "  meet_pair(0);\n"
FREE = "free_stage_to_pair<Ring0>(ring0, memory, half, "
WRONG = {
    "the first meeting": (
        lambda text: text.replace(MEETING, "  synchronize_all(0);\n", 1),
        "and no barrier of the block is in between",
    ),
    "the last meeting": (
        lambda text: text[: text.rindex(MEETING)] + text[text.rindex(MEETING) + len(MEETING) :],
        "of its cluster, which has ended",
    ),
    "a stage is free when one of the CTAs has read it": (
        lambda text: text.replace(FREE, "free_stage<Ring0>(ring0, memory, ")
        .replace("drain_ring_to_pair<Ring0>(ring0, memory, half, ", "drain_ring<Ring0>(ring0, memory, ")
        .replace("groups = 2", "groups = 1"),
        " of block 1's shared memory; ",
    ),
    "both CTAs copy the first half": (lambda text: text.replace("+ half * 8192, m1", "+ 0, m1"), "; the copy that "),
    "a CTA that copies to itself alone": (lambda text: text.replace("both_of_pair", "(u16)(1 << half)"), "deadlocked"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_texts_are_reported(name):
    product = in_pairs(Product((264, 136, 1096), (64, 128, 64), "nn"))
    change, expected = WRONG[name]
    text = change(product.program["text"])
    assert text != product.program["text"]
    report = emulate.run_changed(product.case, text)
    assert report is not None
    assert expected in report


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    """Three rows of tiles: the second block of the last pair lies outside of the result."""
    with divided(thin=OTHERS, tile=(64, 128, 64), pairs=1):
        emulation = check_operator(name)
    clusters = {program["cluster"] for program in emulation.programs if program["path"] == "wgmma"}
    assert (2 in clusters) == (name != "batches")  # which are not persistent


@tl.kernel(num_ctas=2)
def batched_product(a, b, out):
    """Blocks along axis 1 of the grid, of an odd number here, share their columns of b."""
    j, i, batch = tl.bid(0), tl.bid(1), tl.bid(2)
    acc = tl.zeros((64, 128), tl.float32)
    for k in range(tl.num_tiles(a, 2, (1, 64, 64))):
        left = tl.load(a, (batch, i, k), (1, 64, 64), padding_mode=tl.PaddingMode.ZERO).reshape((64, 64))
        right = tl.load(b, (k, j), (64, 128), padding_mode=tl.PaddingMode.ZERO)
        acc = tl.mma(left, right, acc)
    tl.store(out, (batch, i, j), acc.astype(out.dtype).reshape((1, 64, 128)))


def test_a_hint_makes_pairs_of_a_kernel_in_python():
    a, b = torch.randn(2, 136, 72).bfloat16(), torch.randn(72, 264).bfloat16()

    def product(a, b):
        out = a.new_empty(2, 136, 264)
        batched_product[3, 3, 2](a, b, out)
        return out

    emulation = emulate_operators.Emulation()
    out = emulation.operator(product)(a, b)
    (program,) = emulation.programs
    assert (program["path"], program["why"], program["cluster"], program["pair_axis"]) == ("wgmma", "", 2, 1)
    torch.testing.assert_close(out.double(), a.double() @ b.double(), rtol=2**-8, atol=2**-6)


TILES = [(128, 256, 64), (256, 128, 64), (128, 192, 64), (64, 128, 64)]


@pytest.mark.slow  # NVRTC
@pytest.mark.parametrize("tile, majors", by_turns(TILES, ["nn", "nt", "tn", "tt"]))
def test_code_of_large_tiles(tile, majors, tmp_path):
    """The loop has the instructions of CTAs that run alone, and those of a second arrival. It has no memory fence."""
    program = in_pairs(Product((512, 512, 512), tile, majors)).program
    assert (program["path"], program["cluster"]) == ("wgmma", 2)
    code = _C.compile_text(program["text"], "matmul", program["entry"], 90, program["path"])
    assert (code["spill_stores"], code["spill_loads"], code["warning"]) == (0, 0, "")
    loop = hot_loop(code["cubin"], tmp_path / "cubin")
    assert loop["HGMMA"] == 4 * tile[0] // 64 // (2 if tile[0] > 64 else 1)
    assert (loop["R2UR"], loop["MEMBAR"], loop["ERRBAR"]) == (0, 0, 0)
    assert loop.total() <= 68 + 4 * loop["HGMMA"]


def test_operators_choose_pairs_where_rows_straddle_cache_lines():
    def cluster(m, n, k):
        x, y = (torch.empty(shape, dtype=bf16, device="meta") for shape in ((m, k), (k, n)))
        (row,) = tile_ops.inspect(ops.matmul, x, y, what="resources", arch=90)
        return row["cluster"]

    assert cluster(4096, 4096, 4104) == 2
    assert cluster(8192, 8192, 8192) == 1
    assert cluster(128, 4096, 4104) == 1
