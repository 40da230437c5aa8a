"""tile_ops.enable_inductor_fusion(): what is folded, that values obey the numerics rule, and what is left alone."""

import copy

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from numerics import check_call
from torch._inductor import config, metrics
from torch._inductor.custom_graph_pass import CustomGraphPass

ops = torch.ops.tile
matmul = ops.matmul
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.fixture(autouse=True)
def fusion():
    torch._dynamo.reset()
    tile_ops.enable_inductor_fusion()
    yield
    tile_ops.disable_inductor_fusion()
    torch._dynamo.reset()
    assert config.post_grad_custom_pre_pass is None


class Watch(CustomGraphPass):
    """Keeps each graph."""

    def __init__(self, name=None):
        self.graphs = []
        self.name = name

    def __call__(self, graph):
        self.graphs.append([node.target for node in graph.nodes if node.op == "call_function"])

    def uuid(self):
        return self.name


def names(targets):
    """The names of our operators among a graph's nodes."""
    return [target.__name__ for target in targets if getattr(target, "namespace", "") == "tile"]


def others(targets):
    return [target for target in targets if getattr(target, "namespace", "") in ("aten", "prims")]


def compiled(function, *args, dynamic=False, grad=False):
    """The result, the nodes of the forward graph after our pass, and the number of kernels that inductor made."""
    torch._dynamo.reset()
    metrics.reset()
    watch = Watch()
    with config.patch(post_grad_custom_post_pass=watch, force_disable_caches=True), torch.set_grad_enabled(grad):
        result = torch.compile(function, dynamic=dynamic, fullgraph=True)(*args)
    return result, watch.graphs[0], metrics.generated_kernel_count


def folds(function, *args, left=0, **kwargs):
    """Asserts that everything is folded but `left` nodes of torch, and the numerics rule."""
    result, nodes, kernels = compiled(function, *args, **kwargs)
    assert names(nodes) == ["matmul.default"]
    assert len(others(nodes)) == left, nodes
    assert kernels == (1 if left else 0)
    tile_ops.disable_inductor_fusion()
    _, before, kernels = compiled(function, *args, **kwargs)
    tile_ops.enable_inductor_fusion()
    assert len(others(before)) > left and kernels == 1
    check_values(function, result, args)
    return nodes


def check_values(function, result, args):
    """`function` as torch computes it, with torch.matmul in the place of ours."""
    def theirs(*args):
        global matmul
        matmul = lambda x, y, **options: torch.matmul(x, y)  # noqa: E731
        try:
            return function(*args)
        finally:
            matmul = ops.matmul

    check_call(lambda *a: result, theirs, args)


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("activation", list(ACTIVATIONS)[:5])
def test_the_whole_formula(activation, dtype):
    act = ACTIVATIONS[activation]
    folds(lambda x, y, bias, residual: act(matmul(x, y) * 0.5 + bias) + residual, *arguments(dtype))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, bias, residual: matmul(x, y) + bias,
        lambda x, y, bias, residual: bias + matmul(x, y),
        lambda x, y, bias, residual: matmul(x, y) + residual,
        lambda x, y, bias, residual: F.silu(matmul(x, y)),
        lambda x, y, bias, residual: F.silu(matmul(x, y)) + bias,
        lambda x, y, bias, residual: residual + F.relu(matmul(x, y) / 3),
        lambda x, y, bias, residual: ACTIVATIONS["x sigmoid(x)"](matmul(x, y) + bias),
        lambda x, y, bias, residual: matmul(x, y) * 2,
        lambda x, y, bias, residual: (matmul(x, y) + bias).to(torch.bfloat16),
        lambda x, y, bias, residual: torch.add(matmul(x, y), bias) + residual,
    ],
)
def test_parts_of_the_formula(function):
    folds(function, *arguments())


@pytest.mark.parametrize("shape", [(40,), (1, 40), (24, 1), (1,), (), (24, 40)])
def test_a_bias_that_broadcasts(shape):
    folds(lambda x, y, bias, residual: F.gelu(matmul(x, y) + bias) + residual, *arguments(bias=shape))


