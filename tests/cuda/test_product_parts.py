"""Products whose inner extent is divided into parts, and products of few rows, as kernels for a GPU compute them."""

import emulate_operators
import pytest
import tile_ops
import torch
from divisions import OTHERS, THIN, divided
from numerics import check_call

ops = torch.ops.tile
bf16, f16, f32, f64 = torch.bfloat16, torch.float16, torch.float32, torch.float64


def inputs(*shapes, dtype, transposed=False):
    tensors = [(torch.randn(shape) / 4).to(dtype) for shape in shapes]
    if transposed:
        tensors[1] = tensors[1].mT.contiguous().mT
    return [x.requires_grad_() for x in tensors]


def launched(emulation):
    return [program["entry"].removeprefix("kernel_") for program in emulation.programs]


def matmul(x, y, bias=None, residual=None, activation="none", alpha=1.0):
    return ops.matmul(x, y, bias=bias, residual=residual, activation=activation, alpha=alpha)


def in_torch(x, y, bias=None, residual=None, activation="none", alpha=1.0):
    product = alpha * (x @ y)
    if bias is not None:
        product = product + bias
    if activation == "gelu":
        product = torch.nn.functional.gelu(product)
    return product if residual is None else product + residual


# name: the tensors' shapes, the dtype, how products are divided, the kernels of the forward, and options.
TILES, SUMS, FEW = "matmul", "matmul_add_parts", "matmul_thin"
CASES = {
    "wgmma": ([(72, 328), (328, 136)], bf16, (3, OTHERS), [TILES, SUMS], {}),
    "wgmma, batches": ([(2, 72, 200), (2, 200, 40)], f16, (2, OTHERS), [TILES, SUMS], {}),
    "wgmma, an epilogue": (
        [(72, 328), (328, 136), (136,), (72, 136)],
        bf16,
        (3, OTHERS),
        [TILES, SUMS],
        {"activation": "gelu", "alpha": 0.5},
    ),
    "mma.sync": ([(17, 331), (331, 19)], bf16, (3, OTHERS), [TILES, SUMS], {}),
    "FMA": ([(3, 5, 133), (3, 133, 6)], f32, (4, OTHERS), [TILES, SUMS], {}),
    "float64": ([(6, 97), (97, 5), (5,)], f64, (3, OTHERS), [TILES, SUMS], {"activation": "gelu"}),
    "one row": ([(1, 1300), (1300, 40)], bf16, (1, THIN), [FEW], {}),
    "one row, parts": ([(1, 2500), (2500, 40), (40,)], bf16, (3, THIN), [FEW, SUMS], {"activation": "gelu"}),
    "three rows": ([(3, 700), (700, 9), (9,), (3, 9)], f32, (1, THIN), [FEW], {"alpha": 2.0}),
    "few columns": ([(37, 1300), (1300, 2), (2,), (37, 2)], f32, (2, THIN), [FEW, SUMS], {"activation": "gelu"}),
    "a vector": ([(37, 700), (700,)], f16, (1, THIN), [FEW], {}),
    "batches of few rows": ([(2, 3, 2, 300), (3, 300, 5)], f64, (2, THIN), [FEW, SUMS], {}),
}


TRANSPOSED = dict.fromkeys(("wgmma", "one row"), pytest.mark.slow)
ORDERS = [
    pytest.param(name, order, id=f"{name}, {order}", marks=TRANSPOSED.get(name, pytest.mark.long) if order == "nt" else ())
    for name, (shapes, *_) in CASES.items()
    for order in ("nn", "nt")
    if order == "nn" or len(shapes[1]) > 1
]


@pytest.mark.parametrize("name, order", ORDERS)
def test_values(name, order):
    shapes, dtype, division, kernels, options = CASES[name]
    emulation = emulate_operators.Emulation()
    with divided(*division):
        check_call(
            lambda *tensors: emulation.operator(matmul)(*tensors, **options),
            lambda *tensors: in_torch(*tensors, **options),
            inputs(*shapes, dtype=dtype, transposed=order == "nt"),
            what=name,
        )
    assert launched(emulation)[: len(kernels)] == kernels
    assert (emulation.programs[0]["path"] == "wgmma") == name.startswith("wgmma")


