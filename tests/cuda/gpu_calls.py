"""One call of each operator on a GPU, and its gradients; streams that are busy."""

import operators
import torch


def calls(device, dtype=torch.float32):
    """{name: (function of tensors, tensors that want gradients)}"""

    def randn(*sizes):
        return torch.randn(*sizes, device=device).to(dtype).requires_grad_()

    with torch.device(device):
        return {name: make(randn) for name, make in operators.calls("gpu").items()}


def results(function, tensors):
    """The results, and the gradients of all tensors for incoming ones."""
    out = function(*tensors)
    out = list(out) if isinstance(out, tuple) else [out]
    return [each.detach() for each in out] + list(torch.autograd.grad(out, tensors, [torch.ones_like(each) for each in out]))


def assert_equal(ours, expected):
    for a, b in zip(ours, expected, strict=True):
        assert torch.equal(a, b)


def busy():
    """Makes the current stream work for about a fifth of a second."""
    torch.cuda._sleep(int(3e8))


def late(tensors):
    """Copies that the current stream fills once it has been busy: zero to whom does not wait for it."""
    copies = [torch.zeros_like(tensor) for tensor in tensors]
    busy()
    with torch.no_grad():
        for copy, tensor in zip(copies, tensors):
            copy.copy_(tensor)
    return [copy.requires_grad_() for copy in copies]
