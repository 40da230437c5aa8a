"""The rows of adamw_ in the table of operators."""

import random

import torch

from operators.drawn import shape, tensor
from operators.record import Bad, Operator
from operators.tensors import ALIGNED, UNALIGNED, f, i64, meta, meta_leaf
from operators.texts import HERE, MOVE, OTHERS

tile = torch.ops.tile


def gate_adamw(dtype, count, amsgrad=False):
    with torch.no_grad():
        lists = [[meta_leaf(to, 4096, 4096) for _ in range(count)] for to in [dtype] * 5]
        steps = [torch.empty((), device="meta") for _ in range(count)]
        tile.adamw_(*lists[:4], steps, max_exp_avg_sqs=lists[4] if amsgrad else None)
    return ()


def step_inputs(dtype, *sizes):
    """params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs and steps, one list after another."""
    draws = [[torch.randn(size).to(to) for size in sizes] for to in (dtype, dtype, *[dtype] * 3)]
    for squares in draws[3:]:
        squares[:] = [square.square() for square in squares]
    return *(tensor for draw in draws for tensor in draw), *(torch.tensor(2.0 + i) for i in range(len(sizes)))


def lists_of(tensors):
    count = len(tensors) // 6
    params, grads, means, squares, largest, steps = (list(tensors[i * count : (i + 1) * count]) for i in range(6))
    return (params, grads, means, squares, steps), largest


def adamw(*tensors, amsgrad=False, **options):
    lists, largest = lists_of(tensors)
    torch.ops.tile.adamw_(*lists, max_exp_avg_sqs=largest if amsgrad else None, **options)
    return *lists[0], *lists[2], *lists[3], *largest


def adamw_in_torch(*tensors, amsgrad=False, lr_tensor=None, grad_scale=None, **options):
    (params, grads, means, squares, steps), largest = lists_of([tensor.detach().clone() for tensor in tensors])
    grads = [grad if grad_scale is None else grad / grad_scale.to(grad.dtype) for grad in grads]
    options = {"lr": 1e-3 if lr_tensor is None else lr_tensor.item(), "maximize": False, **options}
    torch._fused_adamw_(
        params,
        grads,
        means,
        squares,
        largest if amsgrad else [],
        [step.float() for step in steps],
        beta1=0.9,
        beta2=0.999,
        weight_decay=0.01,
        eps=1e-8,
        amsgrad=amsgrad,
        **options,
    )
    return *params, *means, *squares, *largest


def draw_adamw_(dtype):
    sizes = [shape(random.randint(0, 3), 2000) for _ in range(random.randint(1, 40))]
    lists = [[tensor(size, dtype, grad=False) for size in sizes] for _ in range(4)]
    return tile.adamw_, (*lists, [torch.ones(()) for _ in sizes]), {}


ADAMW = Operator(
    name="adamw_",
    reference=adamw_in_torch,
    functional=adamw,
    bad=Bad(
        dtypes=[(lambda: tile.adamw_([i64(3)], [f(3)], [f(3)], [f(3)], [f()]), f"params[0] is int64; {OTHERS}")],
        shapes=[
            (
                lambda: tile.adamw_([f(3)], [f(4)], [f(3)], [f(3)], [f()]),
                "grads[0] has shape [4] and params[0] [3]; they must be alike",
            )
        ],
        devices=[
            (
                lambda: tile.adamw_([f(3), f(3)], [f(3), meta(3)], [f(3)] * 2, [f(3)] * 2, [f()] * 2),
                f"'params' is on {HERE}, but 'grads' is on meta; {MOVE}",
            )
        ],
        unaligned=[
            (
                "exp_avgs",
                lambda: tile.adamw_([ALIGNED], [ALIGNED.clone()], [UNALIGNED], [ALIGNED.clone()], [ALIGNED[0, 0].clone()]),
            )
        ],
    ),
    good=[
        lambda: tile.adamw_(
            [torch.ones(3)],
            [torch.ones(3)],
            [torch.ones(3)],
            [torch.ones(3)],
            [torch.ones(())],
            max_exp_avg_sqs=[torch.ones(3)],
            lr_tensor=torch.ones(()),
        )
    ],
    draw=draw_adamw_,
    gates={"adamw[1]": lambda dtype: gate_adamw(dtype, 1), "adamw[16]": lambda dtype: gate_adamw(dtype, 16)},
    gate_variants={"adamw[16],amsgrad": lambda dtype: gate_adamw(dtype, 16, True)},
    emulated={
        "adamw": lambda dtype: (step_inputs(dtype, (3, 6000)), {"lr": 0.1}),
        "adamw_of_three": lambda dtype: (
            step_inputs(dtype, (40, 13), (16387,), (3, 101)),
            {"lr_tensor": torch.tensor(0.1), "grad_scale": torch.tensor(4.0), "maximize": True},
        ),
        "adamw_of_six": lambda dtype: (
            step_inputs(dtype, *[(264 * i,) for i in (1, 7, 64, 2, 1, 3)]),
            {"lr": 0.1, "amsgrad": True},
        ),
    },
)
