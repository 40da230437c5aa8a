"""tile_ops.enable_inductor_fusion() and tile::matmul: what is folded, with which values, and what is left alone."""

import copy

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from inductor_graphs import (
    check_values,
    folds,
    fusion,  # noqa: F401  a fixture
    in_torch,
    kernels,
    names,
    ops,
    others,  # noqa: F401
    passed,
    run,
)
from numerics import check_call
from torch._inductor import config

aten = torch.ops.aten
convert = torch.ops.prims.convert_element_type.default
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def arguments(dtype=torch.float32, bias=(40,), residual=(24, 40)):
    return [torch.randn(shape).to(dtype) for shape in ((24, 16), (16, 40), bias, residual)]


ACTIVATIONS = {
    "none": lambda x: x,
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "x sigmoid(x)": lambda x: x * torch.sigmoid(x),
}


@pytest.mark.slow  # many compiles
def test_kernels_of_matmul():
    """Real kernels of inductor: without the pass at least one a product, with it none."""
    x, y, bias, residual = arguments()

    def layers(x, y, bias, residual):
        h = F.gelu(ops.matmul(x, y) * 0.5 + bias) + residual
        return F.silu(ops.matmul(h, y.t()) + x).to(torch.bfloat16)

    count, result = kernels(layers, x, y, bias, residual)
    assert count == 0
    check_values(layers, result, (x, y, bias, residual))
    tile_ops.disable_inductor_fusion()
    assert kernels(layers, x, y, bias, residual)[0] == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", list(ACTIVATIONS)[:5])
def test_the_whole_formula(activation, dtype):
    act = ACTIVATIONS[activation]
    folds(lambda x, y, bias, residual: act(ops.matmul(x, y) * 0.5 + bias) + residual, *arguments(dtype))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, bias, residual: bias + ops.matmul(x, y),
        lambda x, y, bias, residual: ops.matmul(x, y) + residual,
        lambda x, y, bias, residual: F.silu(ops.matmul(x, y)) + bias,
        lambda x, y, bias, residual: residual + F.relu(ops.matmul(x, y) / 3),
        lambda x, y, bias, residual: ACTIVATIONS["x sigmoid(x)"](ops.matmul(x, y) + bias),
        lambda x, y, bias, residual: (ops.matmul(x, y) * 2).to(torch.bfloat16),
        lambda x, y, bias, residual: torch.add(ops.matmul(x, y), bias).add_(residual),
        lambda x, y, bias, residual: ops.matmul(x, y).mul_(2).add_(bias).relu_(),
    ],
)
def test_parts_of_the_formula(function):
    folds(function, *arguments())


@pytest.mark.parametrize("shape", [(40,), (1, 40), (24, 1), (1,), (), (24, 40)])
def test_a_bias_that_broadcasts(shape):
    folds(lambda x, y, bias, residual: F.gelu(ops.matmul(x, y) + bias) + residual, *arguments(bias=shape))


def test_operands_of_other_strides():
    x, y, bias, residual = arguments()
    folds(
        lambda x, y, bias, residual: F.relu(ops.matmul(x, y) + bias) + residual,
        x.t().contiguous().t(),
        y,
        torch.randn(80)[::2].expand(24, 40),
        residual.t().contiguous().t(),
    )


@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float16, torch.bfloat16),
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.float32),
        (torch.float64, torch.float32),
    ],
)
def test_a_bias_and_residual_of_another_dtype(dtypes):
    """Torch's promotion: the result has the wider dtype, of two different ones of 16 bits float32."""
    x, y, bias, residual = arguments(dtypes[0])
    args = x, y, bias.to(dtypes[1]), residual.to(dtypes[1])
    folds(lambda x, y, bias, residual: ops.matmul(x, y) + bias, *args)
    folds(lambda x, y, bias, residual: F.relu(ops.matmul(x, y) * 3) + residual, *args)


def test_options_that_are_there_already():
    x, y, bias, residual = arguments()
    result, nodes = run(lambda *a: F.silu(ops.matmul(a[0], a[1], bias=a[2], alpha=0.5)) + a[3], x, y, bias, residual)
    assert names(nodes) == ["matmul"] and not others(nodes)
    torch.testing.assert_close(result, F.silu(0.5 * (x @ y) + bias) + residual)
    result, nodes = run(lambda *a: F.relu(ops.matmul(a[0], a[1], activation="silu") * 2) + a[3], x, y, bias, residual)
    assert others(nodes) == [aten.mul.Tensor, aten.relu.default, aten.add.Tensor]
    result, nodes = run(lambda *a: F.relu(ops.matmul(a[0], a[1], residual=a[3])) + a[2], x, y, bias, residual)
    assert others(nodes) == [aten.relu.default, aten.add.Tensor]
    torch.testing.assert_close(result, F.relu(x @ y + residual) + bias)


