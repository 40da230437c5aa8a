"""Discrete Fourier transforms of 2^n complex numbers as products of matrices, with gradients.

A transform of f m points consists of transforms of f points down the columns of the matrix [f, m], which are a product
with roots of unity, a factor for each element, and transforms of m points of the rows. Each step takes a factor f of up
to 16 and puts its digit of the result after the remaining axes; columns of several signals are one matrix. Bailey,
"FFTs in external or hierarchical memory", 1990; Stockham, "High-speed convolution and correlation", 1966."""

import math

import tile_ops
import tile_ops.language as tl
import torch


def roots(rows, columns, n, angle):
    """Returns exp(i angle j k / n) for j < rows, k < columns, n a power of two: (real, imaginary)."""
    jk = tl.arange(rows, dtype=tl.int32)[:, None] * tl.arange(columns, dtype=tl.int32) & (n - 1)
    angles = jk.astype(tl.float32) * (angle / n)
    return tl.cos(angles), tl.sin(angles)


def product(x, y):
    """Returns x @ y of complex matrices."""
    (a, b), (c, d) = x, y
    zero = tl.zeros((a.shape[0], c.shape[1]), tl.float32)
    return tl.mma(-b, d, tl.mma(a, c, zero)), tl.mma(a, d, tl.mma(b, c, zero))


@tl.kernel
def fft_kernel(
    re, im, out_re, out_im, angle: float, scale: float, FACTORS: tl.Constant, S: tl.Constant[int], N: tl.Constant[int]
):
    i, left = tl.bid(0), N
    x, y = tl.load(re, (i, 0), (S, N)).transpose(), tl.load(im, (i, 0), (S, N)).transpose()
    for f in tl.static_iter(FACTORS):
        x, y = product(roots(f, f, f, angle), (x.reshape((f, -1)), y.reshape((f, -1))))
        left, shape = left // f, (f, left // f, -1)  # [digit of the result, remaining axis, earlier digits and signals]
        c, s = roots(f, left, f * left, angle)
        c, s, x, y = c[:, :, None], s[:, :, None], x.reshape(shape), y.reshape(shape)
        x, y = (x * c - y * s).permute((1, 0, 2)), (x * s + y * c).permute((1, 0, 2))
    tl.store(out_re, (i, 0), x.reshape((N, S)).transpose() * scale)
    tl.store(out_im, (i, 0), y.reshape((N, S)).transpose() * scale)


def factors(n):
    """Returns factors of n of up to 16, as equal as possible."""
    bits, count = n.bit_length() - 1, max(1, tl.cdiv(n.bit_length() - 1, 4))
    return tuple(1 << (bits + i) // count for i in range(count))


@tile_ops.op("programs::fft(Tensor x, bool inverse=False) -> Tensor")
class fft:
    """sum over j of x[j] exp(-2 pi i j k / n); with `inverse`, of x[j] exp(2 pi i j k / n) / n. These are torch.fft.fft
    and ifft.

    x: [..., n] of complex64, n a power of two up to 4096. Error: ValueError otherwise."""

    def outputs(x):
        if x.dtype != torch.complex64 or not x.dim() or x.shape[-1] not in [1 << i for i in range(13)]:
            raise ValueError(f"fft: x is {x.dtype} {list(x.shape)}; pass complex64 [..., n], n a power of two up to 4096")
        return x.new_empty(x.shape)

    def run(x, inverse, out):
        n = x.shape[-1]
        signals, angle = max(1, (32768 if x.is_cpu else 4096) // n), 2 * math.pi * (1 if inverse else -1)
        rows, scale = x.resolve_conj().reshape(-1, n), 1 / n if inverse else 1.0
        parts = (part for each in (rows, out.view(-1, n)) for part in torch.view_as_real(each).unbind(-1))
        fft_kernel[tl.cdiv(len(rows), signals)](*parts, angle, scale, factors(n), signals, n)

    def grad(grad_out, x, inverse):  # the adjoint has conjugate roots, and is scaled by 1 / n if x's transform is not
        n = x.shape[-1]
        return (fft(grad_out, not inverse) * (1 / n if inverse else n),)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(100, 4096, dtype=torch.complex64, device=device)
    exact = torch.fft.fft(x.to(torch.complex128))
    error = ((fft(x) - exact).abs().max() / exact.abs().max()).item()
    assert error < 1e-6
    torch.testing.assert_close(fft(fft(x), True), x)
    print(f"{len(x)} transforms of {x.shape[1]} points differ from float64 by {error:.1e} of the largest number")
