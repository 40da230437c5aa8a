"""The rows of swiglu and geglu in the table of operators."""

import random

import torch
import torch.nn.functional as F

import tile_ops
from operators.drawn import shape, tensor
from operators.record import Bad, BadGradients, Operator, Sharded
from operators.tensors import ALIGNED, UNALIGNED, double, f, f64, grad, i64, large_rows, leaf, meta, meta_leaf, transposed
from operators.texts import HERE, MOVE, OTHERS

tile = torch.ops.tile


def gate_gated(operator, dtype, rows, columns, halves=False, **options):
    if halves:
        return operator(*meta_leaf(dtype, rows, 2 * columns).chunk(2, -1), **options)
    return operator(meta_leaf(dtype, rows, columns), meta_leaf(dtype, rows, columns), **options)


def halves(x):
    return [half.detach().requires_grad_() for half in x.chunk(2, -1)]


def swiglu_in_torch(gate, up):
    return F.silu(gate) * up


def geglu_in_torch(gate, up, *, approximate="none"):
    return F.gelu(gate, approximate=approximate) * up


def draw_gated(operator, dtype):
    sizes = shape(random.randint(0, 5))
    if sizes and sizes[-1] % 2 == 0 and random.random() < 0.3:
        return lambda x: operator(*x.chunk(2, -1)), (tensor(sizes, dtype),), {}
    return operator, (tensor(sizes, dtype), tensor(sizes, dtype)), {}


def sharded_gradients(operator, *options):
    def run(grad_out, grad_up, gate, up):
        grad_out, grad_up = grad_out.clone(), grad_up.clone()
        operator(grad_out, grad_up, gate, up, *options)
        return grad_out, grad_up

    return Sharded({name: torch.randn(4, 6) for name in ("grad_out", "grad_up", "gate", "up")}, run, written=True)


SWIGLU = Operator(
    name="swiglu",
    reference=swiglu_in_torch,
    bad=Bad(
        dtypes=[(lambda: tile.swiglu(i64(2, 3), i64(2, 3)), f"gate is int64; {OTHERS}")],
        shapes=[
            (
                lambda: tile.swiglu(f(2, 3), f(2, 1)),
                "gate is [2, 3] and up is [2, 1]; give them one shape, neither is broadcast",
            )
        ],
        devices=[(lambda: tile.swiglu(f(2, 3), meta(2, 3)), f"'gate' is on {HERE}, but 'up' is on meta; {MOVE}")],
        unaligned=[("up", lambda: tile.swiglu(ALIGNED, UNALIGNED))],
    ),
    autocast=(lambda x: tile_ops.swiglu(x, x), lambda x: F.silu(x) * x),
    without_elements={"swiglu": (tile.swiglu, swiglu_in_torch, [(3, 0), (3, 0)])},
    contract=lambda: [((double(3, 5), double(3, 5)), {})],
    good=[lambda: tile.swiglu(grad(2, 3), grad(2, 3))],
    draw=lambda dtype: draw_gated(tile.swiglu, dtype),
    memory={"swiglu": lambda: (tile.swiglu, large_rows(2))},
    gpu={"swiglu": lambda randn: (tile.swiglu, [randn(300, 1000), randn(300, 1000)])},
    gates={"swiglu[8192,11008]": lambda dtype: gate_gated(tile.swiglu, dtype, 8192, 11008)},
    gate_variants={"swiglu[8192,11008],halves": lambda dtype: gate_gated(tile.swiglu, dtype, 8192, 11008, True)},
    sharded={
        "swiglu": lambda: Sharded({"gate": torch.randn(4, 6), "up": torch.randn(4, 6)}, tile.swiglu, ("gate", "up")),
        "swiglu's gradients in place": lambda: sharded_gradients(tile._swiglu_backward_),
    },
    emulated={
        "swiglu": lambda dtype: ((leaf(dtype, 3, 1000), leaf(dtype, 3, 1000)), {}),
        "swiglu_of_halves": lambda dtype: (halves(leaf(dtype, 9, 600)), {}),
    },
)


GEGLU = Operator(
    name="geglu",
    reference=geglu_in_torch,
    bad=Bad(
        dtypes=[(lambda: tile.geglu(f(2, 3), f64(2, 3)), "gate is float32 and up is float64; convert one with .to()")],
        shapes=[(lambda: tile.geglu(f(2, 3), f(3)), "gate is [2, 3] and up is [3]; give them one shape, neither is broadcast")],
        devices=[(lambda: tile.geglu(f(2, 3), meta(2, 3)), f"'gate' is on {HERE}, but 'up' is on meta; {MOVE}")],
        unaligned=[("gate", lambda: tile.geglu(UNALIGNED, ALIGNED))],
    ),
    bad_gradients=BadGradients(
        shapes=[
            (
                lambda: tile.geglu_backward(f(2, 1), f(2, 1), f(2, 0), "tanh", [True, True]),
                "gate is [2, 1] and up is [2, 0]; give them one shape, neither is broadcast",
            )
        ]
    ),
    autocast=(lambda x: tile_ops.geglu(x, x), lambda x: F.gelu(x) * x),
    without_elements={"geglu": (tile.geglu, geglu_in_torch, [(0, 3), (0, 3)])},
    contract=lambda: [((double(4, 3), double(4, 3)), {"approximate": "tanh"}), ((double(2, 3, 4), double(2, 3, 4)), {})],
    good=[lambda: tile.geglu(grad(2, 3), grad(2, 3), approximate="tanh")],
    draw=lambda dtype: draw_gated(tile.geglu, dtype),
    memory={"geglu": lambda: (tile.geglu, large_rows(2))},
    gpu={"geglu": lambda randn: (lambda x: tile.geglu(*x.chunk(2, -1)), [randn(300, 2000)])},
    gates={"geglu[8192,11008]": lambda dtype: gate_gated(tile.geglu, dtype, 8192, 11008)},
    gate_variants={"geglu[8192,11008],tanh": lambda dtype: gate_gated(tile.geglu, dtype, 8192, 11008, approximate="tanh")},
    sharded={
        "geglu": lambda: Sharded({"gate": torch.randn(4, 6), "up": torch.randn(4, 6)}, tile.geglu, ("gate", "up")),
        "geglu's gradients in place": lambda: sharded_gradients(tile._geglu_backward_, "tanh"),
    },
    emulated={"geglu_of_two_orders": lambda dtype: ((leaf(dtype, 70, 40), transposed(leaf(dtype, 40, 70))), {})},
)
