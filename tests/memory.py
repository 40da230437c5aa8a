"""Measures how much of torch's memory a call allocates on the device of the run."""

import gc
import json

import torch

MIB = 1 << 20


def allocated(call, path, device):
    """(bytes at most, bytes left at the end, result) of a call, beyond what was there before. path: of a file to write."""
    if device.type != "cpu":
        gc.collect()  # what an earlier test left is not to go while this one is counted
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before, result
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        result = call()
    profile.export_chrome_trace(str(path))
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("name") == "[memory]"]
    most = held = 0
    for event in sorted(events, key=lambda e: e["ts"]):
        held += event["args"]["Bytes"]
        most = max(most, held)
    return most, held, result
