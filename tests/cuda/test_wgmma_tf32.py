"""Products of float32 that is rounded to tf32 on warpgroup instructions, in the emulator: kernels, and operators where torch
allows it."""

import contextlib

import emulate
import emulate_operators
import pytest
import tile_ops
import torch
from divisions import divided
from prims.test_products import to_tf32
from test_wgmma_bytes import product_text
from tile_ops import _C


def kernel(tile, awaited=False, computed=False):
    """computed: the left operand is doubled before."""
    m, n, k = tile
    twice = [f"%x1: f32[{m},{k}] = add %x0, %x0"] if computed else []
    operands = [
        f"%x0: f32[{m},{k}] = load %a, %i, %k {{pad=0.0, shape=[{m},{k}], steps=[{m},{k}]}}",
        f"%y0: f32[{k},{n}] = load %b, %k, %j {{pad=0.0, shape=[{k},{n}], steps=[{k},{n}]}}",
        *twice,
        f"%x: tf32[{m},{k}] = astype %x{'1' if computed else '0'} {{dtype=tf32}}",
        f"%y: tf32[{k},{n}] = astype %y0 {{dtype=tf32}}",
    ]
    return product_text(("f32", "f32", "f32"), tile, operands, awaited)


def with_halfway_cases(x):
    """Half of the elements lie between two tf32."""
    halfway = (x.view(torch.int32) & ~0x1FFF | 0x1000).view(torch.float32)
    return torch.where(torch.rand(x.shape) < 0.5, halfway, x)


def bound(x, y):
    """Returns the largest error of float32 sums of products of rounded operands; tests/prims has the same bound."""
    return 2.0**-20 * (x.abs().double() @ y.abs().double())


