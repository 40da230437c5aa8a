"""`python -m tile_ops cache`: where the cache is, what it holds, emptying it."""

import os
import subprocess
import sys

import pytest
from tile_ops import __main__ as commands

pytestmark = pytest.mark.slow  # starts processes


def cache(action, folder, **variables):
    environment = os.environ | {"TILE_CACHE_DIR": str(folder)} | variables
    command = [sys.executable, "-m", "tile_ops", "cache", action]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


def test_info_and_clear(tmp_path):
    folder = tmp_path / "kernels"
    (folder / "a").mkdir(parents=True)
    entry, note = folder / "a" / f"{'a' * 64}.bin", folder / "a" / "note.txt"
    entry.write_bytes(bytes(3000))
    note.write_text("not the cache's")
    info = f"folder    {folder}\nentries   1\nsize      2.9 KiB of 5.0 MiB\n"
    assert cache("info", folder, TILE_CACHE_MB="5") == (0, info, "")
    assert cache("clear", folder) == (0, f"removed from {folder}: entries 1, size 2.9 KiB\n", "")
    assert not entry.exists() and note.exists()


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    code, out, _ = cache("info", tmp_path / "file")
    assert (code, out.splitlines()[-1]) == (0, "not used  it is not a folder")
    assert cache("clear", tmp_path / "file") == (0, "nothing removed: it is not a folder\n", "")


def test_wrong_budget(tmp_path):
    error = "TILE_CACHE_MB=1G: it is not a number of MiB; unset it or set it to one, 0 for no cache on disk\n"
    assert cache("info", tmp_path, TILE_CACHE_MB="1G") == (1, "", error)


@pytest.mark.parametrize("words", [[], ["cache"], ["cache", "empty"], ["chache", "info"]])
def test_unknown_commands_show_the_usage(words, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tile_ops", *words])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m tile_ops")
