"""Tests errors of undefined names: they name it, and suggest what to write or which name was meant."""

import pytest
import tile_ops
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch
from tile_ops.language.core import advice

MODULES = [
    (tl, "relu", "module 'tile_ops.language' has no attribute 'relu'; write tl.maximum(x, 0.0)"),
    (tl, "mean", "module 'tile_ops.language' has no attribute 'mean'; write tl.sum(x, axis) / x.shape[axis]"),
    (tl, "program_id", "module 'tile_ops.language' has no attribute 'program_id'; write tl.bid(axis)"),
    (tl, "constexpr", "module 'tile_ops.language' has no attribute 'constexpr'; write tl.Constant"),
    (tl, "zeors", "module 'tile_ops.language' has no attribute 'zeors'; did you mean zeros?"),
    (tl, "Constnat", "module 'tile_ops.language' has no attribute 'Constnat'; did you mean Constant?"),
    (tl, "frobnicate", "module 'tile_ops.language' has no attribute 'frobnicate'"),
    (tl, "__frobnicate__", "module 'tile_ops.language' has no attribute '__frobnicate__'"),
    (ct, "relu", "module 'tile_ops.cutile' has no attribute 'relu'; write ct.maximum(x, 0.0)"),
    (ct, "PadingMode", "module 'tile_ops.cutile' has no attribute 'PadingMode'; did you mean PaddingMode?"),
    (ct, "next_power_of_2", "module 'tile_ops.cutile' has no attribute 'next_power_of_2' (tile_ops.language has it)"),
    (tile_ops, "sofmax", "module 'tile_ops' has no attribute 'sofmax', and torch.ops.tile no such operator; did you mean softmax?"),
    (tile_ops, "layernorm", "module 'tile_ops' has no attribute 'layernorm', and torch.ops.tile no such operator; did you mean layer_norm?"),
    (tile_ops, "frobnicate", "module 'tile_ops' has no attribute 'frobnicate', and torch.ops.tile no such operator"),
]  # fmt: skip


@pytest.mark.parametrize("module, name, text", MODULES)
def test_names_of_modules(module, name, text):
    with pytest.raises(AttributeError) as error:
        getattr(module, name)
    assert str(error.value) == text
    assert not hasattr(module, name)


DEVICE = "Device functions can only be called from device code."
OUTSIDE = [
    (tl.sum, "sum() is for a kernel, a function that @kernel marks; on tensors call torch.sum()"),
    (tl.exp, "exp() is for a kernel, a function that @kernel marks; on tensors call torch.exp()"),
    (tl.truediv, "truediv() is for a kernel, a function that @kernel marks; on tensors call torch.div()"),
    (tl.load, "load() is for a kernel, a function that @kernel marks; kernel[grid](...) launches one"),
    (tl.bid, "bid() is for a kernel, a function that @kernel marks; kernel[grid](...) launches one"),
    (tl.static_eval, "static_eval() is for a kernel, a function that @kernel marks"),
    (tl.int16, "int16() is for a kernel, a function that @kernel marks; outside of one make a tensor, torch.tensor(..., dtype=torch.int16)"),
    (tl.function(lambda x: x), "<lambda>() is for a kernel; mark it with @function(host=True) to call it anywhere"),
]  # fmt: skip


@pytest.mark.parametrize("function, text", OUTSIDE)
def test_functions_outside_of_kernels(function, text):
    with pytest.raises(RuntimeError) as error:
        function(torch.zeros(2))
    assert str(error.value) == f"{DEVICE} {text}"


@tl.kernel
def methods(x, name: tl.Constant[str]):
    t = tl.load(x, 0, 4)
    getattr(t, name)


@tl.kernel
def arrays(x, name: tl.Constant[str]):
    getattr(x, name)


ATTRIBUTES = [
    (methods, "expand_dims", "Tile[float32,(4)]; write tl.expand_dims(tile)"),
    (methods, "sum", "Tile[float32,(4)]; write tl.sum(tile)"),
    (methods, "erf", "Tile[float32,(4)]; write tl.erf(tile)"),
    (methods, "clamp", "Tile[float32,(4)]; write tl.minimum(tl.maximum(tile, low), high)"),
    (methods, "T", "Tile[float32,(4)]; write tl.transpose(tile)"),
    (methods, "astyp", "Tile[float32,(4)]; did you mean tile.astype?"),
    (methods, "cumsun", "Tile[float32,(4)]; did you mean tl.cumsum(tile)?"),
    (methods, "frobnicate", "Tile[float32,(4)]"),
    (arrays, "stride", "Array[float32,1]; write array.strides"),
    (arrays, "gather", "Array[float32,1]; write tl.gather(array, ...)"),
    (arrays, "max", "Array[float32,1]; load() a tile of it first, then write tl.max(tile)"),
    (arrays, "astype", "Array[float32,1]; load() a tile of it first, then tile.astype(...)"),
    (arrays, "tiledview", "Array[float32,1]; did you mean array.tiled_view?"),
]


@pytest.mark.parametrize("kernel, name, text", ATTRIBUTES)
def test_attributes_in_kernels(kernel, name, text):
    with pytest.raises(tl.TileTypeError) as error:
        kernel[1](torch.zeros(4), name)
    text = f"No such attribute '{name}' for object of type {text}"
    assert error.value.message == text
    with pytest.raises((tl.TileTypeError, AttributeError)) as error:
        kernel.debug(1, torch.zeros(4), name)
    assert str(error.value) == text


def test_what_the_advice_names_is_there():
    """Tests that the language has every M.name that the suggestions mention."""
    for name, text in advice.WRITTEN.items():
        for part in text.split("M.")[1:]:
            word = part[: next((at for at, letter in enumerate(part) if not (letter.isalnum() or letter == "_")), len(part))]
            assert hasattr(tl, word), (name, word)
        assert not hasattr(tl, name), f"the language has {name} itself"


def test_next_power_of_2():
    assert [tl.next_power_of_2(n) for n in (-3, 0, 1, 2, 3, 64, 65, 2**40 + 1)] == [1, 1, 1, 2, 4, 64, 128, 2**41]
    with pytest.raises(TypeError, match="^next_power_of_2: expected an integer, got float$"):
        tl.next_power_of_2(1.5)

    @tl.kernel
    def kernel(x, out, n: tl.Constant[int]):
        tl.static_assert(tl.next_power_of_2(5) == 8 and tl.next_power_of_2(n=tl.int8(3)) == 4)
        tl.store(out, 0, tl.sum(tl.load(x, 0, tl.next_power_of_2(n))))

    x, out = torch.arange(6.0), torch.zeros(1)
    kernel[1](x, out, 6)
    assert out.item() == 15
    kernel.debug(1, x, out.zero_(), 6)
    assert out.item() == 15

    @tl.kernel
    def wrong(out, n):
        tl.store(out, 0, tl.next_power_of_2(n))

    with pytest.raises(tl.TileTypeError) as error:
        wrong[1](out, 6)
    assert error.value.message == (
        "next_power_of_2() expects a constant, got Tile[int32,()]; give it outside, as a Constant parameter"
    )
