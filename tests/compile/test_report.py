"""tile_ops.compile_report(): kernels, products, calls with their reasons, and graphs of inductor's cache."""

import re
from unittest import mock

import pytest
import tile_ops
import torch
from tile_ops._compile import report
from torch._inductor.graph import GraphLowering


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    tile_ops.compile_report(reset=True)


def compiled(function, *inputs, **options):
    torch.compile(function, backend="tile", dynamic=False, **options)(*inputs)
    return tile_ops.compile_report(reset=True)


def test_a_kernel_names_the_operators_that_are_fused_in_it():
    def model(x):
        return torch.relu(x + 1).t().sum(0)

    (graph,) = compiled(model, torch.randn(5, 7)).graphs
    (kernel,) = graph.kernels
    assert kernel.operators == ("add", "relu", "sum") and kernel.launches == 1
    assert re.fullmatch(r"tile_fused_add_relu_sum_t_\d+|tile_fused_add_relu_sum_\d+", kernel.name)
    assert graph.kind == "inference" and graph.computed_by == "tile" and graph.read and not graph.error
    assert not graph.products and not graph.called and graph.seconds > 0
    assert graph.place.rpartition(":")[0] == __file__


def test_launches_of_one_kernel_are_counted():
    def model(x, y):
        return torch.relu(x).cumsum(1), torch.relu(y).cumsum(1)

    (graph,) = compiled(model, torch.randn(5, 7), torch.randn(5, 7)).graphs
    assert [each.launches for each in graph.kernels] == [2]


def test_a_product_shows_its_epilogue():
    def model(x, w, b):
        return torch.relu(x @ w + b)

    (graph,) = compiled(model, torch.randn(70, 80), torch.randn(80, 90), torch.randn(90), options={"products": "tile"}).graphs
    (product,) = graph.products
    assert {"add", "relu"} <= set(product.operators) and product.launches == 1
    assert "acc" in product.epilogue and "relu" in product.epilogue
    assert not graph.kernels and not graph.called


def test_calls_have_reasons():
    def model(x, w):
        return torch.lgamma(x @ w), x.cumsum(1), tile_ops.softmax(x, 1)

    (graph,) = compiled(model, torch.randn(5, 7), torch.randn(7, 3)).graphs
    assert graph.called == {
        "aten.mm": (1, "faster as one call"),
        "aten.lgamma.default": (1, "kernels have no formula"),
        "aten.cumsum.default": (1, "inductor calls it"),
        "tile.softmax.default": (1, "an operator of another library"),
    }


def test_a_refused_operator_names_the_reason(monkeypatch):
    from tile_ops._compile.active import Refused
    from tile_ops._compile.kernel import TileKernel

    def refuse(*_):
        raise Refused("the reduction prod")

    monkeypatch.setattr(TileKernel, "_prod", refuse)
    (graph,) = compiled(lambda x: torch.relu(x.prod(1)) + 1.5, torch.randn(5, 60)).graphs
    refused = (1, "refused: the reduction prod")  # no kernel has parts of what was one
    assert graph.called == dict.fromkeys(("aten.prod.dim_int", "aten.relu.default", "aten.add.Tensor"), refused)
    assert not graph.kernels


def test_forward_and_backward_are_two_graphs():
    x = torch.randn(5, 7, requires_grad=True)
    torch.compile(lambda x: torch.sin(x).sum(), backend="tile")(x).backward()
    assert [each.kind for each in tile_ops.compile_report().graphs] == ["forward", "backward"]


def test_a_report_without_reset_keeps_the_graphs():
    compiled(torch.relu, torch.randn(3))
    assert not tile_ops.compile_report().graphs
    torch.compile(torch.sin, backend="tile")(torch.randn(3))
    assert len(tile_ops.compile_report().graphs) == len(tile_ops.compile_report(reset=True).graphs) == 1
    assert str(tile_ops.compile_report()) == "0 graphs in 0.00 s: 0 kernels, 0 products, 0 calls, 0 left to others"


