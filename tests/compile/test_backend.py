"""torch.compile(backend="tile") computes what torch does: elementwise functions, dtypes, reductions, views and indices."""

import math

import pytest
import torch
import torch.nn.functional as F
from combinations import long
from compiled_calls import check, check_draws, compiled, same

pytestmark = pytest.mark.usefixtures("uncached")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 30.0, -30.0)


def test_chains_with_broadcast_operands(device):
    def chain(x, y, row, column):
        h = F.gelu(2 * x + y) * row + F.relu(x) * column
        return h, F.silu(h - y), torch.where(x > y, h, column), (x * 3).clamp(-1, 1), torch.lerp(x, y, 0.3)

    x, y, row, column = torch.randn(37, 1001), torch.randn(37, 1001), torch.randn(1001), torch.randn(37, 1)
    for each in (x, y, row, column):
        each.requires_grad_()
    check(chain, x, y, row, column)


def elementary(x):
    small, positive = 0.9 * torch.sigmoid(x) + 0.05, x.abs() + 0.01
    return (
        *(x.abs(), -x, x.square(), x.sign(), x.floor(), x.ceil(), x.trunc(), x.round(), x.frac(), x.relu()),
        *(x.sin(), x.cos(), x.tanh(), x.erf(), x.exp(), x.expm1(), x.sigmoid(), x.atan(), x.tan(), x.sinh(), x.cosh()),
        *(positive.log(), positive.sqrt(), positive.rsqrt(), positive.log1p(), positive.log2(), positive.log10()),
        *(1 / positive, positive**0.3, small.asin(), small.acos(), small.exp2(), small.logit(), positive.lgamma()),
        *(torch.atan2(x, small), torch.hypot(x, small), torch.copysign(small, x), torch.fmod(x, small), x % small),
        *(torch.maximum(x, small), torch.minimum(x, small), torch.floor_divide(x, small), x**2, x**3),
        *(F.silu(x), F.gelu(x, approximate="tanh"), F.elu(x), F.softplus(x), F.mish(x), F.leaky_relu(x)),
        # Torch multiplies by a float32 sixth on a GPU, also in float64.
        *([] if x.is_cuda and x.dtype == torch.float64 else [F.hardswish(x)]),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, slow(torch.float64), long(torch.float16)])
def test_elementary_functions(dtype, device):
    check(elementary, (torch.randn(3, 211) * 2).to(dtype))


def unlike(x):
    return (
        *(x + 1, x / 2, 1 / x, x.abs(), x.sign(), x.exp(), x.tanh(), x.sigmoid(), x.relu(), x.sqrt(), x.log()),
        *(x.clamp(-1, 1), torch.maximum(x, 1 - x), torch.minimum(x, x.cos()), x.isnan(), x.isinf(), x.isfinite(), x.signbit()),
        *(
            x - x,
            x == x,
            x != x,
            x < 1,
            x >= 0,
            x.logical_not(),
            torch.where(x > 0, x, -x),
            x.nan_to_num(0, 1, -1),
            x.erf(),
            F.silu(x),
        ),
        *(x.floor(), x.round(), x.trunc(), x.amax(), x.amin(), x.argmax(), x.argmin(), x.sum(), x.softmax(0), x.logsumexp(0)),
        *(x[1:].logsumexp(0), x[1:3].amax(), x[1:3].softmax(0), x.fmax(x.cos()), x.fmin(x.cos()), x.var(0), x.any(), x.all()),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, long(torch.float64), long(torch.float16)])
def test_infinities_and_nan(dtype, device):
    check(unlike, torch.tensor(SPECIAL, dtype=dtype))


