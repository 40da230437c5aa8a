"""Products of graphs that are ours: of the classes of _products, by a graph's options and whether it trains."""

import re

import pytest
import tile_ops
import torch
from compiled_calls import check, compiled, same
from tile_ops import _products
from tile_ops._compile import templates
from tile_ops._compile.choice import Product, is_ours, is_ours_alone, pays_to_fuse
from torch._inductor.utils import run_and_get_code

pytestmark = pytest.mark.usefixtures("uncached")
CPU = torch.device("cpu")


GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """A CPU with AVX2, and an H200."""
    monkeypatch.setattr(_products, "_is_measured", lambda device: True)
    _products.classes.cache_clear()
    _products.limits.cache_clear()
    yield
    _products.classes.cache_clear()
    _products.limits.cache_clear()


class Asked:
    options, trains = {}, False


class Training(Asked):
    trains = True


@pytest.mark.parametrize(
    "dtype, rows, columns, vary, ours",
    [
        (torch.float32, 1, 1024, False, True),
        (torch.float32, 1, 256, False, False),
        (torch.float32, 2, 1024, False, True),
        (torch.float32, 8, 1024, False, True),
        (torch.float32, 9, 1024, False, False),
        (torch.float32, 4, 1024, True, False),
        (torch.float32, 4, 128, False, False),
        (torch.float32, 128, 1024, False, True),
        (torch.float32, 128, 1024, True, True),
        (torch.bfloat16, 1, 1024, False, True),
        (torch.bfloat16, 8, 1024, False, True),
        (torch.bfloat16, 9, 1024, False, False),
        (torch.float16, 4, 1024, False, False),
    ],
)
def test_rows_and_weights_decide(dtype, rows, columns, vary, ours):
    for asked in (Asked(), Training()):  # products of a gradient are chosen apart
        assert is_ours(asked, Product(CPU, (dtype, dtype), rows, 512, columns, vary)) == ours


@pytest.mark.parametrize(
    "dtype, depth, ours",
    [(torch.bfloat16, 2048, True), (torch.float16, 4096, True), (torch.bfloat16, 1024, False), (torch.float32, 4096, False)],
)
@pytest.mark.parametrize("kind", [_products.FUSED, _products.PAIR])
def test_the_depth_decides_on_a_gpu(dtype, depth, ours, kind):
    assert is_ours(Asked(), Product(GPU, (dtype, dtype), 4096, depth, 4096), kind) == ours
    assert not is_ours(Training(), Product(GPU, (dtype, dtype), 4096, depth, 4096), kind)


@pytest.mark.parametrize("asked", [Asked, Training])
@pytest.mark.parametrize("products", ["tile", "torch"])
def test_options_decide_for_all(asked, products):
    asked = asked()
    asked.options = {"products": products}
    for device in (CPU, GPU):
        assert is_ours(asked, Product(device, (torch.float32,) * 2, 3, 5, 7)) == (products == "tile")
        assert not is_ours(asked, Product(device, (torch.float32, torch.bfloat16), 4, 4096, 4096))
        assert not is_ours(asked, Product(device, (torch.float64,) * 2, 4, 4096, 4096))


@pytest.mark.parametrize("rows, vary, ours", [(1, False, True), (8, False, True), (128, False, False), (8, True, False)])
def test_products_alone_are_ours_for_few_rows(rows, vary, ours):
    call = Product(CPU, (torch.float32,) * 2, rows, 512, 1024, vary)
    assert is_ours_alone(Asked(), call) == ours
    for products in ("tile", "torch"):
        asked = Asked()
        asked.options = {"products": products}
        assert is_ours_alone(asked, call) == (ours and products == "tile")


def test_a_product_alone():
    x, weight = torch.randn(1, 512, device=CPU), torch.randn(1024, 512, device=CPU) / 512**0.5
    function = lambda x, weight: torch.nn.functional.linear(x, weight)  # noqa: E731
    for rows, ours in ((1, True), (128, False)):
        tile_ops.compile_report(reset=True)
        same(compiled(function)(x.expand(rows, -1), weight), function(x.expand(rows, -1), weight))
        assert ("1 product" in str(tile_ops.compile_report())) == ours


@pytest.mark.parametrize("training", [False, True])
def test_a_graph_knows_that_it_trains(training, monkeypatch):
    seen = []
    monkeypatch.setattr(templates, "is_ours", lambda compile, call: seen.append(compile.trains))
    linear, x = torch.nn.Linear(20, 24, device=CPU), torch.randn(33, 20, device=CPU)
    with torch.set_grad_enabled(training):
        out = compiled(lambda x: linear(x).sigmoid())(x)
    if training:
        out.sum().backward()
    assert seen and set(seen) == {training}


