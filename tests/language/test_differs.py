"""Tests every line of docs/language/differs_from_python.md: a kernel raises the listed error, or returns the listed value."""

import math
import types

import pytest
import tile_ops.language as tl
import torch
from python_pages import PAGE, module_of, rows

REFUSED = rows(2)
OTHER = rows(4)
KERNELS = module_of([body for body, _ in REFUSED] + [f"tl.scatter(out, (), {text})" for text, *_ in OTHER])


def test_the_page_has_its_tables():
    assert len(REFUSED) > 40 and len(OTHER) >= 7
    lines = PAGE.read_text().splitlines()
    tables = [line for line in lines if line.startswith("|") and not line.startswith(("| a kernel", "| expression", "|---"))]
    assert len(tables) == len(REFUSED) + len(OTHER)


@pytest.mark.parametrize("index", range(len(REFUSED)), ids=[body for body, _ in REFUSED])
def test_what_is_refused(index):
    with pytest.raises(tl.TileError) as error:
        getattr(KERNELS, f"kernel{index}").check(torch.zeros(8), torch.zeros(8), 7, 0.5)
    assert error.value.message == REFUSED[index][1]


@pytest.mark.parametrize("index", range(len(OTHER)), ids=[text for text, *_ in OTHER])
def test_what_means_something_else(index):
    text, python, kernel, _ = OTHER[index]
    given = types.SimpleNamespace(int8=int)
    got = eval(text, {"n": 7, "s": 0.5, "math": math, "tl": given})
    assert got == eval(python) if python != "nan" else math.isnan(got)
    out = torch.zeros((), dtype=torch.float64)
    launched = getattr(KERNELS, f"kernel{len(REFUSED) + index}")
    launched[1](torch.zeros(8), out, 7, 0.5)
    assert out.item() == eval(kernel)


def test_it_is_linked():
    for page, link in (
        ("kernels_in_python.md", "language/differs_from_python.md"),
        ("language/README.md", "differs_from_python.md"),
    ):
        assert f"]({link})" in (PAGE.parents[1] / page).read_text()
