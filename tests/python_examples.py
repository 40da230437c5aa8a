"""Loads the programs of examples/python, and lets their launches run on the emulator of a GPU, compiled by NVRTC, too."""

import contextlib
import ctypes
import importlib.util
import pathlib
import sys
import unittest.mock

import emulate
import tile_ops.language as tl
from tile_ops import _C

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "examples" / "python"


def load(name):
    """The module of examples/python/<name>.py, under a name that no other module has."""
    known = f"examples_python_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        spec.loader.exec_module(module)
    return sys.modules[known]


def passed(kernel, arguments):
    """Returns the arguments that a launch passes at run time."""
    given = [(each, letter) for each, letter in zip(arguments, kernel.letters) if letter != "c" and each is not None]
    return [
        ctypes.c_float(each) if isinstance(each, float) else ctypes.c_int64(each) if letter == "w" else each
        for each, letter in given
    ]


@contextlib.contextmanager
def on_the_emulator(archs=(80, 90)):
    """Launches of kernels inside run on the emulator; their texts are compiled by NVRTC for these chips. Yields the
    names of the kernels that ran."""
    ran = []

    def launcher(kernel, grid):
        def launch(*arguments):
            size = grid(*arguments) if callable(grid) else grid
            size = (*(size if isinstance(size, tuple) else (size,)), 1, 1, 1)[:3]
            given = passed(kernel, arguments)
            ran.append(kernel.__name__)
            ir = kernel.ir(*arguments)
            if 0 in size:
                return
            (report,) = emulate.run([emulate.Case(ir, size, given)])
            assert not report, (kernel.__name__, report)
            for arch in archs:
                made = _C.cuda_program(ir, given, arch, True, emulate.H200)
                _C.compile_text(made["text"], kernel.__name__, made["entry"], arch, "")

        return launch

    with unittest.mock.patch.object(tl.kernel, "__getitem__", launcher, create=True):
        yield ran
