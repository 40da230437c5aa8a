"""What the tests of examples/python share: results and gradients of a program beside float64 ones."""

import torch

TOLERANCE = {torch.float32: 3e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def close(got, want, scale=1.0):
    """got beside a float64 want, as far as got's dtype goes; scale: how much more than one rounding is expected."""
    bound = scale * TOLERANCE.get(got.dtype, 0)
    size = want.abs().max().item() if want.numel() else 0.0
    torch.testing.assert_close(got.double().cpu(), want.double().cpu(), rtol=bound, atol=bound * max(size, 1e-6))


def compare(program, exact, tensors, *options, scale=1.0):
    """program(*tensors, *options) and its gradients, with fresh incoming ones, beside those of exact in float64."""
    ours = [each.detach().clone().requires_grad_(each.is_floating_point()) for each in tensors]
    theirs = [each.detach().double().requires_grad_() if each.is_floating_point() else each for each in tensors]
    got, want = program(*ours, *options), exact(*theirs, *options)
    assert got.dtype == tensors[0].dtype and got.shape == want.shape
    close(got, want.detach(), scale)
    grad = torch.randn(got.shape, dtype=torch.float64, device=got.device).to(got.dtype)
    wanted = [each for each in theirs if each.requires_grad]
    for ours_, exact_ in zip(
        torch.autograd.grad(got, [each for each in ours if each.requires_grad], grad),
        torch.autograd.grad(want, wanted, grad.double()),
    ):
        close(ours_, exact_, scale)