def test_options_that_are_there_already():
    x, y, bias, residual = arguments()
    result, nodes, kernels = compiled(
        lambda *a: F.silu(matmul(a[0], a[1], bias=a[2], alpha=0.5)) + a[3], x, y, bias, residual)
    assert names(nodes) == ["matmul.default"] and not others(nodes) and kernels == 0
    torch.testing.assert_close(result, F.silu(0.5 * (x @ y) + bias) + residual)


def test_linear_of_three_dimensions():
    x, weight, bias = torch.randn(2, 5, 16), torch.randn(40, 16), torch.randn(40)
    result, nodes, kernels = compiled(lambda *a: F.gelu(tile_ops.linear(*a)), x, weight, bias)
    assert names(nodes) == ["matmul.default"] and kernels == 0
    torch.testing.assert_close(result, F.gelu(F.linear(x, weight, bias)))


def test_casts():
    """Down at once; up, where the graph gives that."""
    args = arguments(torch.bfloat16)
    folds(lambda x, y, bias, residual: (matmul(x, y) + bias).float(), *args)
    folds(lambda x, y, bias, residual: F.gelu((matmul(x, y) + bias).float()), *args)
    wide = [*args[:2], args[2].float(), args[3].float()]
    folds(lambda x, y, bias, residual: F.silu(matmul(x, y).float() + bias) + residual, *wide)


def test_two_products_in_a_row():
    x, y, bias, residual = arguments()
    z = torch.randn(40, 24)

    def mlp(x, y, bias, z):
        return matmul(F.silu(matmul(x, y) + bias), z) + x @ x.t()

    result, nodes, _ = compiled(mlp, x, y, bias, z)
    assert names(nodes) == ["matmul.default"] * 2 and len(others(nodes)) == 2  # mm, permute
    torch.testing.assert_close(result, F.silu(x @ y + bias) @ z + x @ x.t(), rtol=1e-4, atol=1e-4)


def test_dynamic_shapes():
    x, y, bias, residual = arguments()

    def function(x, y, bias, residual):
        return F.gelu(matmul(x, y) + bias) + residual

    torch._dynamo.reset()
    metrics.reset()
    with torch.no_grad(), config.patch(force_disable_caches=True):
        fast = torch.compile(function, dynamic=True, fullgraph=True)
        for rows in (24, 7, 100):
            args = torch.randn(rows, 16), y, bias, torch.randn(rows, 40)
            check_values(function, fast(*args), args)
    assert metrics.generated_kernel_count == 0


# What is left alone

UNFOLDED = {
    "the product is used twice": lambda x, y, bias, residual: (matmul(x, y), lambda p: (F.relu(p), p.sin())),
    "a bias that makes it larger": lambda x, y, bias, residual: (matmul(x[:1], y), lambda p: p + residual),
    "a bias of another axis": lambda x, y, bias, residual: (matmul(x, y), lambda p: p.t() + bias[:24]),
    "a wider bias": lambda x, y, bias, residual: (matmul(x, y), lambda p: p + bias.double()),
    "a narrower bias": lambda x, y, bias, residual: (matmul(x, y), lambda p: p + bias.half()),
    "an integer bias": lambda x, y, bias, residual: (matmul(x, y), lambda p: p + bias.int()),
    "a factor of the bias": lambda x, y, bias, residual: (matmul(x, y), lambda p: torch.add(p, bias, alpha=2)),
    "a factor of the product in add": lambda x, y, bias, residual: (matmul(x, y), lambda p: torch.add(bias, p, alpha=2)),
    "itself": lambda x, y, bias, residual: (matmul(x, y), lambda p: p + p),
    "a number": lambda x, y, bias, residual: (matmul(x, y), lambda p: p + 1),
    "a tensor as factor": lambda x, y, bias, residual: (matmul(x, y), lambda p: p * bias),
    "a divided number": lambda x, y, bias, residual: (matmul(x, y), lambda p: 2 / p),
    "no factor for float32": lambda x, y, bias, residual: (matmul(x, y), lambda p: p * 1e-40),
    "an infinite factor": lambda x, y, bias, residual: (matmul(x, y), lambda p: p * float("inf")),
    "another activation": lambda x, y, bias, residual: (matmul(x, y), lambda p: F.elu(p)),
    "nearly gelu": lambda x, y, bias, residual: (matmul(x, y), lambda p: p * 0.5 * (1 + torch.erf(p * 0.7))),
    "float64 behind float32": lambda x, y, bias, residual: (matmul(x, y), lambda p: p.double().sin()),
    "another layout": lambda x, y, bias, residual: (matmul(x, y), lambda p: p.t() + residual.t()),
}


