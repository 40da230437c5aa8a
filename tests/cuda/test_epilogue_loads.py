"""Tiles that the epilogue of a product loads: a producer copies them while the product runs. Values in the emulator, and what it
reports of programs that do not wait, or free a stage too early."""

import dataclasses
import re

import emulate
import emulate_operators
import pytest
import tile_ops
import tile_ops.language as tl
import torch
from combinations import by_turns
from divisions import OTHERS, divided
from python_examples import passed
from test_wgmma import NAMES, kernel

bf16, f16 = torch.bfloat16, torch.float16


def joined(shape, dtype, **loads):
    """The epilogue's ops: for each array the op that joins its tile with the sum, in this order."""
    lines, before = [], "%r"
    for i, (name, op) in enumerate(loads.items()):
        after = "%e" if i + 1 == len(loads) else f"%s{i}"
        lines += [
            f"%p{i}: {dtype}{shape} = load %{name}, %i, %j {{pad=0.0, shape={shape}, steps={shape}}}",
            f"%q{i}: f32{shape} = astype %p{i} {{dtype=f32}}",
            f"{after}: f32{shape} = {op} {before}, %q{i}",
        ]
        before = after
    return lines


@dataclasses.dataclass
class Product:
    """A product whose sums are joined with tiles of arrays of the result's shape, in the order of their names. An array c is the
    result itself."""

    extents: tuple
    tile: tuple
    loads: dict
    dtype: torch.dtype = bf16
    first: int = 0  # of the tiles along k
    in_turn: bool = False

    def __post_init__(self):
        m, n, k = self.extents
        dtype = self.dtype
        a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
        arrays = {name: torch.randn(m, n).to(dtype) for name in {"c", *self.loads}}
        skipped = min(self.first * self.tile[2], k)
        self.expected = a.double()[:, skipped:] @ b.double()[skipped:]
        for name, op in self.loads.items():
            self.expected = getattr(torch, op)(self.expected, arrays[name].double())
        self.out = arrays.pop("c")
        shape = str(list(self.tile[:2])).replace(" ", "")
        text = kernel(self.tile, dtype=NAMES[dtype], epilogue=joined(shape, NAMES[dtype], **self.loads))
        arguments = [a, b, self.out, *(arrays[name] for name in sorted(arrays)), self.first]
        grid = (-(-m // self.tile[0]), -(-n // self.tile[1]), 1)
        self.case = emulate.Case(text, grid, arguments, wgmma=True, panels_in_turn=self.in_turn)

    def check(self):
        program = self.case.program
        assert (program["path"], program["why"]) == ("wgmma", "")
        columns = self.tile[1]
        panels = columns // 64 if columns % 64 == 0 else 1
        assert program["text"].count("read_stage<") == panels * len(self.loads)
        assert not re.search(r"= load<", program["text"])
        assert emulate.run([self.case]) == [None]
        scale = max(1.0, self.expected.abs().max().item() / 8)
        torch.testing.assert_close(self.out.double(), self.expected, rtol=2**-8, atol=2**-8 * scale)


RESIDUAL, BOTH = {"res": "add"}, {"gate": "mul", "res": "add"}
CASES = {
    "one panel": Product((136, 72, 136), (128, 64, 64), RESIDUAL),
    "two panels": Product((136, 136, 136), (128, 128, 64), RESIDUAL),
    "three panels": Product((136, 200, 136), (128, 192, 64), RESIDUAL),
    "four panels": Product((264, 264, 72), (128, 256, 64), RESIDUAL),
    "two operands": Product((136, 136, 136), (128, 128, 64), BOTH),
    "two operands, one panel": Product((264, 200, 136), (128, 64, 64), BOTH),
    "two operands, four panels": Product((136, 512, 72), (128, 256, 64), BOTH),
    "float16": Product((136, 136, 72), (128, 128, 64), BOTH, f16),
    "panels in turn": Product((264, 200, 136), (128, 192, 64), BOTH, in_turn=True),
    "one group": Product((72, 136, 136), (64, 128, 64), BOTH),
    "three groups": Product((200, 136, 72), (192, 128, 32), RESIDUAL),
    "two blocks of rows a group": Product((264, 136, 72), (256, 128, 64), RESIDUAL),
    "panels of 64 bytes": Product((136, 96, 72), (128, 96, 32), RESIDUAL),
    "panels of 32 bytes": Product((136, 48, 72), (128, 48, 64), BOTH),
    "no iteration": Product((136, 136, 64), (128, 128, 64), BOTH, first=1),
    "the result itself": Product((264, 264, 72), (128, 128, 64), {"c": "add"}),
    "the result itself and another array": Product((264, 264, 72), (128, 128, 64), {"gate": "mul", "c": "add"}),
}


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """All of them together."""
    emulate.functions([product.case.program for product in CASES.values()])
    emulate.compile_texts([wrong_text(name) for name in WRONG])


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    CASES[name].check()


def test_a_producer_copies_tiles_of_many_blocks():
    """More tiles than blocks that run at once: copies for the next tile begin while the groups compute this one."""
    Product((520, 264, 72), (128, 128, 64), BOTH).check()


def test_other_loads_are_those_of_each_thread():
    """The copy unit writes zeros outside of an array; what is one row is no tile of sums."""
    shape = "[128,128]"
    lines = joined(shape, "bf16", res="add")
    m, n = 136, 136
    a, b, c = torch.randn(m, 72).to(bf16), torch.randn(72, n).to(bf16), torch.zeros(m, n).to(bf16)

    def loads(lines, res):
        case = emulate.Case(kernel((128, 128, 64), epilogue=lines), (2, 2, 1), [a, b, c, res, 0], wgmma=True)
        assert case.program["path"] == "wgmma"
        text = case.program["text"]
        return text.count("read_stage<"), len(re.findall(r"= load<", text))

    res = torch.randn(m, n).to(bf16)
    assert loads(lines, res) == (2, 0)
    assert loads([line.replace("pad=0.0", "pad=1.0") for line in lines], res) == (0, 2)
    assert loads(lines, torch.randn(1, n).to(bf16).expand(m, n)) == (0, 2)
    assert loads(lines, torch.randn(n, m).to(bf16).t()) == (0, 2)
    assert loads(lines, torch.randn(m, n + 1).to(bf16)[:, :n]) == (0, 2)


def test_rows_and_columns_are_loaded_ahead():
    """A bias of each column and a scale of each row: those of the first panel before the product, others a panel ahead."""
    lines = [
        "%0: i32 = constant {dtype=i32, value=0}",
        "%row: bf16[1,192] = load %bias, %0, %j {pad=0.0, shape=[1,192], steps=[1,192]}",
        "%rowf: f32[1,192] = astype %row {dtype=f32}",
        "%rows: f32[128,192] = broadcast %rowf {shape=[128,192]}",
        "%s: f32[128,192] = add %r, %rows",
        "%column: bf16[128,1] = load %scale, %i, %0 {pad=0.0, shape=[128,1], steps=[128,1]}",
        "%columnf: f32[128,1] = astype %column {dtype=f32}",
        "%columns: f32[128,192] = broadcast %columnf {shape=[128,192]}",
        "%scaled: f32[128,192] = mul %s, %columns",
        *(line.replace("%r,", "%scaled,") for line in joined("[128,192]", "bf16", res="add")),
    ]
    m, n = 264, 328
    a, b, out = torch.randn(m, 72).to(bf16), torch.randn(72, n).to(bf16), torch.zeros(m, n).to(bf16)
    bias, res, scale = torch.randn(1, n).to(bf16), torch.randn(m, n).to(bf16), torch.randn(m, 1).to(bf16)
    case = emulate.Case(kernel((128, 192, 64), epilogue=lines), (3, 2, 1), [a, b, out, bias, res, scale, 0], wgmma=True)
    assert case.program["path"] == "wgmma"
    steps = re.findall(r"= (load|mma_issued|mma_awaited|read_stage)<|(store_panels)<", case.program["text"])
    order = ["load", "load", "mma_issued", "mma_awaited", *["load", "read_stage", "store_panels"] * 2]
    assert ["".join(step) for step in steps] == [*order, "read_stage", "store_panels"]
    assert emulate.run([case]) == [None]
    expected = (a.double() @ b.double() + bias.double()) * scale.double() + res.double()
    torch.testing.assert_close(out.double(), expected, rtol=2**-8, atol=2**-8 * expected.abs().max().item() / 8)


@tl.kernel
def half_and_residual(a, b, res, out, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    acc = tl.zeros((TM, TN), tl.float32)
    for k in range(tl.num_tiles(a, 1, (TM, TK))):
        left = tl.load(a, (i, k), (TM, TK), padding_mode=tl.PaddingMode.ZERO)
        acc = tl.mma(left, tl.load(b, (k, j), (TK, TN), padding_mode=tl.PaddingMode.ZERO), acc)
    added = tl.load(res, (i, j), (TM, TN), padding_mode=tl.PaddingMode.ZERO)
    tl.store(out, (i, j), (acc * 0.5 + added).astype(out.dtype))


def test_a_kernel_in_python():
    a, b, res = torch.randn(136, 72).to(f16), torch.randn(72, 200).to(f16), torch.randn(136, 200).to(f16)
    out = torch.zeros(136, 200).to(f16)
    arguments = (a, b, res, out, 128, 128, 64)
    case = emulate.Case(half_and_residual.ir(*arguments), (2, 2, 1), passed(half_and_residual, arguments), wgmma=True)
    assert (case.program["path"], case.program["text"].count("read_stage<")) == ("wgmma", 2)
    assert emulate.run([case]) == [None]
    expected = a.double() @ b.double() / 2 + res.double()
    torch.testing.assert_close(out.double(), expected, rtol=2**-10, atol=2**-8)


def five_operations(x, w, bias, gate, res):
    text = "silu(acc + bias) * gate + res * 0.5"
    return tile_ops.matmul(x, w, epilogue=text, operands={"bias": bias, "gate": gate, "res": res})


# The function, its tensors' shapes, and options of tensors.
OPERATORS = {
    "batches": (torch.ops.tile.matmul, [(3, 136, 72), (3, 72, 136)], {"residual": (3, 136, 136)}),
    "five operations": (five_operations, [(136, 72), (72, 264), (264,), (136, 264), (136, 264)], {}),
}


@pytest.mark.parametrize("name, parts", by_turns(OPERATORS.keys(), [1, 2]))
def test_operators(name, parts):
    """In parts, the launch that adds their sums loads the operands."""
    function, shapes, named = OPERATORS[name]
    tensors = [(torch.randn(shape) / 4).to(bf16) for shape in shapes]
    options = {key: torch.randn(shape).to(bf16) for key, shape in named.items()}
    emulation = emulate_operators.Emulation()
    with divided(parts, OTHERS, (128, 128, 64)):
        out = emulation.operator(function)(*tensors, **options)
    expected = function(*(x.double() for x in tensors), **{key: x.double() for key, x in options.items()})
    torch.testing.assert_close(out.double(), expected, rtol=2**-7, atol=2**-7 * max(1.0, expected.abs().max().item() / 8))
    product = next(program for program in emulation.programs if program["path"])
    assert product["path"] == "wgmma"
    assert ("read_stage<" in product["text"]) == (parts == 1)


# Changes of the program of two operands, and what is reported. The lines are those of the kernel's text.
READ, RELEASE = r"(\n[^\n]*read_stage<Read0[^\n]* 16\);[^\n]*)", r"(\n +release_by_warps<[^\n]* 16\);[^\n]*)"
RACE = "line 16: thread 32 of block (0, 0, 0) copies to 16384 bytes at 163840 of shared memory; thread "
WRONG = {
    "missing_wait": (
        r"\n +wait_for_stage<Ring1>[^\n]* 16\);",
        "",
        "line 16: thread 128 of block (0, 0, 0) reads 16 bytes at 163840 of shared memory; the copy that thread 32 began at line 16 "
        "writes it, and is not waited for",
    ),
    "missing_release": (RELEASE, "", "threads 32 wait at the barrier of line 16 "),
    "released_before_it_is_read": (READ + RELEASE, r"\2\1", RACE),
    "released_by_its_first_thread": (
        r"release_by_warps<Ring1>\(ring1, memory, 16\)",
        "if (lane() == 0) arrive(memory + Ring1::empty + 8 * ring1.stage, 16)",
        RACE,
    ),
}


def wrong_text(name):
    pattern, to, _ = WRONG[name]
    text, count = re.subn(pattern, to, CASES["two operands"].case.program["text"])
    assert count == 2
    return text


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name):
    case = Product((136, 136, 136), (128, 128, 64), BOTH).case
    report = emulate.run_changed(case, wrong_text(name))
    assert report is not None
    assert WRONG[name][2] in report