def test_linear_of_three_dimensions():
    x, weight, bias = torch.randn(2, 5, 16), torch.randn(40, 16), torch.randn(40)
    result, nodes = run(lambda *a: F.gelu(tile_ops.linear(*a)), x, weight, bias)
    assert names(nodes) == ["matmul"] and others(nodes) in ([], [aten.permute.default])
    torch.testing.assert_close(result, F.gelu(F.linear(x, weight, bias)))


def test_casts():
    """Down at once; up, where the graph gives that."""
    args = arguments(torch.bfloat16)
    folds(lambda x, y, bias, residual: (ops.matmul(x, y) + bias).float(), *args)
    folds(lambda x, y, bias, residual: F.gelu((ops.matmul(x, y) + bias).float()), *args)
    wide = [*args[:2], args[2].float(), args[3].float()]
    folds(lambda x, y, bias, residual: F.silu(ops.matmul(x, y).float() + bias) + residual, *wide)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype, device):
    """The casts of the operands remain; the ops after the product do not."""

    def function(x, y, bias, residual):
        with torch.autocast(device.type, dtype):
            return F.gelu(ops.matmul(x, y) + bias.to(dtype)) + residual

    args = arguments()
    result, nodes = run(function, *args)
    assert names(nodes) == ["matmul"] and others(nodes) == [convert] * 3 and result.dtype == torch.float32
    check_values(function, result, args)


def test_two_products_in_a_row():
    x, y, bias, residual = arguments()
    z = torch.randn(40, 24)

    def mlp(x, y, bias, z):
        return ops.matmul(F.silu(ops.matmul(x, y) + bias), z) + x @ x.t()

    result, nodes = run(mlp, x, y, bias, z)
    assert names(nodes) == ["matmul"] * 2 and len(others(nodes)) == 2  # mm, permute
    torch.testing.assert_close(result, F.silu(x @ y + bias) @ z + x @ x.t(), rtol=1e-4, atol=1e-4)


def test_dynamic_shapes():
    x, y, bias, residual = arguments()

    def function(x, y, bias, residual):
        return F.gelu(ops.matmul(x, y) + bias) + residual

    fast, graphs = passed(function, dynamic=True)
    with torch.no_grad():
        for rows in (24, 7, 100, 1, 0):
            args = torch.randn(rows, 16), y, bias, torch.randn(rows, 40)
            check_values(function, fast(*args), args)
    assert len(graphs) == 3 and not any(map(others, graphs))  # 1 and 0 get graphs of their own


def test_a_factor_that_is_known_at_run_time():
    x, y, bias, residual = arguments()
    fast, graphs = passed(lambda x, y, factor: ops.matmul(x, y) * factor * 2, dynamic=True)
    with torch.no_grad():
        for factor in (0.5, 3.0, -1.0):
            torch.testing.assert_close(fast(x, y, factor), x @ y * factor * 2)


# Graphs that stay as they are

UNFOLDED = {
    "the product is used twice": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: (F.relu(p), p.sin())),
    "a bias that makes it larger": lambda x, y, bias, residual: (ops.matmul(x[:1], y), lambda p: p + residual),
    "a bias of another axis": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p.t() + bias[:24]),
    "a wider bias": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p + bias.double()),
    "an integer bias": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p + bias.int()),
    "a factor of the bias": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: torch.add(p, bias, alpha=2)),
    "a factor of the product": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: torch.add(bias, p, alpha=2)),
    "itself": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p + p),
    "a number": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p + 1),
    "a tensor as factor": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p * bias),
    "a divided number": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: 2 / p),
    "no factor for float32": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p * 1e-40),
    "an infinite factor": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p * float("inf")),
    "a factor of 0": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p * 0),
    "another activation": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: F.elu(p)),
    "nearly gelu": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p * 0.5 * (1 + torch.erf(p * 0.7))),
    "silu of two tensors": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p * torch.sigmoid(residual)),
    "float64 behind float32": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p.double().sin()),
    "an integer result": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p.int()),
    "float8": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p.to(torch.float8_e4m3fn).float()),
    "another layout": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p.t() + residual.t()),
    "a view of the product": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p[1:] + residual[1:]),
    "a sum of the product": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p + p.sum()),
    "bits of the product": lambda x, y, bias, residual: (ops.matmul(x, y), lambda p: p.view(torch.int32) + 1),
}


@pytest.mark.parametrize("what", UNFOLDED)
def test_left_alone(what):
    def function(*args):
        product, rest = UNFOLDED[what](*args)
        return rest(product)

    args = arguments()
    result, nodes = run(function, *args)
    tile_ops.disable_inductor_fusion()
    expected, before = run(function, *args)
    assert nodes == before
    torch.testing.assert_close(result, expected, equal_nan=True)


