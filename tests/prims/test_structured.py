"""A row for every primitive that is not elementwise, each dtype, with and without passes; all of the registry has a
row."""

import philox
import pytest
import torch
from prims import rows_of_atomics, rows_of_memory, rows_of_subtiles
from prims.ir_programs import DTYPES, NUMBERS, run, same, unary, values
from random_meaning import FLOATS
from tile_ops import _C

TABLE = _C.primitives()
# Those that test_elementwise.py runs.
ELEMENTWISE = {name for name, row in TABLE.items() if row["elementwise"] and row["reference"] or name.startswith("astype")}


def arange(dtype):
    out = run(f"%t: {dtype}[7] = arange {{dtype={dtype}, size=7}}\nstore %a, %t, %z {{steps=[7]}}", [values(dtype, 7)])[0]
    same(out, torch.arange(7))


def constant(dtype):
    text = "1" if dtype == "bool" else "3.0" if dtype in FLOATS else "3"
    body = (
        f"%t: {dtype} = constant {{dtype={dtype}, value={text}}}\n%w: {dtype}[4] = broadcast %t {{shape=[4]}}\n"
        f"store %a, %w, %z {{steps=[4]}}"
    )
    same(run(body, [values(dtype, 4)])[0], torch.full((4,), 1 if dtype == "bool" else 3))


def detach(dtype):
    x = values(dtype, 4, 3)
    same(unary("detach", x, [4, 3], dtype), x)


def argument(name):
    def row(dtype):
        x = torch.stack([torch.randperm(6) for _ in range(4)]).to(DTYPES[dtype])
        same(unary(f"{name} {{axis=1}}", x, [4], "i32"), getattr(x.double(), name)(1))

    return row


def reduction(name, function, high=5):
    def row(dtype):
        x = values(dtype, 3, 4, 5, high=high)
        wide = x if dtype == "bool" else x.double()
        same(unary(f"{name} {{axes=[1]}}", x, [3, 5], dtype), function(wide, 1))
        same(unary(f"{name} {{axes=[0, 2]}}", x, [4], dtype), function(function(wide, 2), 0))

    return row


def combined(name):
    def row(dtype):
        x, pad = values(dtype, 3, 5, high=3), "0.0" if dtype in FLOATS else "0"
        op = "bitwise_or" if dtype == "bool" else "add"
        shape = "[3]" if name == "reduce" else "[3, 5]"
        body = f"""%t: {dtype}[3, 5] = load %a, %z, %z {{pad={pad}, shape=[3, 5], steps=[3, 5]}}
%r: {dtype}{shape} = {name} %t {{axis=1}} (%x: {dtype}, %y: {dtype}) {{
  %sum: {dtype} = {op} %x, %y
  yield %sum
}}
store %b, %r{", %z" * (1 if name == "reduce" else 2)} {{steps={shape}}}"""
        expected = x.double().sum(1) if name == "reduce" else x.double().cumsum(1)
        expected = expected.clamp(0, 1) if dtype == "bool" else expected
        same(run(body, [x, torch.zeros_like(expected, dtype=x.dtype)])[1], expected)

    return row


def bitcast(dtype):
    same_width = {
        "i8": "u8",
        "u8": "i8",
        "i16": "bf16",
        "u16": "f16",
        "f16": "u16",
        "bf16": "i16",
        "i32": "f32",
        "u32": "i32",
        "f32": "u32",
        "i64": "f64",
        "u64": "i64",
        "f64": "u64",
    }[dtype]
    x = values(dtype, 9, high=50)
    assert torch.equal(unary(f"bitcast {{dtype={same_width}}}", x, [9], same_width), x.view(DTYPES[same_width]))


