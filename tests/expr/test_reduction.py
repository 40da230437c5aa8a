"""Reduction operators of expressions, in C++ (tests/torch/library/expressions.cpp) and Python."""

import itertools

import pytest
import tile_ops
import tile_ops.language as tl
import torch
from torch.library import opcheck

tt = torch.ops.tt
FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@tile_ops.reduction("tile_re::norm(Tensor x, float eps=0.0) -> Tensor", "sum", finish=lambda total: tl.sqrt(total))
def norm(x, eps):
    """The Euclidean norm."""
    return x * x + eps


@tile_ops.reduction("tile_re::mean(Tensor x) -> Tensor")
class mean:
    combine = "sum"

    def finish(total, count):
        return total / count


@tile_ops.reduction("tile_re::dot(Tensor x, Tensor y) -> Tensor", combine="sum")
def dot(x, y):
    return x * y


@tile_ops.reduction("tile_re::farthest(Tensor x, Tensor y) -> (Tensor distance, Tensor from_x)")
class farthest:
    """The largest |x - y|, and the x there."""

    identity = (-1.0, 0.0)

    def map(x, y):
        return abs(x - y), x

    def combine(a, u, b, v):
        first = (a > b) | ((a == b) & (u > v))
        return tl.where(first, a, b), tl.where(first, u, v)


@tile_ops.reduction(combine="max")
def largest_square(x):
    return x * x


def close(ours, wanted, scale=8):
    assert ours.shape == wanted.shape
    eps = 1e-13 if ours.dtype == torch.float64 else torch.finfo(ours.dtype).eps if ours.dtype.is_floating_point else 0
    limit = scale * eps * max(wanted.abs().nan_to_num(0, 0).max().item() if wanted.numel() else 1, 1)
    torch.testing.assert_close(ours.double(), wanted.double(), rtol=0, atol=limit, equal_nan=True)


def axes_of(rank):
    yield None
    for count in range(1, rank + 1):
        yield from itertools.combinations(range(rank), count)


