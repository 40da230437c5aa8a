"""tile_ops.enable_inductor_fusion() and the norms: what is folded, with which values, and what is left alone."""

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from inductor_graphs import check_values, fusion, kernels, names, ops, others, passed, run  # noqa: F401
from numerics import check_call

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def norm(x, residual, weight):
    total = x + residual
    return ops.rms_norm(total, [total.shape[-1]], weight, 1e-5), total


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_add_rms_norm(dtype, dynamic):
    args = [torch.randn(shape).to(dtype) for shape in ((6, 40), (6, 40), (40,))]
    result, nodes = run(norm, *args, dynamic=dynamic)
    assert names(nodes) == ["add_rms_norm"] and not others(nodes)
    for ours, theirs in zip(result, norm(*args)):
        assert torch.equal(ours, theirs)


def test_add_rms_norm_of_a_training_graph():
    args = [torch.randn(shape, requires_grad=True) for shape in ((6, 40), (6, 40), (40,))]
    result, nodes = run(norm, *args, grad=True)
    assert names(nodes) == ["_add_rms_norm_saving"] and not others(nodes)
    results = result, norm(*args)
    for ours, theirs in zip(*results):
        assert torch.equal(ours, theirs)
    gradients = [torch.autograd.grad(sum(each.square().sum() for each in outs), args) for outs in results]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, r, w: ops.rms_norm(x + r, [40], w),
        lambda x, r, w: (ops.rms_norm(torch.add(x, r, alpha=2), [40], w), torch.add(x, r, alpha=2)),
        lambda x, r, w: norm(x, w, w),
        lambda x, r, w: norm(x, r.double(), w),
        lambda x, r, w: norm(x.sin(), r, w),
        lambda x, r, w: norm(x, x, w),
    ],
    ids=["not used elsewhere", "factor", "broadcasts", "dtypes", "computed", "twice the same"],
)
def test_sums_left_alone(function):
    args = [torch.randn(shape) for shape in ((6, 40), (6, 40), (40,))]
    result, nodes = run(function, *args)
    assert names(nodes) == ["rms_norm"]
    torch.testing.assert_close(result, function(*args))


def test_a_residual_goes_into_the_product_before_the_norm():
    def block(x, y, residual, weight):
        return norm(ops.matmul(x, y), residual, weight)

    args = [torch.randn(shape) for shape in ((6, 8), (8, 40), (6, 40), (40,))]
    result, nodes = run(block, *args)
    assert names(nodes) == ["matmul", "rms_norm"] and not others(nodes)
    torch.testing.assert_close(result, block(*args))


def norm_arguments(dtype=torch.float32):
    return [torch.randn(shape).to(dtype) for shape in ((6, 40), (40,), (40,), (2, 8, 3, 5))]


NORMS = {
    "weight of rms_norm": lambda x, w, b, i: w * ops.rms_norm(x, [40], None, 1e-6),
    "weight and bias": lambda x, w, b, i: ops.layer_norm(x, [40]) * w + b,
    "bias": lambda x, w, b, i: ops.layer_norm(x, [40], w) + b,
    "parameters of two axes": lambda x, w, b, i: ops.layer_norm(i, [3, 5]) * i[0, 0] + i[1, 2],
    "casts": lambda x, w, b, i: ops.rms_norm(x.float(), [40], None, 1e-6).to(x.dtype) * w,
    "casts and parameters": lambda x, w, b, i: ops.layer_norm(x.float(), [40], w.float(), b.float()).to(x.dtype),
    "casts and a parameter": lambda x, w, b, i: (ops.layer_norm(x.float(), [40]) * w.float()).to(x.dtype),
    "silu": lambda x, w, b, i: F.silu(ops.group_norm(i, 2, w[:8])),
    "silu and casts": lambda x, w, b, i: F.silu(ops.group_norm(i.float(), 4)).to(i.dtype),
    "silu of channels_last": lambda x, w, b, i: F.silu(ops.group_norm(i.to(memory_format=torch.channels_last), 2)),
}
views = {aten.clone.default, aten.slice.Tensor, aten.select.int}


@pytest.mark.parametrize(
    "what, dtype", [(what, dtype) for what in NORMS for dtype in DTYPES if dtype.itemsize == 2 or "cast" not in what]
)
def test_around_a_norm(what, dtype):
    args = norm_arguments(dtype)
    result, nodes = run(NORMS[what], *args)
    assert len(names(nodes)) == 1 and set(others(nodes)) <= views
    check_values(NORMS[what], result, args)
    assert result.stride() == NORMS[what](*args).stride()


def test_norms_of_dynamic_shapes():
    fast, graphs = passed(lambda x, w: ops.layer_norm(x.float(), [x.shape[-1]]).to(x.dtype) * w, dynamic=True)
    with torch.no_grad():
        for rows, columns in ((6, 40), (3, 8), (0, 5)):
            x, w = torch.randn(rows, columns).bfloat16(), torch.randn(columns).bfloat16()
            torch.testing.assert_close(fast(x, w), F.layer_norm(x, [columns], w), rtol=0.02, atol=0.02)
    assert not any(map(others, graphs))


