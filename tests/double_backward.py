"""Gradients of gradients: of ours, and of torch's functions."""

import torch
from forward_mode import has_tangent
from torch.utils._pytree import tree_flatten, tree_unflatten


def second_gradients(function, args, kwargs, seed=1, constants=(), place=lambda x: x):
    """The gradients of a random product with the gradients of a call: by its arguments, and by the gradients of its results.

    constants: tensors among the arguments that are not differentiated by. place: moves tensors to where the call runs.
    """
    flat, spec = tree_flatten((args, kwargs))
    wanted = [has_tangent(x) and all(x is not each for each in constants) for x in flat]
    placed = lambda x: place(x.detach().clone()) if isinstance(x, torch.Tensor) else x  # noqa: E731
    leaves = [placed(x).requires_grad_() if each else placed(x) for x, each in zip(flat, wanted)]
    call_args, call_kwargs = tree_unflatten(leaves, spec)
    results = function(*call_args, **call_kwargs)
    results = [r for r in (results if isinstance(results, (tuple, list)) else [results]) if r is not None and r.requires_grad]
    inputs = [x for x in leaves if isinstance(x, torch.Tensor) and x.requires_grad]
    generator = torch.Generator("cpu").manual_seed(seed)

    def random(like):  # the same numbers on every device
        numbers = torch.randn(like.shape, generator=generator, dtype=torch.float64, device="cpu")
        return place(numbers.to(torch.get_default_device(), like.dtype))

    incoming = [random(r).requires_grad_() for r in results]
    gradients = torch.autograd.grad(results, inputs, incoming, create_graph=True, allow_unused=True)
    gradients = [g if g is None or g.requires_grad else None for g in gradients]
    factors = [None if g is None else random(g) for g in gradients]
    pairs = [(g, f) for g, f in zip(gradients, factors) if g is not None]
    found = torch.autograd.grad([g for g, _ in pairs], [*inputs, *incoming], [f for _, f in pairs], allow_unused=True)
    return [place(torch.zeros(x.shape, dtype=x.dtype)) if g is None else g for g, x in zip(found, [*inputs, *incoming])]
