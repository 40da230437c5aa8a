"""Tuned kernels on a GPU: choices, errors that it tells late, streams, and graphs that are captured."""

import tile_ops.language as tl
import torch


@tl.kernel
def add_to(x, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.load(out, i, N) + tl.load(x, i, N))


def blocks(x, out, n):
    return (tl.cdiv(len(x), n),)


def test_it_measures_and_leaves_the_tensors_alone():
    kernel = add_to.tune([{"N": 256}, {"N": 1024}, {"N": 100}, {"N": 0}])
    x, out = torch.randn(10_000, device="cuda"), torch.ones(10_000, device="cuda")
    kernel.measure(blocks, x, out)
    assert bool((out == 1).all())
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    kernel.launch(blocks, x, out, stream=stream)
    torch.cuda.synchronize()
    torch.testing.assert_close(out, x + 1)
    rows = kernel.table(x, out).rows
    assert [row.us is None for row in rows] == [False, False, False, True] and rows[3].error.startswith("TileTypeError")


def test_nothing_is_measured_while_a_graph_is_captured():
    configs = [{"N": 512}, {"N": 2048}]
    kernel = add_to.tune(configs, key=lambda x, out: "captured")
    x, out = torch.randn(5000, device="cuda"), torch.zeros(5000, device="cuda")
    for config in configs:  # modules are loaded before
        add_to[blocks](x, torch.zeros_like(x), config["N"])
    known = kernel.best(x, out)  # of an earlier process
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel[blocks](x, out)
    assert kernel.best(x, out) == known
    graph.replay()
    graph.replay()
    torch.testing.assert_close(out, 2 * x)
    kernel[blocks](x, out)
    torch.testing.assert_close(out, 3 * x)
    assert kernel.best(x, out) in configs


def test_an_assertion_of_a_configuration_is_its_error():
    @tl.kernel
    def small(x, N: tl.Constant[int]):
        tl.assert_(tl.load(x, 0, ()) < N, "too large")
        tl.store(x, 0, tl.load(x, 0, N) * 0)

    x = torch.full((8,), 5.0, device="cuda")
    kernel = small.tune([{"N": 4}, {"N": 8}])
    kernel[1](x)
    torch.cuda.synchronize()
    assert x.tolist() == [0] * 8 and kernel.best(x) == {"N": 8}
    assert "too large" in kernel.table(x).rows[0].error
