"""Products of every pair of dtypes: operands of either order of memory, edges, sums that others began; whole numbers,
exactly."""

import pytest
import torch
from tile_ops import _C

TORCH = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i8": torch.int8,
    "u8": torch.uint8,
    "i32": torch.int32,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
}
# Dtypes of the left operand, the right operand and the sums; tf32 is not in memory: float32 is rounded to it.
PAIRS = [
    ("f16", "f16", "f32"),
    ("bf16", "bf16", "f32"),
    ("tf32", "tf32", "f32"),
    ("f64", "f64", "f64"),
    *((x, y, "i32") for x in ("i8", "u8") for y in ("i8", "u8")),
    *((x, y, "f32") for x in ("f8e4m3", "f8e5m2") for y in ("f8e4m3", "f8e5m2")),
]
# of the tensor cores
DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "f64": 8, "i8": 32, "u8": 32, "f8e4m3": 32, "f8e5m2": 32}
ORDERS = [(True, True), (False, True), (True, False), (False, False)]
each_pair = pytest.mark.parametrize("pair", PAIRS, ids="-".join)


def in_memory(dtype):
    return "f32" if dtype == "tf32" else dtype


def zero(dtype):
    return "0" if dtype[0] in "iu" else "0.0"


def values(dtype, *sizes):
    """Every integer of 8 bits; of floats numbers whose products' sums are exact in any order, of 8 bits in few bits."""
    if dtype in ("i8", "u8"):
        low = -128 if dtype == "i8" else 0
        return torch.randint(low, low + 256, sizes).to(TORCH[dtype])
    most = 2 if dtype.startswith("f8") else 8
    return torch.randint(-most, most + 1, sizes).to(TORCH[in_memory(dtype)])


def kernel(arrays, body):
    parameters = ", ".join(f"%{chr(97 + n)}: array<{dtype},2>" for n, dtype in enumerate(arrays))
    return f"kernel k({parameters}) {{\n%z: i32 = constant {{dtype=i32, value=0}}\n%block: i32 = bid {{axis=0}}\n{body}\n}}\n"


def operand(name, array, dtype, shape, start, transpose):
    """A tile of the array, whose columns are the array's rows where `transpose`."""
    tile, start = (shape[::-1], start[::-1]) if transpose else (shape, start)
    steps = [(f"load %{array}, {', '.join(start)} {{pad={zero(dtype)}, shape={tile}, steps={tile}}}", in_memory(dtype), tile)]
    if dtype == "tf32":
        steps.append(("astype % {dtype=tf32}", dtype, tile))
    if transpose:
        steps.append(("permute % {axes=[1, 0]}", dtype, shape))
    lines, before = [], ""
    for i, (text, kind, sizes) in enumerate(steps):
        here = f"%{name}" if i + 1 == len(steps) else f"%{name}{i}"
        lines.append(f"{here}: {kind}{sizes} = {text.replace('% ', before + ' ')}")
        before = here
    return "\n".join(lines)


def product(pair, shape, edges=(0, 0, 0), by_rows=(True, True), transposed=(False, False)):
    """Sums that the array %c begins, over a loop of k. by_rows: how each operand lies in memory; transposed: those whose
    array the kernel transposes. Gives the text, the arrays and what %c is then."""
    (x_type, y_type, sums), (m, n, k) = pair, shape
    rows, columns, depth = 2 * m - edges[0], n - edges[1], 4 * k - edges[2]
    x, y, c = values(x_type, rows, depth), values(y_type, depth, columns), values("f64", rows, columns).to(TORCH[sums])
    expected = x.double() @ y.double() + c.double()
    tile = f"{sums}[{m}, {n}]"
    text = kernel(
        [in_memory(x_type), in_memory(y_type), sums],
        f"""%one: i32 = constant {{dtype=i32, value=1}}
%high: i32 = constant {{dtype=i32, value={(depth + k - 1) // k}}}
%first: {tile} = load %c, %block, %z {{pad={zero(sums)}, shape=[{m}, {n}], steps=[{m}, {n}]}}
%sums: {tile} = for %z, %high, %one, %first (%j: i32, %acc: {tile}) {{
{operand("x", "a", x_type, [m, k], ["%block", "%j"], transposed[0])}
{operand("y", "b", y_type, [k, n], ["%j", "%z"], transposed[1])}
%p: {tile} = mma %x, %y, %acc
yield %p
}}
store %c, %sums, %block, %z {{steps=[{m}, {n}]}}""",
    )
    arrays = [t.t().contiguous() if transpose else t for t, transpose in zip((x, y), transposed)]
    arrays = [t if rows else t.t().contiguous().t() for t, rows in zip(arrays, by_rows)]
    return text, [*arrays, c], expected


