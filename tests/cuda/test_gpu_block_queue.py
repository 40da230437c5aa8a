"""Kernels that draw blocks from a counter of the launch, as those of sm_90 do, on a GPU: one launch after another,
several at once, and in graphs."""

import itertools

import pytest
import torch

HEADS, LENGTH = 40, 1000  # more blocks than run at once, and a last tile that is not full


def operands(device, depth, heads=HEADS, length=LENGTH):
    return [torch.randn(1, heads, length, depth, device=device, dtype=torch.bfloat16) for _ in range(3)]


def attention(tensors):
    return torch.ops.tile.attention(*tensors, is_causal=True)[0]


def reference(tensors):
    return torch.nn.functional.scaled_dot_product_attention(*(tensor.double() for tensor in tensors), is_causal=True)


def check(out, tensors):
    torch.testing.assert_close(out.double(), reference(tensors), rtol=2**-6, atol=2**-6)


@pytest.mark.parametrize("depth", [64, 128])
@pytest.mark.parametrize("heads, length", [(1, 1), (1, 129), (3, 700), (132, 128), (133, 128), (HEADS, LENGTH)])
def test_values(device, depth, heads, length):
    tensors = operands(device, depth, heads, length)
    first = attention(tensors)
    check(first, tensors)
    for _ in range(100):  # each launch finds the counter as the first did
        assert torch.equal(attention(tensors), first)


def test_streams(device):
    """Launches of several streams run at the same time, each with blocks of its own."""
    calls = [operands(device, 64) for _ in range(8)]
    expected = [attention(tensors) for tensors in calls]
    streams = [torch.cuda.Stream(device) for _ in calls]
    torch.cuda.synchronize(device)
    got = []
    for _, (tensors, stream) in itertools.product(range(20), zip(calls, streams)):
        with torch.cuda.stream(stream):
            got.append(attention(tensors))
    torch.cuda.synchronize(device)
    for i, out in enumerate(got):
        assert torch.equal(out, expected[i % len(calls)])


def test_graphs(device):
    """A launch of a graph runs beside others of the stream in which it was captured, and of other graphs."""
    calls = [operands(device, 64) for _ in range(4)]
    expected = [attention(tensors) for tensors in calls]
    graphs, outs = [], []
    for tensors in calls:
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1]):
            outs.append([attention(tensors) for _ in range(3)])
    streams = [torch.cuda.Stream(device) for _ in graphs]
    torch.cuda.synchronize(device)
    eager = []
    for _, (graph, stream) in itertools.product(range(20), zip(graphs, streams)):
        with torch.cuda.stream(stream):
            graph.replay()
        eager.append(attention(calls[0]))
    torch.cuda.synchronize(device)
    for captured, out in zip(outs, expected):
        assert all(torch.equal(each, out) for each in captured)
    assert all(torch.equal(each, expected[0]) for each in eager)


@pytest.mark.parametrize("depth", [64, 128])
def test_gradients(device, depth):
    tensors = [tensor.requires_grad_() for tensor in operands(device, depth, 24, 500)]
    grad = torch.randn(1, 24, 500, depth, device=device, dtype=torch.bfloat16)
    got = torch.autograd.grad(attention(tensors), tensors, grad)
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    expected = torch.autograd.grad(reference(exact), exact, grad.double())
    for ours, theirs in zip(got, expected):
        torch.testing.assert_close(ours.double(), theirs, rtol=2**-5, atol=2**-5 * max(1.0, theirs.abs().max().item()))
