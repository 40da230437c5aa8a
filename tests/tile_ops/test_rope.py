"""tile::rope against torch: forms, widths, layouts, positions, gradients, and every way torch can call it."""

import pytest
import tile_ops  # noqa: F401
import torch
from numerics import check_call
from opinfo import DTYPES
from rope_reference import tables
from rope_reference import rotated as reference
from torch.library import opcheck
from threads import with_torch_threads

pytestmark = pytest.mark.usefixtures("deterministic")

rope = torch.ops.tile.rope


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(
    "head_dim, rotary", [(2, 2), (8, 8), (8, 4), (64, 64), (80, 32), (96, 96), (128, 128), (256, 200), (320, 320), (6, 0)]
)
def test_forms(make, dtype, interleaved, head_dim, rotary):
    query, key = make(2, 4, 5, head_dim, dtype=dtype), make(2, 2, 5, head_dim, dtype=dtype)
    for width in {rotary, rotary // 2}:
        for table_dtype in {torch.float32, dtype}:
            cos, sin = tables(5, width, rotary, interleaved, table_dtype)
            kwargs = {"interleaved": interleaved, "rotary_dim": None if rotary == head_dim else rotary}
            check_call(rope, reference, (query, key, cos, sin), kwargs, what=f"width {width} {table_dtype}")


@pytest.mark.parametrize(
    "batch, heads, key_heads, length",
    [(1, 1, 1, 1), (3, 5, 1, 7), (1, 2, 3, 600), (2, 8, 2, 257), (0, 2, 2, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 3, 0)],
)
def test_sizes(make, batch, heads, key_heads, length):
    cos, sin = tables(length, 8, 16)
    check_call(rope, reference, (make(batch, heads, length, 16), make(batch, key_heads, length, 16), cos, sin))


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32, torch.bfloat16))
def test_layouts(make, dtype):
    """Outputs and gradients keep the order of strides."""
    cos, sin = tables(6, 8, 16)
    for name, query in [
        ("positions before heads", make(2, 6, 4, 16, dtype=dtype, grad=False).transpose(1, 2)),
        ("part of a projection", make(2, 6, 4, 48, dtype=dtype, grad=False).transpose(1, 2)[..., 16:32]),
        ("head dim first", make(2, 4, 16, 6, dtype=dtype, grad=False).transpose(2, 3)),
        ("every second", make(2, 4, 6, 32, dtype=dtype, grad=False)[..., ::2]),
        ("expanded heads", make(2, 1, 6, 16, dtype=dtype, grad=False).expand(2, 4, 6, 16)),
        ("expanded values", make(2, 4, 6, 1, dtype=dtype, grad=False).expand(2, 4, 6, 16)),
    ]:
        key = make(2, 6, 2, 16, dtype=dtype, grad=False).transpose(1, 2)
        check_call(rope, reference, (query.requires_grad_(), key.requires_grad_(), cos, sin), what=name)
        outs = rope(query, key, cos, sin)
        for out, x in zip(outs, (query, key)):
            assert out.stride() == torch.empty_like(x).stride(), name
        for grad, x in zip(torch.autograd.grad(outs, (query, key), [torch.randn_like(out) for out in outs]), (query, key)):
            assert grad.stride() == torch.empty_like(x).stride(), name


@pytest.mark.parametrize("table_batch", [None, 1, 2])
def test_tables_with_a_batch(make, table_batch):
    cos, sin = tables(5, 8, 16, batch=table_batch)
    check_call(rope, reference, (make(2, 3, 5, 16), make(2, 1, 5, 16), cos, sin))
    check_call(
        rope, reference, (make(2, 3, 5, 16), make(2, 1, 5, 16), cos.transpose(-1, -2).contiguous().transpose(-1, -2), sin)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (2, 5)])
@pytest.mark.parametrize("table_batch", [None, 2])
def test_position_ids(make, dtype, index, shape, table_batch):
    cos, sin = tables(11, 16, 16, interleaved=True, batch=table_batch)
    ids = torch.randint(0, 11, shape, dtype=index)
    args = make(2, 3, 5, 24, dtype=dtype), make(2, 1, 5, 24, dtype=dtype), cos, sin
    check_call(rope, reference, args, {"interleaved": True, "rotary_dim": 16, "position_ids": ids})


