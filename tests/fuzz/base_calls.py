"""Good calls of every operator of torch.ops.tile, gradients included, to be changed."""

import operators
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "tile":
            self.calls.append((function, args, kwargs or {}))
        return function(*args, **(kwargs or {}))


def record():
    """Returns [(operator, arguments, keyword arguments)], including the calls that gradients make."""
    with _Recorder() as recorder:
        for call in (call for calls in operators.rows_with("good").values() for call in calls):
            results = call()
            results = results if isinstance(results, (tuple, list)) else [results]
            total = sum(r.sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad)
            if isinstance(total, torch.Tensor):
                total.backward()
    return recorder.calls
