"""examples/python: Fourier transforms, heat on a plate and option prices, against float64; on the emulator, too."""

import math

import pytest
import torch
from programs_reference import compare
from python_examples import load, on_the_emulator


def fails(program, arguments, text):
    with pytest.raises(ValueError) as error:
        program(*arguments)
    assert text in str(error.value)


def near(got, want, bound):
    """Compares got with a float64 or complex128 want; bound: as a fraction of the largest number."""
    assert got.shape == want.shape and got.device == want.device
    size = want.abs().max().item() if want.numel() else 0.0
    torch.testing.assert_close(got.to(want.dtype), want, rtol=0, atol=bound * size)


def signals(*shape):
    return torch.randn(shape, dtype=torch.complex64)


def check_fft(x, inverse=False):
    exact = torch.fft.ifft if inverse else torch.fft.fft
    near(load("fft").fft(x, inverse), exact(x.to(torch.complex128)), 1e-6)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("power", range(13))
def test_fft(power, inverse):
    check_fft(signals(5, 1 << power), inverse)


def test_fft_of_shapes_and_strides():
    for shape in ((64,), (2, 3, 64), (3000, 2), (300, 32)):
        check_fft(signals(*shape))
    assert load("fft").fft(signals(0, 64)).shape == (0, 64)
    x = signals(8, 64, 16)
    for each in (x.mT, x[::3, :32], x[..., 3], x.conj(), x.mH, x[:1].expand(4, 64, 16)):
        check_fft(each)


@pytest.mark.parametrize("inverse", [False, True])
def test_gradient_of_fft(inverse):
    x, grad = signals(3, 128), signals(3, 128)
    results = []
    exact = lambda x, inverse: (torch.fft.ifft if inverse else torch.fft.fft)(x)  # noqa: E731
    for function, dtype in ((load("fft").fft, torch.complex64), (exact, torch.complex128)):
        leaf = x.to(dtype).requires_grad_()
        (first,) = torch.autograd.grad(function(leaf, inverse), leaf, grad.to(dtype), create_graph=True)
        (second,) = torch.autograd.grad(function(leaf, inverse).abs().square().sum(), leaf)
        results.append((first.detach(), second))
    for got, want in zip(*results):
        near(got, want, 1e-6)


def test_fft_there_and_back():
    x = signals(10, 1024)
    near(load("fft").fft(load("fft").fft(x), True), x.to(torch.complex128), 1e-6)


def test_fft_is_an_operator():
    program, x = load("fft").fft, signals(2, 8).requires_grad_()
    torch.library.opcheck(program.overload, (x,))
    rest = "pass complex64 [..., n], n a power of two up to 4096"
    fails(program, (x[:, :6],), f"fft: x is torch.complex64 [2, 6]; {rest}")
    fails(program, (x.real,), f"fft: x is torch.float32 [2, 8]; {rest}")
    fails(program, (signals(8192),), f"fft: x is torch.complex64 [8192]; {rest}")


@pytest.mark.at_home
def test_fft_on_the_emulator():
    with on_the_emulator() as ran:
        check_fft(signals(3, 64))
        check_fft(signals(2, 512), True)
    assert ran == ["fft_kernel"] * 2


def heat(u, source, r, steps):
    """The same steps by torch; both arguments count as used."""
    u = u + 0 * source
    for _ in range(steps if min(u.shape[-2:]) > 2 else 0):
        around = u[..., 2:, 1:-1] + u[..., :-2, 1:-1] + u[..., 1:-1, 2:] + u[..., 1:-1, :-2]
        change = r * (around - 4 * u[..., 1:-1, 1:-1]) + source[..., 1:-1, 1:-1]
        u = u + torch.nn.functional.pad(change, (1, 1, 1, 1))
    return u


@pytest.mark.parametrize("steps", [0, 1, 2, 21])
@pytest.mark.parametrize("shape", [(40, 30), (2, 3, 20, 70), (3, 3), (2, 5), (5, 1), (131, 600), (0, 4, 4), (4, 0)])
def test_heat(shape, steps):
    r = 0.203125  # exact in float32
    compare(load("heat").heat, heat, (torch.randn(shape), torch.randn(shape)), r, steps)


def test_heat_of_a_wave_whose_decay_is_known():
    """sin(pi x) sin(pi y) keeps its form; each step multiplies it by 1 - 8 r sin(pi / 2(n - 1))^2."""
    n, steps, r = 65, 300, 0.25
    side = torch.linspace(0, math.pi, n, dtype=torch.float64).sin()
    wave = side[:, None] * side
    want = wave * (1 - 8 * r * math.sin(math.pi / (2 * n - 2)) ** 2) ** steps
    near(load("heat").heat(wave.float(), torch.zeros(n, n), r, steps), want, 1e-5)


