"""Tile IR text on another device with tensors of the CPU: all of their memory goes there and comes back."""

import tile_ops
import torch
from tile_ops import _C

_here = _C.run_ir


def run_ir(device, text, grid, arguments, passes=True):
    """_C.run_ir on the device. What lies around the tensors in their memory is copied too, so that stray writes show."""
    memories = {}

    def away(argument):
        if not isinstance(argument, torch.Tensor):
            return argument
        home = torch.empty(0, dtype=torch.uint8).set_(argument.untyped_storage())
        _, there = memories.setdefault(home.data_ptr(), (home, home.to(device, copy=True)))
        view = argument.storage_offset(), argument.shape, argument.stride()
        return torch.empty(0, dtype=argument.dtype, device=device).set_(there.untyped_storage(), *view)

    try:
        _here(text, grid, [away(argument) for argument in arguments], passes)
        tile_ops.synchronize(device)  # which says what assertions failed
    finally:
        for home, there in memories.values():
            home.copy_(there)
