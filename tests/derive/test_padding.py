"""Gradients where the last block reaches beyond the arrays: padding has infinite derivatives, but is in no gradient."""

import math

import pytest
import tile_ops
import tile_ops.language as tl
import torch

ROWS, COLUMNS = 5, 11  # blocks have 2 rows and 16 columns

# Functions of a tile of rows and one number. Rows of zeros have no finite value or derivative.
FUNCTIONS = {
    "log": lambda t, s: tl.log(t) * s,
    "log of a product": lambda t, s: tl.log(t * s),
    "rsqrt": lambda t, s: tl.rsqrt(t * s),
    "quotient": lambda t, s: s / t,
    "atan2": lambda t, s: tl.atan2(t * s, t),
    "power": lambda t, s: tl.pow(t, -s),
    "remainder": lambda t, s: tl.mod(s, t),
    "mean": lambda t, s: t * s / tl.sum(t * s, axis=1, keepdims=True),
    "length": lambda t, s: t * s / tl.sqrt(tl.sum(t * t * s, axis=1, keepdims=True)),
    "largest": lambda t, s: t * s / tl.max(t, axis=1, keepdims=True),
    "product": lambda t, s: tl.prod(1 / t, axis=1, keepdims=True) * s + t,
}
IN_TORCH = {
    "log": lambda t, s: t.log() * s,
    "log of a product": lambda t, s: (t * s).log(),
    "rsqrt": lambda t, s: (t * s).rsqrt(),
    "quotient": lambda t, s: s / t,
    "atan2": lambda t, s: torch.atan2(t * s, t),
    "power": lambda t, s: t**-s,
    "remainder": lambda t, s: torch.remainder(s, t),
    "mean": lambda t, s: t * s / (t * s).sum(1, keepdim=True),
    "length": lambda t, s: t * s / (t * t * s).sum(1, keepdim=True).sqrt(),
    "largest": lambda t, s: t * s / t.amax(1, keepdim=True),
    "product": lambda t, s: (1 / t).prod(1, keepdim=True) * s + t,
}


def kernel_of(function):
    @tl.kernel
    def rows_kernel(x, w, out, N: tl.Constant[int]):
        t, s = tl.load(x, (tl.bid(0), 0), (2, N)), tl.load(w, 0, 1)
        tl.store(out, (tl.bid(0), 0), function(t, s))

    return rows_kernel


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_beyond_an_array(name, dtype):
    columns = COLUMNS if name != "product" else 16
    x, w = torch.rand(ROWS, columns, dtype=dtype) + 0.5, torch.rand(1, dtype=dtype) + 0.5
    out, grad = torch.empty_like(x), torch.randn(ROWS, columns, dtype=dtype)
    grad_x, grad_w = torch.full_like(x, math.nan), torch.full_like(w, math.nan)
    tile_ops.derive(kernel_of(FUNCTIONS[name]))[3](x, w, out, 16, grad, grad_x, grad_w)
    wide = [each.double().requires_grad_() for each in (x, w)]
    expected = torch.autograd.grad(IN_TORCH[name](*wide), wide, grad.double())
    bound = 1e-10 if dtype == torch.float64 else 2e-4
    for found, wanted in zip((grad_x, grad_w), expected):
        torch.testing.assert_close(found.double(), wanted, rtol=bound, atol=bound)


@pytest.mark.parametrize("padding", ["NEG_INF", "POS_INF", "NAN", "ZERO"])
def test_pads_of_loads(padding):
    mode = getattr(tl.PaddingMode, padding)

    @tl.kernel
    def scaled_kernel(x, w, out, N: tl.Constant[int]):
        tl.store(out, (tl.bid(0), 0), tl.load(x, (tl.bid(0), 0), (2, N), padding_mode=mode) * tl.load(w, 0, 1))

    x, w = torch.randn(ROWS, COLUMNS), torch.randn(1)
    grad, grad_x, grad_w = torch.randn_like(x), torch.empty_like(x), torch.empty(1)
    tile_ops.derive(scaled_kernel)[3](x, w, torch.empty_like(x), 16, grad, grad_x, grad_w)
    torch.testing.assert_close(grad_x, grad * w)
    torch.testing.assert_close(grad_w, (grad * x).sum()[None])


@tl.kernel
def softmax_kernel(x, heat, out, N: tl.Constant[int]):
    t = tl.load(x, (tl.bid(0), 0), (2, N), padding_mode=tl.PaddingMode.NEG_INF) * tl.load(heat, 0, 1)
    e = tl.exp(t - tl.max(t, axis=1, keepdims=True))
    tl.store(out, (tl.bid(0), 0), e / tl.sum(e, axis=1, keepdims=True))


def test_softmax_with_a_learned_temperature():
    x, heat, grad = torch.randn(ROWS, COLUMNS), torch.rand(1) + 0.5, torch.randn(ROWS, COLUMNS)
    grad_x, grad_heat = torch.empty_like(x), torch.empty(1)
    tile_ops.derive(softmax_kernel)[3](x, heat, torch.empty_like(x), 16, grad, grad_x, grad_heat)
    x.requires_grad_(), heat.requires_grad_()
    expected = torch.autograd.grad((x * heat).softmax(1), (x, heat), grad)
    torch.testing.assert_close((grad_x, grad_heat), expected)


@tl.kernel
def running_kernel(x, w, out, N: tl.Constant[int]):
    t, s = tl.load(x, (tl.bid(0), 0), (2, N)), tl.load(w, 0, 1)
    tl.store(out, (tl.bid(0), 0), tl.cumprod(s / t, axis=1))


