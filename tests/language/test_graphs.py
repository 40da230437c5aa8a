"""Tests launches under torch.compile(fullgraph=True): operators that declare what a kernel writes, and rejected launches."""

import subprocess
import sys

import pytest
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch


@tl.kernel
def add(x, y, out, scale: float, n: int, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, (tl.load(x, i, N) + tl.load(y, i, N)) * scale + n)


@tl.kernel
def increment(x, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(x, i, tl.load(x, i, N) + 1)


@tl.kernel
def structured(pair, arrays, out, kind: tl.Constant, N: tl.Constant[int]):
    t = tl.load(pair[0], 0, N).astype(kind) * pair[1] + tl.load(arrays[1], 0, N)
    tl.store(out, 0, t.astype(out.dtype))


def launches(x, y):
    out = torch.empty_like(x)
    add[(x.numel() + 15) // 16](x, y, out, 2.0, 3, 16)
    increment[lambda x, N: (tl.cdiv(x.shape[0], N),)](out, 16)
    increment.launch((tl.cdiv(out.shape[0], 16),), out, 16)
    return out * 2


def graph_of(function, *arguments):
    """Returns the result, and the calls in the graph, of which there must be only one."""
    found = []

    def backend(module, _):
        found.append([str(node.target) for node in module.graph.nodes if node.op == "call_function"])
        return module

    torch.compiler.reset()
    result = torch.compile(function, backend=backend, fullgraph=True)(*arguments)
    assert len(found) == 1
    return result, found[0]


def test_launches_are_calls_in_the_graph():
    x, y = torch.randn(2, 50)
    result, calls = graph_of(launches, x, y)
    assert torch.equal(result, launches(x, y)) and torch.equal(result, (((x + y) * 2 + 3) + 2) * 2)
    names = [each for each in calls if each.startswith("tile_launch.")]
    assert [name.split(".")[1].rpartition("_")[0] for name in names] == ["add", "increment", "increment"]
    operator = getattr(torch.ops.tile_launch, names[0].split(".")[1]).default
    assert str(operator._schema).split("(", 1)[1] == (
        "Tensor p0, Tensor p1, Tensor(a2!) p2, SymInt x, SymInt y, SymInt z) -> ()"
    )
    assert names[1] == names[2]  # similar launches share an operator


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_what_is_written_is_seen_by_the_compiler(backend):
    torch.compiler.reset()
    x, y = torch.randn(2, 50)

    def twice(x, y):
        before = x * 1
        increment[4](x, 16)  # writes the caller's tensor
        return before + x, launches(x, y)

    a, b = x.clone(), x.clone()
    expected, found = twice(a, y), torch.compile(twice, backend=backend, fullgraph=True)(b, y)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert torch.equal(a, b) and torch.equal(b, x + 1)


def test_extents_that_vary():
    torch.compiler.reset()
    compiled = torch.compile(launches, backend="aot_eager", fullgraph=True, dynamic=True)
    for size in (50, 64, 7, 100):
        x, y = torch.randn(2, size)
        assert torch.equal(compiled(x, y), launches(x, y))


def test_tuples_lists_and_constants():
    def call(x, y, dtype):
        out = torch.empty(16, dtype=torch.float64)
        structured[1]((x, 2.5), [x, y], out, dtype, 16)
        return out

    x, y = torch.randn(2, 16)
    for dtype in (torch.float32, tl.float64):
        result, _ = graph_of(lambda x, y, dtype=dtype: call(x, y, dtype), x, y)
        assert torch.equal(result, call(x, y, dtype))


def test_zeros_of_both_signs():
    x, outs = torch.ones(16), torch.empty(4, 16)

    @tl.kernel
    def divided(x, out, zero: float, constant: tl.Constant):
        tl.store(out, 0, tl.load(x, 0, 16) / zero + tl.load(x, 0, 16) / constant)

    def call(x, outs):
        for out, zero, constant in zip(outs.unbind(), (0.0, -0.0, 1.0, 1.0), (1.0, 1.0, 0.0, -0.0)):
            divided[()](x, out, zero, constant)  # () is a grid of one block
        return outs + 0

    result, _ = graph_of(call, x, outs)
    assert result[:, 0].tolist() == [torch.inf, -torch.inf] * 2


def test_programs_for_cutile():
    x, y, out = torch.randn(3, 64)
    kernel = ct.kernel(add._pyfunc)

    def call(x, y, out):
        ct.launch(0, (4,), kernel, (x, y, out, 2.0, 3, 16))
        return out + 0

    result, calls = graph_of(call, x, y, out)
    assert torch.equal(result, (x + y) * 2 + 3) and sum(each.startswith("tile_launch.add_") for each in calls) == 1


def refusal(function, *arguments):
    torch.compiler.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported) as error:
        torch.compile(function, backend="eager", fullgraph=True)(*arguments)
    return str(error.value)


def test_what_is_refused_says_how_to_make_an_operator():
    x = torch.randn(16)
    text = refusal(lambda x: increment[1](x), x)
    assert "A launch of increment cannot be part of a graph: missing a required argument: 'N'." in text
    assert "Wrap the code that launches it in an operator with @tile_ops.op" in text
    text = refusal(lambda x: increment[1](x, 0), x)
    assert "cannot be part of a graph: TileTypeError: " in text and "@tile_ops.op" in text
    tuned = increment.tune([{"N": 16}])
    assert "@tile_ops.op" in refusal(lambda x: tuned[1](x), x)
    assert torch.equal(torch.compile(lambda x: increment[1](x, 16), backend="eager")(x) or x, x)


def test_kernels_import_no_dynamo():
    program = "import sys, tile_ops.language; sys.exit('torch._dynamo.variables.builder' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
