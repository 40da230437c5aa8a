"""The files of docs/tutorial run from the first line to the last, in the order of their table."""

import pathlib
import re

import fresh_process
import pytest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorial"
FILES = sorted(path.name for path in FOLDER.glob("*.py"))


def test_the_table_has_every_file():
    assert re.findall(r"^\| \[(\w+\.py)\]\(\1\)", (FOLDER / "README.md").read_text(), re.MULTILINE) == FILES
    assert len(FILES) == 5


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_file_runs(name, tmp_path):
    status, written = fresh_process.run(FOLDER / name, tmp_path, TILE_CACHE_DIR=str(tmp_path))
    assert status == 0, written
    assert not list(tmp_path.glob("*.png"))
