"""Tensors that a call saves for its gradient, and bounds of gradients by dtype."""

import torch

BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1.6e-2, torch.float16: 2e-3}


def close_to(ours, reference, dtype):
    """Asserts that gradients of a dtype are near those of float64, relative to the largest element, or to 1."""
    for own, exact in zip(ours, reference, strict=True):
        assert own.shape == exact.shape
        assert ((own.double() - exact).abs() <= BOUNDS[dtype] * max([1, *exact.abs().flatten().tolist()])).all()


def saved_by(call, *arguments):
    """Returns the tensors that autograd saves while a call runs."""
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda each: (seen.append(each), each)[1], lambda each: each):
        call(*arguments)
    return seen
