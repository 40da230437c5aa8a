"""Measures how much of torch's memory a call allocates on the device of the run."""

import gc
import pathlib
import sys

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "benchmarks"))

import measure  # noqa: E402

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
    return measure.allocations(call, path)
