"""Products of operands of 8 bits on warpgroup instructions, and the kernels of scaled_matmul, in the emulator."""

import emulate
import emulate_operators
import pytest
import scaled_reference
import tile_ops
import torch
from divisions import OTHERS, divided
from tile_ops import _C

NAMES = {torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2", torch.int8: "i8", torch.uint8: "u8"}
e4m3, e5m2, i8, u8 = NAMES


def product_text(dtypes, tile, operands, awaited):
    """A product of matrices. dtypes: of both and of the sums. operands: lines that load %x and %y. awaited: each tile of k has
    its own product, which the loop adds to the sum."""
    (x, y, of_sums), (m, n, k) = dtypes, tile
    sums = f"{of_sums}[{m},{n}]"
    adds = [f"%p: {sums} = mma %x, %y, %zs", f"%m: {sums} = add %acc, %p"] if awaited else [f"%m: {sums} = mma %x, %y, %acc"]
    lines = [
        f"kernel matmul(%a: array<{x},2>, %b: array<{y},2>, %c: array<{of_sums},2>) {{",
        "%i: i32 = bid {axis=0}",
        "%j: i32 = bid {axis=1}",
        "%n: i32 = dim %a {axis=1}",
        f"%bk: i32 = constant {{dtype=i32, value={k}}}",
        "%t: i32 = cdiv %n, %bk",
        "%0: i32 = constant {dtype=i32, value=0}",
        "%1: i32 = constant {dtype=i32, value=1}",
        f"%z: {of_sums} = constant {{dtype={of_sums}, value={'0.0' if of_sums == 'f32' else '0'}}}",
        f"%zs: {sums} = broadcast %z {{shape=[{m},{n}]}}",
        f"%r: {sums} = for %0, %t, %1, %zs (%k: i32, %acc: {sums}) {{",
        *operands,
        *adds,
        "yield %m",
        "}",
        f"store %c, %r, %i, %j {{steps=[{m},{n}]}}",
        "}",
    ]
    return "\n".join(lines)


def kernel(tile, dtypes, awaited):
    m, n, k = tile
    x, y = (NAMES[dtype] for dtype in dtypes)
    operands = [
        f"%x: {x}[{m},{k}] = load %a, %i, %k {{pad={'0' if dtypes[0] in (i8, u8) else '0.0'}, shape=[{m},{k}], steps=[{m},{k}]}}",
        f"%y: {y}[{k},{n}] = load %b, %k, %j {{pad={'0' if dtypes[1] in (i8, u8) else '0.0'}, shape=[{k},{n}], steps=[{k},{n}]}}",
    ]
    return product_text((x, y, "f32" if dtypes[0].is_floating_point else "i32"), tile, operands, awaited)


def case(extents, tile, dtypes, awaited=False, along_k=True):
    """A launch of small integers, whose sums are exact, and the expected result."""
    m, n, k = extents

    def values(rows, dtype):
        return torch.randint(0 if dtype == u8 else -3, 4, (rows, k)).to(dtype)

    x, y = values(m, dtypes[0]), values(n, dtypes[1]).t()
    out = torch.full((m, n), -1.0 if dtypes[0].is_floating_point else -1)
    out = out.float() if dtypes[0].is_floating_point else out.int()
    expected = (x.double() @ y.double()).to(out.dtype)
    grid = (-(-m // tile[0]), -(-n // tile[1]), 1)
    arguments = [x, y if along_k else y.contiguous(), out]
    return emulate.Case(kernel(tile, dtypes, awaited), grid, arguments, wgmma=True), expected


PRODUCTS = {
    "e4m3": ((200, 136, 528), (128, 64, 128), (e4m3, e4m3)),
    "e5m2 and e4m3": ((136, 72, 80), (128, 64, 64), (e5m2, e4m3)),
    "i8": ((200, 136, 272), (128, 64, 128), (i8, i8)),
    "u8 and i8 in narrow tiles": ((64, 24, 144), (64, 24, 32), (u8, i8)),
    "three groups": ((192, 32, 256), (192, 32, 128), (e4m3, e5m2)),
    "awaited": ((200, 136, 528), (128, 64, 128), (e4m3, e4m3), True),
    "awaited by one group": ((72, 40, 272), (64, 32, 128), (e4m3, e5m2), True),
    "awaited integers": ((136, 72, 272), (128, 64, 128), (i8, u8), True),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_values(name):
    launch, expected = case(*PRODUCTS[name])
    assert (launch.program["path"], launch.program["why"]) == ("wgmma", "")
    assert emulate.run([launch]) == [None]
    assert torch.equal(launch.arguments[-1], expected)


def test_operands_lie_along_k():
    """Instructions read only operands of 16 bits along their rows or columns."""
    launch, expected = case((136, 64, 144), (128, 64, 128), (e4m3, e4m3), along_k=False)
    assert launch.program["path"] == "mma.sync"
    assert launch.program["why"] == "ir:13: the right operand of f8e4m3 is not contiguous along k"
    assert emulate.run([launch]) == [None]
    assert torch.equal(launch.arguments[-1], expected)


def test_a_step_of_k_has_32_bytes():
    launch, _ = case((128, 64, 144), (128, 64, 48), (e4m3, e4m3))
    assert launch.program["why"].endswith("the tile of 128x64x48 is no multiple of 64x8x32, or has more than 256 columns")


# Extents, scales, how products are divided, and whether the path is wgmma. Two tiles of columns share their rows.
IN_PAIRS = {"thin": OTHERS, "pairs": 1}
WIDE, TWO = (128, 256, 128), {"tile": (128, 256, 128)}
BLOCKS = "each, in blocks of k"
KERNELS = {
    "rows and columns": ((136, 392, 272), ("each", "each"), TWO),
    "rows and columns, fast": ((136, 392, 272), ("each", "each"), {**TWO, "fast_accum": True}),
    "two tiles of k at a time": ((136, 392, 512), ("each", "each"), {"tile": (128, 192, 128), "bias": True}),
    "two tiles of k, one product a tile": ((136, 136, 480), ("each", "one"), {"tile": (128, 128, 128)}),
    "two tiles of k, one group": ((72, 136, 208), ("one", "each"), {"tile": (64, 128, 128)}),
    "one scale, bias": ((136, 264, 144), ("one", "one"), {**TWO, "bias": True}),
    "blocks": ((264, 392, 400), (BLOCKS, "blocks"), TWO),
    "blocks of both": ((264, 392, 400), ("blocks", "blocks"), {**TWO, "bias": True}),
    "rows and columns in blocks": ((136, 264, 272), (BLOCKS, BLOCKS), TWO),
    "blocks, narrow tiles": ((136, 200, 272), ("blocks", "blocks"), {"tile": (64, 64, 128)}),
    "parts of blocks": ((40, 136, 784), (BLOCKS, "blocks"), {"parts": 3, "bias": True}),
    "parts of rows": ((3, 136, 784), ("each", "one"), {"parts": 2}),
    "operands that are copied": ((259, 258, 77), ("each", "one"), {"copied": True}),
    "few columns": ((136, 5, 144), (BLOCKS, "each"), {}),
    "in pairs, three rows of tiles": ((264, 392, 400), (BLOCKS, "blocks"), {**TWO, **IN_PAIRS, "bias": True}),
    "in pairs, one group": ((136, 392, 512), ("each", "each"), {"tile": (64, 128, 128), **IN_PAIRS, "bias": True}),
    "on mma.sync": ((70, 90, 300), (BLOCKS, "blocks"), {"wgmma": False, "bias": True}),
    "on mma.sync, fast": ((20, 10, 130), ("one", "each"), {"wgmma": False, "fast_accum": True}),
}


@pytest.mark.parametrize("name", KERNELS)
def test_scaled_matmul(name):
    (m, n, k), (x_scales, y_scales), options = KERNELS[name]
    x, y = scaled_reference.matrices(m, n, k, (e4m3, e5m2) if "blocks" in name else (e4m3, e4m3))
    if options.get("copied"):
        x, y = x.t().contiguous().t(), y.contiguous()
    a = scaled_reference.scales(scaled_reference.shapes_of_scales(m, k, 0)[x_scales])
    b = scaled_reference.scales(scaled_reference.shapes_of_scales(n, k, 1)[y_scales])
    bias = torch.randn(n) if options.get("bias") else None
    emulation = emulate_operators.Emulation(wgmma=options.get("wgmma", True))
    division = {key: options[key] for key in ("parts", "thin", "tile", "pairs") if key in options}
    for out_dtype in (torch.float32, torch.bfloat16):
        with divided(**division):
            out = emulation.operator(torch.ops.tile.scaled_matmul)(
                x, y, a, b, bias=bias, out_dtype=out_dtype, fast_accum=options.get("fast_accum", False)
            )
        expected = scaled_reference.scaled_matmul(x.double(), y.double(), a, b, bias=bias)
        largest = expected.abs().max()
        assert (out.double() - expected).abs().max() <= torch.finfo(out_dtype).eps * largest * (
            4 if out_dtype.itemsize == 4 else 1
        )
    paths = {program["path"] for program in emulation.programs} - {""}
    assert paths == ({"wgmma"} if options.get("wgmma", True) else {"mma.sync"})
    clusters = {program["cluster"] for program in emulation.programs if program["path"] == "wgmma"}
    assert clusters <= {2 if "pairs" in options else 1}
    assert any("add_parts" in program["entry"] for program in emulation.programs) == ("parts" in options)


@pytest.mark.slow  # NVRTC
@pytest.mark.parametrize("tile, shapes", [(WIDE, ((512, 4), (4, 4))), ((128, 192, 128), ((512, 1), (1, 512)))])
@pytest.mark.parametrize("division", [{}, IN_PAIRS], ids=["alone", "in pairs"])
def test_code_of_scaled_matmul(tile, shapes, division):
    """No register is spilled although a group holds three tiles of 64 x 128 sums, or four of 64 x 96, and stores go through
    panels."""
    x, y = (torch.empty(512, 512, dtype=e4m3, device="meta") for _ in range(2))
    scales = [torch.empty(shape, device="meta") for shape in shapes]
    with divided(tile=tile, **division):
        rows = _C.inspect("usual", 90, 0, lambda: torch.ops.tile.scaled_matmul(x, y.t(), *scales))
    (row,) = rows
    assert (row["path"], row["cluster"]) == ("wgmma", 2 if division else 1)
    assert row["text"].count("store_panels<") == 2
    code = _C.compile_text(row["text"], row["kernel"], row["entry"], 90, row["path"])
    assert (code["spill_stores"], code["spill_loads"], code["warning"]) == (0, 0, "")


def test_a_tile_has_one_scale_where_blocks_of_columns_do():
    x, y = (torch.empty(8192, 1024, dtype=e4m3, device="meta") for _ in range(2))
    scales = [torch.empty(shape, device="meta") for shape in ((8192, 1), (1, 64))]
    (row,) = _C.inspect("usual", 90, 0, lambda: torch.ops.tile.scaled_matmul(x, y.t(), *scales, fast_accum=True))
    assert row["path"] == "wgmma" and "columns = 128, rows = 1" in row["text"]


@pytest.mark.parametrize("side, path", [(4001, "wgmma"), (4999, "mma.sync")])
def test_operands_are_copied_if_both_are_small_together(side, path):
    x, y = (torch.empty(side, side, dtype=torch.float8_e4m3fn, device="meta") for _ in range(2))
    scale = torch.empty((), device="meta")
    rows = tile_ops.inspect(torch.ops.tile.scaled_matmul, x, y.t(), scale, scale, what="resources", arch=90)
    assert [row["path"] for row in rows if row["kernel"] == "scaled_matmul"] == [path]