def problem(extents, tile, *options, along_k=(True, True)):
    """A text, its grid and its arrays, and what the last of them is compared with: products of operands rounded to nearest
    even. An infinity and a NaN are among them."""
    m, n, k = extents
    torch.manual_seed(0)
    x, y = with_halfway_cases(torch.randn(m, k)), with_halfway_cases(torch.randn(n, k)).t()
    expected, most = to_tf32(x).double() @ to_tf32(y).double(), bound(x, y)
    x[3, 4], x[5, 6] = float("inf"), float("nan")
    operands = [x if along_k[0] else x.t().contiguous().t(), y if along_k[1] else y.contiguous()]
    grid = (-(-m // tile[0]), -(-n // tile[1]), 1)
    return kernel(tile, *options), grid, [*operands, torch.full((m, n), -1.0)], expected, most


def case(*of, **how):
    text, grid, arrays, *expected = problem(*of, **how)
    return emulate.Case(text, grid, arrays, wgmma=True), *expected


def check_values(out, expected, most):
    rows = [i for i in range(len(out)) if i not in (3, 5)]
    assert ((out.double() - expected).abs() <= most)[rows].all()
    assert out[3].isinf().all() and out[5].isnan().all()


PRODUCTS = {
    "two groups": ((200, 136, 140), (128, 64, 32)),
    "wide": ((72, 264, 40), (64, 256, 32)),
    "narrow tiles": ((64, 24, 44), (64, 24, 8)),
    "half a line": ((128, 32, 48), (128, 32, 16)),
    "three groups": ((192, 32, 64), (192, 32, 32)),
    "awaited": ((200, 72, 132), (128, 64, 32), True),
}


def test_values():
    cases = [case(*product) for product in PRODUCTS.values()]
    for launch, *_ in cases:
        assert (launch.program["path"], launch.program["why"]) == ("wgmma", "")
        assert all(tensor_map["rounds"] for tensor_map in launch.program["tensor_maps"][:2])
    assert emulate.run([launch for launch, *_ in cases]) == [None] * len(cases)
    for launch, *expected in cases:
        check_values(launch.arguments[-1], *expected)


@pytest.mark.parametrize("along_k, side", [((False, True), "left"), ((True, False), "right")])
def test_operands_lie_along_k(along_k, side):
    launch, *_ = case((136, 64, 44), (128, 64, 32), along_k=along_k)
    assert launch.program["path"] == "mma.sync"
    assert launch.program["why"].endswith(f"the {side} operand of tf32 is not contiguous along k")


def test_operands_are_loaded():
    launch, *_ = case((128, 64, 32), (128, 64, 32), True, True)
    assert launch.program["path"] == "mma.sync"
    assert launch.program["why"].endswith("the left operand is computed as tf32[128,32], which is not of 16 bits")


@contextlib.contextmanager
def precision(name):
    """Sets the precision that torch allows products of float32, for a with block."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def run(operator, *arguments, wgmma=True, division=None, **keywords):
    """The result where torch allows tf32, and the paths of the product's kernels."""
    emulation = emulate_operators.Emulation(wgmma=wgmma)
    with precision("high"), divided(**(division or {})):
        out = emulation.operator(operator)(*arguments, **keywords)
    return out, [(program["entry"], program["path"]) for program in emulation.programs]


def operands(m, n, k):
    torch.manual_seed(1)
    return with_halfway_cases(torch.randn(m, k)), with_halfway_cases(torch.randn(k, n))


def in_order(x, y, order):
    """The same matrices, stored transposed where the order says T."""
    return (x.t().contiguous().t() if order[0] == "T" else x), (y.t().contiguous().t() if order[1] == "T" else y)


@pytest.mark.parametrize("order, wgmma", [("NT", True), ("NN", True), ("TN", False)])
def test_matmul(order, wgmma):
    x, y = operands(70, 72, 100)
    bias = torch.randn(72)
    out, paths = run(torch.ops.tile.matmul, *in_order(x, y, order), bias=bias, wgmma=wgmma)
    expected = to_tf32(x).double() @ to_tf32(y).double() + bias
    assert ((out.double() - expected).abs() <= bound(x, y) + 2.0**-23 * expected.abs()).all()
    assert {path for _, path in paths} - {""} == {"wgmma" if wgmma and order == "NT" else "mma.sync"}


@pytest.mark.parametrize("order, shape", [("TN", (300, 272, 36)), ("NN", (64, 65, 33))])
def test_copied_operands(order, shape):
    """Parts of 256 rows or columns of the result, whose operands are copied first."""
    x, y = operands(*shape)
    out, paths = run(torch.ops.tile.matmul, *in_order(x, y, order), division={"copied_bytes": 600 * 4 * shape[2]})
    expected = to_tf32(x).double() @ to_tf32(y).double()
    assert ((out.double() - expected).abs() <= bound(x, y)).all()
    assert {path for entry, path in paths if "transposed" not in entry and "parts" not in entry} == {"wgmma"}


def test_where_torch_does_not_allow_it():
    x, y = operands(70, 72, 100)
    emulation = emulate_operators.Emulation()
    with precision("highest"):
        out = emulation.operator(torch.ops.tile.matmul)(x, y)
    assert ((out.double() - x.double() @ y.double()).abs() <= bound(x, y)).all()
    assert all("tf32" not in program["text"] for program in emulation.programs)


def test_setting_of_the_matmul_backend():
    """torch.backends is another way to allow it."""
    x, settings = torch.empty(128, 128, device="meta"), torch.backends.cuda.matmul
    before = settings.fp32_precision
    try:
        for value, rounds in (("tf32", True), ("ieee", False)):
            settings.fp32_precision = value
            assert ("tf32" in tile_ops.inspect(torch.ops.tile.matmul, x, x.t(), what="cuda", arch=90)) == rounds
    finally:
        settings.fp32_precision = before


def test_gradients():
    """Sums over rows are never rounded."""
    x, y = (t.requires_grad_() for t in operands(72, 40, 36))
    bias = torch.randn(40, requires_grad=True)
    emulation = emulate_operators.Emulation()
    grad = with_halfway_cases(torch.randn(72, 40))
    with precision("high"):
        emulation.operator(torch.ops.tile.matmul)(x, y, bias=bias).backward(grad)
    with torch.no_grad():
        for found, a, b in ((x.grad, grad, y.t()), (y.grad, x.t(), grad)):
            assert ((found.double() - to_tf32(a).double() @ to_tf32(b).double()).abs() <= bound(a, b)).all()
        assert ((bias.grad.double() - grad.double().sum(0)).abs() <= 2.0**-20 * grad.abs().sum(0)).all()


def test_gated_matmul():
    x, gate = operands(72, 40, 36)
    up = with_halfway_cases(torch.randn(36, 40))
    out, paths = run(torch.ops.tile.gated_matmul, x, *(t.t().contiguous().t() for t in (gate, up)), activation="relu")
    a, b = (to_tf32(x).double() @ to_tf32(t).double() for t in (gate, up))
    assert torch.allclose(out.double(), a.relu() * b, rtol=2.0**-18, atol=2.0**-18)
    assert {path for _, path in paths} - {""} == {"wgmma"}


def inspected(order, side):
    """The kernels of a product of square matrices on an H200: names and paths."""
    x, y = (torch.empty(side, side, device="meta") for _ in range(2))
    with precision("high"):
        rows = tile_ops.inspect(torch.ops.tile.matmul, *in_order(x, y, order), what="resources", arch=90)
    return {(row["kernel"], row["path"]) for row in rows}


@pytest.mark.parametrize(
    "order, side, path, copied",
    [("NN", 4096, "wgmma", True), ("NT", 4096, "wgmma", False), ("TN", 2048, "wgmma", True), ("NN", 512, "mma.sync", False)],
)
def test_large_operands_are_copied_along_k(order, side, path, copied):
    kernels = inspected(order, side)
    assert ("matmul", path) in kernels
    assert any(name == "transposed_copy" for name, _ in kernels) == copied


@pytest.mark.slow  # NVRTC
@pytest.mark.parametrize("arch, side, order", [(90, 4096, "NT"), (90, 1024, "NT"), (90, 512, "NN"), (80, 4096, "NN")])
def test_code(arch, side, order):
    """No register is spilled."""
    x, y = (torch.empty(side, side, device="meta") for _ in range(2))
    with precision("high"):
        rows = _C.inspect("code", arch, 0, lambda: torch.ops.tile.matmul(*in_order(x, y, order)))
    for row in rows:
        assert (row["spill_stores"], row["spill_loads"]) == (0, 0), row["kernel"]
