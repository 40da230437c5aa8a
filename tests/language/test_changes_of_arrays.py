"""Tests arrays and defaults that a kernel reads while it is compiled: equal new ones compile nothing, and their changes are
seen, too."""

import pytest
import torch
from notebook import Notebook

KERNEL = """
@tl.kernel
def kernel(x, out):
    tl.store(out, 0, helper(tl.load(x, 0, 4)))
"""
# (what makes an array A of one element 2, a helper that multiplies by it)
READ = {
    "a global": ("A = numpy.array([2])", "def helper(t): return t * tl.static_eval(int(A[0]))"),
    "a number": ("A = numpy.array(2)", "def helper(t): return t * A"),
    "a closure": (
        "def make():\n    A = numpy.array([2])\n    def helper(t): return t * tl.static_eval(int(A[0]))\n"
        "    return helper, A\nhelper, A = make()",
        "",
    ),
    "an item of a tuple": ("A = numpy.array([2])\nC = (A, 1)", "def helper(t): return t * tl.static_eval(int(C[0][0]))"),
    "a field": (
        "A = numpy.array([2])\nc = Config(A)",
        "@dataclasses.dataclass(frozen=True)\nclass Config: a: object\ndef helper(t): return t * tl.static_eval(int(c.a[0]))",
    ),
    "an attribute of a class": (
        "A = numpy.array([2])\nConfig.A = A",
        "class Config: pass\ndef helper(t): return t * tl.static_eval(int(Config.A[0]))",
    ),
}


def launched(notebook):
    x, out = torch.ones(4), torch.zeros(4)
    notebook["kernel"][1](x, out)
    return out[0].item()


@pytest.mark.parametrize("name", READ)
def test_an_equal_array_that_changes(name):
    make, helper = READ[name]
    notebook = Notebook(helper)
    notebook.run(KERNEL)
    for changed in (5, 7):
        notebook.run(make)
        assert launched(notebook) == 2
        notebook.run(make)
        assert launched(notebook) == 2
        notebook.run(f"A[...] = {changed}")
        assert launched(notebook) == changed
    assert notebook["kernel"].compiled_count == 4  # the first state is gone: its array has changed


def test_equal_defaults_that_change():
    notebook = Notebook()
    notebook.run(KERNEL)
    for _ in range(2):
        notebook.run("def helper(t, *, m=2): return t * m")
        assert launched(notebook) == 2
    assert notebook["kernel"].compiled_count == 1
    notebook.run("helper.__kwdefaults__['m'] = 5")
    assert launched(notebook) == 5


def test_arrays_that_are_replaced_are_forgotten():
    notebook = Notebook("def helper(t): return t * tl.static_eval(int(A[0]) + B.shape[0])")
    notebook.run(KERNEL)
    for _ in range(20):
        notebook.run("A, B = numpy.array([2, 3]), torch.zeros(1)")
        assert launched(notebook) == 3
    assert notebook["kernel"].compiled_count == 1
    (generation,) = notebook["kernel"]._capture._generations.values()
    assert sum(entry.kind == "array" for entry in generation.entries.values()) <= 4