TENSORS = {
    "matrix": lambda dtype: torch.randn(5, 37, dtype=dtype),
    "turned": lambda dtype: torch.randn(37, 5, dtype=dtype).t(),
    "four axes": lambda dtype: torch.randn(3, 4, 5, 6, dtype=dtype).permute(2, 0, 3, 1),
    "strided": lambda dtype: torch.randn(6, 50, dtype=dtype)[::2, ::3],
    "expanded": lambda dtype: torch.randn(6, 1, dtype=dtype).expand(6, 9),
    "long": lambda dtype: torch.randn(2, 40_000, dtype=dtype),
    "tall": lambda dtype: torch.randn(40_000, 2, dtype=dtype),
    "one": lambda dtype: torch.randn(1, dtype=dtype),
    "scalar": lambda dtype: torch.randn((), dtype=dtype),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", TENSORS)
def test_axes_and_gradient(name, dtype):
    x = TENSORS[name](dtype)
    wide = x.detach().double().requires_grad_()
    x.requires_grad_()
    for axes, keep in itertools.product(axes_of(x.dim()), (False, True)):
        every = tuple(range(x.dim())) if axes is None else axes
        for ours, wanted in (
            (norm(x, dim=axes, keepdim=keep), torch.linalg.vector_norm(wide, dim=axes, keepdim=keep)),
            (mean(x, dim=axes, keepdim=keep), wide.mean(every, keepdim=keep)),
        ):
            close(ours, wanted)
            g = torch.randn(ours.shape, dtype=dtype)
            close(torch.autograd.grad(ours, x, g)[0], torch.autograd.grad(wanted, wide, g.double())[0])
        close(tt.largest(x, axes, keep), torch.amax(wide, every, keepdim=keep))
        close(tt.smallest(x, axes, keep), torch.amin(wide, every, keepdim=keep))
        close(tt.log_sum_exp(x, axes, keep), torch.logsumexp(wide, every, keepdim=keep))


def test_several_tensors_and_totals():
    x = torch.randn(4, 300, dtype=torch.float64, requires_grad=True)
    y = torch.randn(300, dtype=torch.float64, requires_grad=True)
    ours, wanted = dot(x, y, dim=1), x @ y
    torch.testing.assert_close(ours, wanted)
    g = torch.randn(4, dtype=torch.float64)
    torch.testing.assert_close(torch.autograd.grad(ours, (x, y), g), torch.autograd.grad(wanted, (x, y), g))

    mask = torch.rand(4, 300) > 0.3
    average, variance = tt.moments(x, mask, 0.5, [1])
    chosen = [row[keep] - 0.5 for row, keep in zip(x, mask)]
    wanted = torch.stack([row.mean() for row in chosen]), torch.stack([row.var(correction=0) for row in chosen])
    torch.testing.assert_close((average, variance), wanted)
    g, h = torch.randn(2, 4, dtype=torch.float64)
    (ours,), (theirs,) = (torch.autograd.grad(f, x, [g, h], retain_graph=True) for f in ((average, variance), wanted))
    torch.testing.assert_close(ours, theirs)
    (ours,), (theirs,) = (torch.autograd.grad(f, x, g) for f in (tt.moments(x, mask, 0.5, [1])[1], wanted[1]))
    torch.testing.assert_close(ours, theirs)


def test_a_combination_of_ones_own():
    for shape, dim in (((70, 50), 1), ((50, 70), 0), ((3, 9000), 1), ((100_000,), None), ((5, 6, 7), (0, 2))):
        x, y = torch.randn(shape), torch.randn(shape)
        distance, index = farthest(x, y, dim=dim)
        wanted = (x - y).abs()
        every = tuple(range(x.dim())) if dim is None else dim
        torch.testing.assert_close(distance, wanted.amax(every))
        chosen = torch.where(wanted == wanted.amax(every, keepdim=True), x, -torch.inf).amax(every)
        torch.testing.assert_close(index, chosen)
    with pytest.raises(NotImplementedError, match="tile_re::farthest: has no gradient"):
        farthest(x.requires_grad_(), y)[0].sum().backward()


INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype):
    x = torch.randint(0, 2, (5, 700)).to(dtype) if dtype == torch.bool else torch.randint(-3, 4, (5, 700)).to(dtype)
    for dim in (0, 1):
        assert torch.equal(tt.total(x, [dim]), x.sum(dim)) and tt.total(x).dtype == torch.int64
        assert torch.equal(tt.multiplied(x, [dim]), x.prod(dim))
        assert torch.equal(tt.largest(x, [dim]), x.amax(dim)) and torch.equal(tt.smallest(x, [dim]), x.amin(dim))


def test_special_values():
    x = torch.tensor([[1.0, torch.nan, 2.0], [-torch.inf, 3.0, torch.inf], [-torch.inf] * 3])
    close(tt.largest(x, [1]), x.amax(1))
    close(tt.smallest(x, [1]), x.amin(1))
    close(tt.total(x, [1]), x.sum(1))
    close(tt.log_sum_exp(x[2:], [1]), torch.logsumexp(x[2:], 1))
    assert tt.multiplied(x[:1, :1]).item() == 1.0


def test_nothing_to_reduce():
    for shape, dim in (((0, 3), 0), ((3, 0), 1), ((0,), None), ((2, 0, 4), (0, 1))):
        x = torch.ones(shape, requires_grad=True)
        every = tuple(range(x.dim())) if dim is None else dim
        assert torch.equal(tt.total(x, dim), x.sum(every)), (shape, dim)
        assert torch.equal(tt.multiplied(x, dim), torch.ones_like(x.sum(every)))
        assert torch.autograd.grad(norm(x, dim=dim).sum(), x)[0].shape == x.shape
        with pytest.raises(ValueError, match=r"has no elements, and so no largest one$"):
            tt.largest(x, dim)
    assert norm(torch.ones(0, 3), dim=1).shape == (0,)


