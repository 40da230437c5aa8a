"""The optimizer's cases of the GPU table: a step over many parameters, against torch's fused implementation."""

import functools

import gpu_work
import tile_ops  # noqa: F401  registers the operators
import torch
from gpu_work import Case, Work

ops = torch.ops.tile
OPTIONS = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}


def adamw_work(count, size, dtype):
    def lists(to):
        device = gpu_work.device
        tensors = [[torch.rand(size, device=device).to(to) for _ in range(count)] for _ in range(4)]
        return *tensors, [torch.full((), 3.0, device=device) for _ in range(count)]

    def fused(lists):
        torch._fused_adamw_(*lists[:4], [], lists[4], lr=1e-3, amsgrad=False, maximize=False, **OPTIONS)
        return lists[0][0]

    def ours():
        ops.adamw_(*own, lr=1e-3, **OPTIONS)
        return own[0][0]

    own = lists(dtype)
    other = [[tensor.clone() for tensor in each] for each in own]
    # One step of the first parameter in float64.
    start = [[each[0].double()] for each in own[:4]] + [[own[4][0].clone()]]
    moved = 7 * count * size * own[0][0].element_size()
    return Work(ours, moved, 15 * count * size, {"eager": lambda: lambda: fused(other)}, lambda: fused(start))


def adamw_cases():
    for dtype in (torch.float32, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        for count, size in ((1, 1 << 27), (16, 1 << 23)):
            yield Case(
                f"AdamW step, {count} of {size} {name}",
                functools.partial(adamw_work, count, size, dtype),
                fraction=0.9,
                launches=1,
            )
        yield Case(
            f"AdamW step, 300 of 100000 {name}",
            functools.partial(adamw_work, 300, 100000, dtype),
            ratios={"eager": 1.0},
            launches=19,
        )
