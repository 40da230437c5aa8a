"""Products on warpgroup instructions: their values in the emulator, and their code for sm_90a."""

import collections
import importlib.metadata
import itertools
import re
import subprocess

import emulate
import emulate_operators
import pytest
import tile_ops
import torch
from combinations import by_turns
from tile_ops import _C

NAMES = {torch.bfloat16: "bf16", torch.float16: "f16"}
ops = torch.ops.tile


def kernel(tile, majors="nn", dtype="bf16", products=1, epilogue=()):
    """A product of matrices. majors: n for an operand whose last axis is contiguous as it is multiplied, t for one that is
    transposed after it is loaded. products: 2 for one that has a second right operand and adds both. epilogue: ops from
    %r to %e, f32; other arrays that it loads are parameters too. The loop begins at the parameter %first."""
    m, n, k = tile
    sums, shape = f"f32[{m},{n}]", f"[{m},{n}]"

    def load(name, array, extents, indices, transposed):
        if transposed:
            extents, indices = extents[::-1], indices[::-1]
        size = f"[{extents[0]},{extents[1]}]"
        loaded = f"%{name}l" if transposed else f"%{name}"
        lines = [f"{loaded}: {dtype}{size} = load {array}, {indices[0]}, {indices[1]} {{pad=0.0, shape={size}, steps={size}}}"]
        if transposed:
            lines.append(f"%{name}: {dtype}[{extents[1]},{extents[0]}] = permute {loaded} {{axes=[1,0]}}")
        return lines

    body = [
        *load("x", "%a", (m, k), ("%i", "%k"), majors[0] == "t"),
        *load("y", "%b", (k, n), ("%k", "%j"), majors[1] == "t"),
        f"%m: {sums} = mma %x, %y, %acc",
    ]
    if products == 2:
        body += [*load("w", "%d", (k, n), ("%k", "%j"), majors[1] == "t"), f"%m2: {sums} = mma %x, %w, %acc2"]
    carried, initial, more = f"%acc: {sums}", "%zs", "%m"
    results = f"%r: {sums}"
    if products == 2:
        carried, initial, more = f"{carried}, %acc2: {sums}", "%zs, %zs", "%m, %m2"
        results = f"%r1: {sums}, %r2: {sums}"
        epilogue = (f"%r: {sums} = add %r1, %r2", *epilogue)
    last = "%e" if any(line.startswith("%e:") for line in epilogue) else "%r"
    arrays = ["a", "b", "c", *(["d"] if products == 2 else [])]
    arrays += sorted(set(re.findall(r"load %(\w+),", " ".join(epilogue))) - set(arrays))
    parameters = ", ".join(f"%{name}: array<{dtype},2>" for name in arrays)
    lines = [
        f"kernel matmul({parameters}, %first: i32) {{",
        "%i: i32 = bid {axis=0}",
        "%j: i32 = bid {axis=1}",
        f"%n: i32 = dim %a {{axis={1 if majors[0] == 'n' else 0}}}",
        f"%bk: i32 = constant {{dtype=i32, value={k}}}",
        "%t: i32 = cdiv %n, %bk",
        "%1: i32 = constant {dtype=i32, value=1}",
        "%z: f32 = constant {dtype=f32, value=0.0}",
        f"%zs: {sums} = broadcast %z {{shape={shape}}}",
        f"{results} = for %first, %t, %1, {initial} (%k: i32, {carried}) {{",
        *body,
        f"yield {more}",
        "}",
        *epilogue,
        f"%o: {dtype}{shape} = astype {last} {{dtype={dtype}}}",
        f"store %c, %o, %i, %j {{steps={shape}}}",
        "}",
    ]
    return "\n".join(lines)


