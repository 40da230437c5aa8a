"""Tests that results and IR in pages are current, and that examples in pages run."""

import importlib.util
import pathlib
import re

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_stages_of_the_compiler_are_current(examples):
    made = script(ROOT / "docs" / "print_stages.py").stages()
    page = (ROOT / "docs" / "how_the_compiler_works.md").read_text()
    assert re.findall(r"^```text\n(kernel causal_sum.*?)^```", page, re.M | re.S) == [made[0][1], made[-1][1]]
    assert len(made) > 5


def test_the_page_of_results_is_current():
    module = script(ROOT / "benchmarks" / "results_page.py")
    assert module.page() == module.PAGE.read_text(), "run benchmarks/results_page.py"


def test_the_figures_of_the_readme_are_those_of_the_tables():
    lines = list(script(ROOT / "benchmarks" / "results_page.py").status())
    assert "\n".join(["|---|---|---|---|", *lines, ""]) in (ROOT / "README.md").read_text(), "run benchmarks/results_page.py"


def test_every_row_of_the_page_of_results_is_a_case():
    import report

    # A name that no case has would silently be missing from the table.
    module = script(ROOT / "benchmarks" / "results_page.py")
    names = {name for path in module.RESULTS.glob("cpu-*.md") for name in report.read(path)[1]}
    assert not names or set(module.ROWS) <= names


def test_examples_in_pages_run(examples):
    library = str(examples / "libtile_examples.so")
    for name in ("README.md", "docs/getting_started.md", "docs/writing_an_operator.md", "docs/random_numbers.md"):
        for text in re.findall(r"^```py\n(.*?)^```", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL):
            exec(text.replace("build/dev/examples/libtile_examples.so", library), {"torch": torch})
