"""Compares results and gradients of a program of examples/python with float64 ones."""

import torch

TOLERANCE = {torch.float32: 3e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def close(got, want, scale=1.0, torchs=None):
    """Compares got with a float64 want, as far as got's dtype goes, or 4 times as far off as torchs, torch's own result in
    that dtype: what cancels has no digits left in either. scale: how much more than one rounding is expected."""
    bound = scale * TOLERANCE.get(got.dtype, 0)
    least = bound * (want.abs().max().item() if want.numel() else 0.0)
    if torchs is not None and want.numel():
        least = max(least, 4 * (torchs.double() - want).abs().max().item())
    torch.testing.assert_close(got.double().cpu(), want.double().cpu(), rtol=bound, atol=least)


def compare(program, exact, tensors, *options, scale=1.0):
    """program(*tensors, *options) and its gradients, with fresh incoming ones, against those of exact in float64."""
    results, gradients, incoming = [], [], None
    for function, kind in (program, None), (exact, torch.float64), (exact, None):
        given = [each.detach().clone() for each in tensors]
        given = [each.to(kind or each.dtype).requires_grad_() if each.is_floating_point() else each for each in given]
        out = function(*given, *options)
        incoming = torch.randn(out.shape).to(out) if incoming is None else incoming
        results.append(out.detach())
        wanted = [each for each in given if each.requires_grad]
        gradients.append(torch.autograd.grad(out, wanted, incoming.to(out.dtype)))
    got, want, torchs = results
    assert got.dtype == tensors[0].dtype and got.shape == want.shape
    close(got, want, scale, torchs)
    for got, want, torchs in zip(*gradients):
        assert got.shape == want.shape
        close(got, want, scale, torchs)