def mma(dtype):
    accumulator = {"f16": "f32", "bf16": "f32", "f32": "f32", "f64": "f64", "i8": "i32", "u8": "i32"}[dtype]
    pad, sum_pad = ("0.0", "0.0") if dtype in FLOATS else ("0", "0")
    x, y, acc = values(dtype, 5, 7), values(dtype, 7, 6), values(accumulator, 5, 6)
    body = f"""%x: {dtype}[5, 7] = load %a, %z, %z {{pad={pad}, shape=[5, 7], steps=[5, 7]}}
%y: {dtype}[7, 6] = load %b, %z, %z {{pad={pad}, shape=[7, 6], steps=[7, 6]}}
%t: {accumulator}[5, 6] = load %c, %z, %z {{pad={sum_pad}, shape=[5, 6], steps=[5, 6]}}
%r: {accumulator}[5, 6] = mma %x, %y, %t
store %c, %r, %z, %z {{steps=[5, 6]}}"""
    same(run(body, [x, y, acc])[2], x.double() @ y.double() + acc.double())


def test_product_onto_a_tile_outside_its_array():
    """The accumulator is padding, whatever lies behind the array in memory."""
    memory, x, y = torch.zeros(9), values("f16", 16, 4), values("f16", 4, 3)
    text = """kernel k(%a: array<f16,2>, %b: array<f16,2>, %c: array<f32,1>, %d: array<f32,2>) {
%z: i32 = constant {dtype=i32, value=0}
%one: i32 = constant {dtype=i32, value=1}
%x: f16[16, 4] = load %a, %z, %z {pad=0.0, shape=[16, 4], steps=[16, 4]}
%y: f16[4, 3] = load %b, %z, %z {pad=0.0, shape=[4, 3], steps=[4, 3]}
%t: f32[3] = load %c, %one {pad=-1.5, shape=[3], steps=[3]}
%u: f32[1, 3] = reshape %t {shape=[1, 3]}
%v: f32[16, 3] = broadcast %u {shape=[16, 3]}
%r: f32[16, 3] = mma %x, %y, %v
store %d, %r, %z, %z {steps=[16, 3]}
}"""
    for passes in (False, True):
        out = torch.zeros(16, 3)
        _C.run_ir(text, (1, 1, 1), [x, y, memory[:3], out], passes)
        same(out, x.double() @ y.double() - 1.5)


@pytest.mark.parametrize(
    "op, text",
    [
        ("store %a, %t, %z", "store: cannot store f32[4] into array<f16,1>; cast with astype()"),
        ("add_tile %a, %t, %z", "add_tile: cannot add f32[4] to array<f16,1>; cast with astype()"),
        ("add_tile %a, %t, %z, %z", "add_tile: 2 indices for array<f16,1>; give one per axis"),
    ],
)
def test_tiles_that_do_not_fit_memory(op, text):
    source = f"""kernel k(%a: array<f16,1>) {{
%z: i32 = constant {{dtype=i32, value=0}}
%x: f32 = constant {{dtype=f32, value=1.0}}
%t: f32[4] = broadcast %x {{shape=[4]}}
{op} {{steps=[4]}}
}}"""
    with pytest.raises((TypeError, ValueError)) as error:
        _C.run_ir(source, (1, 1, 1), [torch.zeros(4, dtype=torch.float16)])
    assert str(error.value) == "tile text 5:1: " + text


def tiles(dtype):
    """load and store of the grid's tiles, the last one partial; what is outside is the padding."""
    x, pad = values(dtype, 10, 5), "2.0" if dtype in FLOATS else "0"
    body = f"""%i: i32 = bid {{axis=0}}
%j: i32 = bid {{axis=1}}
%t: {dtype}[4, 3] = load %a, %i, %j {{pad={pad}, shape=[4, 3], steps=[4, 3]}}
store %b, %t, %i, %j {{steps=[4, 3]}}
store %c, %t, %i, %j {{steps=[4, 3]}}"""
    _, small, large = run(body, [x, values(dtype, 9, 4), values(dtype, 12, 6)], (3, 2, 1))
    same(small, x[:9, :4])
    expected = torch.full((12, 6), float(pad))
    expected[:10, :5] = x.double()
    same(large, expected)


