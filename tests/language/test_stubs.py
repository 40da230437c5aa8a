"""The type stubs: made of the registries, with every public name and its doc; a type checker understands kernels."""

import ast
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest
import tile_ops
import tile_ops.cutile
import tile_ops.language

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAMPLE = pathlib.Path(__file__).parent / "typed" / "kernels.py"


def stubs():
    spec = importlib.util.spec_from_file_location("make_stubs", ROOT / "docs" / "stubs" / "make.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    return maker.stubs()


def test_the_stubs_are_current():
    for path, text in stubs().items():
        assert path.read_text() == text, f"{path.name}: run docs/stubs/make.py"


def named(tree):
    """{name: its docstring, "" where it is imported or a value}"""
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = ast.get_docstring(node) or found.get(node.name)
        elif isinstance(node, ast.ImportFrom):
            found.update({each.asname: "" for each in node.names if each.asname})
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = ""
    return found


@pytest.mark.parametrize("module", [tile_ops, tile_ops.language, tile_ops.cutile], ids=lambda each: each.__name__)
def test_every_public_name_is_there_with_its_doc(module):
    found = named(ast.parse((pathlib.Path(module.__file__).parent / "__init__.pyi").read_text()))
    public = [name for name in getattr(module, "__all__", None) or dir(module) if "backward" not in name]
    public = [name for name in public if name not in ("importlib", "pathlib", "torch")]
    assert [name for name in public if name not in found] == []
    assert [name for name, text in found.items() if text is None and name not in ("Launcher",)] == []


@pytest.mark.slow
def test_a_type_checker_reads_kernels(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", tmp_path, "--warn-unused-ignores", SAMPLE.name], cwd=SAMPLE.parent,
        env={**os.environ, "MYPYPATH": str(ROOT / "python")}, capture_output=True, text=True,
    )  # fmt: skip
    said = {}
    for line, text in re.findall(r"^kernels\.py:(\d+): (?:error|note): (.*)", done.stdout, re.MULTILINE):
        said.setdefault(int(line), []).append(text)
    wanted = {}
    for number, line in enumerate(SAMPLE.read_text().splitlines(), 1):
        if match := re.search(r"# [ER]: (.*)", line) if number > 1 else None:
            wanted[number] = match[1]
    assert set(said) == set(wanted), done.stdout + done.stderr
    for number, text in wanted.items():
        assert any(text in each for each in said[number]), (number, text, said[number])
    assert "__init__.pyi" not in done.stdout, done.stdout
