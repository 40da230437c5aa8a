"""Tensors of more than 2^31 elements on a GPU: offsets are of 64 bits."""

import numerics
import pytest
import tile_ops
import tile_ops.language as tl
import torch
import torch.nn.functional as F
from tile_ops import _C

ROWS, COLUMNS = 70_000, 32_768  # 2.3e9 elements
# Rows at both ends, and on both sides of element 2^31.
SLICES = [slice(0, 3), slice(2**31 // COLUMNS - 2, 2**31 // COLUMNS + 2), slice(ROWS - 3, ROWS)]


@pytest.fixture(autouse=True)
def _give_back():
    yield
    torch.cuda.empty_cache()


@pytest.fixture
def x(device):
    return torch.randn(ROWS, COLUMNS, dtype=torch.bfloat16, device=device)


def check(ours, call, *args, **options):
    """The numerics rule for a slice of a result, which `call` gives of slices of the arguments."""
    numerics.check(ours, call(*args), call(*numerics.widen(args)), **options)


def test_rows(x, device):
    weight = torch.randn(COLUMNS, dtype=torch.bfloat16, device=device)
    for ours, theirs in [
        (lambda x, w: tile_ops.softmax(x, -1), lambda x, w: torch.softmax(x, -1)),
        (lambda x, w: tile_ops.rms_norm(x, [COLUMNS], w, 1e-5), lambda x, w: F.rms_norm(x, [COLUMNS], w, 1e-5)),
        (lambda x, w: tile_ops.layer_norm(x, [COLUMNS], w), lambda x, w: F.layer_norm(x, [COLUMNS], w)),
    ]:
        out = ours(x, weight)
        for selected in SLICES:
            check(out[selected], theirs, x[selected], weight)
        del out


def test_gradients_of_rows(x, device):
    grad = torch.randn(COLUMNS, dtype=torch.bfloat16, device=device).expand(ROWS, COLUMNS)
    for ours, theirs in [
        (lambda x: tile_ops.softmax(x, -1), lambda x: torch.softmax(x, -1)),
        (lambda x: tile_ops.rms_norm(x, [COLUMNS], None, 1e-5), lambda x: F.rms_norm(x, [COLUMNS], None, 1e-5)),
    ]:

        def gradient(x, grad, function=theirs):
            x = x.detach().requires_grad_()
            return torch.autograd.grad(function(x), x, grad)[0]

        got = gradient(x, grad, ours)
        for selected in SLICES:
            incoming = numerics.largest(grad[selected]) * max(1.0, numerics.largest(x[selected]))
            check(got[selected], gradient, x[selected], grad[selected], gradient=True, incoming=incoming)
        del got


def test_elements(x, device):
    out = tile_ops.swiglu(x, x)  # more elements than an extent may count
    for selected in SLICES:
        check(out[selected], lambda x: F.silu(x) * x, x[selected])
    grad = torch.ones((), dtype=torch.bfloat16, device=device).expand_as(x)
    del out
    (got, _) = torch.ops.tile.swiglu_backward(grad, x, x, [True, False])
    for selected in SLICES:
        x_slice = x[selected].detach().requires_grad_()
        wide = x_slice.detach().double().requires_grad_()
        theirs, exact = (
            torch.autograd.grad(F.silu(each) * each.detach(), each, torch.ones_like(each))[0] for each in (x_slice, wide)
        )
        numerics.check(got[selected], theirs, exact, gradient=True, incoming=numerics.largest(x_slice))


def test_columns(x):
    """An axis whose stride is large: the last columns of the transposed tensor."""
    out = tile_ops.softmax(x.t(), 0)
    for selected in SLICES:
        check(out[:, selected], lambda x: torch.softmax(x, 0), x[selected].t())


def test_group_norm(device):
    x = torch.randn(9, 64, 2048, 2048, dtype=torch.bfloat16, device=device)
    out = tile_ops.group_norm(x, 32, activation="silu")
    for n in (0, 8):
        check(out[n : n + 1, -2:], lambda x: F.silu(F.group_norm(x, 1)), x[n : n + 1, -2:])


def test_products(device):
    x = torch.randn(ROWS, COLUMNS, dtype=torch.bfloat16, device=device)
    w = torch.randn(COLUMNS, 64, dtype=torch.bfloat16, device=device) / COLUMNS**0.5
    out = tile_ops.matmul(x, w)
    for selected in SLICES:
        check(out[selected], torch.matmul, x[selected], w)
    del out
    narrow, wide = (
        torch.randn(ROWS, 16, dtype=torch.bfloat16, device=device),
        torch.randn(16, COLUMNS, dtype=torch.bfloat16, device=device),
    )
    out = tile_ops.matmul(narrow, wide)
    for selected in SLICES:
        check(out[selected], torch.matmul, narrow[selected], wide)


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


def test_attention_and_rope(device):
    """The last of many heads."""
    q = torch.randn(2, 4100, 4096, 64, dtype=torch.bfloat16, device=device)
    angle = torch.rand(4096, 32, device=device)
    turned, _ = tile_ops.rope(q, q[:, :1], angle.cos(), angle.sin())
    check(turned[-1, -1], rotated, q[-1, -1], angle.cos(), angle.sin())
    del turned
    short = q.view(2 * 4100, 16, 256, 64)
    out, _ = tile_ops.attention(short, short, short, is_causal=True)
    check(out[-1:, -2:], lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), short[-1:, -2:])


def test_few_elements_far_apart(device):
    memory = torch.zeros(2**31 + 2**12, dtype=torch.int8, device=device)
    x = memory.as_strided((3, 5), (2**30, 7))
    x.copy_(torch.arange(15, device=device).view(3, 5))
    text = """kernel copy(%x: array<i8,2>, %y: array<i8,2>) {
  %z: i32 = constant {dtype=i32, value=0}
  %t: i8[4,8] = load %x, %z, %z {pad=0, shape=[4,8], steps=[4,8]}
  store %y, %t, %z, %z {steps=[4,8]}
}
"""
    y = torch.zeros(3, 5, dtype=torch.int8, device=device)
    _C.run_ir(text, (1, 1, 1), [x, y])
    assert torch.equal(x, y)
    x.zero_()
    _C.run_ir(text, (1, 1, 1), [y, x])
    assert torch.equal(x, y) and memory.count_nonzero() == 14


@tl.kernel
def ends(x, out, sizes):
    """Reads the extent of a long axis and its end by load, slice and gather, and fills its last tile with -1."""
    n = x.shape[0]
    last = tl.cdiv(n, 64) - 1
    tl.store(sizes, (0,), n)
    tl.store(sizes, (1,), tl.num_tiles(x, 0, (64,)))
    tl.store(out, (0,), tl.load(x, (last,), (64,)))
    tl.store(out, (1,), tl.load(x.slice(0, (last - 1) * 64, n), (0,), (64,)))
    tl.store(out, (2,), tl.gather(x, (n - 3 + tl.arange(64, dtype=tl.int64),), padding_value=9))
    tl.store(x, (last,), tl.full((64,), -1, tl.int8))


def test_an_axis_of_more_than_31_bits(device):
    size = 2**31 + 70
    x = torch.zeros(size, dtype=torch.int8, device=device)
    x[-200:] = torch.arange(200, device=device).to(torch.int8)
    last = (size - 1) // 64 * 64
    expected = torch.zeros(3, 64, dtype=torch.int8, device=device)
    expected[0, : size - last] = x[last:]
    expected[1] = x[last - 64 : last]
    expected[2] = torch.tensor([*x[-3:].tolist(), *[9] * 61])
    out, sizes = torch.empty_like(expected), torch.zeros(2, dtype=torch.int64, device=device)
    ends[1](x, out.view(-1), sizes)
    assert sizes.tolist() == [size, (size + 63) // 64]
    assert torch.equal(out, expected)
    assert x[last:].eq(-1).all() and x[last - 1].item() == expected[1, -1].item()
