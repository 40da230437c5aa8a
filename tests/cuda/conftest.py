"""Tests of a GPU itself, test_gpu*.py, are collected only where the run is on one: pytest --device cuda. What `make quick` takes."""

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


def pytest_ignore_collect(collection_path, config):
    if collection_path.name.startswith("test_gpu") and not config.getoption("device").startswith("cuda"):
        return True
