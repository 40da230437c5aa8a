"""Numbers that graphs compute from indices, beyond 32 bits: no element is lost where 2^31 is passed."""

import re

import pytest
import sympy
import tile_ops  # noqa: F401 registers the backend
import torch
from compiled_calls import compiled, same
from tile_ops._compile.axes import MOST, fits
from tile_ops._compile.compiler import compile_graph
from torch._inductor.graph import GraphLowering
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

pytestmark = pytest.mark.usefixtures("uncached")


def steps(x):
    return torch.arange(0, 5_000_000_000, 1_000_000, device=x.device) + x


def products(x):
    i = torch.arange(5000, device=x.device)
    return i * 1_000_000 + x, i * i * i + x, (i * i * i).float(), i * 2**40 - x


@pytest.mark.parametrize("function", [steps, products])
def test_numbers_above_32_bits(function, device):
    x = torch.arange(5000, device=device)
    same(compiled(function)(x), function(x))


def test_numbers_above_32_bits_of_a_length_that_varies(device):
    def function(x, n):
        i = torch.arange(n, device=x.device)
        return i * 1_000_000 + x, i * n * n * n, x + n * n * n

    run = compiled(function, dynamic=True)
    for n in (5000, 4000, 3):
        x = torch.arange(n, device=device)
        same(run(x, n), function(x, n))


def test_a_size_above_32_bits_is_a_number(device):
    run = compiled(lambda x, n: (x + n, torch.arange(3, device=x.device) * n), dynamic=True)
    x = torch.arange(3, device=device)
    for n in (7, 5_000_000_000, 9):
        same(run(x, n), (x + n, torch.arange(3, device=device) * n))


def source(function, *arguments):
    """Returns the module that is generated for the arguments; nothing runs."""
    found = []

    def backend(gm, inputs):
        before, GraphLowering.save_output_code = GraphLowering.save_output_code, staticmethod(found.append)
        try:
            compile_graph(gm, inputs, None, {"fallback": "error"})
        finally:
            GraphLowering.save_output_code = before
        return lambda *_: (torch.zeros(()),)

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True, dynamic=False)(*arguments)
    return found[0]


SIZE = 3 << 30
FUNCTIONS = {
    "a walked row": lambda x: ((torch.arange(SIZE, device=x.device) % 7) * x).sum(),
    "elements": lambda x: torch.arange(SIZE, device=x.device) % 7 + x,
    "a matrix": lambda x: (torch.arange(SIZE, device=x.device).view(3, 1 << 30) % 7 + x.view(3, 1 << 30)).t().contiguous(),
    "a position": lambda x: x.argmax(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_coordinates_have_the_dtype_of_indices_before_they_are_multiplied(name):
    x = torch.zeros(1, dtype=torch.int8).expand(SIZE)
    text = source(FUNCTIONS[name], x)
    assert "tl.arange" in text and "dtype=tl.int32" not in text
    for coordinate in re.findall(r"\+ (.*?) \* \d+,", text):
        assert re.fullmatch(r"tl\.astype\(\w+, tl\.int64\)", coordinate), coordinate


def test_a_small_graph_has_indices_of_32_bits():
    text = source(lambda x: torch.arange(1000, device=x.device) * x, torch.ones(1000, dtype=torch.int32))
    assert "dtype=tl.int32" in text and "tl.int64" not in text.split("COORDINATE_x0 =")[0]


def test_an_index_fits_if_all_of_it_does():
    x, y = (sympy.Symbol(name, integer=True) for name in "xy")
    ranges = {x: (0, 999), y: (0, 99)}
    assert fits(x + 1000 * y, ranges) and fits(ModularIndexing(x, 3, 5) - 7, ranges) and fits(sympy.Integer(MOST), {})
    assert not fits(3_000_000 * x, ranges) and not fits(x**4, ranges) and not fits(sympy.Integer(MOST + 1), {})
    assert not fits(FloorDiv(3_000_007 * x, 1_000_000), ranges)  # the result is small, but not what is divided
