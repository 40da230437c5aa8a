"""tile_ops.enable_inductor_fusion(): switching it on and off, next to passes of others, and inductor's caches."""

import subprocess
import sys

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from inductor_graphs import Watch, fusion, ops, others, run  # noqa: F401
from torch._inductor import config

aten = torch.ops.aten


def biased(x, y, bias):
    return ops.matmul(x, y) + bias


@pytest.fixture
def args():
    return [torch.randn(shape) for shape in ((24, 16), (16, 40), (40,))]


def test_passes_that_were_there_run_first_and_stay(args):
    tile_ops.disable_inductor_fusion()
    watch = Watch("mine")
    with config.patch(post_grad_custom_pre_pass=watch):
        tile_ops.enable_inductor_fusion()
        _, nodes = run(biased, *args)
        assert others(watch.graphs[0]) == [aten.add.Tensor] and not others(nodes)
        uuid = config.post_grad_custom_pre_pass.uuid()
        assert "mine" in uuid
        watch.name = "another"
        assert config.post_grad_custom_pre_pass.uuid() != uuid
        watch.name = None
        assert config.post_grad_custom_pre_pass.uuid() is None
        tile_ops.disable_inductor_fusion()
        assert config.post_grad_custom_pre_pass is watch


def test_a_plain_function_as_pass(args):
    """Inductor does not cache a graph that a pass without uuid has seen; ours does not change that."""
    tile_ops.disable_inductor_fusion()
    seen = []
    with config.patch(post_grad_custom_pre_pass=seen.append):
        tile_ops.enable_inductor_fusion()
        assert config.post_grad_custom_pre_pass.uuid() is None
        _, nodes = run(biased, *args)
        assert len(seen) == 1 and not others(nodes)
        tile_ops.disable_inductor_fusion()


def test_a_post_pass_sees_what_is_folded(args):
    watch = Watch("mine")
    with config.patch(post_grad_custom_post_pass=watch):
        run(biased, *args)
        assert config.post_grad_custom_post_pass is watch
    assert watch.graphs and not others(watch.graphs[0])


def test_a_pass_that_came_later_stays(args):
    ours, later = config.post_grad_custom_pre_pass, Watch("later")
    with config.patch(post_grad_custom_pre_pass=None):
        config.post_grad_custom_pre_pass = [ours, later]
        tile_ops.disable_inductor_fusion()
        assert config.post_grad_custom_pre_pass == [later]
    config.post_grad_custom_pre_pass = None


def test_a_pass_that_keeps_ours(args):
    """It stays and calls ours, which then does nothing; switched on again, ours runs behind it."""

    class Around(Watch):
        def __call__(self, graph):
            self.inner(graph)
            super().__call__(graph)

    around = Around("around")
    around.inner = config.post_grad_custom_pre_pass
    config.post_grad_custom_pre_pass = around
    tile_ops.disable_inductor_fusion()
    assert config.post_grad_custom_pre_pass is around
    _, nodes = run(biased, *args)
    assert others(nodes) == others(around.graphs[0]) == [aten.add.Tensor]
    tile_ops.enable_inductor_fusion()
    _, nodes = run(biased, *args)
    assert others(around.graphs[1]) == [aten.add.Tensor] and not others(nodes)
    tile_ops.disable_inductor_fusion()
    assert config.post_grad_custom_pre_pass is around
    config.post_grad_custom_pre_pass = None


def test_twice_is_once():
    first = config.post_grad_custom_pre_pass
    tile_ops.enable_inductor_fusion()
    assert config.post_grad_custom_pre_pass is first
    tile_ops.disable_inductor_fusion()
    tile_ops.disable_inductor_fusion()
    assert config.post_grad_custom_pre_pass is None


def test_only_ours_off_and_on(args):
    _, nodes = run(biased, *args)
    assert not others(nodes)
    tile_ops.disable_inductor_fusion()
    _, nodes = run(biased, *args)
    assert others(nodes) == [aten.add.Tensor]
    tile_ops.enable_inductor_fusion()
    _, nodes = run(biased, *args)
    assert not others(nodes)


@pytest.mark.slow
def test_caches_know_whether_it_is_on(tmp_path, monkeypatch, args):
    """Inductor does not take a graph from its cache that was compiled with the other setting."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    hits = []
    for on in (True, False, True, False):
        (tile_ops.enable_inductor_fusion if on else tile_ops.disable_inductor_fusion)()
        torch._dynamo.reset()
        counters = torch._dynamo.utils.counters
        counters.clear()
        with torch.no_grad(), config.patch(fx_graph_cache=True):
            result = torch.compile(lambda x, y, bias: F.silu(ops.matmul(x, y) + bias), fullgraph=True)(*args)
        torch.testing.assert_close(result, F.silu(args[0] @ args[1] + args[2]))
        hits.append(bool(counters["inductor"]["fxgraph_cache_hit"] or counters["aot_autograd"]["autograd_cache_hit"]))
    assert hits == [False, False, True, True]


@pytest.mark.slow  # starts a process
def test_inductor_is_loaded_when_it_is_asked_for():
    code = "import sys, tile_ops; print([name for name in sys.modules if name.startswith('torch._inductor')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
