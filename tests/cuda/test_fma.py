"""Products of float32 by FMA, of which a thread holds a block of sums: what is emitted, on the emulator, and what NVRTC makes
of it."""

import collections
import re
import subprocess

import emulate
import pytest
import tile_ops
import torch
from prims import test_products as prims
from test_tensor_cores import check
from test_wgmma import nvdisasm
from tile_ops import _C

F32 = ("f32", "f32", "f32")
ORDERS = list(zip(prims.ORDERS, [(False, False), (True, True), (False, True), (True, False)]))


def text_of(shape, by_rows=(True, True), edges=(0, 0, 0), transposed=(False, False)):
    text, arrays, _ = prims.product(F32, shape, edges, by_rows, transposed)
    return emulate.Case(text, (2, 1, 1), arrays).program["text"]


@pytest.mark.parametrize(
    "shape, threads, block",
    [
        ((128, 128, 16), 128, (8, 16)),
        ((128, 64, 16), 128, (8, 8)),
        ((64, 64, 32), 128, (4, 8)),
        ((16, 128, 32), 128, (4, 4)),
        ((128, 16, 32), 128, (4, 4)),
        ((32, 32, 8), 64, (4, 4)),
        ((16, 32, 4), 32, (4, 4)),
        ((48, 64, 8), 64, (12, 4)),
    ],
)
def test_blocks_of_threads(shape, threads, block):
    large = shape[0] * shape[1] >= 128 * 64
    for by_rows in prims.ORDERS:
        text = text_of(shape, by_rows)
        crosses = (not by_rows[0], by_rows[1])
        across = ", ".join(str(large or yes).lower() for yes in crosses)
        assert f"fma_blocks<{shape[2]}, {block[0]}, {block[1]}, {across}>(" in text, text
        transposed = len(re.findall(r"copy_crossed(_transposed)?_async<\d+>", text))
        assert transposed == (2 - sum(crosses) if large else 0)
        assert len(re.findall(r"copy_(tile|transposed)_async<\d+, \w+, true>", text)) == 2 - transposed
        assert f"TILE_KERNEL({threads}, " in text
        # Only rows that are read along k are permuted; those of large products are transposed as they are copied.
        assert text.count("= {staged_memory()") == 2
        for side, yes in enumerate(crosses):
            tile = f"{'FlatTile' if yes else 'CrossedTile' if large else 'SharedTile'}<f32, "
            rows, width = (shape[2], shape[side]) if yes or large else (shape[side], shape[2])
            assert f"{tile}{rows}, {width}>" in text, text


@pytest.mark.parametrize("shape", [(128, 128, 12), (128, 128, 20)], ids=str)
def test_copies_that_transpose_take_eight_steps_of_k(shape):
    assert "crossed" not in text_of(shape) and "fma_blocks<" in text_of(shape)


@pytest.mark.parametrize("shape", [(24, 40, 20), (16, 16, 32), (128, 128, 18)], ids=str)
def test_other_extents_are_summed_element_by_element(shape):
    text = text_of(shape)
    assert "mma_fma<" in text and "fma_blocks<" not in text and "_async<" not in text


SHAPES = [
    ((128, 128, 16), (3, 5, 0)),
    ((128, 64, 24), (5, 0, 4)),
    ((64, 64, 32), (0, 0, 32)),
    ((16, 128, 32), (1, 0, 4)),
    ((128, 16, 8), (0, 8, 3)),
    ((48, 64, 20), (0, 16, 7)),
    ((32, 96, 24), (5, 0, 0)),
    ((16, 32, 4), (0, 0, 0)),
    ((32, 48, 64), (0, 4, 8)),
]


@pytest.mark.parametrize("shape, edges", SHAPES, ids=str)
def test_products_of_every_order(shape, edges):
    check([((p := prims.product(F32, shape, edges, *order))[0], (2, 1, 1), *p[1:]) for order in ORDERS])


