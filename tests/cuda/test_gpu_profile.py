"""tile_ops.profile on a GPU: kernels with their operators, bytes and roofs, a replayed graph, a compiled graph."""

import pytest
import tile_ops
import torch

SIZE = 4096


@pytest.fixture
def x(device):
    return torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16)


def test_a_step_on_a_gpu(x, device, tmp_path):
    weight = torch.randn(SIZE, SIZE, device=device, dtype=torch.bfloat16, requires_grad=True)
    x.requires_grad_()

    def step():
        torch.ops.tile.softmax(torch.relu(x @ weight), -1).sum().backward()

    report = tile_ops.profile(step)
    kernels, operators = ({row.name: row for row in rows} for rows in (report.kernels, report.operators))
    softmax, backward, product = kernels["softmax"], kernels["softmax_backward"], operators["aten::mm"]
    assert report.on_gpu and list(report.peaks) == [torch.bfloat16] and report.bandwidth > 0.1e12
    assert softmax.bytes == 2 * 2 * SIZE**2 and softmax.where.startswith("softmax") and softmax.operator.startswith("tile::")
    assert softmax.ours and softmax.launches == 1 and 0.3 < softmax.roof < 1.5 and backward.bound == "memory"
    assert product.flops == 3 * 2 * SIZE**3 and product.bound == "compute" and 0.3 < product.roof < 1.5 and not product.ours
    assert operators["aten::clamp_min"].bytes == 2 * 2 * SIZE**2
    assert sum(row.launches for row in report.kernels) == report.launches and 0 < report.ours < 1
    assert 0 < report.gpu_seconds and report.gap_seconds >= 0 and report.rest_seconds is None
    assert "the GPU works" in str(report)
    pytest.importorskip("PIL")
    report.save(tmp_path / "step.png")
    report.chrome_trace(tmp_path / "step.json")
    assert "kernel_softmax" in (tmp_path / "step.json").read_text()


def test_a_replayed_graph_has_times_only(x):
    tile_ops.softmax(x, -1)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tile_ops.softmax(x, -1)
    report = tile_ops.profile(graph.replay, bandwidth=1, peak=1)
    assert [(row.name, row.ours, row.launches, row.bytes) for row in report.kernels] == [("softmax", True, 1, None)]


def test_a_compiled_graph_is_ours(x):
    compiled = torch.compile(lambda t: torch.relu(t) * 2 + 1, backend="tile")
    (row,) = tile_ops.profile(compiled, x, bandwidth=1, peak=1).kernels
    assert row.ours and row.bytes == 2 * 2 * SIZE**2
