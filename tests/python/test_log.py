"""Tests that TILE_LOG reaches Python's logging: records of "tile_ops" if a handler listens, otherwise lines on stderr."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # starts processes


def said(code, log="1"):
    """Runs code in a new process and returns (stdout, stderr)."""
    code = "import logging, os, threading, time, torch, tile_ops\nfrom tile_ops import _C\n" + code
    # Python 3.12 warns of a fork of a process that has threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"TILE_LOG": log})
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


LISTEN = "logging.basicConfig(format='%(levelname)s %(name)s %(message)s')\n"
ONE, TWO = "_C.log('one', False)\n", "_C.log('two', True)\n"  # without the GIL, and with it


def test_without_a_handler_lines_are_on_stderr():
    assert said(ONE + TWO) == ("", "tile: one\ntile: two\n")


def test_with_a_handler_they_are_records_and_once():
    assert said(LISTEN + ONE + TWO) == ("", "INFO tile_ops one\nINFO tile_ops two\n")


def test_of_a_kernel():
    out, err = said(LISTEN + "tile_ops.softmax(torch.ones(2, 3), -1)\ntile_ops.softmax(torch.ones(2, 4), -1)")
    assert err.startswith("INFO tile_ops softmax: traced and compiled in ") and err.count("\n") == 1


def test_a_line_is_delivered_before_the_call_returns():
    """Logs without the GIL, as operators do; what is printed next must come after the line."""
    code = "logging.basicConfig(format='%(message)s', stream=__import__('sys').stdout)\n"
    out, _ = said(code + "for i in range(50):\n    _C.log(f'a{i}', False)\n    print(f'b{i}', flush=True)")
    assert out.split() == [each for i in range(50) for each in (f"a{i}", f"b{i}")]


def test_a_level_that_was_set_is_obeyed():
    assert said(LISTEN + "logging.getLogger('tile_ops').setLevel(logging.WARNING)\n" + ONE) == ("", "")


def test_a_handler_that_comes_and_goes():
    code = ONE + "handler = logging.StreamHandler()\nlogging.getLogger('tile_ops').addHandler(handler)\n" + ONE
    code += "logging.getLogger('tile_ops').removeHandler(handler)\n" + ONE
    assert said(code) == ("", "tile: one\none\ntile: one\n")


def test_off_is_silent_and_has_no_thread():
    code = LISTEN + ONE + TWO + "print(len(os.listdir('/proc/self/task')))\n"
    before = "print(len(os.listdir('/proc/self/task')))\n" + code
    out, err = said(before, log="0")
    assert err == "" and len(set(out.split())) == 1


def test_many_threads():
    code = """
lines = []
class Handler(logging.Handler):
    def emit(self, record):
        time.sleep(1e-4)  # it lets go of the GIL
        lines.append(record.getMessage())
logging.getLogger("tile_ops").addHandler(Handler())
threads = [threading.Thread(target=lambda k=k: [_C.log(f"{k} {i}", bool(i % 2)) for i in range(40)]) for k in range(6)]
for each in threads: each.start()
for each in threads: each.join()
_C.end_log()
for k in range(6):
    assert [line for line in lines if line.startswith(f"{k} ")] == [f"{k} {i}" for i in range(40)]
assert len(lines) == 240
_C.log("later", False)
"""
    assert said(code) == ("", "tile: later\n")


def test_a_handler_that_fails_ends_nothing():
    code = "class Handler(logging.Handler):\n    def handle(self, record):\n        raise KeyError('own')\n"
    code += "logging.getLogger('tile_ops').addHandler(Handler())\n" + ONE + "print('on')\n"
    out, err = said(code)
    assert out == "on\n" and "KeyError: 'own'" in err and err.endswith("tile: one\n")


def test_after_a_fork():
    code = (
        LISTEN
        + ONE
        + """
child = os.fork()
_C.log('child' if child == 0 else 'parent', False)
if child == 0:
    _C.end_log()
    os._exit(0)
os.waitpid(child, 0)
"""
    )
    _, err = said(code)
    assert sorted(err.splitlines()) == ["INFO tile_ops child", "INFO tile_ops one", "INFO tile_ops parent"]


def test_what_is_logged_last_is_not_lost():
    assert said(LISTEN + "[_C.log(str(i), True) for i in range(100)]")[1].count("INFO") == 100
