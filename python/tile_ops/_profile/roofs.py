"""Measures what a device can do: the bandwidth of a copy, and torch's product of square matrices."""

import functools
import time

import torch

MEASURED = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def _seconds(function, device, rounds=10):
    """Returns the least time of a call: a roof is what the device can do."""
    taken = []
    for number in range(rounds + 2):
        if device.type == "cuda":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            function()
            end.record()
            end.synchronize()
            own = begin.elapsed_time(end) * 1e-3
        else:
            start = time.perf_counter()
            function()
            own = time.perf_counter() - start
        if number >= 2:
            taken.append(own)
    return min(taken)


@functools.cache
def bandwidth(device):
    """Returns the bytes a second that a copy of a large tensor reads and writes."""
    count = 1 << 26  # on a CPU, several times its caches
    if device.type == "cuda":
        with torch.cuda.device(device):
            count = min(1 << 30, torch.cuda.mem_get_info()[0] // 8)
    source = torch.randint(256, (count,), dtype=torch.uint8, device=device)  # zeros take less power
    target = torch.empty_like(source)
    return 2 * count / _on(device, lambda: target.copy_(source))


def _on(device, function):
    with torch.cuda.device(device) if device.type == "cuda" else torch.no_grad():
        return _seconds(function, device)


def peak(device, dtype):
    """Returns the operations a second of torch.matmul in a dtype, or None if it is not one that is measured."""
    if dtype not in MEASURED:
        return None
    return _peak(device, dtype, torch.get_float32_matmul_precision(), torch.get_num_threads())


@functools.cache
def _peak(device, dtype, *_settings):
    size = 1024 if device.type == "cpu" else 8192 if dtype.itemsize == 2 else 4096
    with torch.no_grad():
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        out = torch.empty_like(left)
        return 2 * size**3 / _on(device, lambda: torch.matmul(left, right, out=out))