def loop(body, carried, arrays, results):
    """Three iterations %j that carry sums; the last arrays are what is stored."""
    lines = ["%zero: f32 = constant {dtype=f32, value=0.0}"]
    lines += [f"%{name}: i32 = constant {{dtype=i32, value={value}}}" for name, value in (("one", 1), ("n", 3))]
    lines += [f"%s{i}: f32{shape} = broadcast %zero {{shape={shape}}}" for i, shape in enumerate(carried)]
    names = ", ".join(f"%r{i}: f32{shape}" for i, shape in enumerate(carried))
    inside = "".join(f", %o{i}: f32{shape}" for i, shape in enumerate(carried))
    starts = "".join(f", %s{i}" for i in range(len(carried)))
    lines += [f"{names} = for %z, %n, %one{starts} (%j: i32{inside}) {{", body, "}", results]
    return prims.kernel(["f32"] * arrays, "\n".join(lines))


def emulated(text, *arguments):
    """The kernel's text, and the arguments after its run."""
    case = emulate.Case(text, (1, 1, 1), list(arguments))
    assert emulate.run([case]) == [None]
    return case.program["text"], case.arguments


def whole(*sizes):
    return torch.randint(-4, 5, sizes).float()


def test_two_products_in_a_loop_share_an_operand_of_both_orders():
    """x @ y adds to one sum, x.T @ x to another: x is read across its rows and along them."""
    body = f"""{prims.operand("x", "a", "f32", [32, 64], ["%j", "%z"], False)}
{prims.operand("y", "b", "f32", [64, 32], ["%z", "%j"], False)}
%xt: f32[64, 32] = permute %x {{axes=[1, 0]}}
%p: f32[32, 32] = mma %x, %y, %o0
%q: f32[64, 64] = mma %xt, %x, %o1
yield %p, %q"""
    stores = "store %c, %r0, %z, %z {steps=[32, 32]}\nstore %d, %r1, %z, %z {steps=[64, 64]}"
    text = loop(body, ["[32, 32]", "[64, 64]"], 4, stores)
    x, y = whole(96, 64), whole(64, 96)
    program, results = emulated(text, x, y, torch.zeros(32, 32), torch.zeros(64, 64))
    assert program.count("fma_blocks<") == 2 and "SharedTile<f32, 32, 64>" in program and "FlatTile<f32, 64, 32>" in program
    parts = [(x[i : i + 32], y[:, i : i + 32]) for i in (0, 32, 64)]
    assert torch.equal(results[2], sum(a @ b for a, b in parts))
    assert torch.equal(results[3], sum(a.t() @ a for a, _ in parts))


def test_products_of_other_orders_add_to_one_sum_without_moves():
    """The second one's operands lie so that another layout of the sums would suit it better."""
    body = f"""{prims.operand("x", "a", "f32", [32, 64], ["%z", "%j"], False)}
{prims.operand("y", "b", "f32", [64, 64], ["%j", "%z"], False)}
{prims.operand("v", "a", "f32", [64, 32], ["%j", "%z"], True).replace("%a", "%c")}
{prims.operand("w", "b", "f32", [64, 64], ["%j", "%z"], True).replace("%b", "%d")}
%vt: f32[32, 64] = permute %v {{axes=[1, 0]}}
%p: f32[32, 64] = mma %x, %y, %o0
%q: f32[32, 64] = mma %vt, %w, %p
yield %q"""
    text = loop(body, ["[32, 64]"], 5, "store %e, %r0, %z, %z {steps=[32, 64]}")
    x, y, v, w = whole(32, 192), whole(192, 64), whole(32, 192), whole(64, 192)
    program, results = emulated(text, x, y, v, w, torch.zeros(32, 64))
    assert program.count("fma_blocks<") == 2 and "moved" not in program and "shuffle" not in program
    assert torch.equal(results[4], x @ y + v @ w.t())


def test_computed_operands_are_written_once():
    """The scores are read as they are and transposed; a loaded tile that is also added is written for its product."""
    body = f"""{prims.operand("x", "a", "f32", [32, 32], ["%j", "%z"], False)}
{prims.operand("y", "b", "f32", [32, 64], ["%z", "%z"], False)}
%g: f32[32, 32] = broadcast %zero {{shape=[32, 32]}}
%t: f32[32, 32] = mma %x, %x, %g
%u: f32[32, 32] = add %t, %x
%ut: f32[32, 32] = permute %u {{axes=[1, 0]}}
%p: f32[32, 64] = mma %u, %y, %o0
%q: f32[32, 64] = mma %ut, %y, %o1
yield %p, %q"""
    stores = "store %c, %r0, %z, %z {steps=[32, 64]}\nstore %d, %r1, %z, %z {steps=[32, 64]}"
    text = loop(body, ["[32, 64]", "[32, 64]"], 4, stores)
    x, y = torch.randint(-1, 2, (96, 32)).float(), torch.randint(-2, 3, (32, 64)).float()
    program, results = emulated(text, x, y, torch.zeros(32, 64), torch.zeros(32, 64))
    assert program.count("fma_blocks<") == 3 and program.count("write_tile<") == 2
    parts = [a @ a + a for a in (x[:32], x[32:64], x[64:])]
    assert torch.equal(results[2], sum(u @ y for u in parts))
    assert torch.equal(results[3], sum(u.t() @ y for u in parts))