def arithmetic(x, y):
    """y has no zero."""
    shift = (y & 3).abs()
    results = (
        *(x + y, x - y, x * y, x // y, x % y, x & y, x | y, x ^ y, ~x, x << shift, x >> shift, x**2),
        *(torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc"), x / y, torch.maximum(x, y), torch.minimum(x, y)),
        *(x == y, x != y, x < y, x <= y, x > y, x >= y, x.clamp(3, 90), torch.where(x > y, x, y), x.sign(), x * 2.5, x + 0.5),
        *(
            x.sum(),
            x.sum(1),
            x.amax(1),
            x.amin(0),
            x.argmax(1),
            x.argmin(0),
            x.prod(1),
            (x > 3).sum(0),
            x.any(1),
            (x != 0).all(0),
        ),
        *(
            x.to(torch.float32).sin(),
            x.logical_and(y),
            x.logical_xor(y),
            x.bool(),
            (x % 100).float().mean(),
            x.max(1),
            x.min(0),
        ),
    )
    return *(each for result in results for each in (result if isinstance(result, tuple) else (result,))), x.abs(), -x


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.uint8, long(torch.int16), long(torch.int32)])
def test_integers(dtype, device):
    info = torch.iinfo(dtype)
    x, y = (torch.randint(max(info.min, -1000), min(info.max, 1000), (33, 65)).to(dtype) for _ in range(2))
    x[0, :2] = torch.tensor([info.min, info.max])
    check(arithmetic, x, torch.where(y == 0, 7, y))


def test_any_of_bytes_is_a_byte(device):
    check(lambda x: (x.any(), x.any(1), x.any((0, 1)), x.any(0, keepdim=True), x.all(1)), torch.ones(3, 5, dtype=torch.uint8))


def test_conditions(device):
    def conditions(a, b, x):
        return (
            *(
                a & b,
                a | b,
                a ^ b,
                ~a,
                a == b,
                a != b,
                a.logical_and(x),
                a.any(),
                a.all(),
                a.any(1),
                a.all(0),
                a.sum(),
                a.sum(0),
            ),
            *(
                a.float() + x,
                torch.where(a, x, 0),
                x.masked_fill(b, -1),
                a.to(torch.int8) + b,
                a * x,
                a.amax(1),
                a.long().argmax(1),
            ),
            *(a < b, a.any(0, keepdim=True) & b, a.count_nonzero(1), (a & (x > 0)).any(1), a.float().mean()),
        )

    check(conditions, torch.rand(31, 47) < 0.1, torch.rand(31, 47) < 0.9, torch.randn(31, 47))


def test_casts_between_all_dtypes(device):
    dtypes = (*FLOATS, *INTEGERS, torch.bool)

    def casts(*arguments):
        return [(argument * 1).to(dtype) for argument in arguments for dtype in dtypes]

    check(casts, *((torch.rand(201) * 120).to(dtype) for dtype in dtypes))


LAYOUTS = {
    "rows": ((33, 257), (1,)),
    "long rows": ((3, 40001), (1,)),
    "columns": ((1031, 65), (0,)),
    "long columns": ((40001, 5), (0,)),
    "all elements": ((41, 129), (0, 1)),
    "outer axes": ((5, 7, 33), (0, 2)),
    "inner axes": ((5, 7, 9, 11), (1, 3)),
    "one element": ((7, 1), (1,)),
}


@pytest.mark.parametrize("layout", [*list(LAYOUTS)[:4], *map(slow, list(LAYOUTS)[4:])])
def test_reductions(layout, device):
    shape, axes = LAYOUTS[layout]

    def reductions(x, near_one):
        found = [
            *(x.sum(axes), x.mean(axes), x.amax(axes), x.amin(axes), x.logsumexp(axes), x.square().sum(axes).sqrt()),
            *(x.sum(axes, keepdim=True) * x, (x > 3).any(axes[0]), (x > -3).all(axes[0]), x.count_nonzero(axes)),
            *(near_one.prod(axes[0]), x.softmax(axes[0]), x.log_softmax(axes[0]), x.argmax(axes[0]), x.argmin(axes[0])),
            *(torch.linalg.vector_norm(x, dim=axes), torch.aminmax(x).max, x.argmax(), x.double().sum(axes)),
        ]
        if x.sum(axes).numel() < x.numel():
            found += [*torch.var_mean(x, axes), x.std(axes), x.var(axes, correction=0)]
        return tuple(found)

    # Torch adds float32 in pairs, and computes variances in float64; columns are added one after another, as inductor does.
    within = 2e-5 if "columns" in layout else None
    signs = lambda: (torch.rand(shape) - 0.5).sign()  # noqa: E731
    check_draws(reductions, lambda: (torch.randn(shape), torch.randn(shape).mul(0.003).exp() * signs()), within=within)


