"""Tests the pages of Python kernels: every function is on one with its whole docstring, and every program has its own."""

import pathlib
import re
import sys

from tile_ops import language
from tile_ops.language.core.registry import LanguageFunction

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import make_api  # noqa: E402
import make_programs  # noqa: E402
import make_python_language  # noqa: E402


def test_every_function_is_on_the_page():
    page = make_python_language.page()
    functions = {
        name: getattr(language, name) for name in language.__all__ if isinstance(getattr(language, name), LanguageFunction)
    }
    assert len(functions) > 100
    for name, function in functions.items():
        assert function.__signature__ is not None, name
        entry = re.search(rf"^::::{{py:function}} tile_ops\.language\.{name}\(([^\n]*)\)$(.*?)^::::$", page, re.M | re.S)
        assert all(parameter in entry[1] for parameter in function.__signature__.parameters), name
        assert make_api.markdown(function.__doc__) in entry[2], name


def test_every_program_has_a_page_with_its_code():
    made = make_programs.pages()
    files = sorted((ROOT / "examples" / "python").glob("*.py"))
    assert set(made) == {"index.md"} | {f"{path.stem}.md" for path in files}
    for path in files:
        page = made[f"{path.stem}.md"]
        assert f"]({path.stem}.md)" in made["index.md"]
        (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        assert path.read_text().endswith(code) and "def " in code
        assert re.search(r"^programs::\w+\(", page, re.MULTILINE), f"{path.name}: no operator"
