"""Moves of tiles between layouts: by shuffles and through shared memory, of every dtype, in loops too; and what inspect
says of them."""

import emulate
import pytest
import tile_ops
import torch
from emulate import same_on_both
from test_shapes import transposed

DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f64": torch.float64,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bool": torch.bool,
}


def kernel(dtypes, body, ranks=None):
    ranks = ranks or [2] * len(dtypes)
    arrays = ", ".join(f"%{chr(97 + n)}: array<{dtype},{rank}>" for n, (dtype, rank) in enumerate(zip(dtypes, ranks)))
    return f"kernel k({arrays}) {{\n%z: i32 = constant {{dtype=i32, value=0}}\n%i: i32 = bid {{axis=0}}\n{body}\n}}\n"


def values(dtype, *sizes):
    return torch.randint(0, 2 if dtype == "bool" else 100, sizes).to(DTYPES[dtype])


def pad(dtype):
    return "0.0" if dtype.startswith(("f", "bf")) else "0"


def copied(dtype, m, n, permuted=False):
    """A tile loaded as it lies in %a and stored as it lies in %b."""
    shape = [n, m] if permuted else [m, n]
    permute = f"%u: {dtype}{shape} = permute %t {{axes=[1, 0]}}" if permuted else ""
    return f"""%t: {dtype}[{m}, {n}] = load %a, %i, %z {{pad={pad(dtype)}, shape=[{m}, {n}], steps=[{m}, {n}]}}
{permute}
store %b, %{"u" if permuted else "t"}, %i, %z {{steps={shape}}}"""


def ways(case):
    return [
        line.split("by ")[1].split(" (")[0].split(":")[0]
        for line in case.program["text"].splitlines()
        if line.startswith("// moves")
    ]


