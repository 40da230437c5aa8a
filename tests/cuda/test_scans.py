"""Scans, reductions with a combine region and the indices of extremes, on the emulator: over every axis,
through registers, lanes, warps and blocks of a cluster, in order."""

import itertools

import emulate
import numpy
import pytest
import torch
from combinations import long
from emulate import Case, same_on_both
from test_shapes import DTYPES, SHAPES, kernel, pad, transposed, values
from tile_ops import _C

# The composition of x -> a * x + b: associative, and not commutative.
COMPOSE = (
    ("i32", "i32"),
    """  %p: i32 = mul %x0, %y0
  %m: i32 = mul %y0, %x1
  %q: i32 = add %m, %y1
  yield %p, %q""",
)
# The last of four, each where the first is not 0.
LAST = (
    ("i8", "f64", "bool", "f16"),
    """  %zero: i8 = constant {dtype=i8, value=0}
  %if: bool = ne %y0, %zero
  %p: i8 = where %if, %y0, %x0
  %q: f64 = where %if, %y1, %x1
  %r: bool = where %if, %y2, %x2
  %s: f16 = where %if, %y3, %x3
  yield %p, %q, %r, %s""",
)
ALL = {**DTYPES, "f16": torch.float16, "f32": torch.float32}
ALL |= {"i64": torch.int64, "u16": torch.uint16, "u64": torch.uint64}


def combination(name, axis, tiles, dtypes, body, results, reverse=False):
    """The statement over tiles %t0, %t1, …, with results %r0, %r1, …."""
    given = [f"%{side}{i}: {dtype}" for side in "xy" for i, dtype in enumerate(dtypes)]
    left = ", ".join(f"%r{i}: {dtype}{results}" for i, dtype in enumerate(dtypes))
    head = f"{left} = {name} {', '.join(tiles)} {{axis={axis}, reverse={int(reverse)}}} ({', '.join(given)})"
    return f"{head} {{\n{body}\n}}"


def program(name, shape, axis, dtypes, body, reverse=False):
    """Tiles of a row of arrays, combined, and stored behind one another."""
    out = [n for i, n in enumerate(shape) if name == "scan" or i != axis] or [1]
    tile_shape, at = list(shape), "%i" + ", %z" * (len(shape) - 1)
    lines = []
    for i, d in enumerate(dtypes):
        tile = f"{{pad={pad(d) if d in DTYPES else '0.0'}, shape={tile_shape}, steps={tile_shape}}}"
        lines += [f"%t{i}: {d}{tile_shape} = load %{chr(97 + i)}, {at} {tile}"]
    results = list(out) if name == "scan" or len(shape) > 1 else ""
    tiles = [f"%t{i}" for i in range(len(dtypes))]
    lines += [combination(name, axis, tiles, dtypes, body, results, reverse)]
    for i, d in enumerate(dtypes):
        lines += [
            f"%w{i}: {d}{out} = reshape %r{i} {{shape={out}}}",
            f"store %{chr(97 + len(dtypes) + i)}, %w{i}, %i{', %z' * (len(out) - 1)} {{steps={out}}}",
        ]
    arrays = [(d, len(each)) for each in (shape, out) for d in dtypes]
    return kernel(arrays, "\n".join(lines)), out


def launch(name, shape, axis, dtypes, body, reverse=False, layout=lambda x: x):
    text, out = program(name, shape, axis, dtypes, body, reverse)
    sizes = 2 * shape[0], *shape[1:]
    inputs = [layout(torch.randint(0, 2 if d == "bool" else 4, sizes).to(ALL[d])) for d in dtypes]
    return text, (2, 1, 1), [*inputs, *(torch.zeros(2 * out[0], *out[1:], dtype=ALL[d]) for d in dtypes)]


def both_ways(*given, **more):
    """A scan from the front, and one from the back."""
    return [launch("scan", *given, reverse=reverse, **more) for reverse in (False, True)]


