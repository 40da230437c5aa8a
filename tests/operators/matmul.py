"""The rows of matmul and gated_matmul in the table of operators."""

import random

import torch
import torch.nn.functional as F

import epilogues
import tile_ops
from operators.drawn import extent, shape, tensor, whole_vectors
from operators.record import Bad, BadGradients, Operator, Sharded
from operators.tensors import ALIGNED, UNALIGNED, bf, double, f, f64, grad, i64, leaf, meta, meta_leaf, transposed, twice
from operators.texts import HERE, MOVE, OTHERS, RESULT, SAVED

tile = torch.ops.tile

UNKNOWN_ACTIVATION = "unknown activation 'tanh'; it is none, relu, gelu, gelu_tanh or silu"


def matmul_backward(grad=None, pre=None, bias=None, residual=None, activation="none"):
    return tile.matmul_backward(
        f(2, 4) if grad is None else grad, f(2, 3), f(3, 4), bias, activation, 1.0, pre, residual, [True, True, False, False]
    )


def matmul_double_backward(to_input=None, to_bias=None, to_residual=None, grad=None, residual=None):
    return tile.matmul_double_backward(
        to_input,
        None,
        to_bias,
        to_residual,
        f(2, 4) if grad is None else grad,
        f(2, 3),
        f(3, 4),
        None,
        "none",
        1.0,
        None,
        residual,
        [True] * 6,
    )


def gated_matmul_backward(grad=None, gate=None, up=None, weight=None):
    own = f(2, 4)
    return tile.gated_matmul_backward(
        own if grad is None else grad,
        f(2, 3),
        f(3, 4),
        f(3, 4) if weight is None else weight,
        "silu",
        own if gate is None else gate,
        own if up is None else up,
        [True] * 3,
    )


def sharded_matmul(x, y, bias=None, residual=None, **options):
    tensors = {"input": torch.randn(*x), "other": torch.randn(*y)}
    names = []
    for name, sizes in (("bias", bias), ("residual", residual)):
        if sizes is not None:
            tensors[name] = torch.randn(*sizes)
            names.append(name)

    def run(input, other, *more):
        return tile.matmul(input, other, **dict(zip(names, more)), **options)

    return Sharded(tensors, run, tuple(tensors))


EPILOGUE = "silu(acc * s + bias) * gate"


def epilogue(x, y, bias, gate, text=EPILOGUE, scale=0.5):
    return tile.matmul_epilogue(x, y, text, operand0=bias, operand1=gate, numbers=[scale], names="bias,gate,s")


def gate_residual(dtype, m, k, n):
    x, w, residual = (meta_leaf(dtype, *shape).detach() for shape in ((m, k), (n, k), (m, n)))
    return tile.matmul(x, w.t(), residual=residual)


def gate_of_two_operands(dtype, m, k, n):
    x, w, bias, *others = (meta_leaf(dtype, *shape).detach() for shape in ((m, k), (n, k), (n,), (m, n), (m, n)))
    operands = {f"operand{i}": operand for i, operand in enumerate([bias, *others])}
    return tile.matmul_epilogue(x, w.t(), "silu(acc + bias) * gate + res * 0.5", **operands, names="bias,gate,res")


def gate_linear(dtype, m, k, n, bias):
    x, w, b = (meta_leaf(dtype, *size).detach() for size in ((m, k), (n, k), (n,)))
    return tile.matmul(x, w.t(), bias=b if bias else None)


def epilogue_in_torch(x, y, bias, gate):
    return F.silu(x @ y * 0.5 + bias) * gate


def matmul_epilogue_backward(grad=None, bias=None, pre=None, names="b", text="exp(acc) + b", mask=(True,) * 3):
    """Calls the gradient's operator; `pre` is False where it is not given."""
    return tile.matmul_epilogue_backward(
        f(2, 4) if grad is None else grad,
        f(2, 3),
        f(3, 4),
        text,
        f(4) if bias is None else bias,
        *[None] * 5,
        [],
        names,
        None if pre is False else f(2, 4) if pre is None else pre,
        [*mask, *[False] * (8 - len(mask))],
    )


