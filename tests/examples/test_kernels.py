"""examples/kernels.py: every example at a fraction of its size; its operators at odd sizes."""

import math

import numerics
import pytest
import torch
from tile_ops import _C

EXAMPLES = ["heat", "option_price", "histogram", "prefix_sum", "transpose", "top_k", "fft", "attention", "quantised_matmul"]


@pytest.fixture(scope="module")
def kernels():
    import build_cpp
    import kernels

    build_cpp.load("tile_kernels")
    return kernels


@pytest.fixture
def ops(kernels):
    return torch.ops.kernels


def test_every_example_is_here(kernels):
    wrong = [text for text in _C.registration_errors() if "tw::" not in text]  # those are the mistakes of other tests
    assert list(kernels.EXAMPLES) == EXAMPLES and not wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(kernels, name, device, monkeypatch, tmp_path):
    monkeypatch.setattr(kernels, "PICTURE", tmp_path / "heat.png")
    line = kernels.EXAMPLES[name](device.type, scale=8)
    assert line and "\n" not in line and "nan" not in line
    if name == "heat":
        from PIL import Image

        assert Image.open(tmp_path / "heat.png").size == (3 * 64, 64)


@pytest.mark.parametrize("shape", [(1, 1, 1), (0, 3, 2), (2, 0, 3), (2, 129, 65), (1, 5, 300)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.float64, torch.bool], ids=str)
def test_transpose(ops, shape, dtype):
    x = torch.randint(0, 2, shape).to(dtype)
    assert torch.equal(ops.transpose(x), x.transpose(1, 2))
    assert torch.equal(ops.transpose(x.transpose(0, 2)), x.transpose(0, 2).transpose(1, 2))


def test_transpose_is_a_torch_operator(ops):
    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(ops.transpose.default, (x,))
    assert torch.autograd.gradcheck(ops.transpose, (x,))


@pytest.mark.parametrize("shape", [(0, 0), (1, 7), (2, 2), (3, 3), (67, 515)], ids=str)
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_heat(ops, shape, steps):
    u = torch.randn(shape)

    def advanced(u):
        for _ in range(steps if min(u.shape) > 2 else 0):
            inner = u[1:-1, 1:-1]
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u[1:-1, 1:-1] = inner + 0.2 * (around - 4 * inner)
        return u

    numerics.check(ops.heat(u, 0.2, steps), advanced(u.clone()), advanced(u.double()))


@pytest.mark.parametrize("n", [0, 1, 255, 16384, 100_001])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_prefix_sum(ops, n, dtype):
    x = torch.randint(-9, 9, (n,), dtype=dtype) if not dtype.is_floating_point else torch.randn(n).to(dtype)
    exact = x.double().cumsum(0)
    assert torch.equal(ops.prefix_sum(x), exact.to(dtype)) or dtype in (torch.float32, torch.float64)
    numerics.check(ops.prefix_sum(x), exact.to(dtype), exact)


