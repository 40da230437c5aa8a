"""Sub-tiles, rows at index tiles and bytes on the emulator: what their texts hold, and tiles dealt over a cluster."""

import pytest
import torch
from emulate import Case, run
from tile_ops import _C

ZERO = "%z: i32 = constant {dtype=i32, value=0}\n%one: i32 = constant {dtype=i32, value=1}\n"


def kernel(parameters, body):
    return f"kernel k({parameters}) {{\n{ZERO}{body}\n}}\n"


def load_tile(name, array, dtype, shape):
    pad = "0" if dtype[0] in "iu" else "0.0"
    return f"%{name}: {dtype}{shape} = load {array}{', %z' * len(shape)} {{pad={pad}, shape={shape}, steps={shape}}}\n"


def same_as_cpu(case):
    """Runs the case on the emulator, and its text on the CPU."""
    expected = [a.clone() if isinstance(a, torch.Tensor) else a for a in case.arguments]
    _C.run_ir(case.text, case.grid, expected)
    assert run([case]) == [None]
    for got, wanted in zip(case.arguments, expected):
        if isinstance(got, torch.Tensor):
            assert torch.equal(got, wanted)


@pytest.mark.parametrize("op", ["extract", "insert"])
@pytest.mark.parametrize("index", ["%one", "%i"])
def test_subtiles_that_registers_hold_do_not_move(op, index):
    """The sub-tiles stay in their registers with a constant index and with a computed one."""
    body = load_tile("t", "%a", "f32", [128, 64])
    if op == "extract":
        body += f"%r: f32[32,64] = extract %t, {index}, %z {{shape=[32,64]}}\nstore %b, %r, %z, %z {{steps=[32,64]}}"
    else:
        body += load_tile("v", "%b", "f32", [32, 64])
        body += f"%r: f32[128,64] = insert %t, %v, {index}, %z\nstore %a, %r, %z, %z {{steps=[128,64]}}"
    case = Case(
        kernel("%a: array<f32,2>, %b: array<f32,2>, %i: i32", body), (1, 1, 1), [torch.randn(128, 64), torch.randn(32, 64), 2]
    )
    # With a constant index the sub-tile is registers of the tile by another name.
    function = "registers<" if (op, index) == ("extract", "%one") else f"{op}<"
    assert function in case.program["text"] and case.program["shared_bytes"] == 0
    assert "// moves" not in case.program["text"]
    same_as_cpu(case)


def test_subtiles_that_lanes_hold_pass_through_shared_memory():
    body = (
        load_tile("t", "%a", "f32", [64, 128])
        + """%r: f32[64,64] = extract %t, %z, %i {shape=[64,64]}
%s: f32 = extract %r, %i, %one {shape=[]}
%u: f32[64,64] = broadcast %s {shape=[64,64]}
%v: f32[64,64] = add %r, %u
%w: f32[64,128] = insert %t, %v, %z, %z
%x: f32[64,128] = insert %w, %s, %i, %i
store %b, %x, %z, %z {steps=[64,128]}"""
    )
    case = Case(
        kernel("%a: array<f32,2>, %b: array<f32,2>, %i: i32", body), (1, 1, 1), [torch.randn(64, 128), torch.zeros(64, 128), 1]
    )
    assert case.program["shared_bytes"] == 64 * 64 * 4 + 2 * 128  # one element takes turns
    same_as_cpu(case)


def rows_text(dtype, steps, index):
    return kernel(
        f"%a: array<{dtype},2>, %b: array<{dtype},2>, %c: array<i32,1>, %i: i32",
        load_tile("q", "%c", "i32", [32])
        + f"""%t: {dtype}[32,128] = gather_rows %a, %q, %i {{axis=0, pad=0.0, \
shape=[32,128], steps=[1,{steps}]}}
scatter_rows %b, %t, %q, {index} {{axis=0, steps=[1,{steps}]}}""",
    )


