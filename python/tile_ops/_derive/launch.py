"""Launches a derived kernel: memory for partial sums and for values of iterations, and sums afterwards."""

import math

import torch

from .. import _C
from ..language.core.dtypes import of_ir

_SMALL = 1 << 22  # bytes of partial sums that are always taken
_BLOCKS_OF_A_CPU = 64  # whatever its number of threads, because sums depend on it


def _deterministic():
    return torch.are_deterministic_algorithms_enabled()


def _bytes_of_parts(derived, grid, targets):
    """Returns the bytes of the partial sums of each array, {parameter: bytes}."""
    return {
        parameter: math.prod(grid[axis] for axis in axes) * targets[parameter][0].numel() * of_ir(dtype).torch.itemsize
        for parameter, how, axes, dtype, *_ in derived.gradients
        if how == "summed"
    }


def _blocks_at_once(device):
    """Returns a number of blocks that keeps a device busy."""
    if device.type == "cuda":
        return 4 * torch.cuda.get_device_properties(device).multi_processor_count
    return _BLOCKS_OF_A_CPU


def _fold(traced, wanted, results, grid, derived, parts, limit, device):
    """Returns a derived kernel with fewer blocks, and its grid; by default the given ones.

    Blocks along one axis of the grid are computed by few, which add up what they share, so that partial sums are few, too.
    """
    shared = [set(axes) for _, how, axes, *_ in derived.gradients if how == "summed"]
    axes = set.intersection(*shared)
    axis = max(axes, key=lambda each: grid[each], default=None)
    if axis is None:
        return derived, grid
    others = math.prod(grid) // grid[axis]
    blocks = max(1, -(-_blocks_at_once(device) // others))
    if grid[axis] < 4 * blocks or sum(parts.values()) <= limit:
        return derived, grid
    folded = traced.folded(wanted, results, axis)
    return (folded, (*grid[:axis], blocks, *grid[axis + 1 :])) if folded else (derived, grid)


def _choose(traced, grid, leaves, targets, results, device):
    """Returns the derived kernel and its grid. Partial sums that are larger than the launch's own arrays are replaced by
    atomics."""
    wanted = tuple((parameter, False, adds) for parameter, (_, adds) in targets.items())
    derived = traced.derived(wanted, results)
    parts = _bytes_of_parts(derived, grid, targets)
    if not parts or not math.prod(grid):
        return derived, grid
    size = sum(leaf.nbytes for leaf in leaves if isinstance(leaf, torch.Tensor))
    folded, fewer = _fold(traced, wanted, results, grid, derived, parts, size // 16, device)
    large = {parameter for parameter, bytes_ in _bytes_of_parts(folded, fewer, targets).items() if bytes_ > _SMALL + 2 * size}
    if not large or _deterministic():
        return folded, fewer
    return traced.derived(tuple((each, each in large, adds) for each, _, adds in wanted), results), grid


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
    return bool(covers and math.prod(grid)) and all(
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
    device = next(leaf.device for leaf in leaves if isinstance(leaf, torch.Tensor))
    derived, blocks = _choose(traced, grid, leaves, targets, results, device)
    check_grid(name, derived, grid)
    memories, after, direct = [], [], []
    for parameter, how, axes, dtype, _, covers in derived.gradients:
        view, adds = targets[parameter]
        if how == "atomic" and _deterministic():
            raise RuntimeError(
                f"{name}: the gradient of argument {parameter} is added by atomics, which is not deterministic; use "
                "torch.use_deterministic_algorithms(False), or write the gradient by hand"
            )
        shares = view.numel() and (_C.overlap(view) or any(_C.overlap(view, each) for each in direct))
        if how == "summed" or shares or view.dtype != of_ir(dtype).torch:
            make = torch.empty if how == "summed" and _covered(covers, grid, view.shape) else torch.zeros
            memory = make([*(blocks[axis] for axis in axes), *view.shape], dtype=of_ir(dtype).torch, device=device)
            after.append((view, adds, memory, tuple(range(len(axes)))))
        else:
            memory = view
            direct.append(view)
            if not adds and not _covered(covers, grid, view.shape):
                view.zero_()
        memories.append(memory)
    if math.prod(grid):
        count = () if derived.folded_axis < 0 else (grid[derived.folded_axis],)
        arguments = (*leaves, *count, *incoming, *memories)
        for i, (dtype, shape) in enumerate(derived.scratch):
            iterations = derived.iterations(i, blocks, arguments)
            memories.append(torch.empty((math.prod(blocks), iterations, *shape), dtype=of_ir(dtype).torch, device=device))
        derived.launch(blocks, (*leaves, *count, *incoming, *memories))
    for view, adds, memory, axes in after:
        _accumulate(view, memory.sum(axes) if axes else memory, adds)
