"""The project's pages and entry points: README's code and commands work, no file names a machine's paths."""

import functools
import os
import pathlib
import re
import subprocess
import sys

import fresh_process
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: pathlib.Path, language: str) -> list[str]:
    """The texts of the fenced blocks of that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def tracked() -> list[pathlib.Path]:
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:  # an unpacked archive
        return [
            path
            for path in ROOT.rglob("*")
            if path.is_file() and not path.relative_to(ROOT).parts[0].startswith((".", "build"))
        ]
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


@pytest.mark.slow
@each_page
def test_python_blocks_run(page, tmp_path):
    for text in blocks(page, "python"):
        block = tmp_path / "block.py"  # a kernel in Python needs a file
        block.write_text(text)
        status, written = fresh_process.run(block, tmp_path)
        assert status == 0, f"{text}\n{written}"


@pytest.mark.slow
@pytest.mark.parametrize("program", sorted((ROOT / "examples" / "python").glob("*.py")), ids=lambda path: path.stem)
def test_programs_run(program, tmp_path):
    status, written = fresh_process.run(program, tmp_path)
    assert status == 0, written


def plain(code: str) -> str:
    return re.sub(r"\s+", " ", code).strip()


@functools.cache
def sources() -> list[str]:
    sources = [path for folder in ("examples", "tile_ops", "tests", "csrc") for path in (ROOT / folder).rglob("*.*")]
    return [plain(path.read_text()) for path in sources if path.suffix in (".cpp", ".h", ".def")]


@each_page
def test_cpp_blocks_are_in_the_sources(page):
    # Examples and operators are compiled and run by other tests; a page shows their lines.
    for text in blocks(page, "cpp"):
        assert any(plain(text) in source for source in sources()), f"no source holds this block:\n{text}"


@each_page
def test_commands_exist(page):
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    targets += (ROOT / "Makefile").read_text().split(".PHONY:")[1].splitlines()[0].split()
    for line in "\n".join(blocks(page, "sh")).splitlines():
        words = line.split("#")[0].split()
        if words[:1] == ["make"]:
            assert [word for word in words[1:] if "=" not in word and word not in targets] == []
        for word in words:
            if re.fullmatch(r"[\w./-]+\.(py|cpp|sh|md)", word):
                assert (ROOT / word).exists(), f"`{line}` names {word}, which is not there"


@each_page
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_no_file_names_a_machine_s_paths():
    parts = [re.escape(str(ROOT)), "/" + r"(?:root|work)/", "/home" + r"/\w+/", re.escape(str(pathlib.Path.home())) + "/"]
    pattern = re.compile("|".join(rf"(?<![\w.]){part}" for part in parts))
    wrong = []
    for path in tracked():
        try:
            found = pattern.search(path.read_text())
        except UnicodeDecodeError:
            continue
        if found:
            wrong.append(f"{path.relative_to(ROOT)}: {found[0]}")
    assert wrong == []


def test_make_targets_that_are_promised():
    promised = "build demo test quick test-long sanitize bench docs pack wheel offline format lint clean".split()
    for target in promised:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, env=clean_environment())
        assert done.returncode == 0, done.stderr


def clean_environment() -> dict:
    # Under `make test` the variables of the outer make would leak into the inner one.
    return {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}


def test_ci_is_executable_and_runs_the_suite():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make --no-print-directory test" in script.read_text()


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=["lint", "format"])
def test_python_passes_ruff(check):
    pytest.importorskip("ruff", reason="make offline installs no packages")
    done = subprocess.run([sys.executable, "-m", "ruff", *check, "."], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
