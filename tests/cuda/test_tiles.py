"""The cases of tests/prims/test_tiles.py with kernels made for a GPU, run by the emulator."""

import emulate
import pytest
import torch
from emulate_operators import Emulation
from prims.test_tiles import FAMILIES, call, check

pytestmark = pytest.mark.slow


def sample(family):
    """Every so-manieth case of a family, so that all of them compile in a minute."""
    cases = list(FAMILIES[family]())
    return cases[:: max(1, len(cases) // 24)]


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """All programs at once."""
    emulation = Emulation(runs=False)
    for family in FAMILIES:
        for case in sample(family):
            call(emulation.operator(torch.ops.tt.tiles), case)
    emulate.functions(emulation.programs)


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_torch(family):
    operator = Emulation().operator(torch.ops.tt.tiles)
    for case in sample(family):
        check(case, call(operator, case))
