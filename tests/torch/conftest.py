"""Loads the operators that these tests call (tests/torch/library) and says what torch itself would give."""

import ctypes
import types
import warnings

import pytest
import torch
from built import OPERATORS, load_operators

load_operators()
_c = ctypes.CDLL(str(OPERATORS))


@pytest.fixture
def ops():
    return torch.ops.tt


@pytest.fixture
def library():
    """Functions of the library as Python functions: each gives the text of the error it met, or None."""

    def function(name, *types_):
        entry = getattr(_c, name)
        entry.argtypes = [*types_, ctypes.c_char_p, ctypes.c_int]

        def call(*arguments):
            text = ctypes.create_string_buffer(4000)
            encoded = [a.encode() if isinstance(a, str) else a for a in arguments]
            return text.value.decode() if entry(*encoded, text, len(text)) else None

        return call

    return types.SimpleNamespace(
        mistake=function("tile_test_mistake", ctypes.c_char_p),
        redefine=function("tile_test_redefine", ctypes.c_char_p, ctypes.c_double),
        redefine_gradient=function("tile_test_redefine_gradient", ctypes.c_char_p, ctypes.c_double),
        call=function("tile_test_call"),
        schema=function("tile_test_schema", ctypes.c_char_p),
    )


@pytest.fixture(autouse=True)
def _no_slow_loop():
    """torch's per-sample fallback of vmap warns; none of our operators may need it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*performance drop.*")
        yield
