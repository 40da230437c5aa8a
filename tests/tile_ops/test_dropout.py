"""tile::dropout: which elements stay, on every layout; its gradient, transforms, module and errors."""

import math

import contract
import numpy
import philox
import pytest
import tile_ops
import torch
from numerics import check
from opinfo import DTYPES
from tile_ops import nn
from torch.utils.checkpoint import checkpoint

op = torch.ops.tile.dropout
SEED = torch.tensor([2**63 - 5, -7])


def masked(x, p, seed):
    """The formula, with Philox of each element's index in row-major order."""
    words = philox.words32(seed[0].item(), numpy.arange(x.numel()), seed[1].item())
    return torch.where(torch.tensor(words >= int(p * 2**32)).view(x.shape), x / (1 - p), 0)


@pytest.fixture
def key(device):
    """A seed; `seed` is that of a test."""
    return SEED.to(device)


SHAPES = [(), (1,), (0, 3), (7,), (5, 33), (3, 1, 70), (2, 3, 4, 5)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(shape, dtype, key):
    x = torch.randn(shape).to(dtype)
    exact = masked(x.double(), 0.3, key)
    check(op(x, 0.3, key), exact.to(dtype), exact)


def views(x):
    """The same elements in other orders of memory, and with gaps."""
    for order in ((1, 0, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)):
        back = [order.index(i) for i in range(4)]
        yield x.permute(order).contiguous().permute(back)
    wide = x.new_empty(x.shape[0], 2 * x.shape[1], x.shape[2] + 3, x.shape[3] + 1)
    yield wide[:, ::2, 1:-2, :-1].copy_(x)


@pytest.mark.parametrize("shape", [(3, 5, 6, 7), (2, 3, 40, 600)])
def test_strides_change_nothing(shape, key):
    x = torch.randn(shape)
    expected = op(x, 0.5, key)
    for view in views(x):
        out = op(view, 0.5, key)
        assert torch.equal(out, expected) and out.stride() == torch.empty_like(view).stride()
    row = torch.randn(1, 1, 6, 1).expand(shape[:2] + (6, 9))
    assert torch.equal(op(row, 0.5, key), op(row.contiguous(), 0.5, key))


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9])
def test_rate(p, key):
    n = 1 << 20
    for dtype in (torch.float32, torch.bfloat16):
        out = op(torch.ones(n, dtype=dtype), p, key)
        assert abs((out == 0).sum().item() - n * p) < 5 * math.sqrt(n * p * (1 - p))
        assert (out[out != 0] == torch.tensor(1 / (1 - p)).to(dtype)).all()
    # Neighbours, and other seeds, are independent.
    kept = out != 0
    for other in (
        kept.roll(1),
        kept.roll(4),
        op(torch.ones(n), p, key + torch.tensor([1, 0])) != 0,
        op(torch.ones(n), p, key + torch.tensor([0, 1])) != 0,
    ):
        both = (1 - p) ** 2
        assert abs((kept & other).sum().item() - n * both) < 5 * math.sqrt(n * both * (1 - both) * 3)


def test_no_and_every_element(key):
    x = torch.randn(5, 7).t().requires_grad_()
    for p, factor in ((0.0, 1), (1.0, 0)):
        out = op(x, p, key)
        assert torch.equal(out, x * factor)
        assert torch.equal(torch.autograd.grad(out.sum(), x)[0], torch.full_like(x, factor))


def test_what_is_dropped_is_zero(key):
    x = torch.full((1000,), torch.nan)
    x[::2] = torch.inf
    kept = op(torch.ones(1000), 0.5, key) != 0
    assert torch.equal(torch.nan_to_num(op(x, 0.5, key), 1, 2), torch.where(kept, torch.nan_to_num(x, 1, 2), 0))


def test_gradient_is_the_mask(key):
    x = torch.randn(40, 60).t().requires_grad_()
    scaled = op(torch.ones(60, 40), 0.25, key)
    out = op(x, 0.25, key)
    incoming = torch.randn(60, 40)
    (grad,) = torch.autograd.grad(out, x, incoming, create_graph=False)
    assert torch.equal(grad, torch.where(scaled != 0, incoming * scaled, 0))
    y = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda t: op(t, 0.25, key), (y,))


def test_only_the_seed_is_saved(key):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        op(torch.randn(100, requires_grad=True), 0.5, key)
    assert [t.numel() for t in saved] == [2]


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda c: c.__name__)
def test_contract(check, key):
    x = torch.randn(3, 5, dtype=torch.double, requires_grad=True)
    if check in (contract.exports, contract.vmaps, contract.noncontiguous, contract.opcheck):
        check(op, (x, 0.25, key), {})
    else:
        check(lambda t: op(t, 0.25, key), (x,), {})


@pytest.mark.slow  # inductor compiles it for several seconds
def test_inductor(key):
    contract.compiles_with_inductor(lambda t: op(t, 0.25, key), (torch.randn(3, 5, requires_grad=True),), {})


