"""Compares results and gradients of a case of sharding_cases.py on DTensors with those on plain tensors."""

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor


def _reference(case, device):
    tensors = [each.to(device, copy=True) for each in case.tensors.values()]
    for name, tensor in zip(case.tensors, tensors):
        tensor.requires_grad_(name in case.differentiable)
    out = case.run(*tensors)
    out = out if isinstance(out, tuple) else (out,)
    incoming = [torch.randn_like(each) for each in out]
    if case.differentiable:
        torch.autograd.backward(out, incoming)
    return tensors, [each.detach() for each in out], incoming


def full_tensor(value):
    return value.full_tensor() if isinstance(value, DTensor) else value


def compare(case, mesh, placements, device, incoming_on=None):
    """Compares one case and returns its results' placements. placements: of its tensors, incoming_on: of incoming gradients."""
    torch.manual_seed(1)
    plain, expected, incoming = _reference(case, device)
    tensors = {}
    for name, tensor in zip(case.tensors, plain):
        made = distribute_tensor(tensor.detach(), mesh, placements[name])
        tensors[name] = made.requires_grad_(name in case.differentiable)
    out = case.run(*tensors.values())
    out = out if isinstance(out, tuple) else (out,)
    for each, right in zip(out, expected, strict=True):
        assert isinstance(each, DTensor) and each.shape == right.shape and each.dtype == right.dtype
        torch.testing.assert_close(full_tensor(each.detach()), right, msg=lambda text: f"result, {placements}: {text}")
    if case.differentiable:
        split = incoming_on and all(each.dim() for each in out)
        on = incoming_on if split else [Replicate()] * mesh.ndim
        torch.autograd.backward(out, [distribute_tensor(each, mesh, on) for each in incoming])
        for name, right in zip(case.tensors, plain):
            if name in case.differentiable:
                found = full_tensor(tensors[name].grad)
                assert found.shape == right.shape
                torch.testing.assert_close(found, right.grad, msg=lambda text: f"grad of {name}, {placements}: {text}")
    return [each.placements for each in out]


def alone(case, mesh):
    """Yields replicated placements, then placements that shard only one tensor along one of its axes."""
    everywhere = {name: [Replicate()] * mesh.ndim for name in case.tensors}
    yield everywhere
    for name, tensor in case.tensors.items():
        for dim in range(tensor.dim()):
            yield {**everywhere, name: [Shard(dim), *[Replicate()] * (mesh.ndim - 1)]}
