"""Tests random edits of globals, helpers, closures and decorators: each launch returns what Python returns at that time."""

import random

import pytest
import torch
from notebook import Notebook

FIRST = """
G0, G1, G2 = 1, 2, 3
TABLE = [1, 2, 3]
class Config:
    A, B = 1, 2
def closed(n, m):
    def helper(t): return t * n + m
    def change(a, b):
        nonlocal n, m
        n, m = a, b
    return helper, change
def times(n):
    def decorate(f):
        @functools.wraps(f)
        def wrapper(*a, **k): return f(*a, **k) * n + G0
        return wrapper
    return decorate
closure, change = closed(1, 1)
def h0(t): return t
def h1(t): return h0(t)
def h2(t): return h1(t)
def h3(t): return h2(t)
"""
KERNEL = """
@tl.kernel
def kernel(x, out):
    tl.store(out, 0, h3(tl.load(x, 0, 4)))
"""


class Editor:
    """Generates random cells. Results stay below 2^24: constants are at most 3, and a helper multiplies at most twice."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def number(self):
        return self.random.randint(0, 3)

    def constant(self):
        return self.random.choice(["G0", "G1", "G2", "Config.A", "Config.B", str(self.number())])

    def term(self, level):
        """Returns an expression of t that calls only helpers below this level."""
        inner = [f"h{self.random.randrange(level)}(t)", "closure(t)"] if level else []
        value = self.random.choice([*inner, *inner, "t"])
        how = self.random.randrange(4)
        if how == 0:
            return f"{value} * {self.constant()} + {self.constant()}"
        if how == 1:
            return f"{value} + TABLE_AT({self.random.randrange(3)})"
        if how == 2:
            return f"({value} if {self.constant()} > 1 else t) + {self.constant()}"
        return f"functools.partial(lambda a, t: t * a + {self.number()}, {self.constant()})({value})"

    def cell(self):
        level, name = self.random.randrange(4), self.random.choice("012")
        kinds = [
            f"G{name} = {self.number()}",
            f"Config.{self.random.choice('AB')} = {self.number()}",
            f"TABLE[{name}] = {self.number()}",
            f"change({self.number()}, {self.number()})",
            f"closure, change = closed({self.number()}, {self.number()})",
            f"def h{level}(t): return {self.term(level)}",
            f"@times({self.number()})\ndef h{level}(t, n={self.number()}): return {self.term(level)} + n",
            f"h{level}.__defaults__ = h{level}.__defaults__",
            f"unused = {self.number()}",
        ]
        return self.random.choice(kinds)


def with_table(text, item):
    """Returns the cell with each TABLE_AT(index) replaced by `item`."""
    for index in range(3):
        text = text.replace(f"TABLE_AT({index})", item.format(index))
    return text


@pytest.mark.parametrize("seed", range(8))
def test_each_launch_gives_what_python_gives(seed, long):
    count = 400 if long else 40
    editor, compiled, plain = Editor(seed), Notebook(FIRST), Notebook(FIRST)
    compiled.run(KERNEL)
    cells = []
    for _ in range(count):
        for _ in range(editor.random.randint(1, 2)):
            text = editor.random.choice(cells) if cells and editor.random.random() < 0.3 else editor.cell()
            cells.append(text)
            compiled.run(with_table(text, "tl.static_eval(TABLE[{}])"))
            plain.run(with_table(text, "TABLE[{}]"))
        x, out = torch.tensor([0, 1, 2, 3], dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
        compiled["kernel"][1](x, out)
        want = [plain["h3"](t) for t in range(4)]
        assert out.tolist() == want, "\n".join(cells)
    assert compiled["kernel"].compiled_count <= count
