"""tile::gated_matmul against torch: shapes, strides, activations, gradients, and every way torch can call it; its
errors."""

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from activations import ACTIVATIONS
from numerics import check_call
from opinfo import DTYPES
from torch.library import opcheck
from threads import with_torch_threads

pytestmark = pytest.mark.usefixtures("deterministic")

op = torch.ops.tile.gated_matmul


def reference(input, gate_weight, up_weight, *, activation="silu"):
    return ACTIVATIONS[activation](input @ gate_weight) * (input @ up_weight)


SHAPES = [
    ((5, 7), 3),
    ((1, 1), 1),
    ((7,), 3),
    ((2, 5, 7), 3),
    ((2, 1, 3, 7), 300),
    ((17, 33), 16),
    ((16, 40), 257),
    ((65, 130), 70),
    ((0, 7), 3),
    ((5, 0), 3),
    ((5, 7), 0),
    ((2, 0, 7), 3),
    ((0,), 4),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, n", SHAPES)
def test_shapes(make, dtype, shape, n):
    k = shape[-1]
    check_call(op, reference, (make(*shape, dtype=dtype), make(k, n, dtype=dtype), make(k, n, dtype=dtype)))


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32))
@pytest.mark.parametrize(
    "m, k, n", [(129, 300, 257), (3, 600, 300), (300, 257, 9), pytest.param(1030, 40, 2050, marks=pytest.mark.slow)]
)
def test_sizes_of_several_tiles(make, dtype, m, k, n):
    check_call(op, reference, (make(m, k, dtype=dtype), make(k, n, dtype=dtype), make(k, n, dtype=dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(make, dtype, activation):
    args = make(3, 19, 40, dtype=dtype), make(40, 21, dtype=dtype), make(40, 21, dtype=dtype)
    check_call(op, reference, args, {"activation": activation})


def layouts(make, rows, columns, dtype):
    yield "transposed", make(columns, rows, dtype=dtype, grad=False).t()
    yield "every second", make(rows, 2 * columns, dtype=dtype, grad=False)[:, ::2]
    yield "columns of a wider one", make(rows, columns + 3, dtype=dtype, grad=False)[:, 1 : columns + 1]
    yield "one row", make(columns, dtype=dtype, grad=False).expand(rows, columns)
    yield "one value", make(1, 1, dtype=dtype, grad=False).expand(rows, columns)


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32, torch.bfloat16))
def test_strides(make, dtype):
    for name, x in layouts(make, 20, 37, dtype):
        check_call(op, reference, (x.requires_grad_(), make(37, 18, dtype=dtype), make(37, 18, dtype=dtype)), what=name)
    for name, weight in layouts(make, 37, 18, dtype):
        args = make(20, 37, dtype=dtype), weight.requires_grad_(), make(18, 37, dtype=dtype, grad=False).t()
        check_call(op, reference, args, what=name)


def test_strided_batches(make):
    weights = make(6, 70), make(6, 70)  # where rows are alike, so many that the largest error is no luck
    for name, x in [
        ("axes swapped", make(3, 4, 5, 6, grad=False).transpose(0, 1)),
        ("expanded", make(1, 4, 1, 6, grad=False).expand(3, 4, 5, 6)),
        ("sliced", make(6, 4, 5, 6, grad=False)[::2]),
        ("positions last", make(3, 6, 5, grad=False).transpose(1, 2)),
    ]:
        check_call(op, reference, (x.requires_grad_(), *weights), what=name)


def test_gradients_have_the_layout_of_their_tensors(make):
    x, gate, up = make(2, 5, 3, 7).transpose(1, 2), make(9, 7).t(), make(7, 9)
    for tensor, grad in zip((x, gate, up), torch.autograd.grad(op(x, gate, up).sum(), (x, gate, up))):
        assert grad.stride() == tensor.stride()


def test_only_wanted_gradients(make):
    args = make(6, 8), make(8, 5), make(8, 5)
    for wanted in args:
        for each in args:
            each.requires_grad_(each is wanted)
        ours, theirs = (torch.autograd.grad(f(*args).sum(), wanted)[0] for f in (op, reference))
        torch.testing.assert_close(ours, theirs)


@pytest.mark.slow  # matrices of more than 20 MiB
@pytest.mark.parametrize("of_input", (True, False))
def test_gradients_in_chunks(of_input):
    # A chunk of columns for the weights has more than half of product_chunk_bytes, if the input's gradient can hold it.
    x, gate, up = (torch.randn(shape).bfloat16().requires_grad_() for shape in ((7801, 1460), (1460, 1448), (1460, 1448)))
    x.requires_grad_(of_input)
    wanted = [each for each in (x, gate, up) if each.requires_grad]
    out = op(x, gate, up)
    incoming = torch.randn_like(out)
    found = torch.autograd.grad(out, wanted, incoming)
    wide = [each.detach().float().requires_grad_(each.requires_grad) for each in (x, gate, up)]
    expected = torch.autograd.grad(reference(*wide), [each for each in wide if each.requires_grad], incoming.float())
    for i, (own, right) in enumerate(zip(found, expected)):
        error, most = (own.float() - right).abs().max().item(), right.abs().max().item()
        assert error <= 4 * torch.finfo(torch.bfloat16).eps * most, f"gradient {i}: error {error:.3g}, largest {most:.3g}"


def test_what_is_saved(make):
    saved = []
    args = make(6, 8, dtype=torch.bfloat16), make(8, 5, dtype=torch.bfloat16), make(8, 5, dtype=torch.bfloat16)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        op(*args)
    assert sorted((tuple(t.shape), t.dtype) for t in saved) == sorted(
        [(tuple(t.shape), t.dtype) for t in args] + [((6, 5), torch.bfloat16)] * 2
    )


def test_infinities_and_nan():
    x = torch.tensor([[torch.inf, 1.0], [torch.nan, 1.0], [3e38, 3e38], [1.0, 2.0]])
    gate, up = torch.tensor([[1.0, -1.0], [2.0, 1.0]]), torch.eye(2)
    for activation in ("none", "relu"):
        check_call(op, reference, (x, gate, up), {"activation": activation})


def test_opcheck_of_the_gradient(make):
    pre = make(2, 5, 3, grad=False), make(2, 5, 3, grad=False)
    args = make(2, 5, 3, grad=False), make(2, 5, 7, grad=False), make(7, 3, grad=False), make(3, 7, grad=False).t()
    for mask in ([True] * 3, [False, True, False], [False, False, True]):
        opcheck(torch.ops.tile.gated_matmul_backward, (*args, "silu", *pre, mask))


@pytest.mark.parametrize("dims", [(0, None, None), (1, 0, 0), (None, 2, None), (2, None, 0)])
def test_vmap(make, dims):
    shapes = [[4, 5, 8], [8, 6], [8, 6]]
    args = [make(*(s if d is None else s[:d] + [3] + s[d:]), dtype=torch.float64, grad=False) for s, d in zip(shapes, dims)]
    torch.testing.assert_close(torch.vmap(op, dims)(*args), torch.vmap(reference, dims)(*args))
    grads = [torch.vmap(torch.func.grad(lambda *a, f=f: f(*a).square().sum(), (0, 1, 2)), dims)(*args) for f in (op, reference)]
    torch.testing.assert_close(*grads)


def test_autocast(make, device):
    args = make(5, 8), make(8, 6), make(8, 6)
    with torch.autocast(device.type, torch.bfloat16):
        out = op(*args)
    assert out.dtype == torch.bfloat16
    assert {grad.dtype for grad in torch.autograd.grad(out.sum(), args)} == {torch.float32}


def test_gated_linear(make):
    x, gate, up = make(2, 5, 8), make(6, 8), make(6, 8)
    check_call(tile_ops.gated_linear, lambda x, g, u: F.silu(F.linear(x, g)) * F.linear(x, u), (x, gate, up))
    tile_ops.gated_linear(x, gate, up, "relu").sum().backward()
    assert gate.grad.is_contiguous() and up.grad.is_contiguous()


def test_threads_agree_bit_for_bit(make):
    args = make(300, 200), make(200, 280), make(200, 280)

    def call():
        out = op(*args)
        return out.detach(), *torch.autograd.grad(out.sum(), args)

    assert all(torch.equal(a, b) for a, b in zip(*with_torch_threads((1, 2), call)))
