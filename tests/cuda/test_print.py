"""print in kernels made for a GPU: run by the emulator, and taken by NVRTC."""

import ctypes

import emulate
import print_cases
from tile_ops import _C


def test_prints_the_expected_text(capfd):
    assert emulate.run([emulate.Case(print_cases.TEXT, (1, 1, 1), print_cases.arguments())]) == [None]
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == print_cases.SAID


def test_nvrtc_takes_it():
    arguments = [argument.to("meta") for argument in print_cases.arguments()]
    assert len(_C.inspect("code", 90, 0, lambda: _C.run_ir(print_cases.TEXT, (1, 1, 1), arguments))) == 1