@pytest.mark.parametrize("shape", [(20, 300), (3, 33001)])
def test_first_of_equal_extremes_and_of_nan_is_found(shape, device):
    def positions(x, whole):
        return (
            *(x.argmax(1), x.argmin(1), x.argmax(0), x.argmin(0), x.argmax(), x.argmin(), x.max(1).values, x.min(0).values),
            *(x.max(1).indices, x.min(0).indices, whole.argmax(1), whole.argmin(0), whole.argmax()),
        )

    few = torch.randint(0, 3, shape).float()
    with_nan = torch.where(torch.rand(shape) < 0.01, math.nan, few)
    run = compiled(positions)
    for x in (few, with_nan, torch.full(shape, math.nan), torch.full(shape, -math.inf), torch.full(shape, math.inf)):
        same(run(x, few.long()), positions(x, few.long()))


def test_variances_of_large_means(device):
    def variances(rows, columns, long):
        return tuple(
            each
            for x, axis in ((rows, 1), (columns, 0), (long, 1), (rows, (0, 1)))
            for each in (*torch.var_mean(x, axis), x.std(axis, correction=0))
        )

    arguments = [torch.randn(shape) + 1000 for shape in ((30, 500), (4000, 30), (3, 40000))]
    results, exact = compiled(variances)(*arguments), variances(*(each.double() for each in arguments))
    for result, wanted in zip(results, exact):  # a mean of 1000 leaves this much of float32
        torch.testing.assert_close(result.double(), wanted, rtol=2e-5, atol=0)


def test_views_are_read_and_written(device):
    def views(x, y):
        return (
            *(x.t() + y.t() * 2, (x.t() + 1).contiguous(), x[::2, 1::3] * 2, x[5:, :-4] + y[:-5, 4:], x.flip(0) + y.flip(1)),
            *(x.view(4, 9, 64).permute(2, 0, 1) + 1, x.view(4, 9, 8, 8).transpose(1, 2).reshape(32, 72) * 2),
            *(
                x[:, None].expand(36, 3, 64) * y[:, None],
                x.unfold(1, 8, 4).sum(-1),
                x.diagonal() * 2,
                x.roll((3, 5), (0, 1)) + y,
            ),
            *(x.repeat(2, 3) + 1, x.repeat_interleave(2, 0).sin(), x.tril() + y.triu(1), torch.stack([x, y], 1) * 2),
            *(torch.cat([x * 2, y + 1, x], 1).sin(), torch.cat([x, y[:3]], 0) * 2, *[each + 1 for each in x.chunk(3, 1)]),
            *(F.pad(x, (1, 2, 3, 4)).exp(), F.pad(x[None], (2, 3), "reflect") + 1, F.pad(x[None], (2, 3), "replicate") + 1),
            *(
                F.pad(x, (-1, -2, 0, 3), value=2.0) * 2,
                x.as_strided((5, 6), (7, 3), 11) + 1,
                x.rot90() * 2,
                x[..., None, :1] * y[None],
            ),
            *(
                x.new_zeros(5, 3) + x[:5, :3],
                torch.arange(64, device=x.device) * x,
                torch.eye(36, device=x.device, dtype=x.dtype) @ x + y,
            ),
            *(torch.meshgrid(x[0], y[0, :5], indexing="ij")[1] + 1, x.view(36, 2, 32).sum(1), x.movedim(0, 1) - y.mT),
            *(F.pixel_shuffle(x.view(1, 36, 8, 8), 3) * 2, x.view(2, 18, 64).roll(1, 0) * 2, x.T.flatten()[3:50] + 1),
        )

    x, y = torch.randn(36, 64), torch.randn(36, 64)
    check(views, x.requires_grad_(), y.requires_grad_())
    # Arguments that are views: transposed, with gaps, expanded, with an offset.
    strided = compiled(lambda a, b, c, d: (a + b, (a * c).sum(0), (b - d).amax(1), torch.cat([a, d], 1)))
    arguments = (
        *(torch.randn(33, 20).t(), torch.randn(40, 70)[::2, 2:68:2], torch.randn(33).expand(20, 33)),
        torch.randn(21 * 33 + 5)[5 : 5 + 20 * 33].view(20, 33),
    )
    a, b, c, d = arguments
    same(strided(*arguments), (a + b, (a * c).sum(0), (b - d).amax(1), torch.cat([a, d], 1)))