def test_sums_of_many_products_round_as_float32_does():
    """In ascending order of k: no further from float64 than twice what that order gives."""
    torch.manual_seed(0)
    text, arrays, _ = prims.product(F32, (32, 32, 512))
    x, y, c = torch.randn(64, 2048), torch.randn(2048, 32), torch.zeros(64, 32)
    expected = x.double() @ y.double()
    case = emulate.Case(text, (2, 1, 1), [x, y, c])
    assert emulate.run([case]) == [None]
    in_order = torch.zeros(64, 32)
    for k in range(2048):
        in_order += x[:, k, None] * y[k]
    error, theirs = ((t.double() - expected).abs().max() for t in (case.arguments[2], in_order))
    assert error <= 2 * theirs


SIDES = (4096, 3072, 512)  # products of tiles of 128 x 128, 128 x 64 and 64 x 64


def operands(m, n, by_rows):
    sizes = ((m, 1024), (1024, n))
    return [
        torch.empty(size, device="meta") if rows else torch.empty(size[::-1], device="meta").t()
        for size, rows in zip(sizes, by_rows)
    ]


def code_of_matmul(arch, m, n, by_rows):
    x, y = operands(m, n, by_rows)
    return _C.inspect("code", arch, 0, lambda: torch.ops.tile.matmul(x, y))[0]


@pytest.mark.parametrize("arch, side", [(80, SIDES[0]), *((90, side) for side in SIDES)])
def test_matmul_does_not_spill(arch, side):
    for by_rows in prims.ORDERS:
        code = code_of_matmul(arch, side, side, by_rows)
        assert code["spill_stores"] == code["spill_loads"] == 0, by_rows
        assert 2 * code["threads"] * code["registers"] <= 65536, (by_rows, code["registers"])  # two blocks a multiprocessor


def instructions_of_loops(cubin, path):
    """The counts of instructions between each label that a later branch jumps to and the branch."""
    path.write_bytes(cubin)
    text = subprocess.run([nvdisasm(), "-c", path], capture_output=True, text=True, check=True).stdout
    labels, found = {}, []
    for line in text.splitlines():
        if match := re.match(r"\s*(\.L_x_\d+):", line):
            labels[match[1]] = len(found)
        elif match := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ )?(\S+)(.*?);", line):
            found.append(match.groups())
    for i, (name, rest) in enumerate(found):
        if name == "BRA" and (label := re.search(r"\.L_x_\d+", rest)) and labels.get(label[0], i) < i:
            yield collections.Counter(name for name, _ in found[labels[label[0]] : i])


@pytest.mark.parametrize("by_rows", prims.ORDERS, ids=str)
def test_many_products_for_each_read_of_shared_memory(by_rows, tmp_path):
    code = code_of_matmul(90, SIDES[0], SIDES[0], by_rows)["cubin"]
    counts = min(instructions_of_loops(code, tmp_path / "k.cubin"), key=lambda counts: counts["FFMA"] or 10**6)
    assert 3 * counts["FFMA"] == 64 * counts["LDS.128"] > 0, counts
    assert 10 * counts["FFMA"] > 9 * counts.total(), counts


def test_matmul_of_float32():
    """Two blocks of 128 threads with 128 sums each have the registers of a multiprocessor, or four of fewer sums."""
    for sides, tile, blocks in (((4096, 4096), "32, 8, 16", 2), ((512, 512), "32, 4, 8", 4), ((8, 4096), "32, 4, 4", 4)):
        m, n = sides
        x, y = torch.empty(m, 1024, device="meta"), torch.empty(1024, n, device="meta")
        text = tile_ops.inspect(torch.ops.tile.matmul, x, y, what="cuda", arch=90)
        assert f"fma_blocks<{tile}, " in text and f"TILE_KERNEL(128, {blocks})" in text