def test_one_gradient_of_the_two(make):
    query, key = make(2, 4, 5, 16), make(2, 2, 5, 16)
    cos, sin = tables(5, 8, 16)
    outs, expected = rope(query, key, cos, sin), reference(query, key, cos, sin)
    for i, x in ((0, query), (1, key)):
        grad = torch.randn_like(outs[i])
        ours = torch.autograd.grad(outs[i], x, grad, retain_graph=True)[0]
        torch.testing.assert_close(ours, torch.autograd.grad(expected[i], x, grad, retain_graph=True)[0])
    assert torch.autograd.grad(outs[0].sum(), key, allow_unused=True)[0] is None


@pytest.mark.parametrize("interleaved", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_gradcheck(make, interleaved):
    f64 = torch.float64
    cos, sin = tables(3, 2, 4, dtype=f64)
    ids = torch.tensor([[2, 0], [1, 1]])

    def call(query, key):
        return rope(query, key, cos, sin, interleaved=interleaved, rotary_dim=4, position_ids=ids)

    args = make(2, 2, 2, 6, dtype=f64), make(2, 1, 2, 6, dtype=f64)
    assert torch.autograd.gradcheck(call, args, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(call, args, check_batched_grad=True)


def test_opcheck(make):
    query, key = make(2, 6, 4, 16).transpose(1, 2), make(2, 6, 2, 16).transpose(1, 2)
    cos, sin = tables(6, 8, 16)
    opcheck(rope, (query, key, cos, sin))
    opcheck(rope, (query.detach(), key.detach(), cos, sin), {"interleaved": True})
    opcheck(rope, (query, key, *tables(9, 4, 4, batch=2)), {"rotary_dim": 4, "position_ids": torch.arange(6)})
    opcheck(rope, (query[:0], key[:0], cos, sin))
    opcheck(torch.ops.tile.rope_backward, (query, key, cos, sin, False, None, None, [True, True]))
    opcheck(torch.ops.tile.rope_backward, (None, key, *tables(6, 4, 8), True, 8, torch.arange(6), [False, True]))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(make, backend):
    torch._dynamo.reset()

    def call(query, key, cos, sin):
        return rope(query * 2, key, cos, sin, rotary_dim=8)

    compiled = torch.compile(call, fullgraph=True, dynamic=True, backend=backend)
    for length in (5, 9) if backend == "aot_eager" else (5,):
        args = make(2, 4, length, 16), make(2, 2, length, 16)
        cos, sin = tables(length, 4, 8)
        ours, expected = compiled(*args, cos, sin), call(*args, cos, sin)
        torch.testing.assert_close(ours, expected)
        grads = [torch.randn_like(out) for out in expected]
        torch.testing.assert_close(torch.autograd.grad(ours, args, grads), torch.autograd.grad(expected, args, grads))


def test_export(make):
    class Module(torch.nn.Module):
        def forward(self, query, key, cos, sin):
            return rope(query, key, cos, sin)

    length = torch.export.Dim("length", min=2)
    args = make(2, 4, 5, 16, grad=False), make(2, 2, 5, 16, grad=False), *tables(5, 8, 16)
    shapes = ({2: length}, {2: length}, {0: length}, {0: length})
    program = torch.export.export(Module(), args, dynamic_shapes=shapes)
    args = make(2, 4, 9, 16, grad=False), make(2, 2, 9, 16, grad=False), *tables(9, 8, 16)
    torch.testing.assert_close(program.module()(*args), rope(*args))


def test_autocast_keeps_the_dtype(make, device):
    with torch.autocast(device.type, torch.bfloat16):
        outs = rope(make(2, 4, 5, 16), make(2, 2, 5, 16, dtype=torch.float32), *tables(5, 8, 16))
    assert [out.dtype for out in outs] == [torch.float32] * 2


def test_func(make):
    query, key = make(2, 4, 5, 16, grad=False), make(2, 2, 5, 16, grad=False)
    cos, sin = tables(5, 8, 16)

    def loss(function):
        return lambda q, k: sum(out.square().sum() * (i + 1) for i, out in enumerate(function(q, k * k, cos, sin)))

    torch.testing.assert_close(
        torch.func.grad(loss(rope), (0, 1))(query, key), torch.func.grad(loss(reference), (0, 1))(query, key)
    )
    small = query[:1, :1, :2, :4], key[:1, :1, :2, :4], cos[:2, :2], sin[:2, :2]
    ours, theirs = (torch.func.jacrev(lambda q, f=f: f(q, *small[1:])[0])(small[0]) for f in (rope, reference))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    "dims", [(0, 0, None, None), (0, None, None, None), (2, 1, None, None), (0, 0, 0, 0), (None, None, 0, 0)]
)
@pytest.mark.parametrize("table_batch", [None, 2])
def test_vmap(make, dims, table_batch):
    samples, shapes = 3, [[2, 4, 5, 16], [2, 2, 5, 16]]
    args = [make(*(s if d is None else s[:d] + [samples] + s[d:]), grad=False) for s, d in zip(shapes, dims)]
    drawn = [tables(5, 8, 16, batch=table_batch) for _ in range(samples)]
    args += [torch.stack([d[i] for d in drawn]) if dims[2] == 0 else drawn[0][i] for i in range(2)]
    torch.testing.assert_close(torch.vmap(rope, dims)(*args), torch.vmap(reference, dims)(*args))

    def total(function):
        return torch.func.grad(lambda *a: sum(out.square().sum() for out in function(a[0], a[1] * 2, a[2], a[3])), (0, 1))

    torch.testing.assert_close(torch.vmap(total(rope), dims)(*args), torch.vmap(total(reference), dims)(*args))


def test_incoming_gradients_of_any_layout(make):
    query, key = make(2, 4, 5, 16), make(2, 2, 5, 16)
    cos, sin = tables(5, 8, 16)
    for make_grad in (lambda out: torch.ones(1).expand_as(out), lambda out: torch.randn(out.shape[::-1]).permute(3, 2, 1, 0)):
        outs, expected = rope(query, key, cos, sin), reference(query, key, cos, sin)
        grads = [make_grad(out) for out in outs]
        torch.testing.assert_close(
            torch.autograd.grad(outs, (query, key), grads), torch.autograd.grad(expected, (query, key), grads)
        )


def test_threads_agree_bit_for_bit(make):
    args = make(2, 6, 700, 64, grad=False), make(2, 2, 700, 64, grad=False), *tables(700, 32, 64)
    assert all(torch.equal(a, b) for a, b in zip(*with_torch_threads((1, 2), lambda: rope(*args))))


def test_tables_have_no_gradient(make):
    cos, sin = tables(5, 8, 16)
    out, _ = rope(make(2, 4, 5, 16), make(2, 2, 5, 16), cos.requires_grad_(), sin)
    with pytest.raises(NotImplementedError) as error:
        out.sum().backward()
    assert str(error.value).splitlines()[0] == "tile::rope: has no gradient for 'cos', which requires grad; detach it"


@pytest.mark.parametrize("ids, text", [(range(1, 6), "[0, 4] is 5"), ([[0] * 5, [0, 0, -1, 0, 0]], "[1, 2] is -1")])
def test_positions_outside_the_tables(make, device, ids, text):
    """An error where the positions are at hand, on the CPU; elsewhere NaN."""
    args, ids = (make(2, 4, 5, 16), make(2, 2, 5, 16), *tables(5, 8, 16)), torch.tensor(ids)
    if device.type == "cpu":
        with pytest.raises(ValueError) as raised:
            rope(*args, position_ids=ids)
        text = f"tile::rope: position_ids{text}, but cos and sin have 5 positions; it must be from 0 to 4"
        assert str(raised.value).splitlines()[0] == text
        return
    outside = ((ids < 0) | (ids >= 5)).expand(2, 5)[:, None, :, None]
    for out in rope(*args, position_ids=ids):
        assert torch.equal(out.isnan(), outside.expand_as(out))