def test_running_products():
    """Columns and rows beyond the array are quotients by 0."""
    x, w, grad = (torch.rand(shape, dtype=torch.double) + 0.5 for shape in ((ROWS, COLUMNS), (1,), (ROWS, COLUMNS)))
    grad_x, grad_w = torch.empty_like(x), torch.empty_like(w)
    tile_ops.derive(running_kernel)[3](x, w, torch.empty_like(x), 16, grad, grad_x, grad_w)
    x.requires_grad_(), w.requires_grad_()
    torch.testing.assert_close((grad_x, grad_w), torch.autograd.grad((w / x).cumprod(1), (x, w), grad))


@tl.kernel
def normalized_kernel(x, lse, out, N: tl.Constant[int]):
    tl.store(out, (tl.bid(0), 0), tl.exp(tl.load(x, (tl.bid(0), 0), (2, N)) - tl.load(lse, 0, 1)))


def test_exponentials_that_overflow():
    """Padding is exp(0 + 117)."""
    x, lse, grad = torch.randn(ROWS, COLUMNS) - 117, torch.tensor([-117.0]), torch.randn(ROWS, COLUMNS)
    grad_x, grad_lse = torch.empty_like(x), torch.empty(1)
    tile_ops.derive(normalized_kernel)[3](x, lse, torch.empty_like(x), 16, grad, grad_x, grad_lse)
    x.requires_grad_(), lse.requires_grad_()
    torch.testing.assert_close((grad_x, grad_lse), torch.autograd.grad((x - lse).exp(), (x, lse), grad))


def test_nan_in_data_stays():
    x, w = torch.rand(ROWS, COLUMNS) + 0.5, torch.rand(1) + 0.5
    x[1, 3] = math.nan
    grad_x, grad_w = torch.empty_like(x), torch.empty(1)
    tile_ops.derive(kernel_of(FUNCTIONS["mean"]))[3](x, w, torch.empty_like(x), 16, torch.randn_like(x), grad_x, grad_w)
    assert grad_w.isnan().all() and grad_x[1].isnan().all() and grad_x[[0, 2, 3, 4]].isfinite().all()


@tl.kernel
def masked_attention_kernel(q, k, v, mask, out, M: tl.Constant[int], N: tl.Constant[int], D: tl.Constant[int]):
    i = tl.bid(0)
    scores = tl.mma(tl.load(q, (i, 0), (M, D)), tl.load(k, (0, 0), (N, D)).transpose(), tl.zeros((M, N), tl.float32))
    scores = tl.where(tl.load(mask, (i, 0), (M, N)), scores, float("-inf"))
    e = tl.exp(scores - tl.max(scores, axis=1, keepdims=True))
    p = e / tl.sum(e, axis=1, keepdims=True)
    tl.store(out, (i, 0), tl.mma(p.astype(v.dtype), tl.load(v, (0, 0), (N, D)), tl.zeros((M, D), tl.float32)).astype(out.dtype))


def attention_arguments():
    torch.manual_seed(0)
    q, k, v, grad = (torch.randn(rows, 16) for rows in (20, 16, 16, 20))
    mask = torch.rand(20, 16) < 0.7
    mask[:, 0] = True
    return q, k, v, mask, grad


def check_attention(launch):
    """A mask of zeros beyond the queries masks all keys: its rows are 0 / 0."""
    q, k, v, mask, grad = attention_arguments()
    found = [torch.full_like(each, math.nan) for each in (q, k, v)]
    derivative = tile_ops.derive(masked_attention_kernel)
    launch(lambda: derivative[2](q, k, v, mask, torch.empty_like(q), 16, 16, 16, grad, *found))
    wide = [each.double().requires_grad_() for each in (q, k, v)]
    out = (wide[0] @ wide[1].T).masked_fill(~mask, -math.inf).softmax(1) @ wide[2]
    for own, expected in zip(found, torch.autograd.grad(out, wide, grad.double())):
        torch.testing.assert_close(own.double(), expected, rtol=2e-2, atol=2e-2)


def test_rows_that_a_mask_hides_wholly():
    check_attention(lambda call: call())


@pytest.mark.at_home
def test_the_same_on_an_emulated_gpu():
    from cuda.emulate_operators import Emulation

    check_attention(Emulation().call)


@pytest.mark.parametrize("zero", [False, True])
def test_atan2_at_and_near_zero(zero):
    @tl.kernel
    def angle_kernel(y, x, out, N: tl.Constant[int]):
        tl.store(out, 0, tl.atan2(tl.load(y, 0, N), tl.load(x, 0, N)))

    y, x = (torch.zeros(4), torch.zeros(4)) if zero else (torch.tensor([1e-30, -3e-30, 0, 2e20]), torch.full((4,), 1e-30))
    grad_y, grad_x = torch.empty(4), torch.empty(4)
    tile_ops.derive(angle_kernel)[1](y, x, torch.empty(4), 4, torch.ones(4), grad_y, grad_x)
    wide = [each.double().requires_grad_() for each in (y, x)]
    expected = torch.autograd.grad(torch.atan2(*wide).sum(), wide)
    for own, wanted in zip((grad_y, grad_x), expected):
        torch.testing.assert_close(own, wanted.float(), rtol=1e-5, atol=0)


def test_abs_of_nan():
    @tl.kernel
    def size_kernel(x, out, N: tl.Constant[int]):
        tl.store(out, 0, tl.abs(tl.load(x, 0, N)))

    x, grad = torch.tensor([math.nan, 0.0, -2.0, 3.0]), torch.empty(4)
    tile_ops.derive(size_kernel)[1](x, torch.empty(4), 4, torch.full((4,), 5.0), grad)
    x.requires_grad_()
    torch.testing.assert_close(grad, torch.autograd.grad(x.abs().sum() * 5, x)[0])
