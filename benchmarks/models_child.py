"""The tasks of models.py: to make a first call of a variant, or to time the variants of cases."""

import time

import measure
from case_tasks import counted, each_case, first_call, medians, stream, tried, turn
from task_child import tell, wait

HOST_CALLS = 5


def made_of(task, case):
    """Returns (the model, the way to run it) of a case."""
    import model_cases
    import torch

    made = model_cases.make(case, task["device"], getattr(torch, task["dtype"]), task["scale"])
    return made, model_cases.section(case)


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
        with first_call(device) as found:
            model_variants.Call(task["variant"], made, way, device, task["scale"], task["backend"], {}).run()
    tell(**found)


def made_calls(task, case, made, way):
    """Returns ({variant: call}, {variant: what was seen}, {variant: reason}): those that run, and those that fail."""
    import model_variants

    peers, optimizers, reference = task["peers"][case], {}, None

    def make(name):
        nonlocal reference
        before, backend = breaks(), peers[name]["backend"]
        call = model_variants.Call(name, made, way, task["device"], task["scale"], backend, optimizers)
        if name == "eager":
            reference = call.reference()
        loss = call.loss(reference)
        call.run()
        wait(task["device"])
        return call, {"loss": loss, "breaks": breaks() - before}

    both, failed = tried(peers, make, task["caches"][case], task["limit"])
    calls = {name: call for name, (call, _) in both.items()}
    return calls, {name: seen for name, (_, seen) in both.items()}, failed


def peak(call):
    """Returns the most bytes that are allocated in a call, as if nothing else were there."""
    for parameter in call.way.module.parameters():
        parameter.grad = None
    return measure.allocations(call.run, "cuda")[0] + call.bytes()


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
    return found | counted(name, lambda: gpu.profiled_kernels(call.run) / call.results)


def measured(task, case):
    """Returns what is seen of each variant of a case, and why variants fail."""
    with turn(task, alone=False):
        calls, found, failed = made_calls(task, case, *made_of(task, case))
    with turn(task, alone=True):
        taken = medians({name: call.run for name, call in calls.items()}, task["device"], task["seconds"])
        for name, call in calls.items():
            found[name]["seconds"] = taken[name] / call.results
            if task["device"] == "cuda":
                found[name] |= seen_on_gpu(f"{case}, {name}", call)
    return {"variants": found, "failed": failed}


def times(task):
    """Times the cases one after another."""
    each_case(task, measured)