def elements(dtype):
    """gather, masked, then scatter to other indices."""
    x, index = values(dtype, 10), torch.tensor([3, 0, 12, -1, 9, 5], dtype=torch.int32)
    pad = "0.0" if dtype in FLOATS else "0"
    body = f"""%i: i32[6] = load %b, %z {{pad=0, shape=[6], steps=[6]}}
%mask: bool[6] = load %c, %z {{pad=0, shape=[6], steps=[6]}}
%t: {dtype}[6] = gather %a, %i, %mask {{pad={pad}}}
store %d, %t, %z {{steps=[6]}}
scatter %e, %t, %i"""
    mask = torch.tensor([True, True, True, True, False, True])
    old = values(dtype, 10)
    *_, gathered, scattered = run(body, [x, index, mask, values(dtype, 6), old])
    expected = torch.stack([x[3], x[0], x[0] ^ x[0] if dtype == "bool" else x[0] * 0, x[0] * 0, x[0] * 0, x[5]]).double()
    same(gathered, expected)
    expected_scattered = old.double().clone()
    expected_scattered[[3, 0, 9, 5]] = expected[[0, 1, 4, 5]]
    same(scattered, expected_scattered)


def add_tile(dtype):
    """Blocks add tiles that overlap; what lies outside is dropped."""
    pad = "0.0" if dtype in FLOATS else "0"
    body = f"""%i: i32 = bid {{axis=0}}
%t: {dtype}[4, 3] = load %a, %z, %z {{pad={pad}, shape=[4, 3], steps=[4, 3]}}
add_tile %b, %t, %i, %z {{steps=[2, 3]}}"""
    x, old = values(dtype, 4, 3), values(dtype, 7, 2)
    expected = old.double().clone()
    for i in range(4):
        part = expected[2 * i : 2 * i + 4]
        part += x.double()[: part.shape[0], :2]
    same(run(body, [x, old], (4, 1, 1))[1], expected)


def views(dtype):
    """index, slice and permute_array, one of the other."""
    x, pad = values(dtype, 4, 6, 5), "2.0" if dtype in FLOATS else "0"
    body = f"""%v: array<{dtype},2> = index %a, %s0
%w: array<{dtype},2> = slice %v, %one, %s1 {{axis=0}}
%u: array<{dtype},2> = permute_array %w {{axes=[1, 0]}}
%t: {dtype}[5, 4] = load %u, %z, %z {{pad={pad}, shape=[5, 4], steps=[5, 4]}}
store %b, %t, %z, %z {{steps=[5, 4]}}"""
    for at, stop in ((2, 4), (3, 6), (4, 3), (-1, 3)):
        expected = torch.full((5, 4), float(pad), dtype=torch.float64)
        if 0 <= at < 4:
            part = x.double()[at, 1:stop].T[:, :4]
            expected[:, : part.shape[1]] = part
        same(run(body, [x, values(dtype, 5, 4)], scalars=(at, stop))[1], expected)


def grid(_):
    """The block's own index and number of blocks, extents and strides."""
    body = """%i: i32 = bid {axis=0}
%n: i32 = num_blocks {axis=0}
%d: i32 = dim %b {axis=1}
%l: i64 = stride %b {axis=0}
%m: i32 = astype %l {dtype=i32}
%x: i32 = mul %i, %n
%y: i32 = mul %d, %m
%r: i32 = add %x, %y
%w: i32[1] = reshape %r {shape=[1]}
store %a, %w, %i {steps=[1]}"""
    out = run(body, [torch.zeros(5, dtype=torch.int32), torch.zeros(3, 4)], (5, 1, 1))[0]
    same(out, torch.arange(5) * 5 + 16)