def test_heat_of_strides_leaves_its_arguments_alone():
    u, source = torch.randn(2, 20, 30, 2).unbind(-1)
    before = u.clone(), source.clone()
    compare(load("heat").heat, heat, (u, source), 0.125, 4)
    compare(load("heat").heat, heat, (u.mT, source.mT), 0.125, 3)
    compare(load("heat").heat, heat, (u[:1].expand(2, 20, 30), source), 0.125, 3)
    assert torch.equal(u, before[0]) and torch.equal(source, before[1])


def test_heat_is_an_operator():
    program, (u, source) = load("heat").heat, torch.randn(2, 6, 7).unbind(0)
    u, source = u.clone().requires_grad_(), source.clone().requires_grad_()
    torch.library.opcheck(program.overload, (u, source, 0.2, 3))
    rest = "pass twice [..., rows, columns] of float32"
    fails(program, (u, source[1:], 0.2, 3), f"heat: u is torch.float32 [6, 7], source torch.float32 [5, 7]; {rest}")
    fails(program, (u, source.double(), 0.2, 3), f"heat: u is torch.float32 [6, 7], source torch.float64 [6, 7]; {rest}")
    rest = "pass 0 < r <= 0.25 and no negative steps"
    fails(program, (u, source, 0.3, 3), f"heat: r is 0.3 and steps 3; {rest}")
    fails(program, (u, source, 0.2, -1), f"heat: r is 0.2 and steps -1; {rest}")


def test_colours_of_heat():
    shades = load("heat").colours(torch.tensor([[-1.0, 0.0, 0.5, 1.0, 2.0]]))
    assert shades.tolist() == [[[10, 10, 60], [10, 10, 60], [195, 65, 60], [255, 250, 220], [255, 250, 220]]]


@pytest.mark.at_home
def test_heat_on_the_emulator():
    with on_the_emulator() as ran:
        compare(load("heat").heat, heat, (torch.randn(2, 20, 30), torch.randn(2, 20, 30)), 0.125, 2)
    assert ran == ["heat_kernel"] * 4


OPTION = 100.0, 105.0, 0.03, 0.25, 1.0  # spot, strike, rate, volatility, years


def option_price(*rest, option=OPTION, seed=7):
    return tuple(each.item() for each in load("monte_carlo").monte_carlo(torch.tensor([seed]), *option, *rest))


@pytest.mark.parametrize("option", [OPTION, (50.0, 40.0, 0.0, 0.4, 0.5), (1.0, 1.5, 0.1, 0.3, 2.0)])
@pytest.mark.parametrize("steps", [1, 7, 16])
def test_monte_carlo(option, steps):
    price, error = option_price(steps, 100_003, option=option)
    exact = load("monte_carlo").black_scholes(*option)
    assert 0 < error < 0.02 * exact
    assert abs(price - exact) < 3 * error


def test_the_exact_option_price():
    """Hull, "Options, futures and other derivatives": 42, 40, 10 % a year, 20 % a year, half a year give 4.76."""
    assert round(load("monte_carlo").black_scholes(42.0, 40.0, 0.1, 0.2, 0.5), 2) == 4.76


def test_monte_carlo_is_reproducible_by_its_seed():
    assert option_price(3, 20_000) == option_price(3, 20_000)
    prices = {option_price(3, 20_000, seed=seed)[0] for seed in range(5)}
    assert len(prices) == 5


def test_mirrored_paths_of_one_pair():
    """A call that is surely paid is worth about the asset less the strike; one that is surely not is worth nothing."""
    price, error = option_price(4, 1, option=(100.0, 1.0, 0.0, 0.001, 1.0))
    assert abs(price - 99) < 1e-3 and error == 0
    assert option_price(4, 10, option=(1.0, 100.0, 0.0, 0.01, 1.0)) == (0, 0)


def test_standard_errors_are_those_of_many_runs():
    prices, errors = zip(*(option_price(2, 2000, seed=seed) for seed in range(200)))
    spread = torch.tensor(prices, dtype=torch.float64).std().item()
    assert 0.8 < spread / (sum(errors) / len(errors)) < 1.2


def test_monte_carlo_is_an_operator():
    program, seed = load("monte_carlo").monte_carlo, torch.tensor([1])
    torch.library.opcheck(program.overload, (seed, *OPTION, 2, 50))
    fails(program, (seed.int(), *OPTION, 2, 50), "monte_carlo: seed is torch.int32 [1]; pass int64 of one element")
    rest = "volatility 0.25, years 1.0, steps 0 and pairs 50; pass positive numbers, the last two below 2^31"
    fails(program, (seed, *OPTION, 0, 50), f"monte_carlo: spot is 100.0, strike 105.0, {rest}")


@pytest.mark.at_home
def test_monte_carlo_on_the_emulator():
    with on_the_emulator() as ran:
        price, error = option_price(2, 3000)
    assert ran == ["paths_kernel", "price_kernel"]
    want = option_price(2, 3000)
    assert abs(price - want[0]) < 1e-5 and abs(error - want[1]) < 1e-5
