"""Code for a GPU that is made in threads while a graph is generated is the code that the launches then ask for."""

import re

import fresh_process
import pytest
import torch
import torch.nn.functional as F
from tile_ops import _C
from tile_ops._compile import ahead, launch
from torch.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.usefixtures("uncached")


def texts(call):
    return {row["text"] for row in _C.inspect("usual", 90, 0, call)}


def standing_in(value):
    if not isinstance(value, torch.Tensor):
        return value
    return ahead.stand_in(value.dtype, value.storage_offset(), value.shape, value.stride())


@pytest.fixture
def made(monkeypatch):
    """The sources of a graph on the CPU, as for a GPU: those that are compiled ahead, and those that are launched."""
    found = {"ahead": set(), "launched": set()}

    def compile_launches(device, call):
        found["ahead"] |= texts(call)

    def recording(call):
        def run(*args):
            found["launched"] |= texts(lambda: call(*map(standing_in, args)))
            return call(*args)

        return run

    ahead.compile_kernel.cache_clear()
    ahead.compile_product.cache_clear()
    monkeypatch.setattr(ahead, "compile_launches", compile_launches)
    monkeypatch.setattr(launch, "tile_call", lambda *args, own=launch.tile_call: recording(own(*args)))
    torch._dynamo.reset()
    return found


def columns(x):
    return x[:, 1:].exp().sum(0) + x[0, 1:]


GRAPHS = {
    "a chain": (lambda x: F.gelu(x) * 2 + x.flip(0), False),
    "rows": (lambda x: x.softmax(-1), False),
    "columns of a slice": (columns, False),
    "sizes that vary": (lambda x: (x * x.shape[0]).softmax(-1) + 1, True),
    "gathered elements": (lambda x: x[:, torch.arange(5) * 3 % 4].sum(), False),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_launches_ask_for_the_code_that_was_made(name, made):
    function, varies = GRAPHS[name]
    torch.compile(function, backend="tile", dynamic=varies, fullgraph=True)(torch.randn(37, 50))
    assert made["launched"] and made["launched"] <= made["ahead"]


def kept_pair(x):
    one, two = x[:, :20] @ x[:20, :24], x[:, :20] @ x[2:22, :24]
    return F.silu(one) * two, one, two


PRODUCTS = {
    "one": lambda x: F.relu(x @ x[:24] + x[0]) + 1,
    "a pair": lambda x: F.silu(x @ x[:24]) * (x @ x[1:25]),
    "a pair that others read": kept_pair,
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_ask_for_the_code_that_was_made(name, made, monkeypatch):
    calls = []
    own = torch.ops.tile._matmul_into

    class Into:
        default = own.default

        def __call__(self, *args, **kwargs):
            calls.append((args, kwargs))
            return own(*args, **kwargs)

    function = torch.compile(PRODUCTS[name], backend="tile", options={"products": "tile"})
    monkeypatch.setattr(torch.ops.tile, "_matmul_into", Into())
    function(torch.randn(37, 24))
    args, kwargs = calls[-1]  # those before are the compiler's
    args, kwargs = torch.utils._pytree.tree_map(standing_in, (args, kwargs))
    assert (kwargs.get("second") is not None) == (name != "one")
    assert texts(lambda: own(*args, **kwargs)) <= made["ahead"]


def test_operators_of_a_graph_are_compiled_once(made):
    def layers(x, weight):
        for _ in range(3):
            x = torch.ops.tile.rms_norm(x, [50], weight)
        return torch.ops.tile.softmax(x, -1)

    x, weight = torch.randn(37, 50), torch.randn(50)
    graph = make_fx(layers, tracing_mode="fake")(x, weight).graph
    compiled = []
    call = ahead.compile_launches
    try:
        ahead.compile_launches = lambda device, launch: compiled.append(texts(launch))
        ahead.compile_operators(graph)
    finally:
        ahead.compile_launches = call
    x, weight = standing_in(x), standing_in(weight)
    assert compiled == [texts(lambda: torch.ops.tile.rms_norm(x, [50], weight)), texts(lambda: torch.ops.tile.softmax(x, -1))]


PROGRAM = """
import torch
from tile_ops import _C
from tile_ops._compile import ahead

ahead._target = lambda index: (90, 0)
x = ahead.stand_in(torch.float32, 0, (5, 7), (7, 1))
assert ahead.compile_launches(torch.device("cpu"), lambda: torch.ops.tile.softmax(x, -1)) is None
future = ahead.compile_launches(torch.device("cuda", 0), lambda: torch.ops.tile.softmax(x, -1))
assert future is None or future.result() is None
kept = _C.cache_info()["entries"]
_C.inspect("code", 90, 0, lambda: torch.ops.tile.softmax(x, -1))
print("codes", kept, "more", _C.cache_info()["entries"] - kept)
"""


@pytest.mark.parametrize("folder, output", [("cache", r"codes [1-9]\d* more 0\n"), ("program.py/cache", r"codes 0 more 0\n")])
def test_a_launch_finds_the_code_on_disk(folder, output, tmp_path):
    """Threads compile nothing if the cache's folder cannot be made, here because its parent is a file: no launch could find the
    code."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    status, written = fresh_process.run(program, tmp_path, TILE_CACHE_DIR=str(tmp_path / folder))
    assert status == 0 and re.fullmatch(output, written), written
