"""The products of tests/prims on the emulator, by the tensor cores; computed operands; what NVRTC makes of them."""

import emulate
import pytest
import tile_ops
import torch
from combinations import long
from prims import test_products as prims
from prims.test_products import PAIRS, TORCH
from tile_ops import _C

# Other pairs of bytes differ in the instruction's name alone; test_every_number_of_8_bits_and_sums_that_wrap has them all.
MIXED = ("u8", "i8", "i32"), ("f8e4m3", "f8e5m2", "f32")
pairs_by_turns = pytest.mark.parametrize(
    "pair", [pair if pair in MIXED or "8" not in pair[0] else long(pair) for pair in PAIRS], ids="-".join
)


def check(cases):
    """(text, grid, arrays, expected): the last array is what is expected, exactly."""
    made = [emulate.Case(text, grid, arrays) for text, grid, arrays, _ in cases]
    for case, (*_, expected), report in zip(made, cases, emulate.run(made)):
        shown = f"{emulate.numbered(case.text)}\n{case.program['text']}"
        assert report is None, f"{report}\n{shown}"
        assert torch.equal(case.arguments[-1].double(), expected), f"{case.arguments[-1]}\n{expected}\n{shown}"


@pairs_by_turns
def test_products(pair):
    cases = [(text, (2, 1, 1), arrays, expected) for text, arrays, expected in prims.products(pair)]
    for i, (text, _, arrays, _) in enumerate(cases):
        program = emulate.Case(text, (2, 1, 1), arrays).program["text"]
        # The last are not of whole blocks.
        assert ("mma_sync.cuh" in program, "mma_fma<" in program) == ((True, False) if i < len(cases) - 4 else (False, True))
    check(cases)


@pytest.mark.parametrize(
    "pair", [long(PAIRS[0]), PAIRS[1], PAIRS[2], long(PAIRS[3]), ("i8", "u8", "i32"), ("f8e4m3", "f8e5m2", "f32")], ids="-".join
)
def test_staged_products_of_other_widths_than_powers_of_two(pair):
    """Rows of 80, 96, 176 and 192 elements, of the operands' own axes and of k, by warps side by side or alone."""
    depth, cases = prims.DEPTH[pair[0]], []
    shapes = (
        ((16, 80, depth), (3, 16, 0)),
        ((64, 96, 2 * depth), (0, 0, depth)),
        ((32, 176, depth), (5, 3, 7)),
        ((48, 192, depth), (1, 0, 16)),
        ((80, 48, 96), (0, 0, 16)),
        ((32, 16, 192), (0, 8, 64)),
    )
    for i, (shape, edges) in enumerate(shapes):
        for j in (0, 1):
            by_rows, transposed = prims.ORDERS[(i + 2 * j) % 4], prims.ORDERS[(3 * i + j) % 4]
            text, arrays, expected = prims.product(pair, shape, edges, by_rows, transposed)
            program = emulate.Case(text, (2, 1, 1), arrays).program["text"]
            # Where edges cut vectors in two, arrays are read element by element.
            if not any(edge % 16 for edge in edges):
                assert program.count("copy_tile_async<") + program.count("copy_transposed_async<") == 2, program
            cases.append((text, (2, 1, 1), arrays, expected))
    check(cases)


def test_every_number_of_8_bits_and_sums_that_wrap():
    numbers = [prims.numbers_times_one(pair) for pair in PAIRS if "8" in pair[0][:3]]
    check([(text, (1, 1, 1), arrays, expected) for text, arrays, expected in [*numbers, prims.wrapping()]])


def test_float32_as_tf32():
    text, arrays, *expected = prims.rounded()
    case = emulate.Case(text, (1, 1, 1), arrays)
    assert "Part<tf32, " in case.program["text"] and "SharedTile<f32, " in case.program["text"]
    assert emulate.run([case]) == [None]
    prims.check_rounded(arrays[2], *expected)


