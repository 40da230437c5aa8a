"""Making tiles and changing their shape; reductions, scans and products of kernels in Python."""

import math
import operator

import pytest
import tile_ops.language as tl
import torch

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def applied(function, x, shape, dtype=None):
    """function(tile of x) stored in a tensor of a shape."""

    @tl.kernel
    def fixed(x, out):
        tl.store(out, zero, function(tl.load(x, start, extents)))

    zero, start, extents = (0,) * len(shape), (0,) * x.ndim, tuple(x.shape)
    out = torch.zeros(shape).to(dtype or x.dtype)
    fixed[1](x, out)
    return out


def close(got, want, tolerance=1e-5):
    torch.testing.assert_close(got.double(), want.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def test_full_zeros_ones_arange():
    @tl.kernel
    def made(out, start: int):
        tl.store(out, (0, 0), tl.full((1, 5), 1.5, tl.int32))
        tl.store(out, (1, 0), tl.ones((1, 5), tl.int32) + tl.zeros((1, 5), tl.int32))
        tl.store(out, (2, 0), tl.arange(5, dtype=tl.int32, start=start, step=-2)[None, :])
        tl.store(out, (3, 0), tl.full((1, 5), 300, tl.int8))
        tl.store(out, (4, 0), tl.astile(((1, start, 3, 4, 5),), dtype=tl.int32))

    out = torch.zeros(5, 5, dtype=torch.int32)
    made[1](out, 7)
    assert out.tolist() == [[1] * 5, [1] * 5, [7, 5, 3, 1, -1], [44] * 5, [1, 7, 3, 4, 5]]


def test_reshape_permute_transpose():
    x = torch.randn(3, 4, 5)
    close(applied(lambda t: t.reshape((5, -1)), x, (5, 12)), x.reshape(5, 12))
    close(applied(lambda t: t.permute((2, 0, -2)), x, (5, 3, 4)), x.permute(2, 0, 1))
    close(applied(lambda t: t.transpose(0, -1), x, (5, 4, 3)), x.transpose(0, 2))
    close(applied(lambda t: t.transpose(), x[0], (5, 4)), x[0].t())
    close(applied(lambda t: tl.expand_dims(t, -2), x[0], (4, 1, 5)), x[0][:, None])
    close(applied(lambda t: t[:, None, ..., None], x[0], (4, 1, 5, 1)), x[0][:, None, :, None])
    close(applied(lambda t: tl.broadcast_to(t, (2, 4, 5)), x[0], (2, 4, 5)), x[0].expand(2, 4, 5))


def test_cat_extract_insert():
    x = torch.randn(4, 6)
    close(applied(lambda t: tl.cat((t, t * 2), 1), x, (4, 12)), torch.cat([x, x * 2], 1))
    close(applied(lambda t: t.extract((1, 2), (2, 2)), x, (2, 2)), x[2:4, 4:6])
    close(applied(lambda t: t.extract((3, 5), ()).reshape((1, 1)), x, (1, 1)), x[3:, 5:])
    want = x.clone()
    want[2:, :3] = 1
    close(applied(lambda t: t.insert((1, 0), tl.ones((2, 3), tl.float32)), x, (4, 6)), want)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64, torch.bfloat16, torch.uint16])
def test_bytes(dtype):
    x = torch.randint(0, 99, (8,)).to(dtype)
    close(applied(tl.pack_to_bytes, x, (8 * x.itemsize,), torch.uint8), x.view(torch.uint8))
    close(applied(lambda t: tl.unpack_from_bytes(tl.pack_to_bytes(t), dtype), x, (8,)), x)


REDUCTIONS = {"sum": torch.sum, "prod": torch.prod, "max": torch.amax, "min": torch.amin}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.int64])
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, -1, None])
def test_reductions(name, dtype, axis):
    x = (torch.rand(5, 7, dtype=torch.float64) * 3 - 1).to(dtype)
    function = getattr(tl, name)
    exact = x.double() if dtype.is_floating_point else x
    want = exact.flatten() if axis is None else exact
    want = REDUCTIONS[name](want, 0 if axis is None else axis)
    tolerance = torch.finfo(dtype).eps * 8 if dtype.is_floating_point else 0
    close(applied(lambda t: function(t, axis), x, want.shape), want, tolerance)
    if axis is not None:
        close(
            applied(lambda t: function(t, axis, keepdims=True), x, want.unsqueeze(axis).shape), want.unsqueeze(axis), tolerance
        )


def test_several_axes_and_bools():
    x = torch.randn(2, 3, 4)
    close(applied(lambda t: tl.sum(t, (0, -1)), x, (3,)), x.sum((0, 2)))
    b = torch.rand(3, 4) < 0.5
    close(applied(lambda t: tl.sum(t, 0), b, (4,), torch.int32), b.sum(0))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_indices_of_extremes(name):
    x = torch.randint(0, 3, (5, 8)).float()
    function, reference = getattr(tl, name), getattr(x.numpy() if x.device.type == "cpu" else x.cpu().numpy(), name)
    close(applied(lambda t: function(t, 1), x, (5,), torch.int32), torch.tensor(reference(1)))
    close(applied(lambda t: function(t, 0, keepdims=True), x, (1, 8), torch.int32), torch.tensor(reference(0))[None])
    close(applied(function, x, (), torch.int32), torch.tensor(reference()))


