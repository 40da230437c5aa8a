"""Calls in forward mode: tangents of ours, and of torch."""

import torch
import torch.autograd.forward_ad as fwAD
from torch.utils._pytree import tree_flatten, tree_unflatten


def has_tangent(value):
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def tangents_of(args, kwargs):
    """A random tangent of each floating tensor among the arguments, with its layout."""
    flat, _ = tree_flatten((args, kwargs))
    return [torch.randn(x.shape, dtype=torch.float64).to(x.dtype) if has_tangent(x) else None for x in flat]


def with_tangents(function, args, kwargs, tangents):
    """The results of a call and their tangents; zeros where a result has none."""
    flat, spec = tree_flatten((args, kwargs))
    with fwAD.dual_level():
        duals = [
            fwAD.make_dual(x.detach(), t.to(x.dtype)) if t is not None else (x.detach() if isinstance(x, torch.Tensor) else x)
            for x, t in zip(flat, tangents)
        ]
        dual_args, dual_kwargs = tree_unflatten(duals, spec)
        results = function(*dual_args, **dual_kwargs)
        results = [r for r in (results if isinstance(results, (tuple, list)) else [results]) if r is not None]
        unpacked = [fwAD.unpack_dual(r) for r in results if has_tangent(r)]
        # rms_norm of torch 2.11 has float32 tangents of results in 16 bits.
        return [
            (u.primal, u.tangent.to(u.primal.dtype) if u.tangent is not None else torch.zeros_like(u.primal)) for u in unpacked
        ]


def by_reverse_mode(function, args, kwargs, tangents):
    """The same by two reverse modes, for functions of torch without forward mode."""
    flat, spec = tree_flatten((args, kwargs))
    leaves = [x.detach().requires_grad_() if t is not None else x for x, t in zip(flat, tangents)]
    call_args, call_kwargs = tree_unflatten(leaves, spec)
    results = function(*call_args, **call_kwargs)
    results = [r for r in (results if isinstance(results, (tuple, list)) else [results]) if r is not None and has_tangent(r)]
    inputs = [x for x, t in zip(leaves, tangents) if t is not None]
    pairs = []
    for result in results:
        u = torch.zeros_like(result, requires_grad=True)
        gradients = torch.autograd.grad(result, inputs, u, create_graph=True, allow_unused=True)
        used = [(g, t.to(g.dtype)) for g, t in zip(gradients, (t for t in tangents if t is not None)) if g is not None]
        (tangent,) = torch.autograd.grad([g for g, _ in used], [u], [t for _, t in used])
        pairs.append((result.detach(), tangent))
    return pairs


def reference_of(function, args, kwargs, tangents):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        try:
            return with_tangents(function, args, kwargs, tangents)
        except RuntimeError:  # NotImplementedError, or a view that torch's own formula cannot make
            return by_reverse_mode(function, args, kwargs, tangents)


def with_named_tangents(operator, args, kwargs, tangents):
    """The keyword arguments of the hidden operator of forward mode: those given, and the tangents by name."""
    _, spec = tree_flatten((args, kwargs))
    of_args, of_kwargs = tree_unflatten(tangents, spec)
    names = [argument.name for argument in operator.default._schema.arguments]
    named = {**dict(zip(names, of_args)), **of_kwargs}
    return {**kwargs, **{f"tangent_{name}": t for name, t in named.items() if isinstance(t, torch.Tensor)}}
