"""Tests the documentation site: links lead to pages, Sphinx builds it without a warning, and nothing is fetched."""

import functools
import html
import os
import pathlib
import re
import subprocess
import sys

import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import make_api  # noqa: E402
import make_site  # noqa: E402


@functools.cache
def pages():
    return make_site.pages()


def texts():
    return {path: text for path, text in pages().items() if isinstance(text, str)}


def without_code(text):
    return re.sub(r"^(```+).*?^\1|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def test_every_page_by_hand_is_in_the_site():
    by_hand = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    assert [path for path in by_hand if make_site.site_path(pathlib.PurePosixPath(path.as_posix())) not in pages()] == []


def test_links_lead_to_pages():
    for path, text in texts().items():
        for link in re.findall(r"(?<!\\)\]\((?!https?:|#)([^)#\s]+)", without_code(text)):
            target = pathlib.PurePosixPath(os.path.normpath(path.parent / link))
            assert target in pages(), f"{path}: {link}"


def test_a_link_to_a_primitive_leads_to_its_page():
    site = make_site.Site()
    origin = pathlib.PurePosixPath("docs/language/views.md")
    assert site.relinked('[one](README.md#primitives "gather")', origin) == "[one](primitives/gather.md)"
    assert site.relinked("[all](README.md#primitives)", origin) == "[all](primitives.md)"
    assert site.relinked("```c++\na[0](x)\n```", origin) == "```c++\na[0](x)\n```"
    assert site.relinked("[`a`](types.md) `[b](c.md)`", origin) == "[`a`](types.md) `[b](c.md)`"
    with pytest.raises(FileNotFoundError, match="views.md: nothing.md is not there"):
        site.relinked("[none](nothing.md)", origin)


def words(text):
    return re.findall(r"\w+", text)


@pytest.mark.parametrize("name", make_api.PAGES)
def test_an_api_page_says_what_help_says(name):
    page = pages()[pathlib.PurePosixPath("api", name)]
    assert all(make_api.markdown(value.__doc__) in page for value in make_api.documented(name).values())
    for value in make_api.documented(name).values():
        assert words(re.sub(r"\\|^```text", "", make_api.markdown(value.__doc__), flags=re.M)) == words(value.__doc__)


def test_the_page_of_gradients_says_what_help_says():
    page = pages()[pathlib.PurePosixPath("api", "gradients.md")]
    names = re.findall(r"^## tile::(\w+)$", page, re.MULTILINE)
    assert "softmax_backward" in names and "matmul_double_backward" in names
    for name in names:
        schema, _, doc = getattr(torch.ops.tile, name).__doc__.partition("\n\n")
        assert f"```text\n{schema}\n```\n\n{make_api.markdown(doc)}" in page


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    for package in ("sphinx", "furo", "myst_parser", "sphinx_copybutton"):
        pytest.importorskip(package, reason="Sphinx needs Python 3.11, and make offline installs no packages")
    folder = tmp_path_factory.mktemp("documentation")
    command = [sys.executable, str(ROOT / "docs" / "make_site.py"), "--pages", str(folder / "pages"), "--jobs", "1"]
    done = subprocess.run([*command, "--site", str(folder / "site")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_fetches_nothing(site):
    built = {path.relative_to(site).with_suffix("").as_posix(): path.read_text() for path in site.rglob("*.html")}
    assert {str(path.with_suffix("")) for path in texts()} <= set(built)
    assert (site / "searchindex.js").exists()
    for name, text in built.items():
        fetched = re.findall(r"<(?:script|img|iframe|link|source)\b[^>]*?(?:src|href)=\"((?:https?:)?//[^\"]+)", text)
        assert fetched == [], name
        assert "theme-toggle" in text and "copybutton.js" in text, name
        prose = re.sub(r"<(pre|code|script|style)\b.*?</\1>|<svg.*?</svg>", "", text, flags=re.DOTALL)
        shown = html.unescape(re.sub(r"<[^>]+>", "", prose))
        assert re.findall(r"^\|.*\|$|\*\*[A-Z]|\]\(\S+\.md\)|^:{3,}", shown, re.MULTILINE) == [], f"{name}: Markdown is left"
    for path in [*site.rglob("*.css"), *site.rglob("*.js")]:
        assert re.findall(r"@import|url\(['\"]?https?:|(?:fetch|importScripts)\(['\"]https?:", path.read_text()) == [], (
            path.name
        )


@pytest.mark.slow
def test_a_broken_link_fails_the_build(site, tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.md").write_text("# A page\n\nA [link](#nowhere).\n")
    call = "import pathlib, sys, make_site; sys.exit(make_site.build(*map(pathlib.Path, sys.argv[1:])))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "docs"), *sys.path])}
    command = [sys.executable, "-c", call, str(pages), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode != 0 and "nowhere" in done.stderr


@pytest.mark.parametrize("file", sorted((ROOT / "docs" / "tutorial").glob("*.py")), ids=lambda file: file.stem)
def test_a_page_of_the_tutorial_has_the_code_of_its_file(file):
    page = pages()[pathlib.PurePosixPath("tutorial", f"{file.stem}.md")]
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    lines = [line for line in file.read_text().partition("# %%\n")[2].splitlines() if line and not line.startswith("#")]
    assert [line for line in code.splitlines() if line and not line.startswith("#")] == lines
    assert page.startswith("# ") and "# %%" not in page