SHAPES = [(1, 1), (2, 2), (4, 32), (32, 4), (7, 33), (33, 7), (64, 130), (96, 80), (8, 600), (64, 64), (128, 16)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_become_columns(dtype):
    launches = []
    for m, n in SHAPES:
        for permuted in False, True:
            x = values(dtype, m, n)
            y = torch.zeros(n, m, dtype=x.dtype) if permuted else transposed(torch.zeros(m, n, dtype=x.dtype))
            launches.append((kernel([dtype] * 2, copied(dtype, m, n, permuted)), (1, 1, 1), [x, y]))
    same_on_both(launches)


def both(dtype, n):
    """A vector as rows and as columns of a tile: element i, j is that of i where %b says so, else that of j."""
    return f"""%v: {dtype}[{n}] = load %a, %z {{pad={pad(dtype)}, shape=[{n}], steps=[{n}]}}
%m: bool[{n}, {n}] = load %b, %z, %z {{pad=0, shape=[{n}, {n}], steps=[{n}, {n}]}}
%r: {dtype}[{n}, 1] = reshape %v {{shape=[{n}, 1]}}
%q: {dtype}[1, {n}] = reshape %v {{shape=[1, {n}]}}
%s: {dtype}[{n}, {n}] = broadcast %r {{shape=[{n}, {n}]}}
%t: {dtype}[{n}, {n}] = broadcast %q {{shape=[{n}, {n}]}}
%w: {dtype}[{n}, {n}] = where %m, %s, %t
store %c, %w, %z, %z {{steps=[{n}, {n}]}}"""


def of_both(dtype, n):
    """A launch of it."""
    text = kernel([dtype, "bool", dtype], both(dtype, n), [1, 2, 2])
    return text, (1, 1, 1), [values(dtype, n), values("bool", n, n), torch.zeros(n, n, dtype=DTYPES[dtype])]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_vector_is_rows_and_columns(dtype):
    launches = [of_both(dtype, n) for n in (1, 2, 8, 16, 24, 32, 48, 64, 100)]
    same_on_both(launches)
    found = {way for launch in launches for way in ways(emulate.Case(*launch))}
    assert found == {"shuffles", "shared memory"}


@pytest.mark.parametrize("n", [8, 24, 64])
def test_moves_in_a_loop_wait_for_one_another(n):
    body = f"""%one: i32 = constant {{dtype=i32, value=1}}
%five: i32 = constant {{dtype=i32, value=5}}
%zero: f32 = constant {{dtype=f32, value=0.0}}
%none: f32[{n}, {n}] = broadcast %zero {{shape=[{n}, {n}]}}
%sum: f32[{n}, {n}] = for %z, %five, %one, %none (%k: i32, %old: f32[{n}, {n}]) {{
%v: f32[{n}] = load %a, %k {{pad=0.0, shape=[{n}], steps=[{n}]}}
%r: f32[{n}, 1] = reshape %v {{shape=[{n}, 1]}}
%q: f32[1, {n}] = reshape %v {{shape=[1, {n}]}}
%s: f32[{n}, {n}] = broadcast %r {{shape=[{n}, {n}]}}
%t: f32[{n}, {n}] = broadcast %q {{shape=[{n}, {n}]}}
%p: f32[{n}, {n}] = mul %s, %t
%new: f32[{n}, {n}] = add %old, %p
yield %new
}}
store %b, %sum, %z, %z {{steps=[{n}, {n}]}}"""
    launch = kernel(["f32", "f32"], body, [1, 2]), (1, 1, 1), [values("f32", 5 * n).float(), torch.zeros(n, n)]
    assert any(
        line.startswith("// moves") and ", in a loop" in line for line in emulate.Case(*launch).program["text"].splitlines()
    )
    same_on_both([launch])


def test_a_range_is_made_where_it_is_wanted():
    body = """%v: i32[64] = arange {dtype=i32, size=64}
%r: i32[64, 1] = reshape %v {shape=[64, 1]}
%q: i32[1, 64] = reshape %v {shape=[1, 64]}
%s: i32[64, 64] = broadcast %r {shape=[64, 64]}
%t: i32[64, 64] = broadcast %q {shape=[64, 64]}
%w: i32[64, 64] = mul %s, %t
store %a, %w, %z, %z {steps=[64, 64]}"""
    launch = kernel(["i32"], body), (1, 1, 1), [torch.zeros(64, 64, dtype=torch.int32)]
    assert ways(emulate.Case(*launch)) == []
    same_on_both([launch])


def test_the_text_begins_with_its_moves():
    lines = emulate.Case(*of_both("bf16", 32)).program["text"].splitlines()
    assert lines[1:4] == [
        "// moves bf16[32] for reshape at ir:7, by shuffles: 8 shuffles and 24 selects a thread cost 40, through shared memory it is 85",
        "//   from 4 registers along axis 0 (8 apart), 8 lanes along axis 0, as store at ir:11 wants it",
        "//   to 8 registers along axis 1, 4 lanes along axis 1 (8 apart), as store at ir:11 wants it",
    ]
    text = emulate.Case(
        kernel(["f32"] * 2, copied("f32", 64, 64)), (1, 1, 1), [torch.zeros(64, 64), transposed(torch.zeros(64, 64))]
    )
    assert text.program["text"].splitlines()[1] == (
        "// moves f32[64,64] for store at ir:6, by shared memory (16384 bytes): elements go to other warps; written 16 bytes at once, "
        "read 4 bytes at once, without bank conflicts"
    )


def test_inspect_lists_what_the_text_does():
    x = torch.empty(2, 1280, 16, 16, dtype=torch.bfloat16, device="meta").to(memory_format=torch.channels_last)
    weight = torch.empty(1280, dtype=torch.bfloat16, device="meta")

    def call(what):
        return tile_ops.inspect(torch.ops.tile.group_norm, x, 32, weight, weight, what=what, arch=80)

    rows = [move for kernel in call("resources") for move in kernel["conversions"]]
    lines = [line for line in call("cuda").splitlines() if line.startswith("// moves")]
    assert rows and lines == [
        f"// moves {row['type']} for {row['op']} at {row['where']}{', in a loop' * row['in_loop']}, by {row['way']}"
        f"{' ({} bytes)'.format(row['shared_bytes']) * bool(row['shared_bytes'])}: {row['reason']}"
        for row in rows
    ]
    assert set(rows[0]) == set("op where type from to in_loop way shared_bytes reason".split())