def sharded_epilogue(x, y, bias, gate):
    return Sharded(
        {"input": torch.randn(*x), "other": torch.randn(*y), "bias": torch.randn(*bias), "gate": torch.randn(*gate)},
        epilogue,
        ("input", "other", "bias", "gate"),
    )


def matmul_in_torch(input, other, *, activation="none"):
    return F.gelu(input @ other) if activation == "gelu" else input @ other


def gated_matmul_in_torch(input, gate_weight, up_weight):
    return F.silu(input @ gate_weight) * (input @ up_weight)


def draw_matmul(dtype):
    m, n, k = (
        (extent() for _ in range(3))
        if random.random() < 0.8
        else (whole_vectors(random.choice([1, 17, 300, 600])) for _ in range(3))
    )
    batch = random.choice([[], [2], [3, 2], [2, 1, 2], [2, 3, 1, 2]])
    left, right = ([*random.choice([[], batch, [1] * len(batch)]), *own] for own in ([m, k], [k, n]))
    left, right = random.choice([(left, right), (left, right), (left, right), ([k], right), (left, [k])])
    return tile.matmul, (tensor(left, dtype), tensor(right, dtype)), {"bias": tensor([1], dtype), "activation": "gelu"}


def draw_matmul_epilogue(dtype):
    _, (left, right), named = draw_matmul(dtype)
    wide = list((left @ right).shape)
    # Operands of one form: each form of broadcasting is another layout, and so another kernel.
    gate = tensor(wide, dtype)
    options = {"operand0": named["bias"], "operand1": gate, "numbers": [0.25], "names": "bias,gate,s"}
    return tile.matmul_epilogue, (left, right, EPILOGUE), options


def draw_gated_matmul(dtype):
    *row_sizes, k, n = [*shape(random.randint(1, 3)), extent(), whole_vectors(random.choice([1, 17, 40, 300, 600]))]
    return tile.gated_matmul, (tensor([*row_sizes, k], dtype), tensor([k, n], dtype), tensor([k, n], dtype)), {}