def test_opcheck_compile():
    x = torch.randn(4, 6, requires_grad=True)
    opcheck(norm.overload, (x, 0.1, [1]))
    opcheck(mean.overload, (x,), {"keepdim": True})
    opcheck(tt.moments.default, (x, x > 0))

    def function(x):
        return (norm(x, dim=1) * mean(x, dim=-1)).sum()

    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for shape in ((4, 6), (7, 9)):
        x = torch.randn(shape, requires_grad=True)
        torch.testing.assert_close(torch.autograd.grad(compiled(x), x), torch.autograd.grad(function(x), x))
    batch = torch.randn(3, 4, 5)
    torch.testing.assert_close(torch.vmap(lambda x: norm(x, dim=0))(batch), norm(batch, dim=1))
    assert largest_square(batch).item() == (batch * batch).max().item()


def refused(kind, message, call, *arguments, **named):
    with pytest.raises(kind) as error:
        call(*arguments, **named)
    assert message in str(error.value), str(error.value)


def test_mistakes():
    x = torch.ones(2, 3)
    refused(ValueError, "tile_re::norm: dim is 2, but there are 2 axes", norm, x, dim=2)
    refused(ValueError, "tile_re::norm: dim names axis 1 twice", norm, x, dim=(1, -1))
    make = tile_ops.reduction
    refused(TypeError, "tile_re::a: has no combine; give 'sum', 'prod', 'max', 'min' or a function of two values",
            make("tile_re::a(Tensor x) -> Tensor"), lambda x: x)  # fmt: skip
    refused(TypeError, "tile_re::b: combine is 'mean'; it is 'sum', 'prod', 'max', 'min' or a function",
            make("tile_re::b(Tensor x) -> Tensor", "mean"), lambda x: x)  # fmt: skip
    refused(TypeError, "tile_re::c: combine is a function and needs an identity, the number that changes nothing",
            make("tile_re::c(Tensor x) -> Tensor", lambda a, b: a), lambda x: x)  # fmt: skip
    refused(TypeError, "tile_re::d: combine is 'sum', which has its own identity; leave identity out",
            make("tile_re::d(Tensor x) -> Tensor", "sum", identity=0), lambda x: x)  # fmt: skip
    refused(TypeError, "reduction: 3 is neither a function nor a class", make("tile_re::e(Tensor x) -> Tensor"), 3)

    class Wrong:
        combine = "sum"

        def finsh(total):
            return total

    refused(TypeError, "reduction: 'finsh' is not a part of Wrong; they are map, combine, finish, identity",
            make("tile_re::f(Tensor x) -> Tensor"), Wrong)  # fmt: skip
    refused(TypeError, "tile_re::g: has 2 tensors and no map that makes one of them",
            make("tile_re::g(Tensor x, Tensor y) -> Tensor"), type("NoMap", (), {"combine": "sum"}))  # fmt: skip

    def combine(a, b):
        return a, b

    two = make("tile_re::h(Tensor x) -> Tensor", combine, identity=0.0)(lambda x: x)
    refused(Exception, "combine() gives 2 values for 1 accumulated ones", two, x)

    def finish(a, b):
        return a

    three = make("tile_re::i(Tensor x) -> Tensor", "sum", finish=finish)(lambda x: x)
    refused(TypeError, "tile_re::i: map gives 1 tiles, but finish takes 2", three, x)
    none = make("tile_re::j(Tensor x) -> (Tensor, Tensor)", "sum")(lambda x: x)
    refused(TypeError, "tile_re::j: gives 1 tiles, but the schema has 2 results", none, x)
    pair = make("tile_re::k(Tensor x) -> Tensor", lambda a, b: tl.maximum(a, b), identity=(0.0, 1.0))(lambda x: x)
    refused(TypeError, "tile_re::k: map gives 1 tiles, but identity has 2 numbers", pair, x)
