"""The tasks of compiled.py: to make a first call, or to time cases."""

import os
import sys
import time

import measure
from task_child import BEGUN, loaded, tell, wait, warmed, watched


def first(task):
    """Makes the first call of a case in this process."""
    import compiled_cases
    import compiled_kernels
    import torch

    device = task["device"]
    backend = loaded(task["backend"])
    work = compiled_cases.make(task["case"], device, getattr(torch, task["dtype"]), task["scale"])
    warmed(device)
    programs = watched()
    tell(**BEGUN)
    start = time.perf_counter()
    with compiled_kernels.output_codes() as codes:
        function = torch.compile(work.function, backend=backend)
        work.run(function)
        wait(device)
    seconds = time.perf_counter() - start
    found = {"seconds": seconds, "programs": list(programs)}
    try:
        found["kernels"] = compiled_kernels.count(codes, lambda: work.run(function), device)
    except Exception as error:
        print(f"{task['case']}: kernels are not counted: {measure.reason(error)}", file=sys.stderr, flush=True)
    tell(**found)


def made_calls(work, task, device):
    """Returns ({name: (call, error)}, {name: reason}): eager and each backend, and backends that fail."""
    import compiled_cases
    import torch

    exact = work.exact().results()
    calls, failed = {}, {}
    for name, backend in {"eager": None, **task["backends"]}.items():
        # A backend that fails leaves nothing that could disturb the next one.
        try:
            function = work.function
            if backend:
                os.environ.update(task["caches"][name])
                function = torch.compile(work.function, backend=loaded(backend))
            with measure.time_limit(task["limit"]):
                error = compiled_cases.difference(work.results(function), exact)
                wait(device)
            calls[name] = (lambda function=function: work.run(function)), error
        except Exception as error:
            if not backend:
                raise
            failed[name] = measure.reason(error)
    return calls, failed


def timed(name, calls, task):
    """Returns the seconds of each call."""
    device, seconds = task["device"], task["seconds"]
    import compiled_cases

    kind = compiled_cases.section(name)
    if kind == "overhead":
        return measure.rounds_of(calls, seconds, device=device, calls=task["calls"])
    if device == "cpu":
        return measure.rounds_of(calls, seconds, least=3)
    import gpu

    if kind == "graph":
        # All from graphs of the GPU, or none, so that they can be compared.
        captured = all([gpu.replayed(call, 1) for call in calls.values()])
        found = gpu.times(list(calls.values()), 9, 10, graphs=captured)
    else:
        one = min(measure.seconds_of(call, device, 2) for call in calls.values())
        found = gpu.times(list(calls.values()), max(3, min(20, int(seconds / one))), 1)
    return {each: 1e-6 * value for each, value in zip(calls, found)}


def times(task):
    """Times the cases one after another."""
    import contextlib

    import compiled_cases
    import torch

    device = task["device"]
    torch.manual_seed(0)
    stream = torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else contextlib.nullcontext()
    with stream:
        for name in task["cases"]:
            tell(case=name)
            try:
                work = compiled_cases.make(name, device, getattr(torch, task["dtype"]), task["scale"])
                calls, failed = made_calls(work, task | {"caches": task["caches"][name]}, device)
                taken = timed(name, {each: call for each, (call, _) in calls.items()}, task)
                tell(times=taken, errors={each: error for each, (_, error) in calls.items()}, failed=failed)
            except Exception as error:
                tell(reason=measure.reason(error))
            work = calls = None
            torch._dynamo.reset()
            if device == "cuda":
                torch.cuda.empty_cache()