@pytest.mark.slow
def test_order_is_kept_over_each_axis():
    launches = []
    for shape, axis in itertools.product([*SHAPES, (1, 2048), (2048, 3), (3, 520)], (0, 1)):
        for layout in (lambda x: x, transposed):
            launches.append(launch("reduce", shape, axis, *COMPOSE, layout=layout))
            launches += both_ways(shape, axis, *COMPOSE, layout=layout)
    others = [((size,), 0) for size in (1, 3, 100, 1000, 4096)]
    for shape, axis in [*others, ((3, 7, 33), 1), ((4, 40, 8), 1), ((2, 3, 130), 0)]:
        launches.append(launch("reduce", shape, axis, *COMPOSE))
        launches += both_ways(shape, axis, *COMPOSE)
    same_on_both(launches)


def test_four_tiles_at_once():
    launches = []
    for shape, axis in itertools.product([(7, 33), (2, 600), (130, 5), (64, 64)], (0, 1)):
        launches += [launch("reduce", shape, axis, *LAST), *both_ways(shape, axis, *LAST)]
    same_on_both(launches)


@pytest.mark.parametrize("dtype", [d if d in DTYPES or d == "u64" else long(d) for d in ALL])
def test_running_sums_in_every_dtype(dtype):
    """Whole numbers, of which every dtype holds the sums."""
    op = "bitwise_xor" if dtype == "bool" else "maximum" if dtype in ("i8", "bf16", "f16") else "add"
    body = f"  %s: {dtype} = {op} %x0, %y0\n  yield %s"
    launches = []
    for shape in [(4, 512), (3, 37), (1, 1030)]:
        launches += [launch("reduce", shape, 1, (dtype,), body), *both_ways(shape, 1, (dtype,), body)]
    same_on_both(launches)


def test_both_axes_and_a_result_in_another_layout():
    """A table of sums over rectangles, by rows then by columns, stored as it is and transposed."""
    add = "  %s: i32 = add %x0, %y0\n  yield %s"
    launches = []
    for m, n in SHAPES:
        down = combination("scan", 0, ["%r0"], ["i32"], add, [m, n])
        for name, other in {"%r0:": "%q:", "%x0": "%u", "%y0": "%w", "%s": "%v"}.items():
            down = down.replace(name, other)
        body = f"""%t: i32[{m}, {n}] = load %a, %z, %z {{pad=0, shape=[{m}, {n}], steps=[{m}, {n}]}}
{combination("scan", 1, ["%t"], ["i32"], add, [m, n])}
{down}
%p: i32[{n}, {m}] = permute %q {{axes=[1, 0]}}
store %b, %q, %z, %z {{steps=[{m}, {n}]}}
store %c, %p, %z, %z {{steps=[{n}, {m}]}}"""
        x = values("i32", m, n)
        arguments = [x, torch.zeros_like(x), torch.zeros(n, m, dtype=torch.int32)]
        launches.append((kernel([("i32", 2)] * 3, body), (1, 1, 1), arguments))
    same_on_both(launches)
    for _, _, (x, table, other) in launches:
        assert torch.equal(table.long(), x.long().cumsum(0).cumsum(1)) and torch.equal(other.t(), table)


def test_scans_in_a_loop_with_a_scalar_of_the_kernel():
    """Turns of shared memory, and a function that takes a value from outside."""
    body = """%one: i32 = constant {dtype=i32, value=1}
%n: i32 = dim %a {axis=0}
%m: i32[1,2048] = broadcast %z {shape=[1,2048]}
%r: i32[1,2048] = for %z, %n, %one, %m (%k: i32, %c: i32[1,2048]) {
  %t: i32[1,2048] = load %a, %k, %z {pad=0, shape=[1,2048], steps=[1,2048]}
  %s: i32[1,2048] = scan %t {axis=1} (%x: i32, %y: i32) {
    %v: i32 = add %x, %y
    %w: i32 = bitwise_xor %v, %n
    %u: i32 = bitwise_xor %w, %n
    yield %u
  }
  %e: i32[1] = reduce %s {axis=1} (%p: i32, %q: i32) {
    %l: i32 = maximum %p, %q
    yield %l
  }
  %f: i32[1,1] = reshape %e {shape=[1,1]}
  %g: i32[1,2048] = broadcast %f {shape=[1,2048]}
  %h: i32[1,2048] = sub %g, %s
  %d: i32[1,2048] = add %c, %h
  yield %d
}
store %b, %r, %z, %z {steps=[1,2048]}"""
    x = values("i32", 5, 2000)
    same_on_both([(kernel([("i32", 2)] * 2, body), (1, 1, 1), [x, torch.zeros(1, 2048, dtype=torch.int32)])])


