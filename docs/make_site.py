"""Builds the documentation site: `make docs`. Pages go to build/docs, and Sphinx makes build/site of them.

Pages have three sources: those written by hand, those that make_*.py makes from the registry and from docstrings, and
the files of the project that a page links to. Links are changed to the paths in the site. A warning is an error.
"""

import argparse
import os
import pathlib
import re
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
import make_api  # noqa: E402
import make_language  # noqa: E402
import make_programs  # noqa: E402
import make_python_language  # noqa: E402

# The navigation: (title, pages); "*" means all pages of a folder that no other line names.
NAVIGATION = [
    ("Start", ["getting_started", "tutorial/index", "troubleshooting", "glossary", "contents"]),
    ("Operators", ["operators", "api/functional", "api/nn", "api/optim", "api/packs", "api/package", "api/gradients",
                   "patching", "torch_compile", "distributed",
                   "on_a_gpu"]),
    ("Kernels in Python", ["kernels_in_python", "language/functions", "language/differs_from_python", "operators_in_python", "gradients_by_the_compiler",
                           "programs/index", "random_numbers", "raw_cuda"]),
    ("Operators in C++", ["writing_an_operator", "examples", "language/index"]),
    ("Performance", ["measuring", "benchmarks/index"]),
    ("Development", ["contributing", "how_the_compiler_works", "development/code", "development/testing",
                     "development/torch_suite", "development/dependencies", "changelog"]),
]  # fmt: skip
# Pages with pages below them.
CHILDREN = {
    "tutorial/index": ["tutorial/*"],
    "programs/index": ["programs/*"],
    "language/index": ["language/types", "language/views", "language/control_flow", "language/memory_order",
                       "language/debugging", "language/primitives"],
    "language/primitives": ["language/primitives/*"],
    "benchmarks/index": ["benchmarks/*"],
}  # fmt: skip
# The site's path of a file or a folder of the project. Others keep their path, below source/.
SITE_PATHS = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/README.md": "contents.md",
    "docs/language/README.md": "language/index.md",
    "docs/tutorial/README.md": "tutorial/index.md",
    "docs/tutorial": "tutorial/index.md",
    "docs/language": "language/index.md",
    "benchmarks/results": "benchmarks/index.md",
    "benchmarks/results/README.md": "benchmarks/index.md",
    "examples/python": "programs/index.md",
    "python/tile_ops/language/__init__.pyi": "language/functions.md",
    "python/tile_ops/__init__.pyi": "api/package.md",
    "python/tile_ops/functional.py": "api/functional.md",
    "python/tile_ops/nn.py": "api/nn.md",
    "python/tile_ops/optim.py": "api/optim.md",
    "python/tile_ops/packs/__init__.py": "api/packs.md",
}
LEXERS = {".cpp": "cpp", ".h": "cpp", ".def": "cpp", ".cuh": "cpp", ".py": "python", ".pyi": "python", ".sh": "sh"}
# A link to the section "Primitives" of the language has a primitive's name as its title: the site links to its page.
LINK = re.compile(r'\]\((?P<path>[^)\s#]*)(?P<section>#[^)\s]*)?(?: "(?P<title>[^"\n]*)")?\)')


def site_path(path):
    """Returns the path in the site of a file or folder of the project, which is a path from its root."""
    name = path.as_posix()
    if name in SITE_PATHS:
        return pathlib.PurePosixPath(SITE_PATHS[name])
    if path.parts[:2] == ("docs", "tutorial") or path.parts[:2] == ("examples", "python"):
        return pathlib.PurePosixPath("tutorial" if path.parts[0] == "docs" else "programs", path.stem + ".md")
    if path.parts[0] == "docs":
        return pathlib.PurePosixPath(*path.parts[1:])
    if path.parts[:2] == ("benchmarks", "results"):
        return pathlib.PurePosixPath("benchmarks", *path.parts[2:])
    return pathlib.PurePosixPath("source", name + ("/index.md" if (ROOT / path).is_dir() else ".md"))


