"""Interleaved timing of several ways to do the same work, in one process."""

import contextlib
import gc
import json
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time

# A warm allocator: outputs reuse memory, so that a row measures the kernel and not page faults. glibc reads these
# variables when it starts, so run.py sets them and restarts itself.
WARM = {"MALLOC_MMAP_THRESHOLD_": "17179869184", "MALLOC_TRIM_THRESHOLD_": "17179869184"}


def is_warm():
    return all(os.environ.get(name) == value for name, value in WARM.items())


def start_warm():
    """Restarts this program with WARM set, unless it is set."""
    if not is_warm():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **WARM})


def reserve(elements=1 << 28):
    """Touches memory and returns it to the allocator: if results of a case and small tensors alternate, a large enough
    hole remains, and no result begins on fresh pages."""
    import torch

    torch.ones(elements)


def allocations(call, device="cpu"):
    """Returns (the most bytes of torch's memory that a call has, the bytes it leaves, its result), beyond what was there before."""
    import torch

    if torch.device(device).type == "cuda":
        gc.collect()  # what is garbage now must not go while the call is counted
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before, result
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        result = call()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = [each for each in json.loads(path.read_text())["traceEvents"] if each.get("name") == "[memory]"]
    most = held = 0
    for event in sorted(events, key=lambda each: each["ts"]):
        held += event["args"]["Bytes"]
        most = max(most, held)
    return most, held, result


@contextlib.contextmanager
def time_limit(seconds):
    """Raises TimeoutError in the block after this time, in the main thread. C++ code that runs then ends first."""
    text, raised = f"takes longer than {seconds:g} s", False

    def over(*_):
        nonlocal raised
        raised = True
        raise TimeoutError(text)

    start = time.monotonic()
    handler = signal.signal(signal.SIGALRM, over)
    # The signal is repeated, because the block may catch the first exception.
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    except Exception as other:
        # The block may catch the first exception and raise another one instead.
        if raised and not isinstance(other, TimeoutError):
            raise TimeoutError(text) from other
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:  # restores an outer limit
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - start), 1e-3), interval)


def reason(error):
    """Returns the first line of an exception's message."""
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


# Longer than OpenMP's threads spin while they wait for work.
SPIN = 0.02


def keep_calling(function, seconds):
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        function()


def rounds_of(functions, seconds=1.0, least=5, most=200, device="cpu", calls=None, settle=0.0):
    """Returns the median seconds of each function of a dict, measured alternately. device: "cpu" or "cuda", where they
    run.

    Every round calls each function `calls` times, by default once, on a GPU ten times. Rounds continue until `seconds`
    per function are spent. Each function is first called for `settle` seconds without timing, while the threads of the
    previous function stop spinning.
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
