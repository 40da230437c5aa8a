"""Waiting for a GPU, and for what its kernels have to say."""

import torch


def synchronize(device: torch.device | str | int | None = None) -> None:
    """Waits for all work on a CUDA device, as torch.cuda.synchronize does; default: the current one, if there is any.

    Raises RuntimeError where an assertion of a kernel failed there (`assert_` of the tile language) or a kernel
    crashed, and names file and line, or the kernels that may have done it. Without this call a failed assertion is told
    by the next launch of a kernel of ours on the device, or on stderr when the process ends. On the CPU kernels have
    ended when their launch returns: there is nothing to wait for.
    """
    if device is None:
        if not torch.cuda.is_available():
            return
        index = torch.cuda.current_device()
    elif isinstance(device, int):
        index = device
    else:
        device = torch.device(device)
        if device.type == "cpu":
            return
        if device.type != "cuda":
            raise ValueError(f"synchronize: the device is {device}; it must be a CUDA device or the CPU")
        index = torch.cuda.current_device() if device.index is None else device.index
    from tile_ops import _C

    _C.synchronize(index)