def test_backward_is_an_operator(key):
    torch.library.opcheck(torch.ops.tile.dropout_backward, (torch.randn(3, 5), 0.5, key))


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (1, 0), (2, 1)])
def test_vmap(dims, key):
    """Each sample is as a call of its own: those that share the seed share the mask."""
    x, seeds = torch.randn(3, 3, 3), torch.stack([key, key + 1, key - 1], dims[1] or 0)
    args = x if dims[0] is not None else x[0], seeds if dims[1] is not None else key

    def sample(tensor, dim, i):
        return tensor if dim is None else tensor.select(dim, i)

    def call(x, key):
        return op(x, 0.5, key)

    expected = torch.stack([call(*(sample(t, d, i) for t, d in zip(args, dims))) for i in range(3)])
    assert torch.equal(torch.vmap(call, dims)(*args), expected)
    nested = torch.vmap(torch.vmap(call, (0, None)), dims)(*args)
    expected = torch.stack(
        [torch.stack([call(row, sample(args[1], dims[1], i)) for row in sample(args[0], dims[0], i)]) for i in range(3)]
    )
    assert torch.equal(nested, expected)


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_vmap_randomness(randomness):
    out = torch.vmap(lambda x: tile_ops.dropout(x), randomness=randomness)(torch.ones(4, 1000))
    assert all(torch.equal(out[0], each) for each in out[1:]) == (randomness == "same")


def test_a_seed_for_each_index(key):
    x, seeds = torch.randn(2, 3, 50), torch.stack([key, key + 1, key + 5])
    expected = torch.stack([torch.stack([op(row, 0.5, s) for row, s in zip(each, seeds)]) for each in x])
    assert torch.equal(op(x, 0.5, seeds.expand(2, 3, 2)), expected)
    assert torch.equal(op(x, 0.5, seeds[None]), expected)


def test_function_draws_by_torch_s_generator():
    x = torch.randn(64, 50, requires_grad=True)
    torch.manual_seed(3)
    first, second = tile_ops.dropout(x), tile_ops.dropout(x)
    torch.manual_seed(3)
    assert torch.equal(tile_ops.dropout(x), first) and not torch.equal(first, second)
    assert tile_ops.dropout(x, 0.5, False) is x and tile_ops.dropout(x, 0.0) is x
    torch.manual_seed(3)
    out = checkpoint(lambda t: tile_ops.dropout(t * 1), x, use_reentrant=False)
    assert torch.equal(out, first)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(grad != 0, first != 0)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile_of_the_function(backend):
    torch._dynamo.reset()
    compiled = torch.compile(tile_ops.dropout, fullgraph=True, backend=backend)
    x = torch.ones(64, 50, requires_grad=True)
    torch.manual_seed(3)
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second) and set(first.detach().unique().tolist()) == {0, 2}
    (grad,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(grad, first)
    torch.manual_seed(3)
    assert torch.equal(compiled(x), first)


def test_module():
    module, x = nn.Dropout(0.25), torch.ones(1000)
    assert repr(module) == repr(torch.nn.Dropout(0.25)) and isinstance(module, torch.nn.Dropout)
    assert set(module(x).unique().tolist()) == {0, x.div(0.75)[0].item()}
    assert module.eval()(x) is x


def test_in_place():
    leaf = torch.randn(40, 50, requires_grad=True)
    x = leaf * 2
    torch.manual_seed(3)
    expected = tile_ops.dropout(x, 0.25)
    torch.manual_seed(3)
    given = x.clone()
    out = nn.Dropout(0.25, inplace=True)(given)
    assert out is given and torch.equal(out, expected)
    incoming = torch.randn_like(out)
    assert torch.equal(*(torch.autograd.grad(each, leaf, incoming, retain_graph=True)[0] for each in (out, expected)))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):  # torch's own, as of its Dropout
        tile_ops.dropout(leaf, 0.25, inplace=True)
    assert nn.Dropout(0.25, inplace=True).eval()(leaf) is leaf


@pytest.mark.parametrize("p", [-0.1, 1.5, math.nan])
def test_p_is_a_probability(p, key):
    for call in (lambda: op(torch.ones(3), p, key), lambda: tile_ops.dropout(torch.ones(3), p)):
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value).splitlines()[0].endswith(f"dropout: p is {p:g}; it must be a probability, from 0 to 1")


@pytest.mark.parametrize(
    "kind, text, args",
    [
        (TypeError, "input is int64; it must be float16, bfloat16, float32 or float64", (torch.int64, (2, 3), 0, (2,))),
        (TypeError, "seed is float32; it must be int64", (torch.float32, (2, 3), 0.0, (2,))),
        (
            ValueError,
            "seed has shape [3] and input [2, 3]; it must be [2], or [..., 2] with leading extents of input",
            (torch.float32, (2, 3), 0, (3,)),
        ),
        (
            ValueError,
            "seed has shape [3, 2] and input [2, 3]; it must be [2], or [..., 2] with leading extents of input",
            (torch.float32, (2, 3), 0, (3, 2)),
        ),
        (
            ValueError,
            "seed has shape [1, 1, 2] and input [2]; it must be [2], or [..., 2] with leading extents of input",
            (torch.float32, (2,), 0, (1, 1, 2)),
        ),
    ],
)
def test_errors(kind, text, args):
    dtype, sizes, value, seed_sizes = args
    with pytest.raises(kind) as error:
        op(torch.ones(sizes, dtype=dtype), 0.5, torch.full(seed_sizes, value))
    assert str(error.value).splitlines()[0] == f"tile::dropout: {text}"
