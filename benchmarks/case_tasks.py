"""The parts that the tasks of compiled.py and models.py share: first calls, functions that may fail, rounds, and cases in turn."""

import contextlib
import fcntl
import os
import signal
import sys
import time

import measure
from task_child import BEGUN, tell, wait, warmed, watched
from task_processes import children


def stream(device):
    """Returns the context that graphs of a GPU are captured in."""
    import torch

    return torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else contextlib.nullcontext()


@contextlib.contextmanager
def first_call(device):
    """Yields a dict that gets the seconds of the block, and the programs that it starts."""
    warmed(device)
    found, programs = {}, watched()
    tell(**BEGUN)
    start = time.perf_counter()
    yield found
    wait(device)
    found.update(seconds=time.perf_counter() - start, programs=list(programs))


def counted(name, count):
    """Returns {"kernels": count()}, or an empty dict where they cannot be counted."""
    try:
        return {"kernels": count()}
    except Exception as error:
        print(f"{name}: kernels are not counted: {measure.reason(error)}", file=sys.stderr, flush=True)
        return {}


def tried(names, make, caches, limit):
    """Returns ({name: make(name)}, {name: reason}): those that are made, and those that fail. Eager must not fail.

    caches: {name: variables of the environment}. limit: seconds of one."""
    made, failed = {}, {}
    for name in names:
        try:
            os.environ.update(caches.get(name, {}))
            with measure.time_limit(limit):
                made[name] = make(name)
        except Exception as error:
            if name == "eager":
                raise
            failed[name] = measure.reason(error)
    return made, failed


@contextlib.contextmanager
def others_stopped():
    """Stops the other processes of the benchmark while the block runs: compilers work on for cases that were given up."""
    own = os.getsid(0)
    others = [int(pid) for pid in children(os.getppid())]
    others = [pid for pid in others if signalled(pid, 0) and os.getsid(pid) != own]
    stopped = [pid for pid in others if signalled(pid, signal.SIGSTOP)]
    try:
        yield
    finally:
        for pid in stopped:
            signalled(pid, signal.SIGCONT)


def signalled(pid, number):
    """Sends a signal to a process, and returns False if the process has ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def turn(task, alone):
    """Waits until no other process of the benchmark measures; if `alone`, until none prepares a case, and they stand still."""
    if "turns" not in task:  # there is no other process
        yield
        return
    with open(task["turns"], "a") as file, contextlib.ExitStack() as stack:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if alone:
            stack.enter_context(others_stopped())
        yield  # closing the file ends the turn


def medians(calls, device, seconds):
    """Returns the median seconds of each call, in rounds in which each is called once."""
    if device == "cpu":
        return measure.rounds_of(calls, seconds, least=3)
    import gpu

    one = min(measure.seconds_of(call, device, 2) for call in calls.values())
    found = gpu.times(list(calls.values()), max(3, min(20, int(seconds / one))), 1)
    return {name: 1e-6 * each for name, each in zip(calls, found)}


def each_case(task, measured):
    """Tells what measured(task, case) returns of each case, or why it fails."""
    import torch

    with stream(task["device"]):
        for case in task["cases"]:
            tell(case=case)
            try:
                tell(**measured(task, case))
            except Exception as error:
                tell(reason=measure.reason(error))
            torch._dynamo.reset()
            if task["device"] == "cuda":
                torch.cuda.empty_cache()
