"""Runs the primitives on the device of the run; what is compared is made on the CPU, whose torch knows every dtype."""

import functools

import on_device
import pytest
from tile_ops import _C


@pytest.fixture(autouse=True)
def _on_the_device(request, device, monkeypatch):
    if device.type != "cpu" and not request.node.get_closest_marker("at_home"):
        monkeypatch.setattr(_C, "run_ir", functools.partial(on_device.run_ir, device))
