"""Which products are ours: on a CPU those of few rows, on a GPU deep ones in 16 bits."""

import pytest
import tile_ops
import torch
from tile_ops._compile.choice import Product, is_ours

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