def computed(pair, shape, transposed, twice):
    """The product of operands that are computed in registers; `twice`: what the left one is made of is stored too."""
    (x_type, y_type, sums), (m, n, k) = pair, shape
    wide = "i32" if sums == "i32" else "f64" if sums == "f64" else "f32"
    x, y = (prims.values("f64", *sizes[:: -1 if transpose else 1]) for sizes, transpose in zip(((m, k), (k, n)), transposed))
    x, y = x.abs().to(TORCH[wide]) % 3, y.abs().to(TORCH[wide]) % 3
    lines = []
    for name, array, dtype, sizes, transpose in (
        ("x", "a", x_type, [m, k], transposed[0]),
        ("y", "b", y_type, [k, n], transposed[1]),
    ):
        tile = sizes[::-1] if transpose else sizes
        lines += [
            f"%{name}0: {wide}{tile} = load %{array}, %z, %z {{pad={prims.zero(wide)}, shape={tile}, steps={tile}}}",
            f"%{name}1: {wide}{tile} = add %{name}0, %{name}0",
        ]
        narrow = f"astype %{name}1 {{dtype={dtype}}}" if dtype != wide else f"mul %{name}1, %{name}0"
        lines.append(f"%{name if not transpose else name + '2'}: {dtype}{tile} = {narrow}")
        if transpose:
            lines.append(f"%{name}: {dtype}{sizes} = permute %{name}2 {{axes=[1, 0]}}")
    if twice:
        lines += [f"store %a, %x1, %z, %z {{steps={list(x.shape)}}}"]
    body = "\n".join(lines)
    text = prims.kernel(
        [wide, wide, sums],
        f"""{body}
%zero: {sums} = constant {{dtype={sums}, value={prims.zero(sums)}}}
%t: {sums}[{m}, {n}] = broadcast %zero {{shape=[{m}, {n}]}}
%r: {sums}[{m}, {n}] = mma %x, %y, %t
store %c, %r, %z, %z {{steps=[{m}, {n}]}}""",
    )
    of = [2 * t.double() if pair[0] != wide else 2 * t.double() ** 2 for t in (x, y)]
    of = [t.t() if transpose else t for t, transpose in zip(of, transposed)]
    return text, (1, 1, 1), [x, y, torch.zeros(m, n, dtype=TORCH[sums])], of[0] @ of[1]


@pairs_by_turns
def test_operands_from_registers(pair):
    shapes = ((64, 32, 64), (16, 16, 32))
    cases = [
        computed(pair, shape, transposed, transposed[0] == (shape[0] == 16)) for shape in shapes for transposed in prims.ORDERS
    ]
    for text, grid, arrays, _ in cases:
        assert "mma_sync<Part<" in emulate.Case(text, grid, arrays).program["text"]
    check(cases)


def test_an_arch_without_8_bit_floats_uses_fma():
    pair = ("f8e4m3", "f8e5m2", "f32")
    text, arrays, expected = prims.product(pair, (32, 32, 32))
    case = emulate.Case(text, (2, 1, 1), arrays, arch=80)
    assert "mma_fma<" in case.program["text"] and "mma_sync" not in case.program["text"]
    assert emulate.run([case]) == [None]
    assert torch.equal(arrays[2].double(), expected)


@pytest.mark.parametrize(
    "columns, rows, cores", [(8, 16, True), (24, 16, True), (40, 48, True), (8, 8, False), (12, 16, False)]
)
def test_blocks_of_8_columns(columns, rows, cores):
    """An odd number of them; whole blocks have 16 rows."""
    cases = []
    for pair in PAIRS[:4]:
        for by_rows in prims.ORDERS:
            text, arrays, expected = prims.product(pair, (rows, columns, 32), by_rows=by_rows)
            assert ("mma_sync.cuh" in emulate.Case(text, (2, 1, 1), arrays).program["text"]) == cores
            cases.append((text, (2, 1, 1), arrays, expected))
    check(cases)


def test_matmul_of_float64_is_the_tensor_cores():
    x = torch.empty(256, 256, dtype=torch.float64, device="meta")
    for arch in (80, 90):
        assert "mma_iteration(" in tile_ops.inspect(torch.ops.tile.matmul, x, x, what="cuda", arch=arch)
    x = x.float()
    assert "fma_blocks<" in tile_ops.inspect(torch.ops.tile.matmul, x, x, what="cuda", arch=90)


ARCHS = (80, 89, 90, 100, 120)


def compiled(arch, text, arrays):
    """Compiles it by NVRTC and returns the code."""
    meta = [torch.empty_like(t, device="meta") for t in arrays]
    (row,) = _C.inspect("code", arch, 0, lambda: _C.run_ir(text, (1, 1, 1), meta))
    return row