def test_sums_of_a_product():
    """In the fragments of mma, whose columns lie in registers and lanes by turns."""
    add = "  %s: f32 = add %x0, %y0\n  yield %s"
    launches = []
    for axis, reverse in itertools.product((0, 1), (False, True)):
        body = f"""%zero: f32 = constant {{dtype=f32, value=0.0}}
%none: f32[64, 96] = broadcast %zero {{shape=[64, 96]}}
%x: bf16[64, 32] = load %a, %z, %z {{pad=0.0, shape=[64, 32], steps=[64, 32]}}
%y: bf16[32, 96] = load %b, %z, %z {{pad=0.0, shape=[32, 96], steps=[32, 96]}}
%t0: f32[64, 96] = mma %x, %y, %none
{combination("scan", axis, ["%t0"], ["f32"], add, [64, 96], reverse)}
store %c, %r0, %z, %z {{steps=[64, 96]}}"""
        arguments = [values("bf16", 64, 32), values("bf16", 32, 96), torch.zeros(64, 96)]
        launches.append((kernel([("bf16", 2), ("bf16", 2), ("f32", 2)], body), (1, 1, 1), arguments))
    same_on_both(launches)


@pytest.mark.parametrize("dtype", [long("f16"), "bf16", "f32", long("f64")])
def test_sums_against_float64(dtype):
    """As near as torch's, and the same each time; 16-bit tiles are summed as float32 by their kernel."""
    wide = {"f16": "f32", "bf16": "f32"}.get(dtype, dtype)
    add = f"  %s: {wide} = add %x0, %y0\n  yield %s"
    m, n = 2, 3000
    body = f"""%a0: {dtype}[{m}, {n}] = load %a, %z, %z {{pad=0.0, shape=[{m}, {n}], steps=[{m}, {n}]}}
%t0: {wide}[{m}, {n}] = astype %a0 {{dtype={wide}}}
{combination("scan", 1, ["%t0"], [wide], add, [m, n])}
%b0: {dtype}[{m}, {n}] = astype %r0 {{dtype={dtype}}}
store %b, %b0, %z, %z {{steps=[{m}, {n}]}}"""
    x = torch.randn(m, n).to(ALL[dtype])
    results = []
    for _ in range(2):
        case = Case(kernel([(dtype, 2)] * 2, body), (1, 1, 1), [x, torch.zeros_like(x)])
        assert emulate.run([case]) == [None]
        results.append(case.arguments[1])
    assert torch.equal(*results)
    exact, errors = x.double().cumsum(1), []
    for sums in (results[0], torch.from_numpy(numpy.cumsum(x.to(ALL[wide]).numpy(), 1)).to(x.dtype)):
        errors.append((sums.double() - exact).abs().max())
    assert errors[0] <= 2 * errors[1]  # those are added one by one, in the width that ours have
    deep = 5 + 8 + 8 + 1  # additions that an element passes: lanes, a thread's own, warps
    own = torch.finfo(x.dtype).eps / 2 * exact.abs()
    inexact = deep * torch.finfo(ALL[wide]).eps / 2 * x.double().abs().cumsum(1)
    assert ((results[0].double() - exact).abs() <= inexact + own).all()


SPECIAL = float("nan"), float("-inf"), float("inf"), 0.0, -0.0, 1.0


ENDS = "bf16", "f32", "i8", "i32", "u64"  # of each kind of dtypes some