MATMUL = Operator(
    name="matmul",
    reference=matmul_in_torch,
    flops=lambda: (tile.matmul, [f(5, 7), f(7, 3)], 2 * 5 * 7 * 3),
    bad=Bad(
        dtypes=[
            (lambda: tile.matmul(i64(2, 3), i64(3, 2)), f"input is int64; {OTHERS}"),
            (lambda: tile.matmul(f(2, 3), f64(3, 2)), "input is float32 and other is float64; convert one with .to()"),
            (lambda: tile.matmul(f(2, 3), f(3, 2), bias=i64(2)), f"bias is int64; {OTHERS}"),
            (lambda: tile.matmul(f(2, 3), f(3, 2), out_dtype=torch.int32), f"out_dtype is int32; {OTHERS}"),
        ],
        shapes=[
            (lambda: tile.matmul(f(), f(3, 2)), "input has no dimensions; both operands need at least one"),
            (lambda: tile.matmul(f(3), f()), "other has no dimensions; both operands need at least one"),
            (
                lambda: tile.matmul(f(2, 3), f(4, 2)),
                "cannot multiply input [2, 3] by other [4, 2]; the inner extents 3 and 4 differ",
            ),
            (
                lambda: tile.matmul(f(2, 2, 3), f(3, 3, 2)),
                "cannot multiply input [2, 2, 3] by other [3, 3, 2]; the batch extents 2 and 3 do not broadcast",
            ),
            (
                lambda: tile.matmul(f(2, 3), f(3, 2), bias=f(3)),
                "bias [3] does not broadcast to the product [2, 2]; its extents must be 1 or equal, counted from the last",
            ),
            (
                lambda: tile.matmul(f(2, 3), f(3, 2), residual=f(4, 2, 2)),
                "residual [4, 2, 2] does not broadcast to the product [2, 2]; its extents must be 1 or equal, "
                "counted from the last",
            ),
            (lambda: tile.matmul(f(2, 3), f(3, 2), activation="tanh"), UNKNOWN_ACTIVATION),
        ],
        devices=[(lambda: tile.matmul(f(2, 3), meta(3, 2)), f"'input' is on {HERE}, but 'other' is on meta; {MOVE}")],
        unaligned=[("other", lambda: tile.matmul(ALIGNED, UNALIGNED.view(3, 2)))],
    ),
    bad_gradients=BadGradients(
        good=[matmul_backward],
        shapes=[
            (
                lambda: tile.matmul_backward(
                    f(2, 2), f(2, 3), f(3, 2), None, "relu", 1.0, None, None, [True, True, False, False]
                ),
                "activation is relu and 'pre' is not given; pass the product before the activation",
            ),
            (
                lambda: tile.matmul_backward(
                    f(2, 2), f(2, 3), f(3, 2), None, "none", 1.0, None, None, [False, False, True, False]
                ),
                "output_mask asks for the gradient of 'bias', which is not given; clear its bit",
            ),
            (lambda: matmul_backward(grad=f(2, 1)), f"grad_out has shape [2, 1]; it must be [2, 4], {RESULT}"),
            (
                lambda: matmul_backward(bias=f(3)),
                "bias [3] does not broadcast to the product [2, 4]; its extents must be 1 or equal, counted from the last",
            ),
            (
                lambda: matmul_backward(residual=f(1, 2, 4)),
                "residual_like [1, 2, 4] does not broadcast to the product [2, 4]; its extents must be 1 or equal, "
                "counted from the last",
            ),
            (lambda: matmul_backward(pre=f(2, 3), activation="relu"), f"pre has shape [2, 3]; it must be [2, 4], {SAVED}"),
        ],
        dtypes=[
            (lambda: matmul_backward(grad=i64(2, 4)), "grad_out is int64; it must be float16, bfloat16, float32 or float64"),
            (lambda: matmul_backward(pre=bf(2, 4), activation="relu"), f"pre is bfloat16; it must be float32, {SAVED}"),
        ],
    ),
    bad_second_gradients=BadGradients(
        good=[matmul_double_backward],
        shapes=[
            (lambda: matmul_double_backward(grad=f(4, 2)), f"grad_out has shape [4, 2]; it must be [2, 4], {RESULT}"),
            (
                lambda: matmul_double_backward(to_input=f(3, 2)),
                "grad_grad_input has shape [3, 2]; it must be [2, 3], that of the gradient",
            ),
            (lambda: matmul_double_backward(to_bias=f(4)), "grad_grad_bias is given, but what it is of is not; pass None"),
            (
                lambda: matmul_double_backward(to_residual=f(2, 4), residual=f(4)),
                "grad_grad_residual has shape [2, 4]; it must be [4], that of the gradient",
            ),
        ],
        dtypes=[
            (
                lambda: matmul_double_backward(to_input=bf(2, 3)),
                "grad_grad_input is bfloat16; it must be float32, that of the gradient",
            )
        ],
    ),
    autocast=(lambda x: tile_ops.matmul(x, x.mT), lambda x: torch.matmul(x, x.mT)),
    without_elements={
        "matmul": (tile.matmul, torch.matmul, [(5, 0), (0, 3)]),
        "matmul of vectors": (tile.matmul, torch.matmul, [(0,), (0,)]),
        "matmul, batched": (tile.matmul, torch.matmul, [(2, 5, 0), (0, 3)]),
        "matmul with a bias": (
            lambda x, y, b: tile.matmul(x, y, bias=b, activation="gelu"),
            lambda x, y, b: F.gelu(x @ y + b),
            [(5, 0), (0, 3), (3,)],
        ),
    },
    good=[
        lambda: tile.matmul(grad(2, 3), grad(3, 4), bias=grad(4), activation="gelu", residual=grad(2, 4), alpha=0.5),
        lambda: tile.matmul(grad(2, 2, 3), grad(2, 3, 2), out_dtype=torch.float32),
    ],
    draw=draw_matmul,
    memory={
        "matmul": lambda: (
            lambda x, y, b: tile.matmul(x, y, bias=b, activation="gelu"),
            [torch.randn(40960, 512), torch.randn(512, 512), torch.randn(512)],
        ),
        "matmul, a long sum": lambda: (tile.matmul, [torch.randn(512, 40960), torch.randn(40960, 512)]),
    },
    gpu={
        "matmul": lambda randn: (
            lambda x, w, b: tile.matmul(x, w, bias=b, activation="gelu"),
            [randn(100, 200), randn(200, 150), randn(150)],
        )
    },
    gates={
        "matmul[4096,4096,4096]": lambda dtype: tile.matmul(meta_leaf(dtype, 4096, 4096), meta_leaf(dtype, 4096, 4096)),
        "matmul[512,131072,512]": lambda dtype: tile.matmul(
            meta_leaf(dtype, 512, 131072).detach(), meta_leaf(dtype, 131072, 512).detach()
        ),
        "linear[4096,1024,4096],gelu": lambda dtype: tile.matmul(
            meta_leaf(dtype, 4096, 1024), meta_leaf(dtype, 4096, 1024).t(), bias=meta_leaf(dtype, 4096), activation="gelu"
        ),
    },
    gate_variants={
        "linear[8192,4096,4096],residual": lambda dtype: gate_residual(dtype, 8192, 4096, 4096),
        "linear[8192,4096,4096],gate,residual": lambda dtype: gate_of_two_operands(dtype, 8192, 4096, 4096),
        "linear[8192,768,50257]": lambda dtype: gate_linear(dtype, 8192, 768, 50257, False),
        "linear[8192,768,30522],bias": lambda dtype: gate_linear(dtype, 8192, 768, 30522, True),
    },
    gates_in_double={"matmul[512,512,512]": lambda dtype: tile.matmul(meta_leaf(dtype, 512, 512), meta_leaf(dtype, 512, 512))},
    sharded={
        "matmul": lambda: sharded_matmul((4, 6), (6, 5), (5,)),
        "matmul of everything": lambda: sharded_matmul((3, 4, 6), (3, 6, 5), (4, 1), (3, 4, 5), alpha=0.5),
        "matmul with an activation": lambda: sharded_matmul((4, 6), (6, 5), (5,), (4, 5), activation="gelu"),
        "matmul that broadcasts": lambda: sharded_matmul((2, 1, 4, 6), (3, 6, 5), (5,)),
        "matmul of a vector": lambda: sharded_matmul((6,), (6, 4)),
        "matmul by a vector": lambda: sharded_matmul((3, 4, 6), (6,)),
        "matmul twice": lambda: twice(
            lambda x, y, b: tile.matmul(x, y, bias=b),
            "input",
            "other",
            "bias",
            input=torch.randn(4, 6),
            other=torch.randn(6, 5),
            bias=torch.randn(5),
        ),
    },
    emulated={
        "matmul": lambda dtype: ((leaf(dtype, 37, 70), leaf(dtype, 70, 45)), {}),
        "matmul_in_stages": lambda dtype: ((leaf(dtype, 72, 160), leaf(dtype, 160, 136)), {}),
        "matmul_of_80_and_176": lambda dtype: ((leaf(dtype, 96, 80), leaf(dtype, 80, 176)), {}),
        "matmul_of_batches": lambda dtype: ((leaf(dtype, 2, 5, 33), leaf(dtype, 33, 17)), {"activation": "gelu"}),
        "matmul_of_vectors": lambda dtype: ((leaf(dtype, 7), leaf(dtype, 7)), {}),
        "matmul_of_long_sums": lambda dtype: ((leaf(dtype, 3, 70001), leaf(dtype, 70001, 4)), {}),
        "matmul_of_long_sums_of_batches": lambda dtype: ((transposed(leaf(dtype, 64, 1100, 8)), leaf(dtype, 8, 4)), {}),
    },
)