@pytest.mark.parametrize("arch", ARCHS)
def test_each_instruction_compiles(arch):
    """All in one kernel, operands of each order."""
    kinds = ["f16", "bf16", "f32", "f64", "i8", "u8", "f8e4m3", "f8e5m2"]
    results = ["f32", "f64", "i32"]
    body = ""
    for i, (x, y, sums) in enumerate(PAIRS):
        a, b = (chr(97 + kinds.index(prims.in_memory(t))) for t in (x, y))
        c = chr(97 + len(kinds) + results.index(sums))
        for j, transposed in enumerate(((False, False), (True, True))):
            name = f"{i}{'nt'[j]}"
            body += f"""{prims.operand(f"x{name}", a, x, [32, 32], ["%z", "%z"], transposed[0])}
{prims.operand(f"y{name}", b, y, [32, 32], ["%z", "%z"], transposed[1])}
%f{name}: {sums} = constant {{dtype={sums}, value={prims.zero(sums)}}}
%g{name}: {sums}[32, 32] = broadcast %f{name} {{shape=[32, 32]}}
%p{name}: {sums}[32, 32] = mma %x{name}, %y{name}, %g{name}
%w{name}: i32 = constant {{dtype=i32, value={2 * i + j + 1}}}
store %{c}, %p{name}, %w{name}, %z {{steps=[32, 32]}}
"""
    text = prims.kernel(kinds + results, body)
    arrays = [torch.zeros(32, 32, dtype=TORCH[kind]) for kind in kinds + results]
    row = compiled(arch, text, arrays)
    assert row["spill_stores"] == row["spill_loads"] == 0 and row["warning"] == ""


USUAL = [(PAIRS[2], 128, 32), (PAIRS[3], 64, 16), (("i8", "u8", "i32"), 128, 128), (("f8e4m3", "f8e5m2", "f32"), 128, 128)]


def usual():
    """8-bit floats are summed by FMA before sm_89."""
    for arch in (80, 90):
        for pair, *tile in USUAL:
            if arch > 80 or not pair[0].startswith("f8"):
                yield pytest.param(arch, pair, *tile, id=f"{arch}-{'-'.join(pair)}")


@pytest.mark.parametrize("arch, pair, side, depth", list(usual()))
def test_usual_tiles_do_not_spill(arch, pair, side, depth):
    """For each order of memory; of float64 they are the operator matmul's."""
    for by_rows in prims.ORDERS:
        text, arrays, _ = prims.product(pair, (side, side, depth), by_rows=by_rows)
        row = compiled(arch, text, arrays)
        assert row["spill_stores"] == row["spill_loads"] == 0, (by_rows, row["registers"])


BANKS = """#include "cuda/device/matrices.cuh"

namespace tile {

TILE_KERNEL(32) k(ArrayParameter<i32, 1> p0) {
  using S = SharedTile<ELEMENT, ROWS, WIDTH>;
  const Matrices<S, OWN, DEPTH, ALONG, RIGHT> matrices(S{shared_memory()}, BEGIN);
  for (int i = 0; i < 4; ++i) {
    const i32 offset = (i32)(matrices.at(i % 2 * 16, i / 2 * STEP) - shared_address(shared_memory()));
    store_global(p0.data + i * 32 + lane(), Words<4>{{(u32)offset}}, true, 1);
  }
}

}  // namespace tile
"""


@pytest.mark.parametrize("element, step", [("u8", 32), ("bf16", 16), ("f32", 8), ("f64", 8)])
def test_lanes_that_read_together_meet_all_banks(element, step):
    """Powers of two, the widths of 80, 96, 176 and 192, and a warp that begins within an exchange of chunks (48 of
    96)."""
    size = 32 // step if element != "f64" else 8
    sizes = [
        (32, 2 * step, 1),
        (64, 4 * step, 1),
        (128, 8 * step, 1),
        (80, 3 * step, 1),
        (96, 5 * step, 1),
        (48, 6 * step, 2),
        (176, 2 * step, 1),
        (192, 12 * step, 1),
        (96, 2 * step, 2),
    ]
    cases = []
    for own, depth, warps in sizes:
        for along in (True, False):
            for right in (True, False):
                whole = own * warps
                rows, width = (whole, depth) if along else (depth, whole)
                text = BANKS
                names = {
                    "ELEMENT": element,
                    "ROWS": rows,
                    "WIDTH": width,
                    "OWN": own,
                    "DEPTH": depth,
                    "ALONG": along,
                    "RIGHT": right,
                    "STEP": step,
                    "BEGIN": whole - own,
                }
                for name, value in names.items():
                    text = text.replace(name, str(value).lower() if isinstance(value, bool) else str(value))
                cases.append((text, names))
    emulate.compile_texts([text for text, _ in cases])
    for text, names in cases:
        out, along, width = torch.zeros(128, dtype=torch.int32), names["ALONG"], names["WIDTH"]
        assert emulate.run_text(text, 32, names["ROWS"] * width * size, [out]) is None
        # ldmatrix reads 16 bytes of 8 lanes at a time, a load 4 of 32 or 8 of 16.
        word = size if size == 8 or (size == 4 and not along) else 16
        # Bytes across rows of other numbers of chunks than multiples of 4: two lanes share a bank.
        shared = 2 if element == "u8" and not along and width // 16 % 4 else 1
        for lanes in out.view(-1, 128 // word).tolist():
            banks = [offset % 128 // word for offset in lanes]
            assert max(map(banks.count, banks)) == shared, (names, lanes)