def epilogue_as_text(x, w, bias, gate):
    return tile_ops.matmul(x, w, epilogue="tanh(acc + bias) * gate", operands={"bias": bias, "gate": gate})


def epilogue_in_torch(x, w, bias, gate):
    return torch.tanh(x @ w + bias) * gate


def gated_in_torch(x, gate, up):
    return torch.nn.functional.silu(x @ gate) * (x @ up)


@pytest.mark.parametrize("rows, division", [(40, (3, OTHERS)), (2, (2, THIN))], ids=["tiles", "few rows"])
def test_epilogues_as_texts(rows, division):
    emulation = emulate_operators.Emulation()
    with divided(*division):
        check_call(
            emulation.operator(epilogue_as_text),
            epilogue_in_torch,
            inputs((rows, 1100), (1100, 48), (48,), (rows, 48), dtype=bf16),
        )
    assert launched(emulation)[:2] == [FEW if rows == 2 else TILES, SUMS]


@pytest.mark.parametrize("rows, thin", [(40, 0), pytest.param(2, THIN, marks=pytest.mark.slow)])
def test_gated_products(rows, thin):
    """Two products that are multiplied have no parts. The two that their gradient adds have."""
    emulation = emulate_operators.Emulation()
    with divided(3, thin):
        check_call(
            emulation.operator(ops.gated_matmul), gated_in_torch, inputs((rows, 264), (264, 136), (264, 136), dtype=bf16)
        )
    kernels = launched(emulation)
    assert kernels[0] == (FEW if rows == 2 else TILES) and kernels[1] != SUMS and SUMS in kernels


def test_results_are_the_same_each_time():
    x, y = (torch.randn(shape).to(bf16) for shape in ((24, 520), (520, 72)))
    with divided(4):
        first, second = (emulate_operators.Emulation().operator(ops.matmul)(x, y) for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("shape", [(2, 0, 5), (40, 0, 72), (0, 300, 5), (3, 300, 0)], ids=str)
def test_without_elements(shape):
    m, k, n = shape
    emulation = emulate_operators.Emulation()
    with divided(4):
        out = emulation.operator(ops.matmul)(torch.randn(m, k), torch.randn(k, n), bias=torch.ones(n))
    assert torch.equal(out, torch.ones(m, n)) and SUMS not in launched(emulation)


def test_a_bias_gradient_is_a_product_of_one_row():
    """A long sum is divided without being asked to, and keeps its digits."""
    x, w, bias = inputs((20000, 2), (2, 3), (3,), dtype=f32)
    emulation = emulate_operators.Emulation()
    out = emulation.operator(ops.matmul)(x, w, bias=bias)
    grad = torch.rand(out.shape)
    (got,) = torch.autograd.grad(out, bias, grad)
    torch.testing.assert_close(got.double(), grad.double().sum(0), rtol=1e-6, atol=0)
    assert launched(emulation)[-2:] == [FEW, SUMS]


def test_operands_may_have_any_strides():
    emulation = emulate_operators.Emulation()
    wide = torch.randn(600, 7, 2)
    x, y = torch.randn(300, 2).t(), wide[::2, :, 0]
    with divided(2, THIN):
        out = emulation.operator(ops.matmul)(x, y)
    torch.testing.assert_close(out.double(), x.double() @ y.double(), rtol=1e-5, atol=1e-4)
    with divided(2, THIN):
        row = emulation.operator(ops.matmul)(x[:1, :1].expand(1, 300), y)
    torch.testing.assert_close(row.double(), x[:1, :1].double() * y.double().sum(0), rtol=1e-5, atol=1e-4)
