"""Tests how the source of a kernel is found: as inspect finds it, and in the text of code that a program generates."""

import argparse
import ast
import doctest
import gc
import inspect
import linecache
import sys
import textwrap
import time
import types
import typing
import unittest.mock

import pytest
import tile_ops.language as tl
import torch
import torch._inductor.ir
from raised import error_of
from threads import in_threads
from tile_ops.language.translator.source import parsed, source_of

MODULES = [argparse, ast, doctest, inspect, typing, unittest.mock, torch._inductor.ir, sys.modules[__name__]]


def functions_in(code):
    """Yields the functions that a module's code defines, also those in classes and in functions."""
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            if each.co_flags & inspect.CO_OPTIMIZED and not each.co_name.startswith("<"):
                yield types.FunctionType(each, {}, closure=tuple(types.CellType() for _ in each.co_freevars))
            yield from functions_in(each)


def as_inspect_finds(function):
    lines, first = inspect.getsourcelines(function.__code__)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    return ast.increment_lineno(tree, first - 1).body[0]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_functions_of_modules(module):
    with open(module.__file__, encoding="utf-8") as file:
        functions = list(functions_in(compile(file.read(), module.__file__, "exec")))
    for function in functions[:: 1 + len(functions) // 100]:
        expected = ast.dump(as_inspect_finds(function), include_attributes=True)
        assert ast.dump(source_of(function).node, include_attributes=True) == expected, function
    assert functions


# fmt: off
def decorated(*_):
    return lambda function: function


@decorated("""
def f(): a text that a decorator takes
""", 1)
@decorated(
)
def odd(
a=(1,
2), *, b="""
no line of this text is indented
"""
):
    # a comment of the function
# and one without indentation
    c = a[0] + \
len(b)
    return [
c,
]


if True:
    async def one_line(): return 1
    def in_a_branch():
        return (1,
    2)
else:
    pass


class Holder:
    def tabs(self):
    	return 3

    def last(self): return 4
# fmt: on


@pytest.mark.parametrize("function", [odd, one_line, in_a_branch, Holder.tabs, Holder.last], ids=lambda each: each.__name__)
def test_odd_indentation(function):
    found = source_of(function)
    assert ast.dump(found.node, include_attributes=True) == ast.dump(as_inspect_finds(function), include_attributes=True)
    assert found.indent == len(inspect.getsource(function)) - len(inspect.getsource(function).lstrip())


TEXT = """
import tile_ops.language as tl


@tl.kernel
def {name}(x, out):
    tl.store(out, 0, {call}(x, 0, 16) * {factor})


@tl.kernel
def other(x):
    pass
"""


def generated(file, **parts):
    text, module = TEXT.format(**parts), {"__name__": "generated"}
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    exec(compile(text, file, "exec"), module)
    return module[parts["name"]]


def test_generated_text():
    for factor in (2, 3):
        kernel = generated(f"<generated {factor}>", name="scaled", call="tl.load", factor=factor)
        x, out = torch.randn(2, 16)
        kernel[1](x, out)
        assert torch.equal(out, x * factor)


def test_errors_in_generated_text_name_its_line():
    kernel = generated("<generated wrong>", name="wrong", call="tl.lod", factor=2)
    assert "<generated wrong>:7" in error_of(kernel[1], torch.randn(16), torch.randn(16))


def test_text_without_lines():
    module = {"__name__": "generated"}
    exec(compile(TEXT.format(name="lost", call="tl.load", factor=2), "<generated nowhere>", "exec"), module)
    assert error_of(module["lost"][1], torch.randn(16), torch.randn(16)) == (
        "TileSyntaxError: the source of lost() is not available; a kernel needs a file, or a cell of a notebook"
    )


def test_errors_name_the_line_of_a_file():
    @tl.kernel
    def wrong(x):
        tl.store(x, 0, tl.no_such_function(x))

    line = wrong._pyfunc.__code__.co_firstlineno + 2
    assert f"test_source.py:{line}" in error_of(wrong[1], torch.zeros(16))


def test_threads_parse_one_at_a_time():
    """Collections of garbage let other threads run while a tree is made, which CPython 3.11 does not expect."""
    text = "\n".join(f"def f{i}(a, b):\n    return (a + b * {i}) if a else [x for x in (a, b) if x]" for i in range(40))
    yields, threshold, interval = (lambda *_: time.sleep(0)), gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(yields)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    try:
        in_threads(lambda: [parsed(text) for _ in range(20)], [()] * 4)
    finally:
        gc.callbacks.remove(yields)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
