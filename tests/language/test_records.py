"""Tests records and dictionaries that hold arrays where paths join, and enumeration members as constants of a kernel."""

import dataclasses
import enum

import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator


class Weight(float, enum.Enum):
    LIGHT = 0.5
    HEAVY = 2.0


class Mode(enum.Enum):
    ADD = 1
    SCALE = 2

    def apply(self, tile, by):
        return tile + by if self is Mode.ADD else tile * by


@dataclasses.dataclass(frozen=True)
class Output:
    array: object
    by: object = 1

    def __setitem__(self, index, tile):
        tl.store(self.array, index, tile * self.by)

    def __getitem__(self, index):
        return tl.load(self.array, index, 4)


@tl.kernel
def stored(x, y, out, n):
    to = Output(out, by=2)
    named = {"x": Output(x), "y": Output(y), "n": n}
    if n > 2:
        named = {**named, "x": Output(y), "n": n * 10}
    chosen = {"a": x} if n > 2 else {"a": y}
    for k in range(2):
        named = {**named, "n": named["n"] + k}
    to[0] = named["x"][0] + named["n"]
    to[1] = tl.load(chosen["a"], 0, 4)


@tl.kernel
def moded(x, out, mode: tl.Constant, weight: tl.Constant):
    by = weight * 2
    tl.store(out, 0, mode.apply(tl.load(x, 0, 4), by))
    if weight.name == "HEAVY":
        tl.store(out, 1, tl.full((4,), mode.value, tl.float32))


def wanted(x, y, n):
    return torch.cat([((y if n > 2 else x) + (n * 10 if n > 2 else n) + 1) * 2, (x if n > 2 else y) * 2])


def ways():
    return [lambda kernel: kernel[1], lambda kernel: lambda *given: kernel.debug(1, *given)]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("way", [0, 1], ids=["launch", "debug"])
def test_memory_in_records_and_dictionaries(way, n):
    x, y, out = torch.randn(4), torch.randn(4), torch.zeros(8)
    ways()[way](stored)(x, y, out, n)
    torch.testing.assert_close(out, wanted(x, y, n))


@pytest.mark.parametrize("way", [0, 1], ids=["launch", "debug"])
def test_members_as_constants(way):
    x = torch.randn(4)
    for mode, weight in ((Mode.ADD, Weight.LIGHT), (Mode.SCALE, Weight.HEAVY)):
        out = torch.zeros(8)
        ways()[way](moded)(x, out, mode, weight)
        by = weight.value * 2
        heavy = torch.full((4,), float(mode.value)) if weight is Weight.HEAVY else torch.zeros(4)
        torch.testing.assert_close(out, torch.cat([x + by if mode is Mode.ADD else x * by, heavy]))


def test_a_member_is_another_constant_than_its_number():
    @tl.kernel
    def kernel(out, c: tl.Constant):
        tl.store(out, 0, c)
        tl.store(out, 1, tl.static_eval(isinstance(c, Weight)))

    out = torch.zeros(2)
    kernel[1](out, 0.5)
    assert out.tolist() == [0.5, 0]
    kernel[1](out, Weight.LIGHT)
    assert out.tolist() == [0.5, 1] and kernel.compiled_count == 2


@pytest.mark.at_home
def test_on_the_emulator():
    x, y, out = torch.randn(4), torch.randn(4), torch.zeros(8)
    with on_the_emulator(archs=(90,)):
        stored[1](x, y, out, 3)
    torch.testing.assert_close(out, wanted(x, y, 3))


def test_other_keys_do_not_join():
    @tl.kernel
    def kernel(out, n):
        d = {"a": n}
        if n > 2:
            d = {"b": n}
        tl.store(out, 0, d["a"])

    with pytest.raises(tl.TileTypeError) as error:
        kernel[1](torch.zeros(1), 3)
    assert error.value.message == (
        "Type of `d` depends on path taken: Dict['b':Tile[int32,()]] (line "
        f"{kernel._pyfunc.__code__.co_firstlineno + 4}) vs. Dict['a':Tile[int32,()]] (line "
        f"{kernel._pyfunc.__code__.co_firstlineno + 2})"
    )
