"""Tests that every parameter of every function of the language can be passed by its documented name."""

import importlib.util
import inspect
import pathlib
import sys
import tempfile

import pytest
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch
from tile_ops.language.core.registry import METHODS, LanguageFunction
from tile_ops.language.functions.elements import AT_OFFSETS
from tile_ops.language.functions.memory import slice_, tiled_view, view_load, view_num_tiles, view_store
from tile_ops.language.functions.shared_memory import VIEW_CHANGES

# Arguments by parameter name; OWN overrides them for single functions. t: float32 [4, 4]; k: int32 [4];
# x: float32 [4, 4]; w: int32 [8].
VALUES = {
    "x": "t", "y": "t", "z": "t", "cond": "t > 0", "array": "x", "index": "(0, 0)", "indices": "k", "shape": "(4, 4)",
    "tile": "t", "tile_shape": "(4, 4)", "order": "'C'", "padding_mode": "M.PaddingMode.ZERO", "check_bounds": "True",
    "latency": "2", "allow_tma": "None", "memory_order": "M.MemoryOrder.ACQ_REL", "memory_scope": "M.MemoryScope.DEVICE",
    "rounding_mode": "M.RoundingMode.RN", "flush_to_zero": "True", "keepdims": "True", "propagate_nan": "True",
    "reverse": "True", "axis": "0", "axis0": "0", "axis1": "1", "axes": "(1, 0)", "dtype": "M.float32", "size": "4",
    "start": "0", "stop": "2", "step": "1", "divisor": "2", "fill_value": "1", "value": "1", "tiles": "(t, t)",
    "mask": "k > 0", "padding_value": "1.0", "traversal_steps": "(2, 2)", "expected": "1", "desired": "2", "update": "1",
    "func": "lambda a, b: a + b", "identity": "0", "acc": "t", "use_fast_acc": "False", "offset": "k", "seed": "7",
    "stream": "1", "message": "'message'", "n": "5",
}  # fmt: skip
OWN = {
    ("load", "memory_order"): "M.MemoryOrder.RELAXED", ("store", "memory_order"): "M.MemoryOrder.RELAXED",
    ("gather", "array"): "v", ("scatter", "array"): "v", ("astile", "value"): "(1, 2)", ("item", "x"): "M.ones((1, 1), M.float32)",
    ("expand_dims", "axis"): "2", ("extract", "shape"): "(2, 2)", ("insert", "value"): "M.ones((2, 2), M.float32)",
    ("reshape", "shape"): "(2, 8)", ("bitcast", "dtype"): "M.int32", ("unpack_from_bytes", "x"): "M.ones((8,), M.uint8)",
    ("assume_divisible_by", "x"): "n", ("random_bits", "dtype"): "M.uint32", ("random_bits", "offset"): "0",
    ("uniform", "offset"): "0", ("normal", "offset"): "0", ("exp", "rounding_mode"): "M.RoundingMode.FULL",
    ("tanh", "rounding_mode"): "M.RoundingMode.FULL", ("assert_", "cond"): "t == t",
    ("load_advanced_indexing", "indices"): "(k, M.Slice(0, 4))", ("store_advanced_indexing", "indices"): "(k, M.Slice(0, 4))",
    ("num_tiles", "shape"): "()", ("arange", "dtype"): "M.int32", ("astile", "dtype"): "M.int32",
    ("load_offset", "padding_value"): "1.0", ("slice", "axis"): "0", ("cat", "axis"): "1",
    **{("mma_scaled", name): text for name, text in {
        "x": "M.ones((16, 32), M.float8_e5m2)", "x_scale": "M.ones((16, 1), M.uint8)", "y": "M.ones((32, 16), M.float8_e5m2)",
        "y_scale": "M.ones((1, 16), M.uint8)", "acc": "M.zeros((16, 16), M.float32)"}.items()},
    **{(name, each): "M.ones((4, 4), M.int32)" for each in ("x", "y") for name in (
        "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_lshift", "bitwise_rshift", "cdiv", "divmod")},
    **{(f"atomic_{name}", "array"): "w" for name in ("cas", "xchg", "add", "max", "min", "and", "or", "xor")},
}  # fmt: skip
OWNERS = {"memory": "w.get_raw_memory()", "view": "x.tiled_view((4, 4))"}
VIEWS = {"load": view_load, "store": view_store, "num_tiles": view_num_tiles, **VIEW_CHANGES}


