"""Combinations of tests' parameters, of which `make test` runs some and `make test-long` all."""

import itertools
import pytest


def long(*values, **more):
    """Returns a parameter that only --long takes, because other tests show the same."""
    return pytest.param(*values, marks=pytest.mark.long, **more)


def by_turns(*axes, kept=1):
    """Returns all combinations of the axes' values for parametrize. An axis is a dict of values by their ids, or values whose
    texts are their ids. Each value of the first axis stays with so many combinations of the others, which take turns; the
    rest is marked long."""
    axes = [axis if isinstance(axis, dict) else {str(value): value for value in axis} for axis in axes]
    others, found = list(itertools.product(*axes[1:])), []
    for i, first in enumerate(axes[0]):
        turn = {(i * kept + k) % len(others) for k in range(kept)}
        for k, names in enumerate(others):
            names = (first, *names)
            values = [axis[name] for axis, name in zip(axes, names)]
            found.append(pytest.param(*values, id="-".join(names), marks=() if k in turn else pytest.mark.long))
    return found
