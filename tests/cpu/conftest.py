"""Tests of fused loops run them as machine code and interpreted."""

import pytest
from tile_ops import _C


@pytest.fixture(params=["assembled", "interpreted"])
def fused_loops(request):
    _C.assemble_fused_loops(request.param == "assembled")
    yield request.param
    _C.assemble_fused_loops(True)
