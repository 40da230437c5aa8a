"""The operator that most tests of csrc/torch call, in torch's own words."""

import torch

DOUBLE = "tt::rope_backward: double backward of tt::rope is not implemented; differentiate it once only"


def rope(x, c, s, scale=1.0):
    a, b = x.chunk(2, -1)
    return scale * torch.cat([a * c - b * s, b * c + a * s], -1), (x * x).sum(-1)


def data(dtype=torch.float64, lead=(2, 3)):
    angle = torch.randn(5, 4, dtype=dtype)
    return torch.randn(*lead, 5, 8, dtype=dtype, requires_grad=True), angle.cos(), angle.sin()


def loss(f, x, c, s):
    y, m = f(x, c, s, 0.5)
    return y.sin().sum() + (m * m).sum()


def close(a, b, tol=1e-10):
    torch.testing.assert_close(a, b, rtol=tol, atol=tol)
