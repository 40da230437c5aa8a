"""Waiting for a GPU, and for what its kernels have to say."""

import torch


def synchronize(device: torch.device | str | int | None = None) -> None:
    """Waits for all work on a CUDA device (default: the current one), as torch.cuda.synchronize does.

    Raises RuntimeError where an assertion of a kernel failed on it (`assert_` of the tile language) or a kernel crashed, and
    names file and line, or the kernels that may have done it. Without this call a failed assertion is told by the next launch
    of a kernel of ours on the device, or on stderr when the process ends. On the CPU launches have ended when they return, and
    nothing is waited for; that is what happens where torch has no CUDA too.
    """
    if device is not None and not isinstance(device, int):
        device = torch.device(device)
        if device.type == "cpu":
            return
        if device.type != "cuda":
            raise ValueError(f"synchronize: the device is {device}; it must be a CUDA device or the CPU")
        device = device.index
    if not torch.cuda.is_available():
        if device is None:
            return
        raise ValueError(f"synchronize: there is no CUDA device {device}; this machine has none that torch can use")
    from tile_ops import _C

    _C.synchronize(torch.cuda.current_device() if device is None else device)