CONTROL = """%n: i32 = bid {axis=0}
%t: DT[3] = load %a, %z {pad=PAD, shape=[3], steps=[3]}
%sum: DT[3] = for %z, %n, %one, %t (%i: i32, %s: DT[3]) {
  %next: DT[3] = OP %s, %t
  yield %next
}
%two: i32 = add %one, %one
%count: i32, %end: DT[3] = loop %z, %sum (%k: i32, %v: DT[3]) {
  %go: i32 = add %k, %one
  %stop: bool = ge %k, %two
  if %stop () {
    break %k, %v
  } () {
    yield
  }
  %more: DT[3] = OP %v, %t
  continue %go, %more
}
%odd: i32 = mod %n, %two
%is: bool = eq %odd, %one
%r: DT[3] = if %is () {
  yield %end
} () {
  yield %t
}
%w: DT[1, 3] = reshape %r {shape=[1, 3]}
store %b, %w, %n, %z {steps=[1, 3]}"""


def control(dtype):
    x = values(dtype, 3)
    text = CONTROL.replace("DT", dtype).replace("PAD", "0.0" if dtype in FLOATS else "0")
    out = run(text.replace("OP", "bitwise_or" if dtype == "bool" else "add"), [x, values(dtype, 4, 3)], (4, 1, 1))[1]
    for n in range(4):
        same(out[n], x.double() if n % 2 == 0 or dtype == "bool" else x.double() * (n + 3))


def asserted(_):
    """The block with a false element ends before it stores; test_assert.py has the rest."""
    body = """%i: i32 = bid {axis=0}
%t: bool[4] = load %a, %i {pad=1, shape=[4], steps=[4]}
assert %t {message="all are"}
store %b, %t, %i {steps=[4]}"""
    x = torch.ones(10, dtype=torch.bool)
    same(run(body, [x, ~x], (3, 1, 1))[1], x)
    x[6] = False
    with pytest.raises(RuntimeError, match="assertion failed: all are; element .2. of bool.4. in block .1, 0, 0. of kernel k"):
        run(body, [x, ~x], (3, 1, 1))


def cat(dtype):
    pad = "0.0" if dtype in FLOATS else "0"
    x, y = values(dtype, 2, 3), values(dtype, 2, 4)
    body = f"""%x: {dtype}[2, 3] = load %a, %z, %z {{pad={pad}, shape=[2, 3], steps=[2, 3]}}
%y: {dtype}[2, 4] = load %b, %z, %z {{pad={pad}, shape=[2, 4], steps=[2, 4]}}
%r: {dtype}[2, 7] = cat %x, %y {{axis=1}}
store %c, %r, %z, %z {{steps=[2, 7]}}"""
    same(run(body, [x, y, values(dtype, 2, 7)])[2], torch.cat([x, y], 1))


def moved(name, sizes, attributes, function):
    def row(dtype):
        x = values(dtype, 3, 1, 4)
        same(unary(f"{name} {{{attributes}={list(sizes)}}}", x, function(x).shape, dtype), function(x))

    return row


def random_words(bits):
    """Yields cases with one seed and stream and with one for each element, numbers past 2^32 and the largest, and scalars."""

    def row(dtype):
        numbers = [0, 1, 2, 3, 4, 5, 6, 7, 2**32 - 1, 2**34 - 1, 2**34, 2**63 - 1, -1, -4, 17, 12345678901234]
        numbers = torch.tensor(numbers)
        result = {32: "u32", 64: "u64"}[bits]
        body = f"""%s: {dtype}[16] = load %a, %z {{pad=0, shape=[16], steps=[16]}}
%t: {dtype}[16] = load %b, %z {{pad=0, shape=[16], steps=[16]}}
%n: {dtype}[16] = load %c, %z {{pad=0, shape=[16], steps=[16]}}
%r: {result}[16] = random_u{bits} %s, %t, %n
store %d, %r, %z {{steps=[16]}}
%i: i32 = bid {{axis=0}}
%j: {dtype} = astype %i {{dtype={dtype}}}
%k: {dtype} = constant {{dtype={dtype}, value=7}}
%q: {result} = random_u{bits} %j, %j, %k
%w: {result}[1] = reshape %q {{shape=[1]}}
store %e, %w, %z {{steps=[1]}}"""
        function = {32: philox.words32, 64: philox.words64}[bits]
        for seeds, streams in (([7] * 16, [0] * 16), (range(16), [2**40] * 16), ([2**63 - 1] * 16, range(16))):
            arrays = [torch.tensor(list(x)).view(torch.uint64) for x in (seeds, streams, numbers)]
            *_, out, one = run(body, [*arrays, *(torch.zeros(n, dtype=DTYPES[result]) for n in (16, 1))])
            assert one.item() == function(0, 7)
            for i, number in enumerate(numbers.numpy().view("u8")):
                assert out[i].item() == function(list(seeds)[i], number, list(streams)[i]), i

    return row