@pytest.mark.parametrize(
    "dtype, steps, columns, width",
    [
        (torch.float16, 128, 256, 8),
        (torch.float16, 4, 256, 4),
        (torch.float32, 128, 256, 4),
        (torch.float32, 1, 256, 1),
        (torch.float16, 128, 250, 2),
        (torch.float16, 16, 200, 8),
    ],
)
def test_rows_come_in_vectors(dtype, steps, columns, width):
    """As wide as start and memory allow; rows and columns outside, also where an edge cuts a vector."""
    name = {torch.float16: "f16", torch.float32: "f32"}[dtype]
    index = torch.randperm(40).int()[:32] - 4
    case = Case(
        rows_text(name, steps, "%i"),
        (1, 1, 1),
        [torch.randn(30, columns).to(dtype), torch.zeros(30, columns, dtype=dtype), index, 1],
    )
    text = case.program["text"]
    assert f"gather_rows<L1, {width}, " in text and f"scatter_rows<{width}, " in text, text
    same_as_cpu(case)


SUBTILES = """%e: f32[{subtile}] = load %a, %z, %z {{pad=0.0, shape=[{subtile}], steps=[{subtile}]}}
%f: f32[{subtile}] = add %e, %e
%r: f32[16,64] = insert %t, %f, {index}
%p: f32[{subtile}] = extract %r, {index} {{shape=[{subtile}]}}
%q: f32[16,64] = insert %r, %zero, %one, %one
%s: f32 = extract %q, %one, %z {{shape=[]}}
%u: f32[16,64] = broadcast %s {{shape=[16,64]}}
%v: f32[16,64] = add %q, %u
store %b, %v, %z, %z {{steps=[16,64]}}
store %b, %p, %z, %z {{steps=[{subtile}]}}"""


def over_clusters(bodies, columns=64):
    """The blocks of each program's clusters."""
    cases = [
        Case(
            kernel("%a: array<f32,2>, %b: array<f32,2>, %c: array<i32,1>, %i: i32", body),
            (1, 1, 1),
            [torch.randn(16, columns), torch.zeros(16, columns), torch.randperm(16).int(), 1],
            block_bytes=512,
        )
        for body in bodies
    ]
    for case in cases:
        same_as_cpu(case)
    return [case.program["cluster"] for case in cases]


def test_subtiles_of_each_block_stay_there():
    """Halves of columns, which registers hold; rows are distributed over blocks."""
    halves = (
        load_tile("t", "%a", "f32", [16, 256])
        + """%p: f32[16,128] = extract %t, %z, %i {shape=[16,128]}
%u: f32[16,128] = add %p, %p
%r: f32[16,256] = insert %t, %u, %z, %z
%q: f32[16,256] = insert %r, %n, %one, %i
store %b, %q, %z, %z {steps=[16,256]}"""
    )
    assert over_clusters(["%n: f32 = constant {dtype=f32, value=7.0}\n" + halves], 256)[0] > 1


@pytest.mark.slow
def test_subtiles_that_would_leave_a_block():
    """Then fewer blocks hold the tile."""
    zero = "%zero: f32 = constant {dtype=f32, value=0.0}\n"
    assert set(
        over_clusters(
            zero + load_tile("t", "%a", "f32", [16, 64]) + SUBTILES.format(subtile=subtile, index=index)
            for subtile in ("4,64", "16,16", "1,64", "8,8")
            for index in ("%one, %z", "%z, %i")
        )
    ) == {1}


def test_rows_offsets_and_bytes_across_a_cluster():
    assert (
        min(
            over_clusters(
                [
                    load_tile("q", "%c", "i32", [16])
                    + """%t: f32[16,64] = gather_rows %a, %q, %z {axis=0, pad=0.0, shape=[16,64], \
steps=[1,64]}
scatter_rows %b, %t, %q, %z {axis=0, steps=[1,64]}""",
                    """%q: i32[1024] = arange {dtype=i32, size=1024}
%t: f32[1024] = load_offset %a, %q {pad=0.0}
%u: u8[4096] = pack_to_bytes %t
%v: f32[1024] = unpack_from_bytes %u {dtype=f32}
store_offset %b, %v, %q""",
                ]
            )
        )
        > 1
    )
