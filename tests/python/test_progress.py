"""Tests what a user sees while kernels are compiled: a line on a terminal after half a second, nothing elsewhere."""

import os
import pty
import re
import subprocess
import sys

import pytest
from built import BUILD

pytestmark = pytest.mark.slow  # starts processes

FAKE = BUILD / "tests/libtile_fake_cuda.so"
SETUP = f"""
import ctypes, sys, torch, tile_ops
compiles = ctypes.CDLL({str(FAKE)!r}).fake_compiles
compiles.argtypes = ctypes.c_double, ctypes.c_char_p
def softmax():
    return tile_ops.inspect(torch.ops.tile.softmax, torch.randn(5, 300, device="cpu"), -1, what="resources")
"""
SPILLS = "b\"Compiling entry function 'kernel_softmax'\\n 400 bytes spill stores, 400 bytes spill loads\""


@pytest.fixture
def run(tmp_path):
    """Runs code over the fake NVRTC, which needs as long as it is told; gives the text on stderr."""

    def run(code, terminal=True, **variables):
        environment = os.environ | {"TILE_NVRTC": str(FAKE), "TILE_CACHE_DIR": str(tmp_path), "TERM": "xterm"} | variables
        environment.pop("TILE_LOG", None)
        if not terminal:
            done = subprocess.run([sys.executable, "-c", SETUP + code], stderr=subprocess.PIPE, env=environment)
            assert done.returncode == 0
            return done.stderr.decode()
        master, slave = pty.openpty()
        process = subprocess.Popen([sys.executable, "-c", SETUP + code], stderr=slave, env=environment)
        os.close(slave)
        shown = b""
        while True:
            try:
                part = os.read(master, 4096)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            shown += part
        os.close(master)
        assert process.wait() == 0, shown.decode()
        return shown.decode()

    return run


def after(shown):
    """Returns the text that is left on the screen, without lines that were erased."""
    return re.sub(r"[^\n]*\r\x1b\[K", "", shown)


def test_a_slow_compile_of_several_candidates(run):
    shown = run(f"compiles(1.0, {SPILLS})\nsoftmax()")
    assert re.search(r"\rtile: compiling softmax, 0\.[5-9] s\x1b\[K", shown), shown
    assert re.search(r"\rtile: compiling softmax, 1 of [2-8] candidates done, [1-9]\.\d s\x1b\[K", shown), shown
    assert re.fullmatch(
        r"tile: warning: softmax\.cpp:\d+: softmax: its code for sm_90 spills 800 bytes[^\n]*\r\n", after(shown)
    ), shown
    # From the cache on disk there is nothing to wait for.
    assert "compiling" not in run(f"compiles(1.0, {SPILLS})\nsoftmax()")


def test_a_slow_compile_of_cuda_cpp(run):
    shown = run('compiles(1.0, b"")\ntry: tile_ops.cuda_kernel("text", "saxpy").compile(90)\nexcept RuntimeError: pass')
    assert re.search(r"\rtile: compiling saxpy\.cu, 0\.[5-9] s\x1b\[K", shown), shown
    assert after(shown) == ""


def test_nothing_where_it_is_quick_or_no_terminal_looks(run):
    assert run('compiles(0.0, b"")\nsoftmax()') == ""
    code = 'compiles(0.8, b"")\nsoftmax()\ntile_ops.cuda_kernel("text", "saxpy")'
    for terminal, variables in ((False, {}), (True, {"TERM": "dumb"}), (True, {"TILE_PROGRESS": "0"})):
        assert run(code, terminal, TILE_CACHE_MB="0", **variables) == ""


def test_the_line_is_gone_when_compiling_fails(run):
    code = """
compiles(1.0, b"")
try: tile_ops.cuda_kernel("text", "saxpy").compile(20)  # NVRTC does not know it
except RuntimeError as error: print(error)
try: softmax()
finally: print("x", file=sys.stderr)
"""
    assert after(run(code)) == "x\r\n"
