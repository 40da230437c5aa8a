"""The reference in docs: pages made from the registry, errors and variables of the environment, links."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
import cpp_sources  # noqa: E402
import make_language  # noqa: E402

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


def test_the_pages_of_primitives_are_current():
    assert make_language.stale() == [], "run docs/make_language.py"


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
        for target, section in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", text):
            other = page.parent / target if target else page
            if other.suffix == ".md" and section not in anchors(other):
                wrong.append(f"{page.relative_to(ROOT)}: {target}#{section}")
    assert wrong == []


def test_every_page_is_in_the_table_of_contents():
    table = (DOCS / "README.md").read_text()
    linked = {(DOCS / target).resolve() for target in re.findall(r"\]\((?!https?:)([^)#]+)", table)}
    made = "primitives", "programs"  # each has a table of its own
    pages = {path.resolve() for path in DOCS.rglob("*.md") if path.parent.name not in made} - {DOCS / "README.md"}
    assert sorted(str(path.relative_to(ROOT)) for path in pages - linked) == []
