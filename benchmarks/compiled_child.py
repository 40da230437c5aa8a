"""The tasks of compiled.py: to make a first call, or to time cases."""

import measure
from case_tasks import counted, each_case, first_call, medians, tried, turn
from task_child import loaded, tell, wait

CALLS = 1000  # in a row, to time the cost of one


def made_of(task, case):
    """Returns the Work of a case."""
    import compiled_cases
    import torch

    return compiled_cases.make(case, task["device"], getattr(torch, task["dtype"]), task["scale"])


def compiled(function, peer):
    """Returns a function compiled by a peer of compiled.py."""
    import torch

    return torch.compile(function, backend=loaded(peer["backend"]), options=peer.get("options"))


def first(task):
    """Makes the first call of a case in this process."""
    import compiled_kernels

    device = task["device"]
    loaded(task["backend"])  # imports are no part of the first call
    work = made_of(task, task["case"])
    with first_call(device) as found, compiled_kernels.output_codes() as codes:
        function = compiled(work.function, task)
        work.run(function)
    found |= counted(task["case"], lambda: compiled_kernels.count(codes, lambda: work.run(function), device))
    tell(**found)


def made_calls(work, task, case):
    """Returns ({name: (call, error)}, {name: reason}): eager and each backend, and backends that fail."""
    import compiled_cases

    exact, peers = work.exact().results(), task["peers"][case]

    def make(name):
        # A backend that fails leaves nothing that could disturb the next one.
        function = compiled(work.function, peers[name]) if name in peers else work.function
        error = compiled_cases.difference(work.results(function), exact)
        wait(task["device"])
        return (lambda: work.run(function)), error

    return tried(("eager", *peers), make, task["caches"][case], task["limit"])


def timed(name, calls, task):
    """Returns the seconds of each call."""
    import compiled_cases

    device, seconds, kind = task["device"], task["seconds"], compiled_cases.section(name)
    if kind == "overhead":
        return measure.rounds_of(calls, seconds, device=device, calls=CALLS)
    if kind != "graph" or device == "cpu":
        return medians(calls, device, seconds)
    import gpu

    # All from graphs of the GPU, or none, so that they can be compared.
    captured = all([gpu.replayed(call, 1) for call in calls.values()])
    found = gpu.times(list(calls.values()), 9, 10, graphs=captured)
    return {each: 1e-6 * value for each, value in zip(calls, found)}


def measured(task, case):
    """Returns the times and errors of a case, and why backends fail."""
    with turn(task, alone=False):
        calls, failed = made_calls(made_of(task, case), task, case)
    with turn(task, alone=True):
        taken = timed(case, {each: call for each, (call, _) in calls.items()}, task)
    return {"times": taken, "errors": {each: error for each, (_, error) in calls.items()}, "failed": failed}


def times(task):
    """Times the cases one after another."""
    import torch

    torch.manual_seed(0)
    each_case(task, measured)
