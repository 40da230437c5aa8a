"""Reads the events of torch's chrome trace: the launches of each step, with the operators around them.

An event is a dictionary of the trace's JSON. Times are in microseconds, as there.
"""

import bisect
import dataclasses
import re

PREFIX = "tile_ops.profile "  # begins the names of the ranges that mark steps
KERNEL = "tile kernel "  # begins the name of a launch of ours
GPU_WORK = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}  # kind by category
RUNTIME = ("cuda_runtime", "cuda_driver")
_operator = re.compile(r"[\w.]+::[\w.]+")  # unlike "MmBackward0" and "torch::autograd::AccumulateGrad"


@dataclasses.dataclass
class Range:
    """An operator, or a launch of ours, on a host thread."""

    name: str
    record: int  # the record function id; 0 if nothing asks for ids
    start: float
    end: float
    parent: "Range | None" = None
    children: list = dataclasses.field(default_factory=list)

    @property
    def is_launch(self):
        return self.name.startswith(KERNEL)


@dataclasses.dataclass
class Launch:
    """Work of a device: on a GPU a kernel, copy or fill; on a CPU a launch of ours or an operator without its parts."""

    step: int
    name: str
    kind: str  # "kernel", "copy", "fill" or "operator"
    start: float
    end: float
    time: float
    device: int = 0
    launched: Range | None = None  # ours
    operators: list = dataclasses.field(default_factory=list)  # those around it, the innermost first


@dataclasses.dataclass
class Step:
    index: int
    start: float
    end: float
    host: float  # the time of the call, which ends before the GPU does


@dataclasses.dataclass
class Trace:
    steps: list
    launches: list
    on_gpu: bool


def _is_range(event):
    name = event.get("name", "")
    if event.get("cat") == "cpu_op":
        return _operator.fullmatch(name) is not None
    return event.get("cat") == "user_annotation" and name.startswith(KERNEL)


def _order(event):
    return event["ts"], -event["dur"], event.get("args", {}).get("Ev Idx", 0)


class _Threads:
    """The ranges of each host thread, nested."""

    def __init__(self, events):
        self.by_thread, self.by_external = {}, {}
        found = sorted((event for event in events if _is_range(event)), key=_order)
        stacks = {}
        for event in found:
            thread = (event["pid"], event["tid"])
            arguments = event.get("args", {})
            made = Range(event["name"], arguments.get("Record function id", 0), event["ts"], event["ts"] + event["dur"])
            stack = stacks.setdefault(thread, [])
            while stack and stack[-1].end <= made.start:
                stack.pop()
            if stack:
                made.parent = stack[-1]
                stack[-1].children.append(made)
            stack.append(made)
            self.by_thread.setdefault(thread, []).append(made)
            if "External id" in arguments:
                self.by_external[arguments["External id"]] = made
        self.starts = {thread: [each.start for each in ranges] for thread, ranges in self.by_thread.items()}

    def at(self, thread, time):
        """Returns the innermost range of the thread at a time, or None."""
        ranges = self.by_thread.get(thread, [])
        place = bisect.bisect_right(self.starts.get(thread, []), time) - 1
        found = ranges[place] if place >= 0 else None
        while found is not None and found.end < time:
            found = found.parent
        return found


def _chain(innermost):
    """Returns (the launch of ours or None, the operators around it from the innermost on)."""
    launched, operators = None, []
    while innermost is not None:
        if not innermost.is_launch:
            operators.append(innermost)
        elif launched is None and not operators:
            launched = innermost
        innermost = innermost.parent
    return launched, operators


def _steps(events):
    found, hosts = {}, {}
    for event in events:
        if event.get("cat") != "user_annotation":
            continue
        if match := re.fullmatch(re.escape(PREFIX) + r"(step|call) (\d+)", event["name"]):
            index = int(match[2])
            if match[1] == "step":
                found[index] = (event["ts"], event["ts"] + event["dur"])
            else:
                hosts[index] = event["dur"]
    return [Step(index, *found[index], hosts.get(index, 0.0)) for index in sorted(found)]


def _gpu_launches(events, threads, step_at):
    calls = {}
    for event in events:
        if event.get("cat") in RUNTIME and "correlation" in event.get("args", {}):
            calls[event["args"]["correlation"]] = event
    for event in events:
        kind = GPU_WORK.get(event.get("cat"))
        if kind is None:
            continue
        arguments = event.get("args", {})
        call = calls.get(arguments.get("correlation"))
        innermost = call and threads.at((call["pid"], call["tid"]), call["ts"])
        if innermost is None:
            innermost = threads.by_external.get(arguments.get("External id"))
        step = step_at(call["ts"] if call else event["ts"])
        if step is None:
            continue
        launched, operators = _chain(innermost)
        end = event["ts"] + event["dur"]
        yield Launch(step, event["name"], kind, event["ts"], end, event["dur"], arguments.get("device", 0), launched, operators)


def _cpu_launches(threads, step_at):
    for ranges in threads.by_thread.values():
        for each in ranges:
            step = step_at(each.start)
            if step is None:
                continue
            launched, operators = _chain(each)
            own = each.end - each.start - sum(child.end - child.start for child in each.children)
            kind = "kernel" if each.is_launch else "operator"
            name = each.name.removeprefix(KERNEL)
            yield Launch(step, name, kind, each.start, each.end, max(own, 0.0), 0, launched, operators)


def read(events):
    """Returns the Trace of a list of events. Work outside of the steps is left out."""
    events = [event for event in events if event.get("ph") == "X" and "ts" in event and "dur" in event]
    steps, threads = _steps(events), _Threads(events)
    starts = [step.start for step in steps]

    def step_at(time):
        place = bisect.bisect_right(starts, time) - 1
        return steps[place].index if place >= 0 and time <= steps[place].end else None

    on_gpu = any(event.get("cat") in GPU_WORK for event in events)
    launches = list(_gpu_launches(events, threads, step_at) if on_gpu else _cpu_launches(threads, step_at))
    launches.sort(key=lambda launch: launch.start)
    return Trace(steps, launches, on_gpu)


def busy_and_idle(launches):
    """Returns the time in which a GPU works, and that in which it waits between two launches, added over the GPUs."""
    busy = idle = 0.0
    for device in {launch.device for launch in launches}:
        own = sorted((each for each in launches if each.device == device), key=lambda each: each.start)
        end = own[0].start
        for each in own:
            idle += max(each.start - end, 0.0)
            busy += max(each.end - max(each.start, end), 0.0)
            end = max(end, each.end)
    return busy, idle