@pytest.mark.parametrize(
    "op, text",
    [
        (
            "%r: f32[2, 4] = extract %t, %z {shape=[2, 4]}",
            "extract: a sub-tile of shape [2,4] does not fit f32[4]; give one extent per axis, or none for one element",
        ),
        ("%r: f32[4] = insert %t, %t, %z, %z", "insert: 2 indices for f32[4]; give one per axis"),
        ("%r: f32[4] = insert %t, %z, %z", "insert: cannot put i32 into f32[4]; cast with astype()"),
        (
            "%r: f32[4] = gather_rows %a, %i {axis=1, pad=0.0, shape=[4], steps=[1]}",
            "gather_rows: axis 1 is out of range for array<f32,1>",
        ),
        (
            "%r: f32[4] = gather_rows %a, %t {axis=0, pad=0.0, shape=[4], steps=[1]}",
            "gather_rows: rows must be an integer tile of one axis, got f32[4]",
        ),
        (
            "%r: f32[4] = gather_rows %a, %i, %z {axis=0, pad=0.0, shape=[4], steps=[1]}",
            "gather_rows: 1 starts for array<f32,1>; give one for each axis except that of the rows",
        ),
        (
            "%r: f32[5] = gather_rows %a, %i {axis=0, pad=0.0, shape=[5], steps=[1]}",
            "gather_rows: a tile of shape [5] does not fit rows i32[4] of array<f32,1>; its extent along axis 0 is the number "
            "of rows",
        ),
        (
            "scatter_rows %a, %i, %i {axis=0, steps=[1]}",
            "scatter_rows: cannot write i32[4] to rows of array<f32,1>; cast with astype()",
        ),
        ("%r: f32[4] = load_offset %a {pad=0.0}", "load_offset: takes an array, an offset and optionally a mask"),
        ("%r: f32[4] = load_offset %a, %i, %i {pad=0.0}", "load_offset: the mask is i32[4]; it must be bool of shape [4]"),
        ("store_offset %a, %i, %i", "store_offset: cannot write i32[4] to offsets [4] of array<f32,1>"),
        ("%r: i32 = bid {axis=3}", "bid: axis is 3; it must be 0, 1 or 2"),
        ("%r: i32 = num_blocks {axis=-1}", "num_blocks: axis is -1; it must be 0, 1 or 2"),
        ("%r: f32[4] = where %i, %t, %t", "where: takes bool and two tiles of one type, got i32[4], f32[4] and f32[4]"),
        (
            "%r: f16[4] = bitcast %t {dtype=f16}",
            "bitcast: cannot reinterpret f32 as f16; the widths must be equal and neither bool",
        ),
        ("%r: f32 = reduce_sum %t {axes=[0, 0]}", "reduce_sum: axes [0,0] are not distinct axes of f32[4]"),
        ("%r: f32 = reduce_sum %t {axes=[1]}", "reduce_sum: axes [1] are not distinct axes of f32[4]"),
    ],
)
def test_operands_that_do_not_fit(op, text):
    source = f"""kernel k(%a: array<f32,1>) {{
%z: i32 = constant {{dtype=i32, value=0}}
%i: i32[4] = arange {{dtype=i32, size=4}}
%t: f32[4] = astype %i {{dtype=f32}}
{op}
}}"""
    with pytest.raises((TypeError, ValueError)) as error:
        _C.run_ir(source, (1, 1, 1), [torch.zeros(4)])
    assert str(error.value) == "tile text 5:1: " + text