MATMUL_EPILOGUE = Operator(
    name="matmul_epilogue",
    reference=epilogues.in_torch,
    flops=lambda: (tile.matmul_epilogue, [f(5, 7), f(7, 3), "exp(acc)"], 2 * 5 * 7 * 3),
    bad=Bad(
        dtypes=[
            (lambda: tile.matmul_epilogue(i64(2, 3), i64(3, 2), "acc"), f"input is int64; {OTHERS}"),
            (
                lambda: tile.matmul_epilogue(f(2, 3), f64(3, 2), "acc"),
                "input is float32 and other is float64; convert one with .to()",
            ),
            (lambda: tile.matmul_epilogue(f(2, 3), f(3, 2), "acc + b", operand0=i64(2), names="b"), f"b is int64; {OTHERS}"),
        ],
        shapes=[
            (lambda: tile.matmul_epilogue(f(), f(3, 2), "acc"), "input has no dimensions; both operands need at least one"),
            (
                lambda: tile.matmul_epilogue(f(2, 3), f(4, 2), "acc"),
                "cannot multiply input [2, 3] by other [4, 2]; the inner extents 3 and 4 differ",
            ),
            (
                lambda: tile.matmul_epilogue(f(2, 3), f(3, 2), "acc + b", operand0=f(3), names="b"),
                "b [3] does not broadcast to the product [2, 2]; its extents must be 1 or equal, counted from the last",
            ),
            (
                lambda: tile.matmul_epilogue(f(2, 3), f(3, 2), "acc + b", operand1=f(2), names="b"),
                "operand0 is not given, but one after it is; give them in order",
            ),
            (
                lambda: tile.matmul_epilogue(f(2, 3), f(3, 2), "acc + b", operand0=f(2)),
                "names has 0 names, but 1 tensor and 0 numbers are given; name each of them",
            ),
            (
                lambda: tile.matmul_epilogue(f(2, 3), f(3, 2), "acc * s", numbers=[1.0], names="s,t"),
                "names has 2 names, but 0 tensors and 1 number are given; name each of them",
            ),
            (
                lambda: tile.matmul_epilogue(f(2, 3), f(3, 2), "acc * s", numbers=[1.0] * 2, names="s,"),
                "an operand is named ''; a name is a letter or _, then letters, digits and _",
            ),
            (lambda: tile.matmul_epilogue(f(2, 3), f(3, 2), "acc", numbers=[1.0] * 7), "numbers has 7 numbers; the most is 6"),
            (
                lambda: tile.matmul_epilogue(f(2, 3), f(3, 2), "acc + s", numbers=[1.0] * 2, names="s,s"),
                "two operands are named 's'; give each its own name",
            ),
        ],
        devices=[
            (
                lambda: tile.matmul_epilogue(f(2, 3), f(3, 2), "acc + b", operand0=meta(2), names="b"),
                f"'input' is on {HERE}, but 'operand0' is on meta; {MOVE}",
            )
        ],
        unaligned=[("other", lambda: tile.matmul_epilogue(ALIGNED, UNALIGNED.view(3, 2), "acc"))],
    ),
    bad_gradients=BadGradients(
        good=[matmul_epilogue_backward],
        shapes=[
            (
                lambda: matmul_epilogue_backward(pre=False),
                "the derivative of epilogue 'exp(acc) + b' reads acc, and 'pre' is not given; pass the product",
            ),
            (
                lambda: matmul_epilogue_backward(mask=(True, True, True, True)),
                "output_mask asks for the gradient of 'operand1', which is not given; clear its bit",
            ),
            (lambda: matmul_epilogue_backward(grad=f(2, 1)), f"grad_out has shape [2, 1]; it must be [2, 4], {RESULT}"),
            (
                lambda: matmul_epilogue_backward(bias=f(3)),
                "b [3] does not broadcast to the product [2, 4]; its extents must be 1 or equal, counted from the last",
            ),
            (lambda: matmul_epilogue_backward(pre=f(2, 3)), f"pre has shape [2, 3]; it must be [2, 4], {SAVED}"),
        ],
        dtypes=[
            (lambda: matmul_epilogue_backward(grad=i64(2, 4)), f"grad_out is int64; it must be float32, {RESULT}"),
            (lambda: matmul_epilogue_backward(pre=bf(2, 4)), f"pre is bfloat16; it must be float32, {SAVED}"),
        ],
    ),
    autocast=(lambda x: tile_ops.matmul(x, x.mT, epilogue="silu(acc)"), lambda x: F.silu(torch.matmul(x, x.mT))),
    without_elements={
        "matmul_epilogue": (epilogue, epilogue_in_torch, [(5, 0), (0, 3), (3,), (5, 1)]),
        "matmul_epilogue of no rows": (epilogue, epilogue_in_torch, [(0, 4), (4, 3), (3,), (0, 3)]),
    },
    contract=lambda: [
        ((double(2, 3, 4), double(4, 5), "tanh(acc) * b + acc"), {"operand0": double(5), "names": "b"}),
        ((double(2, 3, 4), double(4, 5), "acc * s"), {"numbers": [0.5], "names": "s"}),
    ],
    good=[
        lambda: epilogue(grad(2, 3), grad(3, 4), grad(4), grad(2, 4)),
        lambda: tile.matmul_epilogue(grad(2, 2, 3), grad(2, 3, 2), "where(acc > 0, acc, 0.1 * acc)"),
    ],
    draw=draw_matmul_epilogue,
    memory={
        "matmul_epilogue": lambda: (
            epilogue,
            [torch.randn(40960, 512), torch.randn(512, 512), torch.randn(512), torch.randn(40960, 512)],
        )
    },
    gpu={"matmul_epilogue": lambda randn: (epilogue, [randn(100, 200), randn(200, 150), randn(150), randn(100, 150)])},
    gates={
        "linear[1024,1024,4096],epilogue": lambda dtype: tile.matmul_epilogue(
            meta_leaf(dtype, 1024, 1024),
            meta_leaf(dtype, 4096, 1024).t(),
            "tanh(acc * s + bias)",
            operand0=meta_leaf(dtype, 4096),
            numbers=[0.5],
            names="bias,s",
        )
    },
    sharded={
        "matmul_epilogue": lambda: sharded_epilogue((4, 6), (6, 5), (5,), (4, 5)),
        "matmul_epilogue of samples": lambda: sharded_epilogue((3, 4, 6), (3, 6, 5), (4, 1), (3, 1, 5)),
    },
    emulated={
        "matmul_epilogue": lambda dtype: (
            (leaf(dtype, 37, 70), leaf(dtype, 70, 45), EPILOGUE),
            {"operand0": leaf(dtype, 45), "operand1": leaf(dtype, 37, 45), "numbers": [0.5], "names": "bias,gate,s"},
        ),
        "matmul_epilogue_of_batches": lambda dtype: (
            (leaf(dtype, 2, 5, 33), leaf(dtype, 33, 17), "exp(-abs(acc)) * b"),
            {"operand0": leaf(dtype, 5, 1), "names": "b"},
        ),
    },
)


