"""The tests of tests/prims/test_float_modes.py with kernels made for a GPU, run by the emulator."""

import pytest
from prims.test_float_modes import *  # noqa: F403
from test_primitives import on_the_emulator, programs  # noqa: F401

pytestmark = pytest.mark.slow