class Product:
    """One launch and its expected values."""

    def __init__(
        self, extents, tile, majors="nn", dtype=torch.bfloat16, products=1, epilogue=(), expected=None, first=0, in_turn=False
    ):
        m, n, k = extents

        def operand(rows, columns, transposed):
            stored = torch.randn((columns, rows) if transposed else (rows, columns)).to(dtype)
            return stored, stored.t() if transposed else stored

        a, x = operand(m, k, majors[0] == "t")
        b, y = operand(k, n, majors[1] == "t")
        out = torch.full((m, n), float("nan"), dtype=dtype)
        self.arguments = [a, b, out]
        skipped = min(first * tile[2], k)
        self.expected = x.double()[:, skipped:] @ y.double()[skipped:]
        if products == 2:
            d, z = operand(k, n, majors[1] == "t")
            self.arguments.append(d)
            self.expected = self.expected + x.double() @ z.double()
        if expected:
            bias = torch.randn(1, n).to(dtype)
            self.arguments.append(bias.expand(m, n))
            self.expected = expected(self.expected, bias.double())
        self.arguments.append(first)
        text = kernel(tile, majors, NAMES[dtype], products, epilogue)
        self.columns = tile[1]
        grid = (-(-m // tile[0]), -(-n // tile[1]), 1)
        self.case = emulate.Case(text, grid, self.arguments, wgmma=True, panels_in_turn=in_turn)

    @property
    def program(self):
        return self.case.program

    def check(self):
        assert (self.program["path"], self.program["why"]) == ("wgmma", "")
        # Stores go through panels of 16 to 64 columns.
        panels = 0 if self.columns % 16 else self.columns // 64 if self.columns % 64 == 0 else 1
        assert self.program["text"].count("store_panels<") == panels
        assert emulate.run([self.case]) == [None]
        out = self.arguments[2].double()
        torch.testing.assert_close(out, self.expected, rtol=2**-8, atol=2**-8 * max(1.0, self.expected.abs().max().item() / 8))


def with_epilogue(extents, tile, majors, in_turn=False):
    """A case whose epilogue adds a bias and takes tanh. in_turn: of a panel at a time."""
    shape = str(list(tile[:2])).replace(" ", "")
    epilogue = (
        f"%p: bf16{shape} = load %bias, %i, %j {{pad=0.0, shape={shape}, steps={shape}}}",
        f"%q: f32{shape} = astype %p {{dtype=f32}}",
        f"%s: f32{shape} = add %r, %q",
        f"%e: f32{shape} = tanh %s",
    )
    return extents, tile, majors, torch.bfloat16, 1, epilogue, lambda product, bias: torch.tanh(product + bias), 0, in_turn


CASES = {
    **{
        f"{majors} {NAMES[dtype]}": ((200, 136, 328), (128, 64, 64), majors, dtype)
        for majors, dtype in itertools.product(("nn", "nt", "tn", "tt"), NAMES)
    },
    "one group": ((64, 64, 136), (64, 64, 64)),
    "three groups": ((192, 72, 72), (192, 72, 32), "nt"),
    "two blocks of rows a group, along rows": ((264, 64, 72), (256, 64, 64), "tt"),
    "two blocks of rows a group, along k": ((264, 64, 72), (256, 64, 64), "nn"),
    "panels of 64 bytes": ((128, 96, 264), (128, 96, 32), "nn"),
    "a tile of k in two panels": ((128, 64, 264), (128, 64, 128), "nt"),
    "more iterations than stages": ((128, 8, 1024), (128, 8, 64), "nt"),
    "no iteration": ((128, 64, 64), (128, 64, 64), "nn", torch.bfloat16, 1, (), None, 1),
    "all but one iteration": ((128, 64, 256), (128, 64, 64), "nn", torch.bfloat16, 1, (), None, 3),
    "two products of one left operand": ((136, 64, 136), (128, 64, 64), "nn", torch.bfloat16, 2),
    "an epilogue": with_epilogue((136, 72, 136), (128, 64, 64), "nt"),
    "an epilogue of several panels": with_epilogue((136, 136, 136), (128, 128, 64), "nt"),
    "panels in turn": with_epilogue((264, 200, 136), (128, 192, 64), "nn", in_turn=True),
}


@pytest.fixture(scope="module")
def products():
    made = {name: Product(*case) for name, case in CASES.items()}
    emulate.functions([each.program for each in made.values()])
    return made


@pytest.mark.parametrize("name", CASES)
def test_values(products, name):
    products[name].check()


def less_the_maximum(axis):
    """An epilogue that takes off the maximum along an axis."""
    kept = 64 if axis == 0 else 128
    shape = "[1,64]" if axis == 0 else "[128,1]"
    return (
        f"%m1: f32[{kept}] = reduce_max %r {{axes=[{axis}], keep=0}}",
        f"%m2: f32{shape} = reshape %m1 {{shape={shape}}}",
        "%m3: f32[128,64] = broadcast %m2 {shape=[128,64]}",
        "%e: f32[128,64] = sub %r, %m3",
    )


def test_an_epilogue_may_reduce_rows():
    """A row is in the registers of four threads of a warp."""
    product = Product((128, 64, 64), (128, 64, 64), epilogue=less_the_maximum(1))
    product.expected = product.expected - product.expected.max(1, keepdim=True).values
    product.check()


def test_an_epilogue_that_exchanges_elements_uses_the_older_instructions():
    program = Product((128, 64, 64), (128, 64, 64), epilogue=less_the_maximum(0)).program
    assert program["path"] == "mma.sync"
    assert program["why"] == "ir:16: reduce_max needs the elements of other threads, which groups cannot exchange yet"


def test_empty_arrays_use_the_older_instructions():
    """The driver makes no tensor map of an empty array."""
    program = Product((128, 64, 0), (128, 64, 64)).program
    assert program["path"] == "mma.sync"
    assert program["why"].endswith("too large, empty, or has strides of 0 or less")


def nvdisasm():
    """The disassembler of the PyPI package."""
    files = importlib.metadata.files("nvidia-cuda-nvdisasm")
    return next(str(file.locate()) for file in files if file.name in ("nvdisasm", "nvdisasm.exe"))


def hot_loop(cubin, path):
    """How often the innermost loop with tensor-core instructions has each opcode."""
    path.write_bytes(cubin)
    text = subprocess.run([nvdisasm(), "-c", path], capture_output=True, text=True, check=True).stdout
    labels, opcodes, loops = {}, [], []
    for line in text.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = len(opcodes)
        elif op := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\d+ )?([A-Z][A-Z0-9_]+)(.*)", line):
            target = re.search(r"(\.L_x_\d+)", op[2])
            opcodes.append(op[1])
            if op[1] == "BRA" and target and target[1] in labels:
                loops.append(opcodes[labels[target[1]] :])
    return collections.Counter(min((loop for loop in loops if "HGMMA" in loop), key=len))


@pytest.mark.parametrize(
    "tile, majors", by_turns([(128, 256, 64), (256, 128, 64), (64, 128, 64)], ["nn", "nt", "tn", "tt"], kept=2)
)
def test_code_of_large_tiles(tile, majors, tmp_path):
    """No register is spilled, ptxas does not serialise products, and addresses stay in uniform registers."""
    program = Product((512, 512, 512), tile, majors).program
    assert program["path"] == "wgmma"
    code = _C.compile_text(program["text"], "matmul", program["entry"], 90, program["path"])
    assert (code["spill_stores"], code["spill_loads"], code["warning"]) == (0, 0, "")
    loop = hot_loop(code["cubin"], tmp_path / "cubin")
    assert loop["HGMMA"] == 4 * tile[0] // 64 // (2 if tile[0] > 64 else 1)
    assert loop["R2UR"] == 0
    assert loop.total() <= 60 + 4 * loop["HGMMA"]


def operands(*shapes, dtype=torch.bfloat16):
    return [(torch.randn(shape) / 4).to(dtype).requires_grad_() for shape in shapes]


# Operators that choose tiles for groups: the function, its tensors' shapes, and options; a tuple is a tensor's shape.
def epilogue_as_text(x, w, bias, gate, row):
    text = "tanh(acc + bias) * gate - row * 0.5"
    return tile_ops.matmul(x, w, epilogue=text, operands={"bias": bias, "gate": gate, "row": row})


OPERATORS = {
    "matmul": (ops.matmul, [(136, 72), (72, 264)], {}),
    "batches": (ops.matmul, [(2, 72, 40), (2, 40, 136)], {}),
    "bias and gelu": (ops.matmul, [(136, 72), (72, 136)], {"bias": (136,), "activation": "gelu_tanh"}),
    "residual": (ops.matmul, [(136, 72), (72, 136)], {"residual": (136, 136)}),
    "gated": (ops.gated_matmul, [(136, 72), (72, 136), (72, 136)], {}),
    "an epilogue as a text": (epilogue_as_text, [(136, 72), (72, 264), (264,), (136, 264), (136, 1)], {}),
    "operands that are copied": (ops.matmul, [(257, 71), (71, 259)], {"bias": (259,)}),
    "a gate that is copied": (ops.gated_matmul, [(264, 67), (67, 264), (67, 264)], {}),
}


def check_operator(name):
    """Compares an operator and its gradients with float64. Returns the emulation, whose programs the caller may look at."""
    function, shapes, options = OPERATORS[name]
    tensors = operands(*shapes)
    named = {key: operands(value)[0].detach() if isinstance(value, tuple) else value for key, value in options.items()}
    emulation = emulate_operators.Emulation(wgmma=True)
    out = emulation.operator(function)(*tensors, **named)
    grad = torch.randn_like(out)
    got = torch.autograd.grad(out, tensors, grad)
    wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
    wide_named = {key: value.double() if isinstance(value, torch.Tensor) else value for key, value in named.items()}
    expected = function(*wide, **wide_named)
    exact = torch.autograd.grad(expected, wide, grad.double())
    for ours, reference in zip((out, *got), (expected, *exact)):
        torch.testing.assert_close(ours.double(), reference, rtol=2**-6, atol=2**-6 * max(1.0, reference.abs().max().item()))
    products = [program for program in emulation.programs if program["path"]]
    assert products[0]["path"] == "wgmma"
    assert all(program["why"] for program in products if program["path"] != "wgmma")
    return emulation


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    check_operator(name)


def accumulating():
    """A product that is added to the array in which it is stored."""
    shape = "[128,128]"
    epilogue = (
        f"%p: bf16{shape} = load %c, %i, %j {{pad=0.0, shape={shape}, steps={shape}}}",
        f"%q: f32{shape} = astype %p {{dtype=f32}}",
        f"%e: f32{shape} = add %r, %q",
    )
    return kernel((128, 128, 64), epilogue=epilogue)


def accumulated(text):
    a, b, c = torch.randn(136, 72).bfloat16(), torch.randn(72, 200).bfloat16(), torch.randn(136, 200).bfloat16()
    return a, b, c, emulate.Case(text, (2, 2, 1), [a, b, c, 0], wgmma=True)


def test_a_sum_is_added_to_what_its_store_replaces():
    a, b, c, case = accumulated(accumulating())
    expected = a.double() @ b.double() + c.double()
    assert case.program["path"] == "wgmma" and case.program["text"].count("store_panels<") == 2
    assert emulate.run([case]) == [None]
    torch.testing.assert_close(c.double(), expected, rtol=2**-8, atol=2**-7 * expected.abs().max().item())


def test_groups_do_not_read_what_others_write():
    """All groups would load rows that one of them stores. The barrier of a group does not order that."""
    again = "%u: bf16[8,128] = load %c, %i, %j {pad=0.0, shape=[8,128], steps=[128,128]}"
    text = accumulating().removesuffix("}") + f"{again}\nstore %a, %u, %i, %j {{steps=[8,128]}}\n}}"
    program = accumulated(text)[-1].program
    assert program["path"] != "wgmma" and program["why"]
