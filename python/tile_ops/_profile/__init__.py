"""profile: the kernels of a call, with their times, bytes, operations and shares of what the device can do."""

import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from . import roofs, rows, trace
from .counts import Counter
from .report import Report

__all__ = ["Report", "profile"]


def _wait():
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _timed(call, steps):
    """Returns the medians of the time of a call, and of the time until the host is done with it."""
    whole, host = [], []
    for _ in range(steps):
        _wait()
        start = time.perf_counter()
        call()
        host.append(time.perf_counter() - start)
        _wait()
        whole.append(time.perf_counter() - start)
    return statistics.median(whole), statistics.median(host)


def _recorded(call, steps, path, counter=None):
    """Calls it under torch's profiler, which writes its trace to the path. Returns the trace as we read it."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    mark = torch.profiler.record_function
    with torch.profiler.profile(activities=activities, record_shapes=False) as profiler:
        if counter is None:
            call()  # the profiler's own first call
            _wait()
        for step in range(steps):
            with mark(f"{trace.PREFIX}step {step}"):
                with mark(f"{trace.PREFIX}call {step}"):
                    if counter is None:
                        call()
                    else:
                        with counter:
                            call()
                _wait()
    profiler.export_chrome_trace(str(path))
    return trace.read(json.loads(path.read_text(errors="replace"))["traceEvents"])


def _known_kernels():
    """Returns {the name on a GPU: our name} of the kernels compiled so far. A replayed graph shows only the former."""
    from .. import _C

    return {
        "kernel_" + "".join(each if each.isalnum() and each.isascii() else "_" for each in name): name
        for name in _C.compiled_kernels()
    }


def _device_of(traced):
    if not traced.on_gpu:
        return torch.device("cpu"), f"CPU, {torch.get_num_threads()} threads"
    index = traced.launches[0].device if traced.launches else torch.cuda.current_device()
    return torch.device("cuda", index), torch.cuda.get_device_name(index)


def report_of(traced, counted, times, device, name, bandwidth, peak, ours, folder=None):
    """Makes the report of a trace. bandwidth: bytes a second or None; peak(dtype): operations a second or None."""
    kernels = rows.make(traced, counted, rows.kernel_key, lambda found: [counted.of_launch(each) for each in found], ours)
    operators = rows.make(traced, counted, rows.operator_key, lambda found: counted.of_operator(found), ours)
    seconds, host = times
    by_step = {step.index: [each for each in traced.launches if each.step == step.index] for step in traced.steps}

    def median(values):
        return statistics.median(values) if values else 0.0

    busy = gaps = rest = None
    if traced.on_gpu:
        measured = [trace.busy_and_idle(own) for own in by_step.values()]
        busy, gaps = (1e-6 * median([each[k] for each in measured]) for k in (0, 1))
        total = sum(row.seconds for row in kernels)
    else:
        total = 1e-6 * median([step.host for step in traced.steps])
        rest = max(total - 1e-6 * median([sum(each.time for each in own) for own in by_step.values()]), 0.0)
    peaks = {dtype: peak(dtype) for dtype in {row.dtype for row in [*kernels, *operators] if row.dtype}}
    peaks = {dtype: value for dtype, value in sorted(peaks.items(), key=str) if value}
    for row in [*kernels, *operators]:
        row.share = row.seconds / total if total else 0.0
        row.set_roof(bandwidth, peaks.get(row.dtype))
    return Report(
        device=name,
        on_gpu=traced.on_gpu,
        steps=len(traced.steps),
        seconds=seconds,
        host_seconds=host,
        gpu_seconds=busy,
        gap_seconds=gaps,
        rest_seconds=rest,
        launches=round(median([sum(each.kind != "operator" for each in own) for own in by_step.values()])),
        ours=sum(row.share for row in kernels if row.ours),
        bandwidth=bandwidth,
        peaks=peaks,
        kernels=kernels,
        operators=operators,
        _folder=folder,
    )


def profile(
    fn: Callable[..., Any],
    *args: Any,
    steps: int = 3,
    warmup: int = 3,
    bandwidth: float | None = None,
    peak: float | None = None,
    **kwargs: Any,
) -> Report:
    """Profiles fn(*args, **kwargs) and returns a report: its time by kernel, and how fast each kernel is.

    print(report) shows a table; report.save("step.png") draws a roofline with Pillow; report.chrome_trace("step.json") writes
    torch's trace. Its kernels and operators are rows, for programs.

    fn: a step that can be repeated, such as an inference or a training step. It is called warmup + 2 * steps + 2 times.
    bandwidth: TB/s, and peak: TFLOP/s, are the roofs; without them a copy and torch.matmul in the same dtype are measured.
    steps, warmup: the calls that are measured, and those before them. An fn with an argument of one of these names goes into a
    lambda.

    Time: a kernel's is the profiler's. Bytes are those of the tensors that a kernel reads and writes, each counted whole and once.
    It moves at least that, unless it leaves out tiles; where an index picks elements of a large tensor they are unknown. Operations are those of torch.utils.flop_counter, of products. An operator that launches several kernels has
    numbers in report.operators only. Unknown numbers are empty, or None.

    On a GPU the rows are kernels, ours with the operator and the location; a gap is the time in which the GPU waits for the
    host. On a CPU they are our kernels and torch's operators, each without the operators that it calls.

    Errors: TypeError if fn cannot be called, ValueError for numbers that are not positive, RuntimeError if a profiler of
    torch records already, or if it sees no kernel of a GPU that fn uses.
    """
    if not callable(fn):
        raise TypeError(f"profile: fn is {type(fn).__name__}; give a function or a module")
    for given, value, least in (("steps", steps, 1), ("warmup", warmup, 0)):
        if not isinstance(value, int) or value < least:
            raise ValueError(f"profile: {given} is {value!r}; give an integer from {least} on")
    for given, value in (("bandwidth", bandwidth), ("peak", peak)):
        if value is not None and not value > 0:
            raise ValueError(f"profile: {given} is {value!r}; give a positive number, or None to measure it")
    if torch.autograd._profiler_enabled():
        raise RuntimeError("profile: a profiler of torch records already; end it first")

    def call():
        fn(*args, **kwargs)

    for _ in range(warmup):
        call()
    times = _timed(call, steps)
    folder = tempfile.TemporaryDirectory(prefix="tile_ops_profile_")
    place = pathlib.Path(folder.name)
    traced = _recorded(call, steps, place / "trace.json")
    counter = Counter()
    counted_trace = _recorded(call, 1, place / "counted.json", counter)
    if not traced.on_gpu and any(count.on_gpu for count in counter.counts.values()):
        raise RuntimeError(
            "profile: torch's profiler sees no kernel of the GPU; another profiler may hold CUPTI, or this user may not profile"
        )
    counted = rows.Counted(counted_trace.launches, counter.counts)
    device, name = _device_of(traced)
    return report_of(
        traced,
        counted,
        times,
        device,
        name,
        bandwidth * 1e12 if bandwidth else roofs.bandwidth(device),
        lambda dtype: peak * 1e12 if peak else roofs.peak(device, dtype),
        _known_kernels(),
        folder,
    )