GATED_MATMUL = Operator(
    name="gated_matmul",
    reference=gated_matmul_in_torch,
    flops=lambda: (tile.gated_matmul, [f(5, 7), f(7, 3), f(7, 3)], 2 * 2 * 5 * 7 * 3),
    bad=Bad(
        dtypes=[
            (lambda: tile.gated_matmul(i64(2, 3), i64(3, 2), i64(3, 2)), f"input is int64; {OTHERS}"),
            (
                lambda: tile.gated_matmul(f(2, 3), f64(3, 2), f(3, 2)),
                "input is float32 and gate_weight is float64; convert one with .to()",
            ),
            (
                lambda: tile.gated_matmul(f(2, 3), f(3, 2), f64(3, 2)),
                "input is float32 and up_weight is float64; convert one with .to()",
            ),
        ],
        shapes=[
            (
                lambda: tile.gated_matmul(f(2, 3), f(4, 2), f(4, 2)),
                "cannot multiply input [2, 3] by gate_weight [4, 2]; the inner extents 3 and 4 differ",
            ),
            (
                lambda: tile.gated_matmul(f(2, 3), f(3, 2), f(3, 1)),
                "gate_weight is [3, 2] and up_weight [3, 1]; they must have one shape",
            ),
            (lambda: tile.gated_matmul(f(), f(3, 2), f(3, 2)), "input has no dimensions; it must be [..., k]"),
            (lambda: tile.gated_matmul(f(2, 3), f(3), f(3)), "gate_weight has shape [3]; it must be [k, n]"),
            (lambda: tile.gated_matmul(f(2, 3), f(3, 2), f(3, 2), activation="tanh"), UNKNOWN_ACTIVATION),
        ],
        devices=[
            (
                lambda: tile.gated_matmul(f(2, 3), f(3, 2), meta(3, 2)),
                f"'input' is on {HERE}, but 'up_weight' is on meta; {MOVE}",
            )
        ],
        unaligned=[("up_weight", lambda: tile.gated_matmul(ALIGNED, ALIGNED.view(3, 2), UNALIGNED.view(3, 2)))],
    ),
    bad_gradients=BadGradients(
        good=[gated_matmul_backward],
        shapes=[
            (lambda: gated_matmul_backward(grad=f(2, 1)), f"grad_out has shape [2, 1]; it must be [2, 4], {RESULT}"),
            (lambda: gated_matmul_backward(gate=f(4)), f"pre_gate has shape [4]; it must be [2, 4], {SAVED}"),
            (lambda: gated_matmul_backward(up=f(2, 5)), f"pre_up has shape [2, 5]; it must be [2, 4], {SAVED}"),
            (
                lambda: gated_matmul_backward(weight=f(3, 5)),
                "gate_weight is [3, 4] and up_weight [3, 5]; they must have one shape",
            ),
        ],
        dtypes=[(lambda: gated_matmul_backward(gate=bf(2, 4)), f"pre_gate is bfloat16; it must be float32, {SAVED}")],
    ),
    autocast=(
        lambda x: tile_ops.gated_matmul(x, *[x.select(0, 0).select(0, 0)] * 2),
        lambda x: torch.matmul(x, x.select(0, 0).select(0, 0)) * 2,
    ),
    without_elements={
        "gated_matmul": (tile.gated_matmul, gated_matmul_in_torch, [(5, 0), (0, 3), (0, 3)]),
        "gated_matmul of no rows": (tile.gated_matmul, gated_matmul_in_torch, [(0, 4), (4, 3), (4, 3)]),
    },
    contract=lambda: [((double(2, 3, 4), double(4, 5), double(4, 5)), options) for options in ({}, {"activation": "gelu"})],
    good=[lambda: tile.gated_matmul(grad(2, 3), grad(3, 4), grad(3, 4), activation="gelu")],
    draw=draw_gated_matmul,
    memory={"gated_matmul": lambda: (tile.gated_matmul, [torch.randn(40960, 512), *(torch.randn(512, 256) for _ in range(2))])},
    gpu={"gated_matmul": lambda randn: (tile.gated_matmul, [randn(100, 200), randn(200, 150), randn(200, 150)])},
    gates={
        "gated_linear[4096,4096,11008]": lambda dtype: tile.gated_matmul(
            meta_leaf(dtype, 4096, 4096), *(meta_leaf(dtype, 11008, 4096).t() for _ in range(2))
        )
    },
    sharded={
        "gated_matmul": lambda: Sharded(
            {"input": torch.randn(4, 6), "gate": torch.randn(6, 5), "up": torch.randn(6, 5)},
            tile.gated_matmul,
            ("input", "gate", "up"),
        )
    },
    emulated={
        "gated_matmul": lambda dtype: ((leaf(dtype, 37, 72), *(leaf(dtype, 72, 48) for _ in range(2))), {}),
        "gated_matmul_of_long_sums": lambda dtype: ((leaf(dtype, 2, 65600), *(leaf(dtype, 65600, 3) for _ in range(2))), {}),
    },
)
