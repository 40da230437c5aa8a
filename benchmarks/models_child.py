"""The tasks of models.py: to make a first call of a variant, or to time the variants of cases."""

import contextlib
import os
import sys
import time

import measure
from task_child import BEGUN, tell, wait, warmed, watched

HOST_CALLS = 5


def made_of(task, case):
    """Returns (the model, the way to run it) of a case."""
    import model_families
    import torch

    name, way = case.split(", ")
    return model_families.make(name, task["device"], getattr(torch, task["dtype"]), task["scale"]), way


def stream(device):
    """Returns the context that graphs of a GPU are captured in."""
    import torch

    return torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else contextlib.nullcontext()


def breaks():
    """Returns how often Dynamo has broken graphs in this process."""
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values())


def first(task):
    """Makes the first call of a variant in this process, from the model as it was made."""
    import model_variants

    device = task["device"]
    with stream(device):
        made, way = made_of(task, task["case"])
        warmed(device)
        programs = watched()
        tell(**BEGUN)
        start = time.perf_counter()
        call = model_variants.Call(task["variant"], made, way, device, task["scale"], task["backend"], {})
        call.run()
        wait(device)
    tell(seconds=time.perf_counter() - start, programs=list(programs))


def made_calls(task, case, made, way):
    """Returns ({variant: call}, {variant: what was seen}, {variant: reason}): those that run, and those that fail."""
    import model_variants

    calls, found, failed, optimizers, reference = {}, {}, {}, {}, None
    for name in task["peers"][case]:
        before = breaks()
        try:
            os.environ.update(task["caches"][case][name])
            with measure.time_limit(task["limit"]):
                call = model_variants.Call(name, made, way, task["device"], task["scale"], task["backend"], optimizers)
                if name == "eager":
                    reference = call.reference()
                loss = call.loss(reference)
                call.run()
                wait(task["device"])
            calls[name], found[name] = call, {"loss": loss, "breaks": breaks() - before}
        except Exception as error:
            if name == "eager":
                raise
            failed[name] = measure.reason(error)
    return calls, found, failed


def peak(call):
    """Returns the most bytes that are allocated in a call, as if nothing else were there."""
    import torch

    for parameter in call.way.module.parameters():
        parameter.grad = None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call.run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before + call.bytes()


def host_seconds(call):
    """Returns the median seconds until a call returns, when the GPU was idle before."""
    import statistics

    import torch

    taken = []
    for _ in range(HOST_CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call.run()
        taken.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return statistics.median(taken)


def seen_on_gpu(name, call):
    """Returns the kernels, the host's time and the memory of a call. Graphs keep their memory, which is not seen."""
    import gpu

    found = {"host": host_seconds(call) / call.results, "peak": None if call.graph else peak(call)}
    try:
        found["kernels"] = gpu.profiled_kernels(call.run) / call.results
    except Exception as error:
        print(f"{name}: kernels are not counted: {measure.reason(error)}", file=sys.stderr, flush=True)
    return found


def timed(calls, task):
    """Returns the seconds of each call."""
    runs = {name: call.run for name, call in calls.items()}
    if task["device"] == "cpu":
        taken = measure.rounds_of(runs, task["seconds"], least=3)
    else:
        import gpu

        one = min(measure.seconds_of(run, "cuda", 2) for run in runs.values())
        rounds = max(3, min(20, int(task["seconds"] / one)))
        taken = {name: 1e-6 * each for name, each in zip(runs, gpu.times(list(runs.values()), rounds, 1))}
    return {name: each / calls[name].results for name, each in taken.items()}


def times(task):
    """Times the cases one after another."""
    import torch

    device = task["device"]
    with stream(device):
        for case in task["cases"]:
            tell(case=case)
            try:
                made, way = made_of(task, case)
                calls, found, failed = made_calls(task, case, made, way)
                for name, seconds in timed(calls, task).items():
                    found[name]["seconds"] = seconds
                if device == "cuda":
                    for name, call in calls.items():
                        found[name] |= seen_on_gpu(f"{case}, {name}", call)
                tell(variants=found, failed=failed)
            except Exception as error:
                tell(reason=measure.reason(error))
            made = calls = None
            torch._dynamo.reset()
            if device == "cuda":
                torch.cuda.empty_cache()
