"""Tests of sweeps run them as machine code and interpreted."""

import pytest
from tile_ops import _C


@pytest.fixture(params=["assembled", "interpreted"])
def sweeps(request):
    _C.assemble_sweeps(request.param == "assembled")
    yield request.param
    _C.assemble_sweeps(True)
