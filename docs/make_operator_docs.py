"""Writes python/tile_ops/_operator_docs.txt: the sections of docs/operators.md as help() and the type stubs show them."""

import pathlib
import re
import textwrap

PAGE = pathlib.Path(__file__).parent / "operators.md"
FILE = PAGE.parents[1] / "python" / "tile_ops" / "_operator_docs.txt"
WIDTH = 100


def _plain(text):
    """Returns the text without Markdown's marks. The target of a link follows its words."""
    text = re.sub(r"\[([^\[\]]+)\]\((https?://[^)\s]+)\)", r"\1 (\2)", text)
    text = re.sub(r"\[([^\[\]]+)\]\(([\w./]+\.md)[^)]*\)", r"\1 (docs/\2)", text)
    text = re.sub(r"\[([^\[\]]+)\]\([^)]*\)", r"\1", text)
    return re.sub(r"(?<![\w*])\*{1,2}(?=\w)([^*`]+?)(?<=[\w.:,])\*{1,2}(?!\w)", r"\1", text)


def _wrapped(paragraph):
    """Returns a paragraph, or the items of a list, in lines of WIDTH."""
    items = re.split(r"\n(?=- )", paragraph)
    return "\n".join(
        textwrap.fill(" ".join(item.split()), WIDTH, subsequent_indent="  " if item.startswith("- ") else "",
                      break_long_words=False, break_on_hyphens=False)
        for item in items
    )  # fmt: skip


def _parts(text):
    """Yields the parts of a section: paragraphs wrapped, fenced blocks and indented formulas unchanged."""
    for fenced, prose in re.findall(r"^```\w*\n(.*?)^```$|((?:(?!^```).)+)", text, re.MULTILINE | re.DOTALL):
        if fenced:
            yield textwrap.indent(fenced.rstrip("\n"), "    ")
        for paragraph in re.split(r"\n\s*\n", prose):
            if paragraph.startswith("    "):
                yield paragraph.rstrip()
            elif paragraph.strip():
                yield _wrapped(_plain(paragraph.strip()))


def _docstring(name, section):
    """Returns the docstring of an operator: its schema, then its section of the page."""
    signature = re.search(r"(?:```\n|`)(" + name + r"\(.*?\)\s*->\s*[^`]+?)(?:\n```|`)", section, re.DOTALL)
    if not signature:
        raise ValueError(f"{PAGE.name}: the section of {name} does not begin with its schema")
    schema = re.sub(r"\(\s+", "(", " ".join(signature[1].split()))
    rest = section[signature.end() :].lstrip(":").strip("\n").lstrip()
    return "\n\n".join([f"tile::{schema}", *_parts(rest)])


def text():
    """Returns the content of the package's file: what holds for all operators, then the part of each one."""
    intro, *sections = re.split(r"^## tile::(\w+)\n", PAGE.read_text(), flags=re.MULTILINE)
    conventions = re.search(r"Unless a section says otherwise: .*?(?=\n\n)", intro, re.DOTALL)[0]
    parts = {"": _wrapped(conventions.replace("Unless a section says otherwise:", "Where it is not said otherwise,"))}
    parts |= {name: _docstring(name, section) for name, section in zip(sections[::2], sections[1::2])}
    return "".join(f"== {name}\n{part}\n" for name, part in sorted(parts.items()))


if __name__ == "__main__":
    FILE.write_text(text())
