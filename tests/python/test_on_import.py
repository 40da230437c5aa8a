"""Tests actions that wait for the import of a module: it may be looked for, fail and be imported again before."""

import importlib
import importlib.util
import inspect
import sys

import pytest
from tile_ops._on_import import on_import, when_imported


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Returns the name of a module, and a function that writes its file."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    def write(text):
        (tmp_path / "waited_for.py").write_text(text)
        importlib.invalidate_caches()

    write("VALUE = 3\n")
    yield "waited_for", write
    sys.modules.pop("waited_for", None)


def test_it_runs_once_after_the_module(module):
    name, _ = module
    found, finders = [], len(sys.meta_path)
    on_import(name, lambda each: found.append(each.VALUE))
    on_import(name, lambda each: found.append("a second action"))
    assert found == [] and len(sys.meta_path) == finders + 1
    made = importlib.import_module(name)
    assert found == [3] and len(sys.meta_path) == finders
    assert inspect.getsource(made) == "VALUE = 3\n"
    importlib.reload(made)
    assert found == [3]


def test_a_module_that_may_be_imported_already(module):
    name, _ = module
    found = []
    when_imported(name, lambda each: found.append(each.VALUE))
    assert found == []
    importlib.import_module(name)
    assert found == [3]
    when_imported(name, lambda each: found.append("at once"))
    assert found == [3, "at once"]


def test_a_module_that_is_only_looked_for(module):
    name, _ = module
    found = []
    on_import(name, lambda each: found.append(each.VALUE))
    for _ in range(2):
        spec = importlib.util.find_spec(name)
        assert spec.origin.endswith("waited_for.py") and not spec.loader.is_package(name)
    assert name not in sys.modules and found == []
    importlib.import_module(name)
    assert found == [3]


def test_an_import_that_fails_first(module):
    name, write = module
    found = []
    on_import(name, lambda each: found.append(each.VALUE))
    write("raise ValueError('not yet')\n")
    with pytest.raises(ValueError, match="^not yet$"):
        importlib.import_module(name)
    assert found == []
    write("VALUE = 40000\n")
    importlib.import_module(name)
    assert found == [40000]


def test_a_module_that_does_not_exist(module):
    found = []
    on_import("waited_for_in_vain", found.append)
    with pytest.raises(ModuleNotFoundError, match="^No module named 'waited_for_in_vain'$"):
        importlib.import_module("waited_for_in_vain")
    assert found == []