@pytest.mark.parametrize("dtype", [d if d in ENDS else long(d) for d in [*ALL, "i16", "u8", "u32"] if d != "bool"])
def test_indices_of_extremes(dtype):
    """Ties, NaN, infinities and the ends of integers, over each axis."""
    own = {**ALL, "i16": torch.int16, "u8": torch.uint8, "u32": torch.uint32}[dtype]
    launches = []
    for shape in [*SHAPES, (1, 2048)]:
        m, n = shape
        if own.is_floating_point:
            numbers = torch.tensor(SPECIAL)
            x = numbers[torch.randint(0, len(numbers), shape)]
            x[:, : n // 2][torch.rand(m) < 0.5] = float("nan")
            x = x.to(own)
        else:
            ends = torch.iinfo(own)
            numbers = torch.tensor([min(ends.max, 2**63 - 1), ends.min, 0, 1, 2], dtype=torch.int64).to(own)
            x = numbers[torch.randint(0, 5 if n > 5 else 2, shape)]
        source = "0.0" if own.is_floating_point else "0"
        attributes = f"shape=[{m}, {n}], steps=[{m}, {n}]"
        body = f"""%t: {dtype}[{m}, {n}] = load %a, %z, %z {{pad={source}, {attributes}}}
%p: i32[{n}] = argmax %t {{axis=0}}
%q: i32[{m}] = argmax %t {{axis=1}}
%r: i32[{n}] = argmin %t {{axis=0}}
%s: i32[{m}] = argmin %t {{axis=1}}
store %b, %p, %z {{steps=[{n}]}}
store %c, %q, %z {{steps=[{m}]}}
store %d, %r, %z {{steps=[{n}]}}
store %e, %s, %z {{steps=[{m}]}}"""
        for layout in (lambda x: x, transposed):
            outputs = [torch.full((k,), -1, dtype=torch.int32) for k in (n, m, n, m)]
            launches.append((kernel([(dtype, 2), *[("i32", 1)] * 4], body), (1, 1, 1), [layout(x), *outputs]))
    copies = [[x, *(out.clone() for out in outputs)] for _, _, (x, *outputs) in launches]
    cases = [Case(text, grid, arguments) for (text, grid, _), arguments in zip(launches, copies)]
    assert emulate.run(cases) == [None] * len(cases)
    for case, (text, grid, arguments) in zip(cases, launches):
        _C.run_ir(text, grid, arguments)
        for got, expected in zip(case.arguments[1:], arguments[1:]):  # the first holds NaN
            assert torch.equal(got, expected), f"{arguments[0]}\n{case.program['text']}"


@pytest.mark.parametrize("dtypes, body", [COMPOSE, LAST])
@pytest.mark.parametrize("columns", [2048, 1500])
def test_rows_in_a_cluster_are_combined_in_order(columns, dtypes, body):
    for name, reverse in (("reduce", False), ("scan", False), ("scan", True)):
        text, grid, arguments = launch(name, (2, columns), 1, dtypes, body, reverse)
        run = Case(text, grid, [a.clone() for a in arguments], block_bytes=2048)
        assert run.program["cluster"] > 1
        assert emulate.run([run]) == [None]
        _C.run_ir(text, grid, arguments)
        for got, expected in zip(run.arguments, arguments):
            assert torch.equal(got, expected)


@pytest.mark.parametrize("dtype", [torch.float32, long(torch.float64), torch.bfloat16, long(torch.int8)])
def test_indices_of_extremes_in_a_cluster(dtype):
    name = {value: key for key, value in ALL.items()}[dtype]
    x, at = torch.randint(-3, 4, (3, 4096)).to(dtype), torch.zeros(3, dtype=torch.int32)
    tile = f"{{pad={'0.0' if x.is_floating_point() else '0'}, shape=[1,4096], steps=[1,4096]}}"
    text = kernel(
        [(name, 2), ("i32", 1)],
        f"""%t: {name}[1,4096] = load %a, %i, %z {tile}
%u: i32[1] = argmin %t {{axis=1}}
store %b, %u, %i {{steps=[1]}}""",
    )
    run = Case(text, (3, 1, 1), [x, at], block_bytes=512)
    assert run.program["cluster"] > 1
    assert emulate.run([run]) == [None]
    assert at.tolist() == [row.tolist().index(-3) for row in x]


def test_lines_of_a_warp_need_no_shared_memory():
    text, grid, arguments = launch("scan", (4, 512), 1, *COMPOSE)
    program = Case(text, grid, arguments).program
    assert "Steps<Lanes<1, 32>, Registers<4>>" in program["text"] and program["shared_bytes"] == 0


def test_columns_are_in_registers_before_warps():
    """A thread goes down its rows; warps then exchange one total a column."""
    text, grid, arguments = launch("scan", (256, 32), 0, ("f32",), "  %s: f32 = add %x0, %y0\n  yield %s")
    program = Case(text, grid, arguments).program
    assert "lines = 4, runs = 1, length = " in program["text"] and "load<L0, 4," in program["text"]