def products(pair):
    """Warps that have one block or many, rows shorter than the banks of shared memory and longer, tiles inside the array and
    beyond its end; the last four are not of whole blocks."""
    depth = DEPTH[pair[0]]
    shapes = (
        ((64, 64, 2 * depth), (0, 0, 0)),
        ((48, 96, depth), (3, 5, 7)),
        ((16, 16, 4 * depth), (0, 1, 8)),
        ((32, 48, 128), (0, 16, 16)),
        ((24, 40, 20), (1, 1, 1)),
    )
    if pair[0] == "f64":
        shapes = (((16, 8, depth), (0, 0, 0)), *shapes)  # one block, no deeper than an instruction
    for i, (shape, edges) in enumerate(shapes):
        for j, by_rows in enumerate(ORDERS):
            yield product(pair, shape, edges, by_rows, ORDERS[(i + j) % 4])


def every_number(dtype):
    """Returns all finite numbers of 8 bits, which the test multiplies by 1."""
    x = torch.arange(256, dtype=torch.uint8).view(TORCH[dtype]).reshape(16, 16)
    return torch.cat([torch.where(x.double().isfinite(), x.double(), 0.0)] * 2, 1).to(TORCH[dtype])


@each_pair
def test_products(pair):
    for text, arrays, expected in products(pair):
        _C.run_ir(text, (2, 1, 1), arrays)
        assert torch.equal(arrays[2].double(), expected), text


def once(pair, m=16, n=32, k=32):
    """The product of two arrays, onto %c."""
    tile = f"{pair[2]}[{m}, {n}]"
    return kernel(
        [*map(in_memory, pair[:2]), pair[2]],
        f"""{operand("x", "a", pair[0], [m, k], ["%z", "%z"], False)}
{operand("y", "b", pair[1], [k, n], ["%z", "%z"], False)}
%t: {tile} = load %c, %z, %z {{pad={zero(pair[2])}, shape=[{m}, {n}], steps=[{m}, {n}]}}
%r: {tile} = mma %x, %y, %t
store %c, %r, %z, %z {{steps=[{m}, {n}]}}""",
    )


@pytest.mark.at_home
@each_pair
def test_products_of_few_rows(pair):
    """These are fewer rows than the micro-kernels of a CPU take at once, or one more."""
    for m, n, k in ((1, 33, 20), (2, 8, 64), (3, 70, 91), (8, 40, 40), (9, 16, 16)):
        for by_rows in ORDERS:
            x, y, c = (values(dtype, *sizes) for dtype, sizes in zip((*pair[:2], "f64"), ((m, k), (k, n), (m, n))))
            expected = x.double() @ y.double() + c.double()
            arrays = [t if rows else t.t().contiguous().t() for t, rows in zip((x, y), by_rows)]
            arrays.append(c.to(TORCH[pair[2]]))
            _C.run_ir(once(pair, m, n, k), (1, 1, 1), arrays)
            assert torch.equal(arrays[2].double(), expected), (m, n, k, by_rows)


def numbers_times_one(pair):
    x, one = every_number(pair[0]), torch.eye(32, dtype=torch.float64).to(TORCH[pair[1]])
    return once(pair), [x, one, torch.zeros(16, 32, dtype=TORCH[pair[2]])], x.double()


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if "8" in pair[0][:3]], ids="-".join)
def test_every_number_of_8_bits(pair):
    text, arrays, expected = numbers_times_one(pair)
    _C.run_ir(text, (1, 1, 1), arrays)
    assert torch.equal(arrays[2].double(), expected)


def wrapping():
    """Sums of int32 that pass the last number."""
    x, y = torch.full((16, 32), 127, dtype=torch.int8), torch.full((32, 32), 255, dtype=torch.uint8)
    expected = torch.full((16, 32), 2**31 - 1 + 32 * 127 * 255 - 2**32, dtype=torch.float64)
    return once(("i8", "u8", "i32")), [x, y, torch.full((16, 32), 2**31 - 1, dtype=torch.int32)], expected


def test_integers_wrap():
    text, arrays, expected = wrapping()
    _C.run_ir(text, (1, 1, 1), arrays)
    assert torch.equal(arrays[2].double(), expected)


def to_tf32(x):
    """Rounded to 10 bits behind the first, to nearest even."""
    bits = x.view(torch.int32).long()
    return ((bits + 0xFFF + (bits >> 13 & 1)) & ~0x1FFF).int().view(torch.float32)


def rounded():
    """float32 that is rounded to tf32 to be multiplied: halfway cases among them; an infinity and a NaN reach the
    sums."""
    x, y = torch.randn(16, 32), torch.randn(32, 32)
    halfway = (x.view(torch.int32) & ~0x1FFF | 0x1000).view(torch.float32)
    x = torch.where(torch.rand(16, 32) < 0.5, halfway, x)
    expected = to_tf32(x).double() @ to_tf32(y).double()
    most = 2.0**-20 * (x.abs().double() @ y.abs().double())
    x[3, 4], x[5, 6] = float("inf"), float("nan")
    return once(("tf32", "tf32", "f32")), [x, y, torch.zeros(16, 32)], expected, most


def check_rounded(out, expected, most):
    rows = [i for i in range(16) if i not in (3, 5)]
    assert ((out.double() - expected).abs() <= most)[rows].all()
    assert out[3].isinf().all() and out[5].isnan().all()


def test_float32_as_tf32():
    text, arrays, *expected = rounded()
    _C.run_ir(text, (1, 1, 1), arrays)
    check_rounded(arrays[2], *expected)