@pytest.mark.parametrize("autograd_cache", [True, False])
def test_graphs_of_a_cache_have_their_kernels(autograd_cache):
    reports = []
    with torch._functorch.config.patch(enable_autograd_cache=autograd_cache), torch._inductor.config.patch(fx_graph_cache=True):
        for _ in range(2):
            torch._dynamo.reset()
            x = torch.randn(5, 11, requires_grad=True)
            torch.compile(lambda x: torch.cos(x).lgamma().sum(), backend="tile")(x).backward()
            reports.append(tile_ops.compile_report(reset=True))
    first, again = (each.graphs for each in reports)
    assert [each.cached for each in first] == [False, False] and [each.cached for each in again] == [True, True]
    assert [each.kind for each in again] == ["forward", "backward"]
    for one, other in zip(first, again):
        assert one.kernels == other.kernels and one.called == other.called and one.kernels and other.read


def test_a_compile_leaves_inductors_hook_for_sources_as_it_was():
    """Tools such as run_and_get_code replace the hook for a while, and the first compile may run in that while."""
    before = GraphLowering.save_output_code
    sources = []
    with mock.patch.object(GraphLowering, "save_output_code", sources.append):
        compiled(torch.cos, torch.randn(3))
        assert GraphLowering.save_output_code == sources.append
    assert GraphLowering.save_output_code is before and len(sources) == 1


SOURCE = """
from tile_ops._compile.launch import tile_call, tile_kernel
# called: aten.a.default: refused: a: b
# in steps: c: a: b
# Topologically Sorted Source Nodes: [x], Original ATen: [aten.add, aten.view]
tile_0 = tile_kernel('tile_0', r'''
def tile_0(a0, o1):
    extern_kernels.mm(a0, o1)
''')
tile_0_call1 = tile_call(tile_0, (), (1, 1, 1))

def call(args):
    tile_0_call1(buf0, buf1)
    tile_0_call2(buf0, buf1)
    buf2 = torch.ops.aten.a.default(buf0)
    buf3, buf4 = torch.ops.aten.b.c(buf0)
    buf5 = torch.ops.inductor._alloc_from_pool(buf0)
    # Topologically Sorted Source Nodes: [x], Original ATen: [aten.mm]
    torch.ops.tile._matmul_into(buf0, buf1, [], [buf2], epilogue='t = (acc + 1.0); relu(t)')
    torch.ops.tile._matmul_into(buf3, buf1, [], [buf2], epilogue='t = (acc + 1.0); relu(t)')
    extern_kernels.mm(buf0, buf1, out=buf6)
"""


def test_a_generated_module_is_read():
    kernels, products, called, steps = report.read(SOURCE, {"aten.b.c": "b", "aten.mm": "mm"}.get)
    assert kernels == [report.Kernel("tile_0", ("add",), 2)]
    assert products == [report.Product(("mm",), "t = (acc + 1.0); relu(t)", 2)]
    assert called == {"aten.a.default": (1, "refused: a: b"), "aten.b.c": (1, "b"), "aten.mm": (1, "mm")}
    assert steps == {"c": "a: b"}


def test_the_text_has_a_line_for_each_entry():
    kernel, product = report.Kernel("tile_0", ("add", "relu"), 2), report.Product(("mm",), "relu(acc)")
    graphs = [
        report.Graph("forward", "model.py:3", 1.5, [kernel], [product], {"aten.mm": (2, "faster as one call")}),
        report.Graph("backward", "", 0.5, computed_by="eager", error="KeyError: 'a'"),
        report.Graph("graph", "model.py:9", 0.25, cached=True, read=False),
    ]
    assert str(report.CompileReport(graphs)) == (
        "3 graphs in 2.25 s: 1 kernel, 1 product, 2 calls, 1 left to others\n"
        "forward of model.py:3, 1.50 s\n"
        "     2 tile_0: add, relu\n"
        "     1 product (mm): relu(acc)\n"
        "     2 calls of aten.mm: faster as one call\n"
        "backward, 0.50 s\n"
        "  computed by eager: KeyError: 'a'\n"
        "graph of model.py:9, 0.25 s, from torch's cache\n"
        "  its kernels are not known"
    )


def test_the_line_of_a_user_is_outside_of_torch():
    inside = f'  File "{torch.__path__[0]}/nn/modules/linear.py", line 9, in forward\n    x\n'
    own = '  File "model.py", line 3, in run\n    y\n'
    assert report.place_of(own + inside) == "model.py:3"
    assert report.place_of(inside) == f"{torch.__path__[0]}/nn/modules/linear.py:9"
    assert report.place_of(None) == report.place_of("") == ""
