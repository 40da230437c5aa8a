"""torch.compile up to inductor's graphs: what our pass makes of them, without kernels being compiled; and with."""

import types

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from numerics import check_call
from torch._inductor import config, metrics
from torch._inductor.compile_fx import compile_fx
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.fx_passes.post_grad import post_grad_passes

TORCH = types.SimpleNamespace(matmul=torch.matmul, rms_norm=F.rms_norm, layer_norm=F.layer_norm, group_norm=F.group_norm)
OURS = types.SimpleNamespace(**{name: getattr(torch.ops.tile, name) for name in vars(TORCH)})
# The functions that tests call: ours, or torch's while a reference is computed.
ops = types.SimpleNamespace(**vars(OURS))


@pytest.fixture(autouse=True)
def fusion():
    torch._dynamo.reset()
    tile_ops.enable_inductor_fusion()
    yield
    tile_ops.disable_inductor_fusion()
    torch._dynamo.reset()
    assert config.post_grad_custom_pre_pass is None


def in_torch(function):
    """`function` with torch's functions in the place of ours."""

    def call(*args):
        vars(ops).update(vars(TORCH))
        try:
            return function(*args)
        finally:
            vars(ops).update(vars(OURS))

    return call


def check_values(function, result, args):
    """The numerics rule for a result of `function`."""
    check_call(lambda *a: result, in_torch(function), args)


class Watch(CustomGraphPass):
    """Keeps each graph."""

    def __init__(self, name=None):
        self.graphs = []
        self.name = name

    def __call__(self, graph):
        self.graphs.append(calls(graph))

    def uuid(self):
        return self.name


def calls(graph):
    return [node.target for node in graph.nodes if node.op == "call_function"]


def names(targets):
    """The names of our operators among a graph's nodes."""
    return [target.__name__.removesuffix(".default") for target in targets if getattr(target, "namespace", "") == "tile"]


def others(targets):
    return [target for target in targets if getattr(target, "namespace", "") in ("aten", "prims")]


def passed(function, dynamic=False):
    """`function` behind all passes of inductor, run node by node: no kernel is compiled. And the graphs."""
    graphs = []

    def run_nodes(gm, example_inputs, **options):
        post_grad_passes(gm, is_inference=options.get("is_inference", False))
        gm.graph.lint()
        gm.recompile()
        graphs.append(calls(gm.graph))
        return make_boxed_func(gm.forward)

    def backend(gm, example_inputs):
        return compile_fx(gm, example_inputs, inner_compile=run_nodes)

    torch._dynamo.reset()
    return torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True), graphs


def run(function, *args, dynamic=False, grad=False):
    """The result, and the nodes of the forward graph."""
    fast, graphs = passed(function, dynamic)
    with torch.set_grad_enabled(grad):
        result = fast(*args)
    return result, graphs[0]


def kernels(function, *args):
    """The number of kernels that inductor makes, and the result."""
    torch._dynamo.reset()
    metrics.reset()
    with torch.no_grad(), config.patch(force_disable_caches=True):
        result = torch.compile(function, fullgraph=True)(*args)
    return metrics.generated_kernel_count, result


def folds(function, *args, into=("matmul",), **kwargs):
    """Asserts that everything is folded, and the numerics rule."""
    result, nodes = run(function, *args, **kwargs)
    assert names(nodes) == list(into) and not others(nodes), nodes
    check_values(function, result, args)
