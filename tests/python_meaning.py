"""Compares functions of integers run by Python with a launch, kernel.debug and the emulator."""

import unittest.mock

import tile_ops.language as tl
import torch
from python_examples import on_the_emulator
from tile_ops.language.functions.static import SpecialForm

SIZE = 8  # the most integers that a function may return


def as_python(function, given):
    """Returns Python's result; static_iter and similar forms return their first argument."""
    with unittest.mock.patch.object(SpecialForm, "__call__", lambda self, value, *_: value):
        value = function(*given)
    return [int(each) for each in (value if isinstance(value, tuple) else (value,))]


def wrapped(number):
    """Returns the number wrapped to int32."""
    return (number + 2**31) % 2**32 - 2**31


def kernel_of(*functions, count=None):
    """Returns a kernel that stores each function's result, an integer or a tuple of them, in a row of its own.
    count: the number of arguments, which the kernel then takes one by one; None to take them as one tuple."""

    def stored(out, given):
        for row, function in tl.static_iter(enumerate(functions)):
            value = function(*given)
            if tl.static_eval(not isinstance(value, tuple)):
                value = (value,)
            for i, each in tl.static_iter(enumerate(value)):
                tl.store(out, (row, i), tl.reshape(tl.astype(each, tl.int64), (1, 1)))

    def of_one(out, a):
        stored(out, (a,))

    def of_two(out, a, b):
        stored(out, (a, b))

    def of_three(out, a, b, c):
        stored(out, (a, b, c))

    return tl.kernel({None: stored, 1: of_one, 2: of_two, 3: of_three}[count])


def _check(functions, given, run):
    out = torch.full((len(functions), SIZE), -77)
    run(out, given)
    for function, row in zip(functions, out.tolist()):
        want = as_python(function, given)
        got = row[: len(want)]
        assert got == want or got == list(map(wrapped, want)), (function.__name__, given, got, want)


def same(function, *cases, debug=True):
    """Checks that a launch and debug return for each case, a tuple of arguments, what Python returns."""
    kernel = kernel_of(function)
    for case in cases:
        case = case if isinstance(case, tuple) else (case,)
        _check([function], case, kernel[1])
        if debug:
            _check([function], case, lambda *given: kernel.debug(1, *given))


def same_on_the_emulator(functions, *cases):
    """Runs all functions in one kernel on the emulator; for the first case NVRTC compiles it, too."""
    cases = [case if isinstance(case, tuple) else (case,) for case in cases]
    kernel = kernel_of(*functions, count=len(cases[0]))
    for archs, case in zip([(90,)] + [()] * len(cases), cases):
        with on_the_emulator(archs=archs):
            _check(functions, case, lambda out, given: kernel[1](out, *given))
