"""Tests help() of everything public: operators are documented from docs/operators.md, all else by docstrings."""

import importlib.util
import inspect
import pathlib
import pydoc
import re
import sys

import operators
import pytest
import tile_ops
import tile_ops.functional
import tile_ops.nn
import tile_ops.optim
import torch
from tile_ops import _operator_docs

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import make_api  # noqa: E402

SCHEMAS = {s.name.split("::")[1]: str(s) for s in torch._C._jit_get_all_schemas() if s.name.startswith("tile::")}
OPERATORS = sorted(operators.registered())
FUNCTIONS = [name for name in make_api.PAGES["functional.md"][3] if hasattr(tile_ops, name)]


def maker():
    spec = importlib.util.spec_from_file_location("make_operator_docs", ROOT / "docs" / "make_operator_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_complete(text, name):
    """Checks that a docstring has shapes, dtypes, errors and a source: a URL, a paper's year or torch's function."""
    for word in ("shapes|lists", "dtypes", "errors"):
        assert re.search(rf"\b({word})\b", text, re.IGNORECASE), f"{name}: nothing of {word}"
    assert re.search(r"https://|\b(19|20)\d\d\b|torch\.nn\.functional|help\(tile_ops\.", text), f"{name}: no source"


def test_the_text_is_that_of_the_page():
    made = maker()
    assert made.FILE.read_text() == made.text(), "run docs/make_operator_docs.py, then docs/stubs/make.py"
    assert set(_operator_docs.docs()) == {"", *OPERATORS}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_says_what_it_takes(name):
    packet = getattr(torch.ops.tile, name)
    text = packet.__doc__
    first, conventions = text.splitlines()[0], _operator_docs.docs()[""]
    assert str(torch._C.parse_schema(first)) == SCHEMAS[name]
    assert text.endswith("\n\n" + conventions)
    assert_complete(text.removesuffix(conventions), name)
    assert not re.search(r"\]\(|\*\*[A-Z]", text), "Markdown is left"
    shown = pydoc.plain(pydoc.render_doc(packet))
    for line in text.splitlines():
        assert line.strip() in shown
    assert inspect.getdoc(packet) == inspect.cleandoc(text)


def test_a_wrapped_text():
    """Tests a section with links, a list and a formula."""
    lines = tile_ops.cross_entropy.__doc__.splitlines()
    formula = "    loss = (1 - s) w[y] (lse - x[y]) + s / C Σ w[c] (lse - x[c]) + z_loss lse²"
    assert formula in lines
    assert "(https://arxiv.org/abs/2204.02311)" in tile_ops.cross_entropy.__doc__
    assert lines[lines.index(formula) + 7].startswith("- Shapes: `input` [C], [N, C] or [N, C, d1, ...];")
    assert max(len(line) for line in lines[1:]) <= 110


@pytest.mark.parametrize("name", sorted(name for name in operators.all_names() if name.endswith("_backward")))
def test_a_gradient_says_what_it_takes(name):
    text = getattr(torch.ops.tile, name).__doc__
    assert text.splitlines()[0] == SCHEMAS[name]
    forward = name.removesuffix("_backward").removesuffix("_double")
    assert text.endswith(f"help(tile_ops.{forward}) describes the operator.") and forward in OPERATORS
    assert_complete(text, name)


AROUND = make_api.PAGES["package.md"][3]


@pytest.mark.parametrize("name", AROUND)
def test_a_function_around_the_operators_says_what_it_raises(name):
    doc = inspect.getdoc(getattr(tile_ops, name))
    assert re.match(r"(A |An )?[A-Z]?\w+ ", doc) and doc.split("\n")[0].endswith((".", ").")), "its first line is no sentence"
    assert re.search(r"\bErrors: ", doc)


def test_every_public_name_of_the_package_is_in_one_of_these_tests():
    modules = {name for name in dir(tile_ops) if inspect.ismodule(getattr(tile_ops, name))}
    known = {*SCHEMAS, *FUNCTIONS, *AROUND, *modules, "__version__", "cmake_prefix_path"}
    assert sorted(set(dir(tile_ops)) - known) == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_takes(name):
    function = getattr(tile_ops.functional, name)
    assert_complete(function.__doc__, name)
    assert getattr(tile_ops, name) is function
    assert all(each.annotation is not each.empty for each in inspect.signature(function).parameters.values())


@pytest.mark.parametrize("name", tile_ops.nn.__all__)
def test_a_module_says_what_it_takes(name):
    kind = getattr(tile_ops.nn, name)
    assert_complete(vars(kind)["__doc__"], name)
    assert vars(kind)["forward"].__doc__


@pytest.mark.parametrize("owner", [tile_ops, tile_ops.nn, tile_ops.functional, tile_ops.optim], ids=lambda each: each.__name__)
def test_nothing_public_is_without_a_doc(owner):
    names = getattr(owner, "__all__", None) or [name for name in dir(owner) if not name.startswith("_")]
    values = {name: getattr(owner, name) for name in names if "backward" not in name}
    ours = {
        name: each
        for name, each in values.items()
        if callable(each) and str(getattr(each, "__module__", "")).startswith(("tile_ops", "torch._ops"))
    }
    assert [name for name, each in ours.items() if not each.__doc__] == []
