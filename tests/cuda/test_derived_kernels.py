"""Derived kernels on the emulator: races between blocks and threads, and values against those of the CPU."""

import pytest
import torch
from combinations import by_turns
from derive.kernels import CASES
from derive.test_gradients import arguments_of, gradients_of
from emulate_operators import Emulation


@pytest.mark.parametrize("name, dtype", by_turns(CASES.keys(), [torch.float32, torch.bfloat16]))
def test_gradients_on_the_emulator(name, dtype):
    case, emulation = CASES[name], Emulation()
    arguments = arguments_of(case, dtype)
    _, expected = gradients_of(case.operator, arguments)
    _, gradients = emulation.call(lambda: gradients_of(case.operator, arguments))
    assert any("_backward" in program["entry"] for program in emulation.programs)
    for ours, reference in zip(gradients, expected):
        scale = reference.abs().max().clamp(min=1)
        tolerance = 1e-4 if dtype == torch.float32 else 3e-2
        assert ((ours.double() - reference.double()).abs().max() / scale).item() < tolerance
