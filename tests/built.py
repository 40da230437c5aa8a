"""Finds what `make build-tests` made: its folder, and the operators of tests/torch/library."""

import os
import pathlib

BUILD = pathlib.Path(os.environ.get("TILE_OPS_BUILD_DIR") or pathlib.Path(__file__).parents[1] / "build" / "dev")
OPERATORS = BUILD / "tests" / "libtile_test_operators.so"


def load_operators():
    """Makes torch.ops.tt."""
    import pytest
    import tile_ops  # noqa: F401  loads the library that the operators link
    import torch

    if not OPERATORS.exists():
        raise pytest.UsageError(f"{OPERATORS} is not built; run `make build-tests`")
    torch.ops.load_library(str(OPERATORS))
