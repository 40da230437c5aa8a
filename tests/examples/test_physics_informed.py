"""examples/physics_informed.py: the loss takes a derivative through attention, and training one of it."""

import pathlib
import sys

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def test_a_network_learns_the_solution(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import physics_informed

    _, error = physics_informed.train(steps=150)
    assert error < 0.05
    del sys.modules["physics_informed"]
