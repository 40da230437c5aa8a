"""Tests what docstrings of the language say: each has shapes, dtypes and errors, and dtypes are accepted or refused as said."""

import importlib.util
import re

import pytest
import tile_ops.language as tl
import torch
from tile_ops.language.core.registry import FUNCTIONS, METHODS, LanguageFunction
from tile_ops.language.functions.elements import AT_OFFSETS
from tile_ops.language.functions.memory import view_load, view_num_tiles, view_store
from tile_ops.language.functions.shared_memory import VIEW_CHANGES
from tile_ops.language.functions.static import SpecialForm

PUBLIC = {
    **{f"tl.{name}": value for name, value in vars(tl).items() if isinstance(value, (LanguageFunction, SpecialForm))},
    **{f"method {name}": value for name, value in {**METHODS, **FUNCTIONS}.items()},
    **{f"memory.{name}": value for name, value in AT_OFFSETS.items()},
    **{f"view.{each.__name__}": each for each in (view_load, view_store, view_num_tiles, *VIEW_CHANGES.values())},
}
# Each kind of dtype: one of them, how "Dtypes" names it when it is taken, how "Errors" names it when it is refused.
KINDS = {
    "bool_": (r"\bbool|\bany\b", r"\bbool"),
    "int32": (r"\bintegers?\b|\bany\b", r"\bintegers\b|\bint32\b"),
    "float16": (r"\bfloats?\b|\bfloat16\b|\bany\b", r"\bfloats\b"),
    "float64": (r"\bfloats?\b|\bfloat64\b|\bany\b", r"\bfloats\b"),
    "float8_e5m2": (r"\bfloat8|\bany\b", r"\bfloat8|\bfloats\b"),
}
ONE = """abs acos arange asin atan bitwise_not ceil cos cosh cumprod cumsum erf exp exp2 expm1 floor isfinite isinf isnan log log1p log2
logical_not max min negative pack_to_bytes prod round rsqrt sigmoid silu sin sinh sqrt sum tan tanh trunc argmax argmin""".split()
TWO = """add atan2 bitwise_and bitwise_lshift bitwise_or bitwise_rshift bitwise_xor cdiv equal floordiv greater greater_equal less
less_equal maximum minimum mod mul not_equal pow sub truediv""".split()


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """A module with a kernel for each function of one or two operands."""
    text = "import tile_ops.language as tl\n\n"
    for name in ONE + TWO:
        call = "tl.arange(8, dtype=dtype)" if name == "arange" else f"tl.{name}(x)" if name in ONE else f"tl.{name}(x, x)"
        text += "@tl.kernel\ndef " + name + "(dtype: tl.Constant):\n    x = tl.full((8,), 1, tl.float32).astype(dtype)\n"
        text += f"    {call}\n\n\n"
    path = tmp_path_factory.mktemp("contracts") / "kernels.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("contract_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def part(function, label):
    """Returns the text of a label of the docstring."""
    return re.search(rf"^{label}: (.*?)(?=^[A-Z][a-z]+: |\Z)", function.__doc__, re.MULTILINE | re.DOTALL)[1]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_function_says_what_it_takes(name):
    doc = PUBLIC[name].__doc__
    assert re.match(r"[A-Z][a-z]+ ", doc), f"{name}: its first line is no sentence with a verb"
    for label in ("Shapes", "Dtypes", "Errors"):
        assert part(PUBLIC[name], label).rstrip().endswith("."), f"{name}: {label}"
    assert max(map(len, doc.splitlines())) <= 150


@pytest.mark.parametrize("name", ONE + TWO)
def test_dtypes_are_taken_and_refused_as_said(name, kernels):
    function = getattr(tl, name)
    for dtype, (taken, refused) in KINDS.items():
        try:
            getattr(kernels, name)[(1,)](getattr(tl, dtype))
        except tl.TileTypeError:
            assert re.search(refused, part(function, "Errors")), f"{name} refuses {dtype}"
        else:
            assert re.search(taken, part(function, "Dtypes")), f"{name} takes {dtype}"


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "asin", "acos", "atan", "atan2"])
def test_angles_have_units(name):
    assert "radians" in part(getattr(tl, name), "Units")


def test_other_names_have_docstrings():
    for name in tl.__all__:
        value = getattr(tl, name)
        assert value.__doc__, name
        if not isinstance(value, (tl.DType, torch.dtype)) and name != "ScalarInt64":
            assert re.match(r"(An? )?[A-Z]?[a-z]+ ", value.__doc__), name