@pytest.mark.parametrize("what", UNFOLDED)
def test_left_alone(what):
    def function(*args):
        product, rest = UNFOLDED[what](*args)
        return rest(product)

    args = arguments()
    result, nodes, _ = compiled(function, *args)
    tile_ops.disable_inductor_fusion()
    expected, before, _ = compiled(function, *args)
    tile_ops.enable_inductor_fusion()
    assert nodes == before
    torch.testing.assert_close(result, expected)


def test_a_pre_activation_that_is_used_elsewhere():
    """The bias is folded, what comes behind it not."""
    def function(x, y, bias, residual):
        pre = matmul(x, y) + bias
        return F.silu(pre) + residual, pre

    args = arguments()
    result, nodes, kernels = compiled(function, *args)
    assert names(nodes) == ["matmul.default"] and torch.ops.aten.exp.default in nodes and kernels == 1
    torch.testing.assert_close(result, function(*args))


def test_an_activation_whose_inside_is_used_elsewhere():
    def function(x, y, bias, residual):
        pre = matmul(x, y)
        return pre * torch.sigmoid(pre), torch.sigmoid(pre)

    args = arguments()
    result, nodes, kernels = compiled(function, *args)
    assert torch.ops.aten.sigmoid.default in nodes and kernels == 1
    torch.testing.assert_close(result, function(*args))


def test_nothing_is_widened_for_a_kernel_that_remains():
    args = arguments(torch.bfloat16)
    _, nodes, kernels = compiled(lambda x, y, bias, residual: F.softplus(matmul(x, y)), *args)
    assert torch.ops.prims.convert_element_type.default in nodes and kernels == 1


def test_a_residual_that_is_written_afterwards():
    """The product stays before the write."""
    def function(x, y, bias, residual):
        out = F.relu(matmul(x, y) + bias) + residual
        residual.add_(1)
        x.mul_(2)
        return out

    args = arguments()
    ours, theirs = (copy.deepcopy(args) for _ in range(2))
    result, nodes, _ = compiled(function, *ours)
    torch.testing.assert_close(result, function(*theirs))
    torch.testing.assert_close(ours, theirs)


# add_rms_norm


def norm(x, residual, weight):
    total = x + residual
    return ops.rms_norm(total, [total.shape[-1]], weight, 1e-5), total


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_add_rms_norm(dtype, dynamic):
    args = [torch.randn(shape).to(dtype) for shape in ((6, 40), (6, 40), (40,))]
    result, nodes, kernels = compiled(norm, *args, dynamic=dynamic)
    assert names(nodes) == ["add_rms_norm.default"] and kernels == 0
    for ours, theirs in zip(result, norm(*args)):
        assert torch.equal(ours, theirs)


def test_add_rms_norm_of_a_training_graph():
    args = [torch.randn(shape, requires_grad=True) for shape in ((6, 40), (6, 40), (40,))]
    result, nodes, kernels = compiled(norm, *args, grad=True)
    assert names(nodes) == ["_add_rms_norm_saving.default"] and kernels == 0
    expected = norm(*args)
    for ours, theirs in zip(result, expected):
        assert torch.equal(ours, theirs)
    gradients = [torch.autograd.grad(sum(each.square().sum() for each in results), args) for results in (result, expected)]
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
def test_norms_left_alone(function):
    args = [torch.randn(shape) for shape in ((6, 40), (6, 40), (40,))]
    result, nodes, _ = compiled(function, *args)
    assert names(nodes) == ["rms_norm.default"]
    torch.testing.assert_close(result, function(*args))


