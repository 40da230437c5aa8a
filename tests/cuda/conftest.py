"""What `make quick` takes of the tests of primitives."""

import pathlib

import pytest

PRIMITIVES = pathlib.Path(__file__).with_name("test_primitives.py")
SAMPLE = 7  # one primitive's test of so many is quick


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(items):
    """Each test of a primitive has programs of its own to compile."""
    for i, item in enumerate(item for item in items if item.path == PRIMITIVES):
        if i % SAMPLE:
            item.add_marker(pytest.mark.slow)
