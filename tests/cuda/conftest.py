"""What `make quick` and `make test` take of the tests that compile programs of their own for the emulator."""

import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
PRIMITIVES = HERE / "test_primitives.py"
SAMPLE = 7  # one primitive's test of so many is quick
REPEATED = (PRIMITIVES, HERE / "test_float_modes_emulated.py")
KEPT = 3  # of these one test of so many; the others differ from it in dtype and shape, and run under --long


@pytest.hookimpl(tryfirst=True)  # before marks are looked at
def pytest_collection_modifyitems(config, items):
    """Each test of a primitive has programs of its own to compile."""
    for path in REPEATED:
        for i, item in enumerate(item for item in items if item.path == path):
            if path == PRIMITIVES and i % SAMPLE:
                item.add_marker(pytest.mark.slow)
            if i % KEPT and i % SAMPLE and config.getoption("device") == "cpu":
                item.add_marker(pytest.mark.long)