def test_a_residual_goes_into_the_product_before_the_norm():
    def block(x, y, residual, weight):
        return norm(matmul(x, y), residual, weight)

    args = [torch.randn(shape) for shape in ((6, 8), (8, 40), (6, 40), (40,))]
    result, nodes, kernels = compiled(block, *args)
    assert names(nodes) == ["matmul.default", "rms_norm.default"] and kernels == 0
    torch.testing.assert_close(result, block(*args))


# Training


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activation", list(ACTIVATIONS)[:5])
def test_a_training_graph(activation, dtype):
    """The activation comes out of the operator that saves what enters it."""
    act = ACTIVATIONS[activation]

    def function(x, y, bias, residual):
        return act(matmul(x, y) + bias) + residual

    def theirs(x, y, bias, residual):
        return act(torch.matmul(x, y) + bias) + residual

    args = [each.requires_grad_() for each in arguments(dtype)]
    result, nodes, _ = compiled(function, *args, grad=True)
    expected = {"none": ["matmul.default"], "relu": ["matmul.default"]}
    assert names(nodes) == expected.get(activation, ["_matmul_saving.default"])
    assert [target for target in others(nodes) if target is not torch.ops.aten.le.Scalar] == (
        [torch.ops.aten.add.Tensor] if activation == "relu" else [])
    with config.patch(force_disable_caches=True):
        check_call(torch.compile(function), theirs, args)


# Switching it on and off


def test_passes_that_were_there_run_first_and_stay():
    tile_ops.disable_inductor_fusion()
    watch = Watch("mine")
    function, args = (lambda x, y, bias, residual: matmul(x, y) + bias), arguments()
    with config.patch(post_grad_custom_pre_pass=watch):
        tile_ops.enable_inductor_fusion()
        _, nodes, _ = compiled(function, *args)
        assert others(watch.graphs[0]) == [torch.ops.aten.add.Tensor] and not others(nodes)
        uuid = config.post_grad_custom_pre_pass.uuid()
        assert "mine" in uuid
        watch.name = "another"
        assert config.post_grad_custom_pre_pass.uuid() != uuid
        watch.name = None
        assert config.post_grad_custom_pre_pass.uuid() is None
        tile_ops.disable_inductor_fusion()
        assert config.post_grad_custom_pre_pass is watch


def test_a_pass_that_came_later_stays():
    function, args = (lambda x, y, bias, residual: matmul(x, y) + bias), arguments()
    ours, later = config.post_grad_custom_pre_pass, Watch("later")
    with config.patch(post_grad_custom_pre_pass=None):
        config.post_grad_custom_pre_pass = [ours, later]
        tile_ops.disable_inductor_fusion()
        assert config.post_grad_custom_pre_pass == [later]
        _, nodes, _ = compiled(function, *args)
        assert others(nodes) == [torch.ops.aten.add.Tensor]
    config.post_grad_custom_pre_pass = None


def test_twice_is_once():
    first = config.post_grad_custom_pre_pass
    tile_ops.enable_inductor_fusion()
    assert config.post_grad_custom_pre_pass is first
    tile_ops.disable_inductor_fusion()
    tile_ops.disable_inductor_fusion()
    assert config.post_grad_custom_pre_pass is None


def test_caches_know_whether_it_is_on(tmp_path, monkeypatch):
    """What is in inductor's cache of graphs does not serve the other setting."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    function, args = (lambda x, y, bias, residual: F.silu(matmul(x, y) + bias)), arguments()
    hits = []
    for on in (True, False, True, False):
        (tile_ops.enable_inductor_fusion if on else tile_ops.disable_inductor_fusion)()
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        with torch.no_grad(), config.patch(fx_graph_cache=True):
            torch.compile(function, fullgraph=True)(*args)
        counters = torch._dynamo.utils.counters
        hits.append(bool(counters["inductor"]["fxgraph_cache_hit"] or counters["aot_autograd"]["autograd_cache_hit"]))
    assert hits == [False, False, True, True]


def test_the_module_is_loaded_when_it_is_asked_for():
    import subprocess
    import sys

    code = "import sys, tile_ops; print([name for name in sys.modules if name.startswith('torch._inductor')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
