"""Reads the tables of docs/language/differs_from_python.md, and makes kernels of their lines."""

import importlib.util
import pathlib
import tempfile

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "language" / "differs_from_python.md"
HEAD = """
import dataclasses
import enum
import math

import torch
import tile_ops.language as tl

table = [1, 2]


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass(frozen=True)
class Pair:
    first: object
    second: object


"""


def rows(columns):
    """Returns the rows of the page's tables with this many columns, with the backquotes of code removed."""
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == columns and cells[0].startswith("`"):
            found.append(tuple(cell.strip("`") for cell in cells))
    return found


def module_of(bodies):
    """Returns a module with a kernel(x, out, n, s) for each body; `; ` separates the statements of a body."""
    text = HEAD
    for index, body in enumerate(bodies):
        lines = body.replace("; ", "\n    ")
        text += f"@tl.kernel\ndef kernel{index}(x, out, n, s):\n    {lines}\n\n\n"
    path = pathlib.Path(tempfile.mkdtemp()) / "lines.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("lines_of_a_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
