"""Each mistake in a kernel is a located error of its class with its exact text, and leaves the process usable.

`python tests/language/test_mistakes.py` writes mistakes.txt again. Read what changed."""

import importlib.util
import pathlib
import sys
import tempfile
import textwrap

import pytest
import tile_ops.cutile as ct
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from python_mistakes import SNIPPETS as OF_THE_LANGUAGE  # noqa: E402
from python_mistakes_of_values import SNIPPETS as OF_VALUES  # noqa: E402

SNIPPETS = [*OF_THE_LANGUAGE, *OF_VALUES]

EXPECTED = pathlib.Path(__file__).with_name("mistakes.txt")
HEAD = """
import contextlib
import dataclasses
import enum
import math
import torch
import tile_ops.cutile as ct


@contextlib.contextmanager
def twice(n):
    yield n
    yield n


@contextlib.contextmanager
def inside(n):
    if n > 0:
        yield n


@contextlib.contextmanager
def once(n):
    yield n


tensor = torch.zeros(3)


class Widget:
    pass


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Size(enum.IntEnum):
    SMALL = 4


class Perm(enum.Flag):
    R = 1


@dataclasses.dataclass(frozen=True)
class Pair:
    first: object
    b: object


@dataclasses.dataclass
class Thawed:
    a: object


thawed = Thawed(1)


@dataclasses.dataclass(frozen=True, init=False)
class Initless:
    a: object


@dataclasses.dataclass(frozen=True)
class Custom:
    a: object

    def __init__(self, a):
        object.__setattr__(self, "a", 2 * a)


@dataclasses.dataclass(frozen=True)
class Factory:
    a: object
    b: object = dataclasses.field(default_factory=tuple)


@dataclasses.dataclass(frozen=True)
class Formatted:
    a: object

    def __format__(self, spec):
        return "formatted"


@dataclasses.dataclass(frozen=True)
class Shouting:
    a: object

    def __str__(self):
        return self.a


def helper(a, b=1):
    return a + b


def deep(n):
    return deep(n)


def looped(a, b):
    for i in range(3):
        a = a + b
    return a


"""


def kernels():
    """A module with a kernel for each snippet: the language reads its text from a file."""
    text = HEAD
    for index, snippet in enumerate(SNIPPETS):
        body = textwrap.indent(snippet.replace("\\n", "\n"), "    ")
        text += f"@ct.kernel\ndef kernel{index}(x, v, i8, out, n, s, w):\n{body}\n\n\n"
    path = pathlib.Path(tempfile.mkdtemp()) / "kernels.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("mistaken_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MODULE = kernels()


def launch(kernel):
    x, v, i8, out = torch.randn(8, 8), torch.randn(8), torch.zeros(8, dtype=torch.int8), torch.zeros(8, 8)
    ct.launch(0, (1,), kernel, (x, v, i8, out, 3, 0.5, torch.zeros(8, dtype=torch.int64)))


def kernel_of(snippet):
    return getattr(MODULE, f"kernel{SNIPPETS.index(snippet)}")


def error_of(snippet):
    try:
        launch(kernel_of(snippet))
    except Exception as error:  # noqa: BLE001 its class is looked at
        return error
    return None


def expected():
    blocks = EXPECTED.read_text().strip().split("\n\n")
    return dict(block.split("\n", 1) for block in blocks)


def shown(error):
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_a_mistake(snippet):
    error = error_of(snippet)
    assert isinstance(error, ct.TileError)
    assert shown(error) == expected()[snippet]
    assert "kernels.py:" in str(error) and "^" in str(error)


def test_the_process_works_after_all_mistakes():
    for snippet in SNIPPETS[::7]:
        error_of(snippet)

    @ct.kernel
    def good(out):
        ct.store(out, 0, ct.ones((8,), ct.float32))

    out = torch.zeros(8)
    ct.launch(0, (1,), good, (out,))
    assert out.tolist() == [1] * 8


if __name__ == "__main__":
    EXPECTED.write_text("\n\n".join(f"{snippet}\n{shown(error_of(snippet))}" for snippet in SNIPPETS) + "\n")
