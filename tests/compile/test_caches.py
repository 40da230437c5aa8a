"""Inductor's caches of graphs: ours and its own stay apart, and a second process finds ours."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import tile_ops
import torch
from tile_ops._compile import cache_key
from tile_ops._compile.cache_key import Pass, patched
from tile_ops._compile.launch import tile_call, tile_kernel
from torch._inductor.custom_graph_pass import CustomGraphPass

PROGRAM = """
import json, sys
import tile_ops, torch
from torch._dynamo.utils import counters

torch.manual_seed(0)
device, *backends = sys.argv[1:]
found = []
for name in backends:
    name, _, products = name.partition("/")
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    x, w = torch.randn(30, 40, device=device, requires_grad=True), torch.randn(40, 50, device=device)
    options = {"options": {"products": products}} if products else {}
    v = torch.randn(40, 50, device=device) / 1000
    y = torch.compile(lambda x: ((x @ w * 2 + 1).relu() * (x @ v)).sum(-1), backend=name, **options)(x)
    y.sum().backward()
    inductor = counters["inductor"]
    made = {kind: inductor[f"fxgraph_cache_{kind}"] for kind in ("hit", "miss", "bypass")}
    found.append(made | {"sum": y.sum().item(), "gradient": x.grad.sum().item()})
print(json.dumps(found))
"""


def run(folder, device, *backends):
    """Returns for each backend the hits and misses of its two graphs, and its results, in a process of their own."""
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(folder), "TORCHINDUCTOR_FX_GRAPH_CACHE": "1"}
    environment |= {"TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    command = [sys.executable, "-c", PROGRAM, device.type, *backends]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def counts(found):
    return [(each["hit"], each["miss"], each["bypass"]) for each in found]


@pytest.mark.slow
def test_a_second_process_finds_our_graphs(device, tmp_path):
    first = run(tmp_path, device, "tile", "tile/tile", "tile")
    assert counts(first) == [(0, 2, 0), (0, 2, 0), (2, 0, 0)]
    second = run(tmp_path, device, "tile", "tile/tile")
    assert counts(second) == [(2, 0, 0), (2, 0, 0)]
    for one, other in zip(first, second):
        assert (one["sum"], one["gradient"]) == (other["sum"], other["gradient"])


@pytest.mark.slow
@pytest.mark.parametrize("order", [pytest.param(("tile", "inductor"), marks=pytest.mark.long), ("inductor", "tile")])
def test_ours_and_inductors_graphs_stay_apart(order, device, tmp_path):
    found = run(tmp_path, device, *order, *order)
    assert counts(found) == [(0, 2, 0), (0, 2, 0), (2, 0, 0), (2, 0, 0)]
    assert len({round(each["sum"], 2) for each in found}) == 1


class Before(CustomGraphPass):
    def __init__(self, name):
        self.name, self.calls = name, 0

    def __call__(self, graph):
        self.calls += 1

    def uuid(self):
        return self.name


def test_a_pass_of_the_user_runs_before_ours_and_is_in_the_key(device):
    name = "post_grad_custom_pre_pass"
    keys = {patched({name: Before(each)}, {}, None)[name].uuid() for each in "ab"}
    keys |= {Pass(None, {}).uuid(), Pass(None, {"products": "tile"}).uuid()}
    assert len(keys) == 4
    assert Pass(Before(None), {}).uuid() is None and Pass(lambda graph: None, {}).uuid() is None
    before = Before("before")
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False, post_grad_custom_pre_pass=before):
        torch.compile(lambda x: x * 2 + 1, backend="tile")(torch.ones(3))
    assert before.calls == 1
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False):
        torch.compile(lambda x: x * 2 - 1, backend="tile", options={"post_grad_custom_pre_pass": before})(torch.ones(3))
    assert before.calls == 2


def test_kernels_of_one_name_keep_their_sources():
    """Modules of a cache come from several processes, each of which numbers its kernels from 0."""

    def text(change):
        return f"def k(a0, o1):\n    tl.store(o1, (0,), tl.load(a0, (0,), (4,)) {change})\n"

    layout = tuple(("array", which, 0, (4,), (1,)) for which in (0, 1))
    calls = [tile_call(tile_kernel("k", text(change)), layout, (1, 1, 1)) for change in ("+ 1", "* 10")]
    results = [torch.zeros(4) for _ in calls]
    for call, result in zip(calls, results):
        call(torch.ones(4), result)
    assert [result.tolist() for result in results] == [[2] * 4, [10] * 4]


def test_the_key_follows_the_sources():
    folder = pathlib.Path(tile_ops.__file__).parent
    assert {folder / "_compile" / "kernel.py", folder / "_products.py"} <= set(cache_key.sources())
    assert len(cache_key.version()) == 64 and cache_key.version() in Pass(None, {}).uuid()