EVERY = list(DTYPES)
ROWS = {
    "arange": (arange, NUMBERS),
    "constant": (constant, EVERY),
    "argmax": (argument("argmax"), NUMBERS),
    "argmin": (argument("argmin"), NUMBERS),
    "reduce_sum": (reduction("reduce_sum", lambda x, a: x.sum(a)), NUMBERS),
    "reduce_prod": (reduction("reduce_prod", lambda x, a: x.prod(a), high=2), NUMBERS),
    "reduce_max": (reduction("reduce_max", lambda x, a: x.amax(a)), NUMBERS),
    "reduce_min": (reduction("reduce_min", lambda x, a: x.amin(a)), NUMBERS),
    "reduce_any": (reduction("reduce_any", lambda x, a: x.any(a)), ["bool"]),
    "reduce_all": (reduction("reduce_all", lambda x, a: x.all(a)), ["bool"]),
    "reduce": (combined("reduce"), EVERY),
    "scan": (combined("scan"), EVERY),
    "bitcast": (bitcast, NUMBERS),
    "mma": (mma, ["f16", "bf16", "f32", "f64", "i8", "u8"]),
    "load": (tiles, EVERY),
    "store": (tiles, EVERY),
    "gather": (elements, EVERY),
    "scatter": (elements, EVERY),
    "add_tile": (add_tile, NUMBERS),
    "index": (views, EVERY),
    "slice": (views, EVERY),
    "permute_array": (views, EVERY),
    "assert": (asserted, ["bool"]),
    "bid": (grid, ["i32"]),
    "num_blocks": (grid, ["i32"]),
    "dim": (grid, ["i32"]),
    "stride": (grid, ["i32"]),
    "cat": (cat, EVERY),
    "detach": (detach, EVERY),
    "random_u32": (random_words(32), ["u64"]),
    "random_u64": (random_words(64), ["u64"]),
    "reshape": (moved("reshape", [4, 3], "shape", lambda x: x.reshape(4, 3)), EVERY),
    "permute": (moved("permute", [2, 0, 1], "axes", lambda x: x.permute(2, 0, 1)), EVERY),
    "broadcast": (moved("broadcast", [3, 5, 4], "shape", lambda x: x.expand(3, 5, 4)), EVERY),
} | {name: (control, EVERY) for name in ("for", "loop", "if", "yield", "break", "continue")}
ROWS |= rows_of_atomics.ROWS | rows_of_memory.ROWS | rows_of_subtiles.ROWS
CASES = {(row, dtype): None for row, dtypes in ROWS.values() for dtype in dtypes}
NAMES = {row: "-".join(n for n, (r, _) in ROWS.items() if r is row) for row, _ in ROWS.values()}


@pytest.mark.parametrize("row, dtype", [pytest.param(row, dtype, id=f"{NAMES[row]}-{dtype}") for row, dtype in CASES])
def test_row(row, dtype):
    row(dtype)


def test_every_primitive_is_complete():
    """A type rule or an expansion, a CPU body, a doc, and a row that runs, of every dtype that it takes."""
    for name, entry in TABLE.items():
        assert entry["doc"].endswith("."), name
        assert entry["infer"], name
        assert entry["cpu"] or not entry["core"], name
        assert name in ELEMENTWISE or name in ROWS, name
        if name in ROWS and len(entry["dtypes"]) < 16:
            assert set(entry["dtypes"]) & set(DTYPES) == set(ROWS[name][1]), name
    assert set(ROWS) <= set(TABLE)