def test_factors_whose_product_underflows():
    x, y, bias, residual = (each * 1e100 for each in arguments(torch.float64))
    result, nodes = run(lambda x, y: ops.matmul(x, y) * 1e-200 * 1e-200, x, y)
    torch.testing.assert_close(result, x @ y * 1e-200 * 1e-200, rtol=1e-12, atol=0)
    assert result.any() and others(nodes) == [aten.mul.Tensor]


@pytest.mark.parametrize("name, left", [("pre", [aten.exp.default]), ("sigmoid", [aten.sigmoid.default])])
def test_an_intermediate_value_that_is_used_elsewhere(name, left):
    """The bias is folded, what comes behind it not."""

    def function(x, y, bias, residual):
        pre = ops.matmul(x, y) + bias
        sigmoid = torch.sigmoid(pre)
        return (F.silu(pre) + residual, pre) if name == "pre" else (pre * sigmoid, sigmoid)

    args = arguments()
    result, nodes = run(function, *args)
    assert names(nodes) == ["matmul"] and set(left) <= set(nodes)
    torch.testing.assert_close(result, function(*args))


def test_nothing_is_widened_for_a_kernel_that_remains():
    _, nodes = run(lambda x, y, bias, residual: F.softplus(ops.matmul(x, y)), *arguments(torch.bfloat16))
    assert convert in nodes


def test_roundings_that_are_asked_for_stay():
    args = arguments(torch.bfloat16)
    with config.patch(emulate_precision_casts=True):
        _, nodes = run(lambda x, y, bias, residual: ops.matmul(x, y) + bias, *args)
    assert others(nodes) == [aten.add.Tensor]


@pytest.mark.parametrize("which", [0, 2, 3])
def test_an_operand_that_is_written_in_place(which):
    """Between and behind the steps; the results and the arguments are those of eager."""

    def function(*args):
        product = ops.matmul(args[0], args[1])
        args[which].mul_(2)
        out = F.relu(product + args[2]) + args[3]
        args[which].add_(1)
        return out, product.view(-1) if which == 3 else out.view(-1)

    args = arguments()
    ours, theirs = (copy.deepcopy(args) for _ in range(2))
    result, _ = run(function, *ours)
    torch.testing.assert_close(result, function(*theirs))
    torch.testing.assert_close(ours, theirs)


def test_an_operator_that_writes_between():
    """rope_ writes into what the product reads: the product stays where it is."""
    x, y, bias, cos, sin = (torch.randn(shape) for shape in ((1, 1, 6, 8), (8, 8), (8,), (6, 8), (6, 8)))

    def function(x, y, bias, cos, sin):
        product = ops.matmul(x, y)
        torch.ops.tile.rope_(x, x.clone(), cos, sin)
        return F.relu(product + bias), x + 1

    ours, theirs = ([each.clone() for each in (x, y, bias, cos, sin)] for _ in range(2))
    result, _ = run(function, *ours)
    torch.testing.assert_close(result, function(*theirs))
    torch.testing.assert_close(ours, theirs)


# Training


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activation", list(ACTIVATIONS)[:5])
def test_a_training_graph(activation, dtype):
    """The activation comes out of the operator that saves what enters it, where the graph saves that."""
    act = ACTIVATIONS[activation]

    def function(x, y, bias, residual):
        return act(ops.matmul(x, y) + bias) + residual

    args = [each.requires_grad_() for each in arguments(dtype)]
    fast, graphs = passed(function)
    check_call(fast, in_torch(function), args)
    nodes = graphs[0]
    if activation == "none":
        assert names(nodes) == ["matmul"] and not others(nodes)
    elif activation == "relu":
        assert names(nodes) == ["matmul"] and others(nodes) == [aten.add.Tensor, aten.le.Scalar]
    elif activation != "silu" and dtype == torch.float32:
        # Inductor computes gelu's derivative in the forward graph and keeps that, not what enters gelu.
        assert names(nodes) == ["matmul"] and aten.mul.Tensor in nodes
    else:
        assert names(nodes) == ["_matmul_saving"] and not others(nodes)


def test_a_training_graph_under_autocast(device):
    def function(x, y, bias, residual):
        with torch.autocast(device.type, torch.bfloat16):
            return F.silu(ops.matmul(x, y) + bias.bfloat16()) + residual

    args = [each.requires_grad_() for each in arguments()]
    fast, graphs = passed(function)
    check_call(fast, in_torch(function), args)
    # The value saved for the gradient has 16 bits: the float32 residual is added outside.
    assert names(graphs[0]) == ["_matmul_saving"] and others(graphs[0])[-1] == aten.add.Tensor


def test_a_training_graph_whose_product_is_used_elsewhere():
    def function(x, y, bias, residual):
        pre = ops.matmul(x, y) + bias
        return F.silu(pre) + residual, pre, pre * residual

    args = [each.requires_grad_() for each in arguments()]
    fast, graphs = passed(function)
    check_call(fast, in_torch(function), args)
    assert names(graphs[0]) == ["matmul"] and aten.mul.Tensor in graphs[0]