def test_indices(device):
    def gathers(x, i, j, wide):
        return (
            *(x[i], x[i] * 2, x[:, j].sin(), x[i[:7], j[:7]], x[i[:5, None], j[None, :6]], x.index_select(0, i % 50)),
            *(x.gather(1, wide), x.gather(0, wide % 50), torch.take_along_dim(x, wide, 1) + 1, F.embedding(i % 50, x) * 2),
            *(
                x[i].sum(1),
                x[i % 50, :].softmax(1),
                (x * 2)[i],
                x.take(i + 60),
                F.one_hot(j % 7, 7) * 2,
                (x.sum(1) * 2)[i],
                x[x[:, 0] > 0] * 2,
                x[0],
                x[-1] + 1,
            ),
        )

    x, wide = torch.randn(50, 30), torch.randint(0, 30, (50, 30))
    i, j = torch.randint(-50, 50, (40,)), torch.randint(-30, 30, (40,))
    # x[x[:, 0] > 0] has a length that torch must ask for.
    same(compiled(gathers, fullgraph=False)(x, i, j, wide), gathers(x, i, j, wide))

    def writes(x, i, wide, values):
        once = torch.arange(0, 50, 2, device=x.device)
        return (
            *(
                x.index_put((once,), values[:25]),
                x.sum(1).index_put((once,), values[:25].sum(1)),
                x.index_put((i,), values, accumulate=True),
                x.index_add(0, i % 50, values),
            ),
            *(x.index_copy(0, once, values[:25]), x.index_fill(0, once, 3.0), x.scatter(1, wide[:, :1], 5.0)),
            *(
                x.scatter_add(1, wide, x),
                x.scatter_reduce(1, wide, x, "amax"),
                x.masked_fill(x > 0, 0),
                x.select_scatter(values[:30, 0] * 2, 0, 7) * 2,
            ),
            *(
                x.slice_scatter(values[:5], 0, 3, 8) * 2,
                x.diagonal_scatter(values[:30, 0]) + 1,
                torch.where(x > 0, x, 0).index_add(0, i % 50, values),
            ),
        )

    values = torch.randn(40, 30)
    same(compiled(writes)(x, i, wide, values), writes(x, i, wide, values))
    leaf = torch.randn(50, 30, requires_grad=True)
    check(lambda x: (x[i].sin(), x.gather(1, wide) * 2, F.embedding(i % 50, x).exp()), leaf)


@pytest.mark.parametrize("shape", [(), (1,), long((1, 1)), (0,), long((0, 5)), (5, 0), (2, 0, 3), (1, 7), (7, 1), (1, 1, 5, 1)])
def test_sizes_of_zero_and_one(shape, device):
    def small(x):
        found = [x + 1, x * x.exp(), x.sum(), x.mean(), x[None].sum(-1), x.flatten() * 2]
        found += [
            torch.cat([x.flatten(), x.flatten() * 2]),
            x[None].sum(0),
            x[None].prod(0),
            x.any(),
            x.all(),
            x > 0,
            x.t() if x.dim() < 3 else x,
        ]
        found += [x[None].softmax(0), x.expand(3, *x.shape) * 2, F.pad(x.flatten(), (1, 2)), x.unsqueeze(-1).sum(0)]
        if x.numel():
            found += [
                x.amax(),
                x.argmax(),
                x[None].amax(0),
                x.flatten().cumsum(0),
                x[None].argmax(0),
                x.logsumexp(tuple(range(x.dim()))),
            ]
        return tuple(found)

    x = torch.randn(shape, requires_grad=True)
    theirs = small(x)
    ours = compiled(small)(x)
    same(ours, theirs)
    assert [each.stride() for each in ours] == [each.stride() for each in theirs]
    sums = [sum(each.sum() for each in results if each.requires_grad) for results in (ours, theirs)]
    same(*(torch.autograd.grad(each, x)[0] for each in sums))
