"""docs/operators: every operator has a section, which holds its schema."""

import pathlib
import re

import tile_ops  # noqa: F401  registers the operators
import torch

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def schemas():
    """{operator: its schema} of torch.ops.tile, without gradients and what is there for them."""
    all_schemas = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("tile::")]
    return {s.name: str(s) for s in all_schemas if not s.name.endswith("_backward") and "::_" not in s.name}


def sections():
    """{operator: the text of its section}."""
    found = {}
    for page in [DOCS / "operators.md", *sorted((DOCS / "operators").glob("*.md"))]:
        parts = re.split(r"^## (tile::\w+)\n", page.read_text(), flags=re.MULTILINE)
        for name, text in zip(parts[1::2], parts[2::2]):
            assert name not in found, f"{name} has two sections"
            found[name] = text
    return found


def test_every_operator_has_a_section_with_its_schema():
    def plain(text):
        return re.sub(r"\s+", " ", text)

    there, wanted = {name: plain(text) for name, text in sections().items()}, schemas()
    assert set(there) == set(wanted)
    for name, schema in wanted.items():
        written = re.search(r"\b" + name.split("::")[1] + r"(\(.*?\) -> (?:\([^()]*\)|Tensor \w+))", there[name])
        assert written, f"{name}: its section lacks {schema}"
        assert str(torch._C.parse_schema(name + written[1])) == schema
