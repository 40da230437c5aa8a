"""Tests of a GPU itself, test_gpu*.py, are collected only where the run is on one: pytest --device cuda."""


def pytest_ignore_collect(collection_path, config):
    if collection_path.name.startswith("test_gpu") and not config.getoption("device").startswith("cuda"):
        return True
