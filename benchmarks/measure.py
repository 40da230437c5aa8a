"""Interleaved timing of several ways to do the same work, in one process."""

import contextlib
import os
import signal
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


@contextlib.contextmanager
def time_limit(seconds):
    """TimeoutError in the block once it has taken so long; in the main thread. C++ that runs then ends first."""

    def over(*_):
        raise TimeoutError(f"takes longer than {seconds:g} s")

    start = time.monotonic()
    handler = signal.signal(signal.SIGALRM, over)
    # Again and again: the block may catch the first one.
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:  # a limit around this one goes on
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - start), 1e-3), interval)


def reason(error):
    """The first line of an exception."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def seconds_of(function, device="cpu", calls=None):
    """Times one call as the mean of `calls` in a row: 1 by default, on a GPU 10, from an idle GPU to an idle GPU."""
    if device == "cpu":
        start = time.perf_counter()
        for _ in range(calls or 1):
            function()
        return (time.perf_counter() - start) / (calls or 1)
    import torch

    calls = calls or 10

    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        function()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls


# Longer than threads of OpenMP spin, waiting for more work.
SPIN = 0.02


def keep_calling(function, seconds):
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        function()


def rounds_of(functions, seconds=1.0, least=5, most=200, device="cpu", calls=None, settle=0.0):
    """Median seconds of each function of a dict, measured in turns; device: "cpu" or "cuda", where they work.

    Every round calls each function `calls` times, by default once, on a GPU ten times; rounds go on until `seconds` a
    function are spent. Before them come its calls of `settle` seconds, which do not count: threads of the function
    before it come to rest.
    """
    for function in functions.values():  # compile, warm caches and allocator
        function()
        function()
    times = {name: [] for name in functions}
    start, count = time.perf_counter(), 0
    while count < least or (time.perf_counter() - start < seconds * len(functions) and count < most):
        for name, function in functions.items():
            keep_calling(function, settle)
            times[name].append(seconds_of(function, device, calls))
        count += 1
    return {name: statistics.median(values) for name, values in times.items()}
