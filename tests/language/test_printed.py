"""Tests print, f-strings, str and repr of enumerations, dataclasses, dictionaries and strings; printf of several tiles."""

import dataclasses
import enum

import pytest
import tile_ops.language as tl
import torch


class Color(enum.Enum):
    RED = 1
    GREEN = "g"


class Size(enum.IntEnum):
    SMALL = 4


class Perm(enum.Flag):
    R = 1
    W = 2


class Named(str, enum.Enum):
    LEFT = "left"

    def __str__(self):
        return f"<{self.value}>"


@dataclasses.dataclass(frozen=True)
class Point:
    x: object
    hidden: object = dataclasses.field(default=3, repr=False)
    y: object = "hello"


@dataclasses.dataclass(frozen=True)
class Inner(Point):
    z: object = None


@dataclasses.dataclass(frozen=True)
class WithStr:
    x: object

    def __str__(self):
        return f"str of {self.x}"


@dataclasses.dataclass(frozen=True)
class WithRepr:
    x: object

    def __repr__(self):
        return f"repr of {self.x}"


@dataclasses.dataclass(frozen=True)
class WithBoth:
    x: object

    def __str__(self):
        return f"str of {self.x}"

    def __repr__(self):
        return "repr of " + str(self.x) + "!"


@dataclasses.dataclass(frozen=True, repr=False)
class Without:
    x: object


def plain(n):
    """Prints values that a kernel must print exactly as Python does."""
    print(Color.RED, Color.GREEN, repr(Color.GREEN), Size.SMALL, repr(Size.SMALL), Perm.R | Perm.W, Named.LEFT)
    print((Color.RED, Size.SMALL, Perm.R, Named.LEFT, "it's", None, 1.5), Color)
    print(Point(n), repr(Point(n, 1, Color.RED)), (Point((n,)),), Inner(n, z=Point(1)))
    print(WithStr(n), (WithStr(n),), WithRepr(n), (WithRepr(n),), WithBoth(n), (WithBoth(n),), str(WithBoth(n)))
    print({"a": n, Color.RED: (n,), 3: {}}, {}, (), (n,), ("x",), "100%", "%d")
    print(f"{Color.RED} {Point(n)} {WithStr(n)} {n} {WithBoth(n)}" + f"!{n}" + "?", str(n), repr("a"), repr(f"b{n}"))
    print((f"foo{n}", f"'''foo{n}'''", f"\"foo'{n}", f"back\\slash\n{n}"), sep="", end=".\n")


@tl.kernel
def in_a_kernel(n):
    plain(n)


def flushed():
    if torch.get_default_device().type == "cuda":
        torch.cuda.synchronize()


def test_print_is_pythons(capfd):
    plain(7)
    want = capfd.readouterr().out
    in_a_kernel[1](7)
    flushed()
    assert capfd.readouterr().out == want
    assert "<Color.RED: 1>" in want and "Point(x=7, y='hello')" in want and "repr of 7!" in want


def test_without_a_repr(capfd):
    @tl.kernel
    def kernel(n):
        print(Without(n), (Without(n),), n.dtype)

    kernel[1](7)
    flushed()
    assert capfd.readouterr().out == "<Without object> (<Without object>,) int32\n"


def test_tiles_in_records(capfd):
    @tl.kernel
    def kernel(x):
        t = tl.load(x, 0, 2)
        print(Point(t), {"t": t}, f"{WithStr(t)}", (x.shape, t.shape, x.dtype))

    kernel[1](torch.tensor([1, 2], dtype=torch.int32))
    flushed()
    assert capfd.readouterr().out == "Point(x=[1, 2], y='hello') {'t': [1, 2]} str of [1, 2] ((2,), (2,), int32)\n"


def test_lengths_and_several_tiles(capfd):
    @tl.kernel
    def kernel(x, n: tl.ScalarInt64, s: float):
        t = tl.load(x, 0, 2)
        tl.printf("%lld|%ld|%d|%hhu|%zu|%jx|%li\n", n, n, n, 7, 8, 255, t)
        tl.printf("%.2lf %5.1Lf %d%% %i [%lld]\n", s, s, 5, t, t + n)
        tl.printf("%d and %.1f and %d\n", t, t.astype(tl.float32), tl.load(x, (0,), (1,)))

    want = (
        "1099511627776|1099511627776|1099511627776|7|8|ff|[-1, 2]\n"
        "0.50   0.5 5% [-1, 2] [[1099511627775, 1099511627778]]\n"
        "[-1, 2] and [-1.0, 2.0] and [-1]\n"
    )
    x = torch.tensor([-1, 2], dtype=torch.int32)
    kernel[1](x, 2**40, 0.5)
    flushed()
    assert capfd.readouterr().out == want
    kernel.debug(1, x, 2**40, 0.5)
    assert capfd.readouterr().out == want


def test_wrong_formats():
    @tl.kernel
    def kernel(n, f: tl.Constant[str]):
        tl.printf(f, n)

    for text, said in (
        ("%lls", "Specifier s in %lls is not supported"),
        ("%lf", "Format %lf for arg #0 got unexpected type of Tile[int32,()]"),
        ("%lld %lld", "Not enough arguments for format string '%lld %lld'"),
    ):
        with pytest.raises(tl.TileTypeError) as error:
            kernel[1](1, text)
        assert error.value.message == said
