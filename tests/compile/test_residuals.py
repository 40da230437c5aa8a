"""Products compute the elementwise operators behind them and the residual sums before norms; no elementwise kernel is left."""

import functools
import pathlib
import sys

import compiled_calls
import pytest
import tile_ops
import torch
import torch.nn.functional as F
from combinations import by_turns
from numerics import check_call
from tile_ops._compile import scheduling, templates

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

import compiled_cases  # noqa: E402
import model_families  # noqa: E402

OURS = {"products": "tile"}


@pytest.fixture(autouse=True)
def no_caches(uncached):
    """Code that is found in a cache is not shown."""


def block(norm, product, x, up, down, scale, bias):
    for _ in range(2):
        h = F.silu(norm(x, scale) @ up)
        x = x + product(h, down, bias)
    return norm(x, scale)


def rms_norm(x, scale):
    return F.rms_norm(x, (48,), scale)


def layer_norm(x, scale):
    return F.layer_norm(x, (48,), scale)


BLOCKS = {
    "rms_norm": (rms_norm, lambda h, down, bias: h @ down),
    "layer_norm": (layer_norm, lambda h, down, bias: F.linear(h, down.t(), bias)),
    "a bias apart": (layer_norm, lambda h, down, bias: h @ down + bias),  # on a GPU inductor makes this of F.linear
}


def arguments(dtype=torch.float32, trains=False):
    shapes = (3, 33, 48), (48, 70), (70, 48), (48,), (48,)
    return [(torch.randn(shape) / shape[0] ** 0.5).to(dtype).requires_grad_(trains) for shape in shapes]


@pytest.mark.parametrize("name", BLOCKS)
def test_a_residual_is_added_by_the_product(name):
    tile_ops.compile_report(reset=True)
    compiled_calls.compiled(functools.partial(block, *BLOCKS[name]), options=OURS)(*arguments())
    (graph,) = tile_ops.compile_report(reset=True).graphs
    texts = [each.epilogue for each in graph.products for _ in range(each.launches)]
    assert len(texts) == 4 and all("x0" in text or "exp" in text for text in texts), graph
    # All norms are one kernel, because each reads one array.
    assert [each.launches for each in graph.kernels] == [3], graph


@pytest.mark.parametrize(
    "name, dtype, trains",
    by_turns(BLOCKS.keys(), [torch.float32, torch.bfloat16], {"training": True, "inference": False}, kept=2),
)
def test_blocks_agree(name, dtype, trains):
    function = functools.partial(block, *BLOCKS[name])
    check_call(compiled_calls.compiled(lambda *args: function(*args), options=OURS), function, arguments(dtype, trains))


def test_sums_of_other_shapes_agree():
    def function(x, a, b):
        one = x @ a
        spread = one[:, None] + b  # more elements than the product
        turned = one.t() + b.sum(0)[:, None]
        return spread.sum(1), turned.mean(0), (one + 1).amax(1), (one + one.detach()).sum()

    args = [torch.randn(shape).requires_grad_() for shape in ((33, 20), (20, 45), (7, 45))]
    check_call(compiled_calls.compiled(function, options=OURS), function, args)


def lone_readers(monkeypatch, case):
    """Returns the operators of each kernel without a reduction that reads a product of ours."""
    found, own = [], scheduling.TileScheduling.codegen_node_schedule

    def noted(self, features):
        nodes = list(features.scheduler_nodes())
        buffers = [self.scheduler.name_to_buf.get(read.name) for node in nodes for read in node.read_writes.reads]
        made = [buffer.defining_op.node for buffer in buffers if buffer is not None and buffer.defining_op is not None]
        if any(isinstance(each, templates.TileProduct) for each in made) and not any(node.is_reduction() for node in nodes):
            origins = (origin.target for node in nodes for origin in node.node.get_origins())
            found.append({target.overloadpacket.__name__ for target in origins if isinstance(target, torch._ops.OpOverload)})
        return own(self, features)

    monkeypatch.setattr(scheduling.TileScheduling, "codegen_node_schedule", noted)
    work = compiled_cases.make(case, "cpu", torch.bfloat16, "tiny")
    work.results(compiled_calls.compiled(work.function, options=OURS))
    return found


@pytest.mark.at_home
@pytest.mark.slow  # models are compiled
@pytest.mark.parametrize("way", [pytest.param("inference", marks=pytest.mark.long), "training"])
@pytest.mark.parametrize(
    "name", ["Llama", *(pytest.param(name, marks=pytest.mark.long) for name in ("GPT-2", "BERT", "ViT-L"))]
)
def test_no_kernel_of_elements_alone_reads_a_product_of_a_model(name, way, monkeypatch):
    if package := model_families.lacking(name):
        pytest.importorskip(package)
    found = lone_readers(monkeypatch, f"{name}, {way}")
    if name == "Llama":  # a rotary embedding reads two points of the product for each that it writes
        found = [each for each in found if not each & {"neg", "cat", "cos"}]
        assert all("mul" in each and "unsqueeze" in each for each in found), found
    else:
        assert not found
