"""Which products are ours: on a CPU those of few rows, on a GPU deep ones in 16 bits."""

import pytest
import tile_ops
import torch
from compiled_calls import compiled, same
from tile_ops._compile import templates
from tile_ops._compile.choice import Product, is_ours, pays_to_fuse

pytestmark = pytest.mark.usefixtures("uncached")
CPU = torch.device("cpu")


class Asked:
    options = {}


@pytest.mark.parametrize(
    "dtype, rows, columns, vary, ours",
    [
        (torch.float32, 1, 1024, False, False),
        (torch.float32, 2, 1024, False, True),
        (torch.float32, 8, 1024, False, True),
        (torch.float32, 9, 1024, False, False),
        (torch.float32, 4, 1024, True, False),
        (torch.float32, 4, 128, False, False),
        (torch.bfloat16, 1, 1024, False, True),
        (torch.bfloat16, 5, 1024, False, False),
        (torch.float16, 4, 1024, False, False),
    ],
)
def test_rows_and_weights_decide(dtype, rows, columns, vary, ours):
    assert is_ours(Asked(), Product(CPU, (dtype, dtype), rows, 512, columns, vary)) == ours


@pytest.mark.parametrize(
    "dtype, depth, arch, ours",
    [
        (torch.bfloat16, 2048, (9, 0), True),
        (torch.float16, 4096, (9, 0), True),
        (torch.bfloat16, 1024, (9, 0), False),
        (torch.float32, 4096, (9, 0), False),
        (torch.bfloat16, 4096, (8, 0), False),
    ],
)
def test_the_depth_decides_on_a_gpu(dtype, depth, arch, ours, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: arch)
    assert is_ours(Asked(), Product(torch.device("cuda", 0), (dtype, dtype), 4096, depth, 4096)) == ours


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
