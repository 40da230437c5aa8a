"""Tests the reference: a page for each primitive with its fields, errors and variables of the environment, links."""

import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
import cpp_sources  # noqa: E402
import make_language  # noqa: E402

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


@functools.cache
def made():
    return make_language.pages()


def test_every_primitive_has_a_page_with_its_fields():
    assert set(made()) == {"primitives.md"} | {f"primitives/{name}.md" for name in make_language.TABLE}
    for name, row in make_language.TABLE.items():
        page = made()[f"primitives/{name}.md"]
        summary, said, attributes, _ = make_language.parse(row["doc"])
        assert page.startswith(f"# {name}\n\n{summary}\n\n")
        assert f"[{name}](primitives/{name}.md) | {summary}" in made()["primitives.md"]
        fields = ["Operands", "Result", "Targets"] + ["Dtypes"] * (name not in make_language.CONTROL)
        assert [field for field in fields if f"\n**{field}.** " not in page] == [], name
        assert re.search(rf"```text\n.*\b{name}\b", page), f"{name}: no form in Tile IR"
        assert all(f"| `{attribute}` |" in page for attribute in attributes), name
        errors = make_language.errors_of(name, row, said)
        assert all(f"- {kind}: `{error}`" in page for kind, error in errors), name
        assert len(re.findall("^```", page, re.MULTILINE)) >= 4, f"{name}: no example"


def test_cpp_blocks_of_the_pages_are_in_the_sources():
    # snippets_test.cpp runs them.
    text = re.sub(r"\s+", " ", (ROOT / "tests" / "prims" / "snippets.h").read_text())
    for name, page in made().items():
        for block in re.findall(r"^```cpp\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
            assert re.sub(r"\s+", " ", block).strip() in text, name


def test_every_primitive_says_what_its_page_needs():
    for name, row in make_language.TABLE.items():
        summary, said, attributes, _ = make_language.parse(row["doc"])
        assert summary.endswith("."), name
        if name in make_language.ROWS:
            continue
        assert "operands" in said and "C++" in said, name
        assert name in make_language.SNIPPETS, f"tests/prims/snippets.h has no kernel for {name}"
        path, infer = make_language.REGISTERED[name]
        asked = re.findall(r'op\.(?:integers?|dtype|text|number)\("(\w+)"\)', cpp_sources.FUNCTIONS[path, infer])
        assert set(asked) <= set(attributes), f"{name} does not say what {asked} mean"
        for owner, function in make_language.names_in_cpp(name, said):
            assert any(called == function for _, called, *_ in make_language.DECLARATIONS), f"{name}: no {function}"


def test_snippets_name_primitives():
    assert set(make_language.SNIPPETS) <= set(make_language.TABLE)


def test_every_variable_is_documented():
    read = set()
    for path in [*(ROOT / "csrc").rglob("*.*"), *(ROOT / "tile_ops").rglob("*.*"), *(ROOT / "python").rglob("*.py")]:
        if path.suffix in (".cpp", ".h", ".py"):
            read |= set(re.findall(r'(?:environment|getenv|environ(?:\.get)?)[(\[]+"(\w+)"', path.read_text()))
    page = (DOCS / "troubleshooting.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)", page.split("## Variables")[1], re.MULTILINE))
    assert {name for name in read if name not in ("HOME", "TERM")} <= documented
    assert {name for name in documented if name.startswith("TILE_")} <= read


def test_errors_in_troubleshooting_are_real():
    """The sources contain the longest constant part of each error that the page quotes."""
    sources = [
        *(ROOT / "csrc").rglob("*.cpp"),
        *(ROOT / "csrc").rglob("*.h"),
        *(ROOT / "tile_ops").rglob("*.*"),
        *(ROOT / "python/tile_ops").glob("*.py"),
    ]
    text = "\n".join(path.read_text() for path in sources if path.suffix in (".cpp", ".h", ".py"))
    text = re.sub(r'"\s*"', "", text)  # literals side by side
    for error in re.findall(r"^### `(.*)`$", (DOCS / "troubleshooting.md").read_text(), re.MULTILINE):
        part = max(error.split("…"), key=len).strip()
        assert part in text, f"no source says {part!r}"


def anchors(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_to_sections():
    wrong = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for target, section in re.findall(r"\]\((?!https?:)([^)#]*)#([^)\s]+)[^)]*\)", text):
            other = page.parent / target if target else page
            if other.suffix == ".md" and section not in anchors(other):
                wrong.append(f"{page.relative_to(ROOT)}: {target}#{section}")
    assert wrong == []


def test_every_page_is_in_the_table_of_contents():
    table = (DOCS / "README.md").read_text()
    linked = {(DOCS / target).resolve() for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", table)}
    pages = {path.resolve() for path in DOCS.rglob("*.md")} - {DOCS / "README.md"}
    assert sorted(str(path.relative_to(ROOT)) for path in pages - linked) == []