@pytest.mark.parametrize("n, bins", [(0, 3), (1, 1), (1000, 129), (70_001, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_histogram(ops, n, bins, dtype):
    x = torch.randn(n).to(dtype)
    x[:3] = torch.tensor([math.nan, math.inf, 1])[: len(x)].to(dtype)
    inside = x.float()[(x >= -1) & (x <= 1)]
    index = ((inside + 1) / 2 * bins).long().clamp(max=bins - 1)
    assert torch.equal(ops.histogram(x, bins, -1, 1), torch.bincount(index, minlength=bins))


@pytest.mark.parametrize("rows, columns, k", [(0, 5, 2), (1, 1, 1), (3, 40, 40), (2, 20_000, 33), (2, 1500, 1024)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_top_k(ops, rows, columns, k, dtype):
    """Many equal numbers, both zeros, infinities and NaN."""
    x = (torch.randn(rows, columns) * 4).round().to(dtype)
    x[:, ::7], x[:, 3::11], x[:, 5::501], x[:, 9::703] = -0.0, -math.inf, math.nan, math.inf
    values, indices = ops.top_k(x, k)
    expected, order = x.sort(dim=1, descending=True, stable=True)
    torch.testing.assert_close(values, expected[:, :k], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(indices, order[:, :k])


@pytest.mark.parametrize("n", [512, 1024, 2048, 4096])
@pytest.mark.parametrize("signals", [0, 1, 9])
def test_fft(kernels, ops, n, signals):
    x = torch.randn(signals, n, dtype=torch.complex64)
    for inverse, theirs in ((False, torch.fft.fft), (True, torch.fft.ifft)):
        for tf32, bound in ((False, 1e-6), (True, 2e-3)):
            ours = ops.fft(x, inverse, tf32)
            assert ours.shape == x.shape
            assert not signals or kernels.error(ours, theirs(x.to(torch.complex128))) < bound


@pytest.mark.parametrize("height, width, depth", [(1, 1, 8), (3, 5, 64), (13, 11, 80)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_attention(ops, height, width, depth, dtype):
    tokens = height * width
    q, k, v = torch.randn(3, 2, 3, tokens, depth).to(dtype)
    bias, slope = torch.randn(3, 2 * height - 1, 2 * width - 1), torch.rand(3)
    token = torch.arange(tokens)
    y, x = token // width, token % width
    by_distance = bias[:, y[:, None] - y + height - 1, x[:, None] - x + width - 1]
    fall = (slope[:, None, None] * (token - token[:, None])).masked_fill(token > token[:, None], -math.inf)

    def plain(q, k, v, change):
        return change(q @ k.transpose(-1, -2) * 0.3).softmax(-1) @ v

    for ours, change in (
        (ops.picture_attention(q, k, v, bias, 0.3, 5.0), lambda s: 5 * torch.tanh(s / 5) + by_distance.to(s.dtype)),
        (ops.slope_attention(q, k, v, slope, 0.3), lambda s: s + fall.to(s.dtype)),
    ):
        numerics.check(ours, plain(q, k, v, change), plain(q.double(), k.double(), v.double(), change))


def unpacked(quantised, scale):
    if quantised.dtype == torch.uint8:
        low, high = ((each.int() - 8).unflatten(1, (-1, 32)) for each in (quantised & 15, quantised >> 4))
        return torch.cat([low, high], 2) * scale.double().unsqueeze(2)
    return quantised.unflatten(1, (-1, 64)) * scale.double().unsqueeze(2)


@pytest.mark.parametrize("m, n, k", [(1, 1, 64), (5, 300, 192), (130, 65, 256), (0, 3, 64)])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_quantised_matmul(ops, m, n, k, bits, dtype):
    x, weight = torch.randn(m, k).to(dtype), torch.randn(n, k)
    weight[0, :64] = 0
    quantised, scale = ops.quantise(weight, bits)
    held = unpacked(quantised, scale)
    most = 127 if bits == 8 else 7
    wrong = (held - weight.unflatten(1, (-1, 64))).abs().amax(2)
    assert (wrong <= scale * 0.5001).all() and torch.allclose(scale * most, weight.unflatten(1, (-1, 64)).abs().amax(2))
    held = held.flatten(1)
    numerics.check(ops.quantised_matmul(x, quantised, scale), x @ held.to(dtype).T, x.double() @ held.T)


@pytest.mark.parametrize("kind", ["european", "asian", "geometric_asian"])
def test_option_price_is_that_of_the_seed(ops, kind):
    option = 100.0, 95.0, 0.01, 0.3, 0.5, 12
    first = ops.option_price(torch.tensor([1]), *option, 20_000, kind)
    assert torch.equal(first, ops.option_price(torch.tensor([1]), *option, 20_000, kind))
    assert not torch.equal(first, ops.option_price(torch.tensor([2]), *option, 20_000, kind))
    one = ops.option_price(torch.tensor([1]), *option, 1, kind)  # one pair of paths says nothing of its error
    assert one[1] == 0 and one[0] >= 0


ERRORS = {
    "transpose: x is [2]; pass matrices, [batch, rows, columns]": lambda ops: ops.transpose(torch.ones(2)),
    "heat: u is [2]; pass a matrix": lambda ops: ops.heat(torch.ones(2), 0.1, 1),
    "heat: r is 0.5; steps are stable for 0 < r <= 0.25": lambda ops: ops.heat(torch.ones(2, 2), 0.5, 1),
    "histogram: low is 1 and high 1; pass low < high": lambda ops: ops.histogram(torch.ones(2), 3, 1, 1),
    "prefix_sum: x is [2, 2]; pass a vector": lambda ops: ops.prefix_sum(torch.ones(2, 2)),
    "top_k: k is 3 of rows of 2; pass 1 to 1024, and no more than a row has": lambda ops: ops.top_k(torch.ones(2, 2), 3),
    "quantise: bits is 3; pass 8 or 4": lambda ops: ops.quantise(torch.ones(2, 64), 3),
    "option_price: kind is 'put'; pass 'european', 'asian' or 'geometric_asian'": lambda ops: ops.option_price(
        torch.tensor([1]), 1, 1, 1, 1, 1, 1, 1, "put"
    ),
    "picture_attention: bias is [2, 3, 3]; pass [heads, 2 height - 1, 2 width - 1], tokens = height width": lambda ops: ops.picture_attention(
        *torch.ones(3, 1, 2, 5, 8), torch.ones(2, 3, 3), 1, 1
    ),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors(ops, text):
    with pytest.raises(ValueError) as error:
        ERRORS[text](ops)
    assert str(error.value) == f"kernels::{text}"


def test_signals_of_other_lengths(ops):
    with pytest.raises(NotImplementedError) as error:
        ops.fft(torch.ones(1, 100, dtype=torch.complex64), False, False)
    assert str(error.value) == "kernels::fft: signals have 100 numbers; pass 512, 1024, 2048 or 4096"