def functions():
    """Yields (callee, function, the parameter that a method call passes before the dot) for all functions of kernels."""
    for name in tl.__all__:
        if isinstance(getattr(tl, name), LanguageFunction):
            yield f"M.{name}", getattr(tl, name), None
    for name, function in METHODS.items():
        yield f"{OWN.get((name, 'x'), 't')}.{name}", function, "x"
    for name, function in AT_OFFSETS.items():
        yield f"{OWNERS['memory']}.{name}", function, "memory"
    for name, function in VIEWS.items():
        array = "x" if "atomic" not in name or name.endswith("add") else "w2"
        yield f"{array}.tiled_view((4, 4)).{name}", function, "view"
    for function in (slice_, tiled_view):
        yield f"x.{function.__name__}", function, "array"


def call_of(callee, function, owner, dialect):
    """Returns the source of a call that passes all it can by name, and these names."""
    name, placed, named = function.__name__, [], []
    for each in function.signature(dialect == "ct").parameters.values():
        if each.name == owner or each.kind is each.VAR_POSITIONAL:
            continue
        text = OWN.get((name, each.name)) or OWN.get((name.removesuffix("_offset"), each.name)) or VALUES[each.name]
        if "_offset" in name and each.name in ("value", "update", "desired", "expected", "padding_value"):
            text = "1"
        if name == "tiled_view" and each.name == "padding_mode":
            text = "M.PaddingMode.NAN"
        (placed if each.kind is each.POSITIONAL_ONLY else named).append((each.name, text))
    given = ", ".join([text for _, text in placed] + [f"{each}={text}" for each, text in named])
    return f"{callee}({given})".replace("M.", f"{dialect}."), [each for each, _ in named]


def kernels():
    made = ["import tile_ops.cutile as ct", "import tile_ops.language as tl"]
    names = {}
    for number, (callee, function, owner) in enumerate(functions()):
        for dialect in ("tl", "ct"):
            if function.__name__ in ("print", "printf") or (
                dialect == "ct" and callee.startswith("M.") and not hasattr(ct, callee[2:])
            ):
                continue
            text, named = call_of(callee, function, owner, dialect)
            kernel = f"{dialect}_{callee.split('.')[-1]}_{number}"
            names[kernel] = named
            made += [f"@{dialect}.kernel", f"def {kernel}(x, v, w, w2, n):",
                     f"    t, k = {dialect}.load(x, (0, 0), (4, 4)), {dialect}.arange(4, dtype={dialect}.int32)",
                     f"    {text}", ""]  # fmt: skip
    path = pathlib.Path(tempfile.mkdtemp()) / "keywords.py"
    path.write_text("\n".join(made))
    spec = importlib.util.spec_from_file_location("kernels_of_keywords", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # a lambda's source is found by its module
    spec.loader.exec_module(module)
    return module, names


MODULE, NAMES = kernels()


def test_all_functions_are_there():
    assert len(NAMES) > 250 and sum(map(len, NAMES.values())) > 600


def arguments():
    ones = torch.ones
    return ones(4, 4), ones(4), ones(8, dtype=torch.int32), ones(4, 4, dtype=torch.int32), 4


@pytest.mark.parametrize("name", NAMES)
def test_names_of_parameters(name):
    getattr(MODULE, name).check(*arguments())


@pytest.mark.parametrize("name", ["bid", "num_blocks", "num_tiles", "assume_divisible_by", "load", "gather", "reduce", "add"])
def test_a_launch_and_debug_take_them(name):
    (kernel,) = [getattr(MODULE, each) for each in NAMES if each.startswith(f"tl_{name}_") and each.split("_")[-1].isdigit()
                 and each.removeprefix("tl_").rpartition("_")[0] == name and "tiled_view" not in source(each)]  # fmt: skip
    kernel[1](*arguments())
    kernel.debug(1, *arguments())


def source(name):
    return inspect.getsource(getattr(MODULE, name)._pyfunc)


def test_blocks_by_name():
    @tl.kernel
    def kernel(out):
        tl.store(out, tl.bid(axis=0), tl.bid(axis=0) * 10 + tl.num_blocks(axis=0) + tl.assume_divisible_by(x=4, divisor=2))

    launched, debugged = torch.zeros(3), torch.zeros(3)
    kernel[3](launched)
    kernel.debug(3, debugged)
    assert launched.tolist() == debugged.tolist() == [7, 17, 27]


def test_what_has_no_name_in_cutile():
    @ct.kernel
    def kernel(n):
        ct.add(x=n, y=n)

    with pytest.raises(ct.TileTypeError, match="'x' parameter is positional only"):
        kernel.check(1)