def test_llama_under_autocast():
    """Under AMP a block has norms in float32 and products in bfloat16."""

    def block(x, residual, weight, matrix):
        total = x + residual
        normed = ops.rms_norm(total.float(), [40], weight.float(), 1e-6).to(total.dtype)
        return ops.matmul(normed, matrix) + total, total

    args = [torch.randn(shape).bfloat16() for shape in ((6, 40), (6, 40), (40,), (40, 40))]
    result, nodes = run(block, *args)
    assert names(nodes) == ["add_rms_norm", "matmul"] and not others(nodes)
    check_values(block, result, args)


UNFOLDED = {
    "used twice": lambda x, w, b, i: (lambda n: (n * w, n))(ops.rms_norm(x, [40])),
    "a weight there": lambda x, w, b, i: ops.rms_norm(x, [40], w) * b,
    "a weight behind a bias": lambda x, w, b, i: ops.layer_norm(x, [40], None, b) * w,
    "a weight of rows": lambda x, w, b, i: ops.rms_norm(x, [40]) * x[:, :1],
    "a whole weight": lambda x, w, b, i: ops.rms_norm(x, [40]) * x,
    "a number": lambda x, w, b, i: ops.rms_norm(x, [40]) * 2,
    "a wide weight": lambda x, w, b, i: ops.rms_norm(x, [40]) * w.double(),
    "two dtypes": lambda x, w, b, i: ops.layer_norm(x.bfloat16(), [40], w) + b.bfloat16(),
    "bias of rms_norm": lambda x, w, b, i: ops.rms_norm(x, [40]) + b,
    "itself": lambda x, w, b, i: (lambda n: n * n)(ops.rms_norm(x, [40])),
    "a factor of the bias": lambda x, w, b, i: torch.add(ops.layer_norm(x, [40]), b, alpha=2),
    "silu of rms_norm": lambda x, w, b, i: F.silu(ops.rms_norm(x, [40])),
    "relu": lambda x, w, b, i: F.relu(ops.group_norm(i, 2)),
    "silu and more": lambda x, w, b, i: (lambda n: F.silu(n) + n)(ops.group_norm(i, 2)),
    "silu that is there": lambda x, w, b, i: F.silu(ops.group_norm(i, 2, activation="silu")),
    "silu of another dtype": lambda x, w, b, i: F.silu(ops.group_norm(i.bfloat16(), 2).float()),
    "a cast before": lambda x, w, b, i: ops.rms_norm(x.bfloat16().float(), [40]),
    "another cast behind": lambda x, w, b, i: ops.rms_norm(x.bfloat16().float(), [40]).half(),
    "from float64": lambda x, w, b, i: ops.rms_norm(x.double().float(), [40]).double(),
}


@pytest.mark.parametrize("what", UNFOLDED)
def test_norms_left_alone(what):
    args = norm_arguments()
    result, nodes = run(UNFOLDED[what], *args)
    tile_ops.disable_inductor_fusion()
    expected, before = run(UNFOLDED[what], *args)
    assert nodes == before
    torch.testing.assert_close(result, expected, rtol=0, atol=0)


def test_a_parameter_that_is_written_in_place():
    def function(x, w, b, i):
        normed = ops.layer_norm(x, [40])
        w.add_(1)
        x.mul_(2)
        out = normed * w
        w.mul_(3)
        return out + b

    ours, theirs = ([each.clone() for each in norm_arguments()] for _ in range(2))
    for each, other in zip(theirs, ours):
        each.copy_(other)
    result, _ = run(function, *ours)
    torch.testing.assert_close(result, function(*theirs))
    torch.testing.assert_close(ours, theirs)


def test_training_graphs_keep_what_stands_behind_a_norm():
    def function(x, w, b, i):
        return ops.layer_norm(x, [40]) * w + b, F.silu(ops.group_norm(i, 2))

    args = [each.requires_grad_() for each in norm_arguments()]
    fast, graphs = passed(function)
    check_call(fast, function, args)
    assert names(graphs[0]) == ["_layer_norm_saving", "_group_norm_saving"] and others(graphs[0])


@pytest.mark.slow
def test_kernels_of_norms():
    x, residual, weight, images = (torch.randn(shape) for shape in ((6, 40), (6, 40), (40,), (2, 8, 3, 3)))

    def block(x, residual, weight, images):
        normed, total = norm(x, residual, weight)
        return normed, total, F.silu(ops.group_norm(images, 2)), ops.layer_norm(total, [40]) * weight + residual[0]

    count, result = kernels(block, x, residual, weight, images)
    assert count == 0
    torch.testing.assert_close(result, block(x, residual, weight, images))
    tile_ops.disable_inductor_fusion()
    assert kernels(block, x, residual, weight, images)[0] == 3
