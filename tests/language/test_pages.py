"""The page of all functions is what the functions say, and every function says something."""

import importlib.util
import pathlib

from tile_ops import language
from tile_ops.language.core.registry import LanguageFunction

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_page_is_current():
    spec = importlib.util.spec_from_file_location("make_python_language", ROOT / "docs" / "make_python_language.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert maker.PAGE.read_text() == maker.page(), "run docs/make_python_language.py"


def test_every_function_has_a_doc_and_a_signature():
    functions = {
        name: getattr(language, name) for name in language.__all__ if isinstance(getattr(language, name), LanguageFunction)
    }
    assert len(functions) > 100
    for name, function in functions.items():
        assert function.__doc__ and function.__doc__[0] != " ", name
        assert function.__signature__ is not None, name


def test_the_pages_of_the_programs_are_current():
    spec = importlib.util.spec_from_file_location("make_programs", ROOT / "docs" / "make_programs.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    made = maker.pages()
    assert {path: path.read_text() for path in maker.PAGES.glob("*.md")} == made, "run docs/make_programs.py"
