"""The cases of tests/prims/test_language.py with kernels made for a GPU, run by the emulator."""

import pytest
import torch
from emulate_operators import Emulation
from prims.test_language import FAMILIES, check


@pytest.mark.parametrize("family", FAMILIES)
def test_results_equal_the_reference(family):
    operator = Emulation().operator(torch.ops.tt.language)
    for case in FAMILIES[family]():
        check(operator, case)