def outside_code(text, change):
    """Returns the text with `change` applied outside of fenced blocks and inline code."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


class Site:
    """The pages: {path in the site: text or bytes}."""

    def __init__(self):
        self.pages = {}

    def relinked(self, text, origin):
        """Returns the text of a file of the project with links that lead to pages of the site."""
        here = site_path(origin).parent

        def changed(link):
            path, section = link["path"], link["section"] or ""
            if re.match(r"\w+:", path) or not path:
                return link[0]
            target = pathlib.PurePosixPath(os.path.normpath(origin.parent / path))
            if (target.as_posix(), section) == ("docs/language/README.md", "#primitives"):
                to, section = pathlib.PurePosixPath("language/primitives", link["title"] or "").with_suffix(".md"), ""
            else:
                if not (ROOT / target).exists():
                    raise FileNotFoundError(f"{origin}: {path} is not there")
                to = self.add(target)
            return f"]({os.path.relpath(to, here)}{section})"

        return outside_code(text, lambda part: LINK.sub(changed, part))

    def add(self, path):
        """Adds a file or folder of the project, and returns its path in the site."""
        to = site_path(path)
        if to in self.pages:
            return to
        file = ROOT / path
        if path.parts[:2] == ("examples", "python") or to.parts[0] == "api" or to.name == "functions.md":
            return to  # make_*.py makes it
        self.pages[to] = b""  # its links may lead back
        if file.is_dir():
            names = sorted(each.name for each in file.iterdir() if not each.name.startswith(("__", ".")))
            text = f"---\norphan: true\nnosearch: true\n---\n\n# {path}\n\nA folder of the project:\n\n"
            self.pages[to] = text + "".join(f"- `{name}`\n" for name in names)
        elif path.suffix == ".md":
            self.pages[to] = self.relinked(file.read_text(), path)
        elif path.suffix in (".png", ".svg"):
            to = pathlib.PurePosixPath(str(to).removesuffix(".md"))
            self.pages[to] = file.read_bytes()
        elif path.parts[:2] == ("docs", "tutorial"):
            self.pages[to] = tutorial(file)
        else:
            lexer = "cmake" if path.name == "CMakeLists.txt" else LEXERS.get(path.suffix, "text")
            self.pages[to] = (
                f"---\norphan: true\nnosearch: true\n---\n\n# {path.name}\n\n`{path}`:\n\n````{lexer}\n{file.read_text()}````\n"
            )
        return to

    def below(self, patterns):
        """Returns the names of pages; `folder/*` is every page of a folder but its index."""
        found = []
        for pattern in patterns:
            folder = pathlib.PurePosixPath(pattern).parent
            every = sorted(path for path in self.pages if path.parent == folder and path.suffix == ".md")
            every = [path for path in every if str(path.with_suffix("")) not in CHILDREN]
            found += [str(path.with_suffix("")) for path in every] if pattern.endswith("*") else [pattern]
        return found

    def navigate(self):
        """Adds the lists of pages that the navigation shows."""
        for parent, patterns in CHILDREN.items():
            self.pages[pathlib.PurePosixPath(parent + ".md")] += toctree(self.below(patterns))
        for title, names in NAVIGATION:
            self.pages[pathlib.PurePosixPath("index.md")] += toctree(names, title)


def toctree(names, caption=""):
    head = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{head}\n" + "".join(f"/{name}\n" for name in names) + "```\n"


def tutorial(file):
    """Returns the page of a file of the tutorial: the comments that begin a cell are prose, the rest is code."""
    head, *cells = re.split(r"^# %%\n", file.read_text(), flags=re.MULTILINE)
    title, _, subject = head.strip().strip('"').partition(": ")
    text = f"# {title}\n\nThis page is about {subject} It is the file `{file.relative_to(ROOT)}`.\n\n"
    for cell in cells:
        prose, code = re.fullmatch(r"((?:#[^\n]*\n)*)(.*)", cell, re.DOTALL).groups()
        text += re.sub(r"^# ?", "", prose, flags=re.MULTILINE) + "\n"
        text += f"```python\n{code.strip()}\n```\n\n" if code.strip() else ""
    return text


def pages():
    """Returns {path in the site: text or bytes}."""
    site = Site()
    by_hand = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    by_hand += [path.relative_to(ROOT).as_posix() for path in [*HERE.rglob("*.md"), *sorted(HERE.glob("tutorial/*.py"))]]
    by_hand += [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "benchmarks/results").glob("*.md"))]
    made = {
        "language": make_language.pages() | {"functions.md": make_python_language.page()},
        "programs": make_programs.pages(),
        "api": make_api.pages(),
    }
    for folder, texts in made.items():
        site.pages |= {pathlib.PurePosixPath(folder, name): text for name, text in texts.items()}
    for name in by_hand:
        site.add(pathlib.PurePosixPath(name))
    site.navigate()
    return site.pages


def write(folder):
    """Writes the pages. A file whose text is the same keeps its time, so that Sphinx reads only what changed."""
    made = pages()
    for old in folder.rglob("*") if folder.exists() else ():
        if old.is_file() and pathlib.PurePosixPath(old.relative_to(folder).as_posix()) not in made:
            old.unlink()
    for path, content in made.items():
        data = content.encode() if isinstance(content, str) else content
        file = folder / path
        if not file.exists() or file.read_bytes() != data:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)


def build(folder, site, jobs=1):
    """Builds the site of the pages in a folder. Returns 0, or another number after a warning."""
    try:
        from sphinx.cmd.build import main
    except ImportError:
        sys.exit("make docs needs Sphinx, and tests/requirements.txt installs it for Python 3.11 or later only")

    cache = site.with_name(site.name + "-cache")
    options = ["-W", "--keep-going", "-q", "-j", str(jobs), "-b", "html", "-c", str(HERE), "-d", str(cache)]
    return main([*options, str(folder), str(site)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=pathlib.Path, default=ROOT / "build" / "docs", help="where pages are written")
    parser.add_argument("--site", type=pathlib.Path, default=ROOT / "build" / "site", help="where the site is written")
    parser.add_argument("--fresh", action="store_true", help="build every page again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that Sphinx uses")
    options = parser.parse_args()
    if options.fresh:
        for folder in (options.pages, options.site, options.site.with_name(options.site.name + "-cache")):
            shutil.rmtree(folder, ignore_errors=True)
    write(options.pages)
    status = build(options.pages, options.site, options.jobs)
    if status == 0:
        print(f"{os.path.relpath(options.site / 'index.html')}: open it in a browser; no server is needed")
    sys.exit(status)
