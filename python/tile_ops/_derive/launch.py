"""Launches a derived kernel: memory for partial sums and for values of iterations, and sums afterwards."""

import math

import torch

from .. import _C
from .traced import DTYPES

_SMALL = 1 << 22  # bytes of partial sums that are always taken


def _deterministic():
    return torch.are_deterministic_algorithms_enabled()


def _choose(traced, grid, leaves, targets, results):
    """Returns the derived kernel. Partial sums that are larger than the launch's own arrays are replaced by atomics."""
    wanted = tuple((parameter, False, adds) for parameter, (_, adds) in targets.items())
    derived = traced.derived(wanted, results)
    limit = _SMALL + 2 * sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))
    large = {
        parameter
        for parameter, how, axes, dtype, *_ in derived.gradients
        if how == "summed"
        and math.prod(grid[axis] for axis in axes) * targets[parameter][0].numel() * DTYPES[dtype].itemsize > limit
    }
    if large and not _deterministic():
        derived = traced.derived(tuple((each, each in large, adds) for each, _, adds in wanted), results)
    return derived


def _accumulate(view, value, adds):
    """Adds to a view, of which several elements may share memory, as those of an expanded tensor do. adds: it holds something."""
    if not view.numel():
        return
    if not adds:
        if not _C.overlap(view):
            view.copy_(value)
            return
        view.zero_()
    for axis in range(view.dim()):
        if view.stride(axis) == 0 and view.size(axis) > 1:
            value, view = value.sum(axis, keepdim=True), view.narrow(axis, 0, 1)
    if _C.overlap(view):
        raise NotImplementedError(
            f"the gradient of an array of shape {tuple(view.shape)} and strides {view.stride()}, whose elements share "
            "memory, is not derived; pass a clone() of it to the kernel"
        )
    view.add_(value)


def _covered(covers, grid, shape):
    """Returns true if the tiles of a launch cover an array, so that every element is stored."""
    return bool(covers) and all(
        whole or (grid[axis] if axis >= 0 else 1) * extent >= size for (axis, extent, whole), size in zip(covers, shape)
    )


def check_grid(name, derived, grid):
    """Raises ValueError if the grid has blocks along an axis that the kernel does not ask for: they repeat each other."""
    for axis, count in enumerate(grid):
        if count > 1 and axis not in derived.grid_axes:
            raise ValueError(
                f"{name}: the grid has {count} blocks along axis {axis}, but the kernel does not use bid({axis}), so that "
                "blocks repeat each other and gradients would be counted repeatedly; launch one block along this axis"
            )


def launch(name, traced, grid, leaves, incoming, targets, results):
    """Computes gradients.

    leaves: the kernel's arguments. incoming: the gradients of the parameters `results`, in their dtypes. targets: {parameter:
    (tensor, adds)}: the tensor of the array's shape that gets the gradient, to which it is added if adds.
    """
    derived = _choose(traced, grid, leaves, targets, results)
    check_grid(name, derived, grid)
    memories, after, direct = [], [], []
    some = next(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    for parameter, how, axes, dtype, _, covers in derived.gradients:
        view, adds = targets[parameter]
        if how == "atomic" and _deterministic():
            raise RuntimeError(
                f"{name}: the gradient of argument {parameter} is added by atomics, which is not deterministic; use "
                "torch.use_deterministic_algorithms(False), or write the gradient by hand"
            )
        shares = view.numel() and (_C.overlap(view) or any(_C.overlap(view, each) for each in direct))
        if how == "summed" or shares or view.dtype != DTYPES[dtype]:
            blocks = [grid[axis] for axis in axes]
            memory = torch.zeros(blocks + list(view.shape), dtype=DTYPES[dtype], device=some.device)
            after.append((view, adds, memory, tuple(range(len(blocks)))))
        else:
            memory = view
            direct.append(view)
            if not adds and not _covered(covers, grid, view.shape):
                view.zero_()
        memories.append(memory)
    if math.prod(grid):
        arguments = (*leaves, *incoming, *memories)
        for i, (dtype, shape) in enumerate(derived.scratch):
            count = derived.iterations(i, grid, arguments)
            memories.append(torch.empty((math.prod(grid), count, *shape), dtype=DTYPES[dtype], device=some.device))
        derived.launch(grid, (*leaves, *incoming, *memories))
    for view, adds, memory, axes in after:
        _accumulate(view, memory.sum(axes) if axes else memory, adds)
