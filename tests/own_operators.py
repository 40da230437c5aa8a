"""Loads the operators of tests/torch/library, torch.ops.tt, once for all tests that call them."""

import os
import pathlib

import pytest
import tile_ops  # noqa: F401  loads the library that the operators link
import torch

_ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARY = (pathlib.Path(os.environ.get("TILE_OPS_BUILD_DIR") or _ROOT / "build" / "dev") / "tests"
           / "libtile_test_operators.so")
if not LIBRARY.exists():
    raise pytest.UsageError(f"{LIBRARY} is not built; run `make build-tests`")
torch.ops.load_library(str(LIBRARY))
