"""Tests that operators, tuned kernels, threads and torch.compile see changed code and constants."""

import threading

import pytest
import tile_ops
import torch
from notebook import Notebook
from tile_ops.language.tuning import table, tuned


@pytest.fixture(autouse=True)
def no_disk(monkeypatch):
    """Keeps tuning results in memory, so that tests do not share them."""
    kept = {}
    monkeypatch.setattr(table, "cache_load", kept.get)
    monkeypatch.setattr(table, "cache_store", kept.__setitem__)
    return kept


def count(name):
    """Returns the number of kernels compiled for an operator and its gradient."""
    counts = tile_ops._C.compiled_kernels()
    return counts.get(name, 0) + counts.get(f"{name}_backward", 0)


def test_elementwise():
    notebook = Notebook("def helper(x): return x * SCALE\nSCALE = 2")
    notebook.run("""
        import tile_ops
        @tile_ops.elementwise("changes::scaled(Tensor x, float a=1.0) -> Tensor")
        def scaled(x, a):
            return helper(x) * a
    """)
    x = torch.full((3,), 5.0, requires_grad=True)
    for text, want in [
        ("", 2), ("SCALE = 3", 3), ("SCALE = 2", 2), ("def helper(x): return x * 7", 7), ("def helper(x): return x * SCALE", 2),
    ]:  # fmt: skip
        notebook.run(text)
        for call in (notebook["scaled"], torch.ops.changes.scaled):
            x.grad = None
            result = call(x)
            result.sum().backward()
            assert result.tolist() == [5 * want] * 3 and x.grad.tolist() == [want] * 3
    assert count("changes::scaled") == 6


def test_the_dtype_of_a_result():
    notebook = Notebook("def helper(x): return x * 2")
    notebook.run("""
        import tile_ops
        @tile_ops.elementwise("changes::typed(Tensor x) -> Tensor")
        def typed(x):
            return helper(x)
    """)
    assert notebook["typed"](torch.ones(2)).dtype == torch.float32
    notebook.run("def helper(x): return x > 0")
    assert notebook["typed"](torch.ones(2)).tolist() == [True] * 2


def test_reductions():
    notebook = Notebook("SCALE, START = 2, 0\ndef helper(x): return x * SCALE")
    notebook.run("""
        import tile_ops
        @tile_ops.reduction("changes::reduced(Tensor x) -> Tensor")
        class reduced:
            identity = 0
            def map(x): return helper(x)
            def combine(a, b): return add(a, b)
            def finish(total): return total + START
        def add(a, b): return a + b
    """)
    x = torch.tensor([1.0, 2.0, 3.0])
    maximum = "def add(a, b): return tl.maximum(a, b)"
    for text, want in [("", 12), ("SCALE = 3", 18), ("START = 1", 19), (maximum, 10), ("SCALE = 2", 7)]:
        notebook.run(text)
        assert notebook["reduced"](x).item() == want


def test_operators_of_kernels():
    notebook = Notebook("SCALE = 2\ndef helper(x): return x * SCALE")
    notebook.run("""
        import tile_ops
        @tl.kernel
        def kernel(x, out):
            tl.store(out, 0, helper(tl.load(x, 0, 4)))
        @tile_ops.op("changes::launched(Tensor x) -> Tensor", outputs="x")
        def launched(x, out):
            kernel[1](x, out)
    """)
    compiled = torch.compile(lambda x: notebook["launched"](x) + 1, fullgraph=True)
    expression = tile_ops.elementwise("changes::compiled(Tensor x) -> Tensor")(notebook["helper"])
    other = torch.compile(lambda x: expression(x) + 1, fullgraph=True)
    for scale in (2, 3, 2):
        notebook.names["SCALE"] = scale
        assert notebook["launched"](torch.ones(4)).tolist() == [scale] * 4
        assert compiled(torch.ones(4)).tolist() == other(torch.ones(4)).tolist() == [scale + 1] * 4
    assert notebook["kernel"].compiled_count == 2


def test_threads_without_the_interpreter():
    """Changes a constant while several threads, and those of autograd, call the operator."""
    notebook = Notebook("SCALE = 1\ndef helper(x): return x * SCALE")
    expression = tile_ops.elementwise("changes::threads(Tensor x) -> Tensor")(notebook["helper"])
    wrong, done = [], threading.Event()

    def call():
        x = torch.ones(4, requires_grad=True)
        while not done.is_set():
            if (value := expression(x).sum().item()) not in (4, 8, 12):
                wrong.append(value)
            expression(x).sum().backward()

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for repeat in range(200):
        notebook.names["SCALE"] = repeat % 3 + 1
        if expression(torch.ones(4)).tolist() != [repeat % 3 + 1] * 4:
            wrong.append(repeat)
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tuned_kernels_measure_again(monkeypatch, no_disk):
    measured, order = [], [1.0, 2.0]

    def measure(candidates, device):
        measured.append(len(candidates))
        for candidate, us in zip(candidates, order):
            candidate.times += [us] * 5

    monkeypatch.setattr(tuned, "measure", measure)
    notebook = Notebook("SCALE = 2\ndef helper(x): return x * SCALE")
    notebook.run("""
        @tl.kernel
        def kernel(x, out, N: tl.Constant[int]):
            tl.store(out, tl.bid(0), helper(tl.load(x, tl.bid(0), N)))
        tuned = kernel.tune([{"N": 4}, {"N": 4, "occupancy": 2}])
    """)
    kernel, x, out = notebook["tuned"], torch.ones(4), torch.zeros(4)
    assert kernel.table(x, out) is None
    for scale, best in ((2, 0), (3, 1), (2, 0), (3, 1)):
        notebook.names["SCALE"] = scale
        order[:] = [1.0, 2.0] if best == 0 else [2.0, 1.0]
        for _ in range(2):
            kernel[1](x, out)
            assert out.tolist() == [scale] * 4 and kernel.table(x, out).best == best
    notebook.run("OTHER = 1")
    kernel[1](x, out)
    assert len(measured) == 2 == len(no_disk)  # one tuning table per version of the source
    again = notebook["kernel"].tune(kernel.configs)
    again[1](x, out)
    assert again.table(x, out).stored and again.table(x, out).best == 1 and len(measured) == 2
    notebook.run("def helper(x): return x * 5")
    again[1](x, out)
    assert out.tolist() == [5] * 4 and len(measured) == 3 == len(no_disk)