def test_an_epilogue_on_a_gpu_reads_one_matrix():
    gpu, wanted = torch.device("cuda", 0), Asked()
    wanted.options = {"products": "tile"}
    assert pays_to_fuse(Asked(), gpu, 1) and not pays_to_fuse(Asked(), gpu, 2)
    assert pays_to_fuse(wanted, gpu, 2) and pays_to_fuse(Asked(), CPU, 2)


def gated(x, w, gate, up):
    """Returns what a gradient of SwiGLU computes: its two readers of the product read the gate, and one of them also `up`."""
    product = x @ w
    return product * torch.sigmoid(gate), product * up * gate


@pytest.mark.parametrize("most", [1, 2])
def test_all_readers_of_a_product_are_counted(most, monkeypatch):
    counts = []

    def pays(compile, device, matrices):
        counts.append(matrices)
        return matrices <= most

    monkeypatch.setattr(templates, "pays_to_fuse", pays)
    arguments = [torch.randn(shape, device=CPU) for shape in ((33, 20), (20, 24), (33, 24), (33, 24))]
    tile_ops.compile_report(reset=True)
    found = compiled(gated, options={"products": "tile"})(*arguments)
    (graph,) = tile_ops.compile_report(reset=True).graphs
    assert set(counts) == {2} and ("x1" in graph.products[0].epilogue) == (most == 2), graph
    same(found, gated(*arguments), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows, products", [(4, 1), (16, 0)])
@pytest.mark.at_home
def test_a_step_of_few_rows_has_an_epilogue(rows, products):
    linear = torch.nn.Linear(512, 512)
    torch._dynamo.reset()
    tile_ops.compile_report(reset=True)
    with torch.no_grad():
        torch.compile(lambda x: linear(x).relu(), backend="tile")(torch.randn(rows, 512))
    (graph,) = tile_ops.compile_report().graphs
    assert len(graph.products) == products


@pytest.fixture
def padding(monkeypatch):
    monkeypatch.setattr(_products, "_pads", lambda device, dtype: True)


@pytest.mark.parametrize("bias", [False, True])
def test_products_have_more_columns_where_that_pays(bias, padding):
    def function(x, weight, bias):
        logits = torch.nn.functional.linear(x, weight, bias)
        return logits, logits.amax(-1)

    args = torch.randn(512, 64), torch.randn(4099, 64), torch.randn(4099) if bias else None
    (logits, _), (code,) = run_and_get_code(compiled(function, options={"products": "torch"}), *args)
    assert re.search(r"empty_strided_\w+\(\(512, 4104\), \(4104, 1\)", code)
    assert logits.stride() == (4104, 1)  # as where inductor pads
    check(function, *args, options={"products": "torch"})


@pytest.mark.parametrize("function", [lambda x, y: x @ y, lambda x, y: x.tanh() @ y.exp(), lambda x, y: (x + 1, x @ y)])
@pytest.mark.parametrize("transposed", [False, True])
def test_operands_have_more_rows_and_columns_where_that_pays(function, transposed, padding, monkeypatch):
    monkeypatch.setattr(_products, "_LEAST_PADDED", 64)
    monkeypatch.setattr(_products, "_LEAST_USES", 16)
    x, y = torch.randn(67, 69), torch.randn(69, 71)
    if transposed:
        x, y = x.t().contiguous().t(), y.t().contiguous().t()
    _, (code,) = run_and_get_code(compiled(function, options={"products": "torch"}), x, y)
    assert re.search(r"empty_strided_\w+\(\(72, 72\)", code)  # the product, before it is cut
    check(function, x, y, options={"products": "torch"})


def test_gradients_of_both_operands_read_one_padded_matrix(padding, monkeypatch):
    """The gradient of logits, of 4099 classes, has more columns: as rows of one product, and as the depth of the other."""
    x, weight, target = torch.randn(512, 512), torch.randn(4099, 512), torch.randint(4099, (512,))

    def function(x, weight):
        return torch.nn.functional.cross_entropy(torch.nn.functional.linear(x, weight) * 0.1, target)

    def run():
        args = x.clone().requires_grad_(), weight.clone().requires_grad_()
        compiled(function, options={"products": "torch", "losses": "torch"})(*args).backward()
        return [each.grad for each in args]

    found, codes = run_and_get_code(run)
    wide = [code.count("empty_strided_cpu((512, 4104), (4104, 1)") for code in codes]
    assert wide == [1, 1], codes[-1]
    assert "empty_strided_cpu((512, 4099)" not in codes[-1]
    args = x.clone().requires_grad_(), weight.clone().requires_grad_()
    expected = torch.autograd.grad(function(*args), args)
    same(found, list(expected), rtol=1e-4, atol=1e-6)
