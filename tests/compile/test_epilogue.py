"""The text of what follows a product: which results it can have."""

import types

import pytest
import sympy
import torch
from tile_ops._compile.active import Refused
from tile_ops._compile.epilogue import Sum, TextHandler, Value
from torch._inductor.sizevars import SizeVarAllocator
from torch._inductor.virtualized import V


def test_a_result_whose_elements_share_memory_is_refused():
    row, column = (sympy.Symbol(name, integer=True) for name in ("row", "column"))
    handler = TextHandler("product", (4, 5), [Sum("acc", sympy.Integer(0), (5, 1))])
    handler.enter([row, column], [sympy.Integer(4), sympy.Integer(5)])
    graph = types.SimpleNamespace(sizevars=SizeVarAllocator(), scheduler=None, get_dtype=lambda name: torch.float32)
    with V.set_graph_handler(graph):
        handler.store("apart", 6 * row + column, Value("acc", torch.float32))
        with pytest.raises(Refused, match="several elements share memory"):
            handler.store("shared", row, Value("acc", torch.float32))
    assert [each.buffer for each in handler.stored] == ["product", "apart"]