def test_nan_in_reductions():
    x = torch.tensor([[1.0, math.nan, 3.0], [4.0, 5.0, 2.0]])
    close(applied(lambda t: tl.max(t, 1), x, (2,)), torch.tensor([3.0, 5.0]))
    close(applied(lambda t: tl.max(t, 1, propagate_nan=True), x, (2,)), torch.tensor([math.nan, 5.0]))
    close(applied(lambda t: tl.argmin(t, 1), x, (2,), torch.int32), torch.tensor([0, 2]))
    close(applied(lambda t: tl.argmin(t, 1, propagate_nan=True), x, (2,), torch.int32), torch.tensor([1, 2]))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_sums_and_products(dtype, reverse):
    x = (torch.rand(3, 9, dtype=torch.float64) * 3 + 0.5).to(dtype)

    def reference(function):
        exact = x.double() if dtype.is_floating_point else x
        return function(exact.flip(1), 1).flip(1) if reverse else function(exact, 1)

    tolerance = torch.finfo(dtype).eps * 8 if dtype.is_floating_point else 0
    close(applied(lambda t: tl.cumsum(t, 1, reverse=reverse), x, (3, 9)), reference(torch.cumsum), tolerance)
    close(applied(lambda t: tl.cumprod(t, 1, reverse=reverse), x, (3, 9)), reference(torch.cumprod), tolerance)


def test_reduce_and_scan_by_ones_own_function():
    x = torch.randn(4, 8)
    close(applied(lambda t: tl.reduce(t, 1, lambda a, b: a * 0.5 + b * 0.5 + a * 0.5 + b * 0.5, 0), x, (4,)), x.sum(1))
    close(applied(lambda t: tl.reduce(t, 0, operator.mul, 1.0, keepdims=True), x, (1, 8)), x.prod(0, keepdim=True))
    close(applied(lambda t: tl.scan(t, 1, operator.add, 0, reverse=True), x, (4, 8)), x.flip(1).cumsum(1).flip(1))

    def best(a, i, b, j):
        return tl.where(b > a, b, a), tl.where(b > a, j, i)

    def place(t):
        _, i = tl.reduce((t, tl.arange(8, dtype=tl.int32)[None, :]), 1, best, (-math.inf, 0))
        return i

    close(applied(place, x, (4,), torch.int32), x.argmax(1))


PRODUCTS = [
    (torch.float16, torch.float16), (torch.float16, torch.float32), (torch.bfloat16, torch.float32),
    (torch.float32, torch.float32),
    (torch.float64, torch.float64), (torch.int8, torch.int32), (torch.uint8, torch.int32),
    (torch.float8_e4m3fn, torch.float32),
]  # fmt: skip


@pytest.mark.parametrize("dtype, sums", PRODUCTS)
def test_mma(dtype, sums):
    @tl.kernel
    def multiply(x, y, out):
        acc = tl.ones((16, 8), sums)
        tl.store(out, (0, 0), tl.mma(tl.load(x, (0, 0), (16, 32)), tl.load(y, (0, 0), (32, 8)), acc))

    low = 0 if dtype == torch.uint8 else -2
    x, y = torch.randint(low, 3, (16, 32)).to(dtype), torch.randint(low, 3, (32, 8)).to(dtype)
    out = torch.zeros(16, 8).to(sums)
    multiply[1](x, y, out)
    close(out, x.double() @ y.double() + 1, 0)


def test_mma_in_batches_and_broadcast():
    @tl.kernel
    def multiply(x, y, out):
        tl.store(
            out,
            (0, 0, 0),
            tl.mma(tl.load(x, (0, 0, 0), (4, 16, 16)), tl.load(y, (0, 0), (16, 8)), tl.zeros((4, 16, 8), tl.float32)),
        )

    x, y, out = torch.randn(4, 16, 16), torch.randn(16, 8), torch.zeros(4, 16, 8)
    multiply[1](x, y, out)
    close(out, x @ y)


@pytest.mark.parametrize(
    "x, y", [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((3, 4), (4, 2)), ((5, 3, 4), (4, 2)), ((5, 3, 4), (1, 4, 2))]
)
def test_matmul_of_one_two_and_three_axes(x, y):
    x, y = torch.randn(x), torch.randn(y)
    want = x @ y
    first, second, zero = (0,) * x.ndim, (0,) * y.ndim, (0,) * want.ndim
    x_shape, y_shape = tuple(x.shape), tuple(y.shape)

    @tl.kernel
    def multiply(x, y, out):
        tl.store(out, zero, tl.load(x, first, x_shape) @ tl.load(y, second, y_shape))

    out = torch.zeros_like(want)
    multiply[1](x, y, out)
    close(out, want)


def test_mma_scaled():
    @tl.kernel
    def multiply(x, xs, y, ys, out):
        args = (
            tl.load(x, (0, 0), (16, 64)),
            tl.load(xs, (0, 0), (16, 2)),
            tl.load(y, (0, 0), (64, 8)),
            tl.load(ys, (0, 0), (2, 8)),
        )
        tl.store(out, (0, 0), tl.mma_scaled(*args, tl.zeros((16, 8), tl.float32)))

    x, y = torch.randint(-3, 4, (16, 64)).to(torch.float8_e4m3fn), torch.randint(-3, 4, (64, 8)).to(torch.float8_e4m3fn)
    xs, ys = torch.randint(125, 130, (16, 2), dtype=torch.uint8), torch.randint(125, 130, (2, 8), dtype=torch.uint8)
    out = torch.zeros(16, 8)
    multiply[1](x, xs, y, ys, out)
    wide = (x.double().reshape(16, 2, 32) * (2.0 ** (xs.double() - 127))[..., None]).reshape(16, 64)
    tall = (y.double().reshape(2, 32, 8) * (2.0 ** (ys.double() - 127))[:, None]).reshape(64, 8)
    close(out, wide @ tall)
