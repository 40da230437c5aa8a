"""Interleaved timing of several ways to do the same work, in one process."""

import os
import statistics
import sys
import time

# Warm allocator: outputs reuse memory, so that a row measures the kernel and not page faults. glibc reads these
# when it starts: run.py sets them and starts itself again.
WARM = {"MALLOC_MMAP_THRESHOLD_": "17179869184", "MALLOC_TRIM_THRESHOLD_": "17179869184"}


def is_warm():
    return all(os.environ.get(name) == value for name, value in WARM.items())


def start_warm():
    """Starts this program again with WARM set, unless it is."""
    if not is_warm():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **WARM})


def reserve(elements=1 << 28):
    """Touches memory and gives it back to the allocator: where results of a case and small tensors take turns, there is
    always a hole that is large enough, and no result starts on fresh pages."""
    import torch

    torch.ones(elements)


def rounds_of(functions, seconds=1.0, least=5, most=200):
    """Median seconds of each function of a dict, measured in turns.

    Every round calls each function once; rounds go on until `seconds` a function are spent.
    """
    for function in functions.values():  # compile, warm caches and allocator
        function()
        function()
    times = {name: [] for name in functions}
    spent, count = 0.0, 0
    while count < least or (spent < seconds * len(functions) and count < most):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            elapsed = time.perf_counter() - start
            times[name].append(elapsed)
            spent += elapsed
        count += 1
    return {name: statistics.median(values) for name, values in times.items()}
