"""Derived kernels on the emulator: races between blocks and threads, and values against those of the CPU."""

import ctypes
import re

import emulate
import pytest
import torch
from combinations import by_turns
from derive.kernels import CASES
from derive.test_gradients import arguments_of, gradients_of
from tile_ops._derive import traced as derived_kernels


class Emulated:
    """A derived kernel whose launches are emulated."""

    def __init__(self, derived):
        self._derived = derived

    def __getattr__(self, name):
        return getattr(self._derived, name)

    def launch(self, grid, arguments):
        text = self._derived.text
        given = []
        for value, kind in zip(arguments, re.findall(r"%\d+: (array<|[a-z0-9]+)", text[: text.index("\n")])):
            given.append(ctypes.c_float(value) if kind == "f32" else ctypes.c_int64(value) if kind == "i64" else value)
        emulate.run_ir(text, grid, given)


@pytest.mark.parametrize("name, dtype", by_turns(CASES.keys(), [torch.float32, torch.bfloat16]))
def test_gradients_on_the_emulator(name, dtype, monkeypatch):
    case = CASES[name]
    arguments = arguments_of(case, dtype)
    _, expected = gradients_of(case.operator, arguments)
    derived = derived_kernels.Traced.derived
    monkeypatch.setattr(derived_kernels.Traced, "derived", lambda *given: Emulated(derived(*given)))
    _, gradients = gradients_of(case.operator, arguments)
    for ours, reference in zip(gradients, expected):
        scale = reference.abs().max().clamp(min=1)
        tolerance = 1e-4 if dtype == torch.float32 else 3e-2
        assert ((ours.double() - reference.double()).abs().max() / scale).item() < tolerance
