"""Tests the messages of a build: before an isolated one fetches torch, and about progress, also on a terminal."""

import os
import pathlib
import pty
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOOK = """
import sys
sys.path.insert(0, sys.argv[1])
import setuptools.build_meta as build_meta
build_meta.{name} = lambda settings=None: ["setuptools's"]  # it would write into the sources
import pip_backend
print(pip_backend.{name}())
"""
BUILD = """
import sys
sys.path.insert(0, sys.argv[1])
import build
build.tell({steps}, 2)
program = "for i in range(1, 41): print(f'[{{i}}/40] Building', flush=True)"
build.ninja([sys.executable, "-c", program], {steps}, hidden=True)
"""


def run(code, *, terminal=False):
    """Runs code with pipes, as pip does; returns (status, stdout, stderr, what a terminal shows)."""
    command = [sys.executable, "-c", code, str(ROOT / "cmake")]
    if not terminal:
        done = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
        return done.returncode, done.stdout, done.stderr, ""
    out, err = os.pipe(), os.pipe()
    child, screen = pty.fork()
    if child == 0:
        os.dup2(out[1], 1)
        os.dup2(err[1], 2)
        os.execv(sys.executable, command)
    shown = b""
    os.close(out[1]), os.close(err[1])
    while True:
        try:
            part = os.read(screen, 4096)
        except OSError:  # on Linux, when the other end is closed
            break
        if not part:
            break
        shown += part
    texts = [os.fdopen(each[0]).read() for each in (out, err)]
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *texts, shown.decode().replace("\r", "")


@pytest.mark.parametrize("name", ["get_requires_for_build_wheel", "get_requires_for_build_editable"])
@pytest.mark.parametrize("terminal", [False, True])
def test_an_isolated_build_says_what_it_fetches(name, terminal):
    code, out, err, shown = run(HOOK.format(name=name), terminal=terminal)
    assert (code, out) == (0, """["setuptools's", 'cmake>=3.26', 'ninja>=1.11', 'torch==2.13.0']\n"""), err
    for text in (err, shown) if terminal else (err,):
        assert text.splitlines()[0] == (
            "tile_ops: an isolated build. pip now fetches torch==2.13.0 with the libraries of CUDA that it needs, which are "
            "gigabytes, CMake and"
        )
        assert "\n    pip install --no-build-isolation .\n" in text


def test_pip_installs_setuptools_alone_before_that():
    text = (ROOT / "pyproject.toml").read_text()
    assert 'requires = ["setuptools>=65"]\nbuild-backend = "pip_backend"\nbackend-path = ["cmake"]\n' in text
    made_for = re.search(r"^TORCH \?= (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert f'TORCH = "{made_for}"' in (ROOT / "cmake" / "pip_backend.py").read_text()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_build_says_how_far_it_is(terminal):
    code, out, err, shown = run(BUILD.format(steps=40), terminal=terminal)
    assert code == 0 and len(out.splitlines()) == 40, err
    for text in (err, shown) if terminal else (err,):
        lines = text.split("\n")
        assert re.fullmatch(r"tile_ops: 40 steps with 2 jobs, about \d+ minutes on an idle machine", lines[0])
        told = [re.fullmatch(r"tile_ops: (\d+) of 40 steps, \d+ s", line) for line in lines[1:] if line]
        assert [int(each[1]) for each in told] == list(range(4, 41, 4))


def test_a_small_build_says_nothing():
    assert run(BUILD.format(steps=3))[2] == ""


def test_a_failed_build_is_an_error():
    code = "import sys; sys.path.insert(0, sys.argv[1]); import build\n"
    status, _, err, _ = run(code + "build.ninja([sys.executable, '-c', 'raise SystemExit(3)'], 1, True)")
    assert status == 1 and "returned non-zero exit status 3" in err
