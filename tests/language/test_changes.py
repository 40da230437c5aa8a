"""Tests that a launch sees changes of code and constants that its kernel read from Python; reverting compiles nothing."""

import sys
import threading
import types

import pytest
import tile_ops
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch
from notebook import Notebook

KERNEL = """
@tl.kernel
def kernel(x, out):
    tl.store(out, 0, helper(tl.load(x, 0, 4)))
"""


def launched(kernel, *arguments, size=4, dtype=torch.float32):
    """Returns the result of a launch on ones, whose elements must all be equal."""
    x, out = torch.ones(size, dtype=dtype), torch.zeros(size, dtype=dtype)
    kernel[1](x, out, *arguments)
    debugged = torch.zeros(size, dtype=dtype)
    kernel.debug(1, x, debugged, *arguments)
    assert torch.equal(out, debugged)
    (value,) = set(out.tolist())
    return value


# (the first cells, [(a further cell, the expected result after it)], the number of compilations)
HISTORIES = {
    "a global": (
        "SCALE = 2.0\ndef helper(t): return t * SCALE",
        [("", 2), ("SCALE = 3.0", 3), ("SCALE = 2.0", 2), ("SCALE = 3", 3), ("SCALE = float('3')", 3)],
        3,
    ),
    "a helper": (
        "def helper(t): return t * 2",
        [("", 2), ("def helper(t): return t * 3", 3), ("def helper(t): return t * 2", 2), ("helper = lambda t: t * 5", 5)],
        3,
    ),
    "a helper of a helper": (
        "def inner(t): return t + 1\ndef helper(t): return inner(t) * 2",
        [("", 4), ("def inner(t): return t + 2", 6), ("def helper(t): return inner(t)", 3)],
        3,
    ),
    "a global that only a deep call reads": (
        "N = 2\ndef helper(t, depth=40):\n    if depth: return helper(t, depth - 1)\n    return t * N * tl.static_eval(N)",
        [("", 4), ("N = 3", 9), ("N = 2", 4)],
        2,
    ),
    "the order of a dictionary": (
        "D = {'a': 2.0, 'b': 3.0}\ndef helper(t):\n    for v in tl.static_iter(tuple(D.values())): t = t * v + 1\n    return t",
        [("", 10), ("D['a'] = D.pop('a')", 9), ("D['b'] = D.pop('b')", 10)],
        2,
    ),
    "defaults": (
        "def helper(t, n=2, *, m=1): return t * n + m",
        [
            ("", 3),
            ("helper.__defaults__ = (5,)", 6),
            ("helper.__kwdefaults__['m'] = 2", 7),
            ("helper.__kwdefaults__ = {'m': 1}", 6),
        ],
        4,
    ),
    "code that is exchanged": (
        "def helper(t): return t * 2\ndef other(t): return t * 7",
        [("", 2), ("helper.__code__ = other.__code__", 7)],
        2,
    ),
    "a closure": (
        "def make(n):\n    def helper(t): return t * n\n    def change(m):\n        nonlocal n\n        n = m\n"
        "    return helper, change\nhelper, change = make(2)",
        [("", 2), ("change(9)", 9), ("change(2)", 2), ("helper, change = make(2)", 2), ("change(4)", 4), ("change(2)", 2)],
        3,
    ),
    "a class": (
        "class Config:\n    SCALE = 2\ndef helper(t): return t * Config.SCALE",
        [("", 2), ("Config.SCALE = 3", 3), ("Config.SCALE = 2", 2), ("class Config:\n    SCALE = 4", 4)],
        3,
    ),
    "a class's base": (
        "class Base:\n    SCALE = 2\nclass Config(Base): pass\ndef helper(t): return t * Config.SCALE",
        [("", 2), ("Base.SCALE = 3", 3), ("Config.SCALE = 4", 4), ("del Config.SCALE", 3)],
        3,
    ),
    "an enumeration": (
        "class Mode(enum.Enum):\n    A = 2\n    B = 3\nMODE = Mode.A\ndef helper(t): return t * MODE.value",
        [("", 2), ("MODE = Mode.B", 3), ("MODE = Mode.A", 2)],
        2,
    ),
    "a frozen dataclass": (
        "@dataclasses.dataclass(frozen=True)\nclass Config:\n    scale: int\n    def apply(self, t): return t * self.scale\n"
        "config = Config(2)\ndef helper(t): return config.apply(t)",
        [("", 2), ("config = Config(3)", 3), ("config = Config(2)", 2), ("Config.apply = lambda self, t: t + self.scale", 3)],
        3,
    ),
    "a dtype and a shape": (
        "DTYPE, SHAPE = tl.int32, (4,)\ndef helper(t): return (tl.full(SHAPE, 2.5, DTYPE) * t).astype(t.dtype)",
        [("", 2), ("DTYPE = tl.float32", 2.5), ("DTYPE = torch.int32", 2), ("SHAPE = (1,)", 2)],
        4,
    ),
    "numbers of NumPy": (
        "N = numpy.int32(2)\nA = numpy.array(3)\ndef helper(t): return t * N * A",
        [("", 6), ("N = numpy.int32(4)", 12), ("N = numpy.int32(2)", 6), ("A[...] = 5", 10)],
        3,
    ),
    "a name of builtins that is defined": (
        "def helper(t): return t * max(2, 3)",
        [("", 3), ("def max(a, b): return 7", 7), ("del max", 3)],
        2,
    ),
    "a decorated helper": (
        "N = 3\ndef times(f):\n    @functools.wraps(f)\n    def wrapper(*a, **k): return f(*a, **k) * N\n    return wrapper\n"
        "@times\ndef helper(t): return t + 1",
        [("", 6), ("N = 5", 10), ("@times\ndef helper(t): return t + 2", 15)],
        3,
    ),
    "a partial": (
        "def base(t, n): return t * n\nhelper = functools.partial(base, n=2)",
        [("", 2), ("helper = functools.partial(base, n=3)", 3), ("helper = functools.partial(base, n=2)", 2)],
        2,
    ),
    "a function of the language": (
        "@tl.function\ndef helper(t): return t * 2",
        [("", 2), ("@tl.function\ndef helper(t): return t * 3", 3), ("@tl.function\ndef helper(t): return t * 2", 2)],
        2,
    ),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_changes_are_seen(name):
    first, steps, compiled = HISTORIES[name]
    notebook = Notebook(first)
    notebook.run(KERNEL)
    for text, want in steps:
        notebook.run(text)
        assert launched(notebook["kernel"]) == want, text
        assert launched(notebook["kernel"]) == want
    assert notebook["kernel"].compiled_count == compiled


# Expressions in static_eval, which Python computes while the kernel is compiled.
EVALUATED = {
    "a list": ("TABLE = [2, 3]", "TABLE[0]", [("", 2), ("TABLE[0] = 4", 4), ("TABLE = [2, 5]", 2), ("TABLE.insert(0, 6)", 6)]),
    "a dictionary": (
        "TABLE = {'a': [2]}",
        "TABLE['a'][0]",
        [("", 2), ("TABLE['a'][0] = 4", 4), ("TABLE['a'] = [5]", 5), ("TABLE = {'a': [2]}", 2)],
    ),
    "an object": (
        "class Config:\n    def __init__(self): self.n, self.other = 2, 0\nc = Config()",
        "c.n",
        [("", 2), ("c.n = 3", 3), ("c.n = 2", 2), ("c = Config()", 2)],
    ),
    "a dataclass that changes": (
        "@dataclasses.dataclass\nclass Config:\n    scale: int\nconfig = Config(2)",
        "config.scale",
        [("", 2), ("config.scale = 3", 3), ("config.scale = 2", 2), ("config = Config(3)", 3)],
    ),
    "a namespace": (
        "import types\nc = types.SimpleNamespace(n=2, inner=types.SimpleNamespace(m=1))",
        "c.n + c.inner.m",
        [("", 3), ("c.n = 3", 4), ("c.inner.m = 2", 5), ("c = types.SimpleNamespace(n=1, inner=c)\nc.inner.m = 7", 8)],
    ),
    "a function": (
        "N = 2\ndef inner(): return N\ndef compute(): return inner() + 1",
        "compute()",
        [("", 3), ("N = 4", 5), ("def inner(): return 9", 10)],
    ),
    "a method that reads an attribute": (
        "class Config:\n    n = 2\n    def get(self): return self.n * FACTOR\nFACTOR = 1\nc = Config()",
        "c.get()",
        [("", 2), ("c.n = 3", 3), ("FACTOR = 2", 6), ("Config.get = lambda self: 8", 8)],
    ),
    "a set": ("S = {1, 2}", "len(S)", [("", 2), ("S.add(7)", 3)]),
    "an array's shape": ("A = numpy.zeros((2, 3))", "A.shape[0]", [("", 2), ("A = numpy.zeros((5, 3))", 5)]),
    "an array's elements": (
        "A = numpy.array([2, 3])",
        "int(A[0])",
        [("", 2), ("A = numpy.array([4, 3])", 4), ("A[0] = 5", 5), ("A = numpy.array([2, 3])", 2)],
    ),
    "a tensor's shape": ("A = torch.zeros(2, 3)", "A.shape[0]", [("", 2), ("A = torch.zeros(5, 3)", 5), ("A += 1", 5)]),
    "a comprehension": ("TABLE, F = [1, 2], 2", "sum([n * F for n in TABLE])", [("", 6), ("F = 3", 9), ("TABLE[1] = 4", 15)]),
}


@pytest.mark.parametrize("name", EVALUATED)
def test_what_static_eval_reads(name):
    first, expression, steps = EVALUATED[name]
    notebook = Notebook(first)
    notebook.run(f"def helper(t): return t * tl.static_eval({expression})")
    notebook.run(KERNEL)
    for text, want in steps:
        notebook.run(text)
        assert launched(notebook["kernel"]) == want, text


def test_other_changes_compile_nothing():
    notebook = Notebook("SCALE = 2.0\nOTHER = 1\ndef helper(t): return t * SCALE")
    notebook.run("class Config:\n    n, other = 1, 2\nc = Config()\n")
    notebook.run("def helper(t): return t * SCALE * tl.static_eval(c.n)")
    notebook.run(KERNEL)
    for repeat in range(4):
        notebook.run(f"OTHER = {repeat}\nc.other = {repeat}\nSCALE = float('2')\nfor repeat in range(3): pass")
        assert launched(notebook["kernel"]) == 2
    assert notebook["kernel"].compiled_count == 1


def test_one_file_whose_text_changes():
    """Redefines a helper under one file name, as some notebooks do with their cells."""
    notebook = Notebook()
    for factor in (2, 3, 2):
        notebook.run(f"def helper(t):\n    return t * {factor}", file="<cell>")
        if "kernel" not in notebook.names:
            notebook.run(KERNEL)
        assert launched(notebook["kernel"]) == factor


def test_what_else_it_was_compiled_for_changes_too():
    notebook = Notebook("SCALE = 2\ndef helper(t): return t * SCALE")
    notebook.run(KERNEL)
    kernel = notebook["kernel"]
    assert launched(kernel) == launched(kernel, dtype=torch.int32) == launched(kernel.replace_hints(occupancy=2)) == 2
    notebook.run("SCALE = 3")
    assert launched(kernel, dtype=torch.int32) == launched(kernel) == launched(kernel.replace_hints(occupancy=2)) == 3
    assert "value=3" in kernel.ir(torch.ones(4), torch.ones(4)).replace(" ", "")
    assert kernel.compiled_count == 4


def test_an_error_that_a_change_mends():
    notebook = Notebook("def helper(t): return t @ 3")
    notebook.run(KERNEL)
    x, out = torch.ones(4), torch.zeros(4)
    for _ in range(2):
        with pytest.raises(tl.TileTypeError):
            notebook["kernel"][1](x, out)
    notebook.run("def helper(t): return t * 3")
    assert launched(notebook["kernel"]) == 3
    notebook.run("del helper")
    with pytest.raises(tl.TileSyntaxError, match="^Undefined variable helper\n"):
        notebook["kernel"][1](x, out)


def test_a_dataclass_that_is_frozen_later():
    notebook = Notebook("@dataclasses.dataclass\nclass Config: scale: int\nconfig = Config(2)")
    notebook.run("def helper(t): return t * config.scale")
    notebook.run(KERNEL)
    for text in ("", "config.scale = 3"):
        notebook.run(text)
        with pytest.raises(tl.TileTypeError) as error:
            notebook["kernel"][1](torch.ones(4), torch.zeros(4))
        assert str(error.value).startswith("Only frozen dataclasses are supported, Config is not: @dataclass(frozen=True)\n")
    notebook.run("@dataclasses.dataclass(frozen=True)\nclass Config: scale: int\nconfig = Config(4)")
    assert launched(notebook["kernel"]) == 4


def test_modules():
    module = types.ModuleType("changing_module")
    exec("N = 2\ndef helper(t): return t", module.__dict__)
    sys.modules["changing_module"] = module

    @tl.kernel
    def kernel(x, out):
        tl.store(out, 0, tl.load(x, 0, 4) * module.N)

    assert launched(kernel) == 2
    module.N = 3
    assert launched(kernel) == 3
    module = types.SimpleNamespace(N=5)
    with pytest.raises(tl.TileTypeError, match="^Cannot create constant from value of type types.SimpleNamespace"):
        kernel[1](torch.ones(4), torch.zeros(4))


def test_constants_that_are_functions():
    notebook = Notebook("N = 2\ndef double(t): return t * N")
    notebook.run("""
        @tl.kernel
        def kernel(x, out, f: tl.Constant):
            tl.store(out, 0, f(tl.load(x, 0, 4)))
    """)
    assert launched(notebook["kernel"], notebook["double"]) == 2
    notebook.run("N = 5")
    assert launched(notebook["kernel"], notebook["double"]) == 5


def test_cutile():
    scale = 2

    @ct.kernel
    def kernel(x, out):
        ct.store(out, (0,), ct.load(x, (0,), (4,)) * scale)

    for scale in (2, 3, 2):
        x, out = torch.ones(4), torch.zeros(4)
        ct.launch(0, (1,), kernel, (x, out))
        assert out.tolist() == [scale] * 4
    assert kernel.compiled_count == 2


def test_many_states():
    """Tests more states than the kernel caches; a state that was evicted compiles again."""
    notebook = Notebook("N = 0\ndef helper(t): return t * N")
    notebook.run(KERNEL)
    x, out = torch.ones(4), torch.zeros(4)
    for number in [*range(100), 99, 98, 0]:
        notebook.names["N"] = number
        notebook["kernel"][1](x, out)
        assert out.tolist() == [number] * 4
    assert notebook["kernel"].compiled_count == 101


def test_threads_that_launch_while_it_changes():
    notebook = Notebook("N = 1\ndef helper(t): return t * N")
    notebook.run(KERNEL)
    kernel, wrong, done = notebook["kernel"], [], threading.Event()

    def launch():
        x, out = torch.ones(4), torch.zeros(4)
        while not done.is_set():
            kernel[1](x, out)
            if out[0].item() not in (1, 2, 3):
                wrong.append(out.tolist())

    threads = [threading.Thread(target=launch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for repeat in range(300):
        notebook.names["N"] = repeat % 3 + 1
        x, out = torch.ones(4), torch.zeros(4)
        kernel[1](x, out)
        if out[0].item() != repeat % 3 + 1:
            wrong.append((repeat, out.tolist()))
    done.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_changes_of_the_package_are_not_tracked():
    """Tests that the package's own functions are not tracked for changes."""
    notebook = Notebook("def helper(t): return tl.exp(t) * 0 + tile_ops.language.cdiv(4, 2)\nimport tile_ops")
    notebook.run(KERNEL)
    kernel = notebook["kernel"]
    assert launched(kernel) == 2
    kinds = [entry.kind for entry in kernel._capture._generations[0].entries.values()]
    assert sorted(kinds) == ["function"] * 2 + ["item"] * 3  # kernel and helper; helper, tl, tile_ops
    assert tile_ops.language is tl
