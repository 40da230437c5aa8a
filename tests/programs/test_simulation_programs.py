"""examples/python: Fourier transforms, heat on a plate and option prices, beside float64; on the emulator, too."""

import math

import pytest
import torch
from programs_reference import compare
from python_examples import load, on_the_emulator

needs_cpu = pytest.mark.skipif(torch.get_default_device().type == "cuda", reason="the GPU itself runs them there")


def fails(program, arguments, text):
    with pytest.raises(ValueError) as error:
        program(*arguments)
    assert text in str(error.value)


def near(got, want, bound):
    """got beside a float64 or complex128 want; bound: as a share of the largest number."""
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
    for function, dtype in ((load("fft").fft, torch.complex64),
                            (lambda x, inv: (torch.fft.ifft if inv else torch.fft.fft)(x), torch.complex128)):  # fmt: skip
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


@needs_cpu
def test_fft_on_the_emulator():
    with on_the_emulator() as ran:
        check_fft(signals(3, 64))
        check_fft(signals(2, 512), True)
    assert ran == ["fft_kernel"] * 2
