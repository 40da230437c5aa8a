"""Waits for a GPU and reports the failures of its kernels."""

import torch


def synchronize(device: torch.device | str | int | None = None) -> None:
    """Waits for all work on a CUDA device, as torch.cuda.synchronize does. The default is the current device, if there is any.

    On the CPU kernels have ended when their launch returns, so there is nothing to wait for. Without this call a failed
    assertion is reported by our next launch on the device, or on stderr when the process ends.

    Errors: RuntimeError if an assertion of a kernel (`assert_` of the tile language) failed on the device or a kernel crashed.
    It names the file and line, or the kernels that may be the cause.
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
