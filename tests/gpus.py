"""Tests of a GPU itself, cuda/test_gpu*.py: a run collects the files it has GPUs for, and names the others."""

import pathlib

FOLDER = pathlib.Path(__file__).resolve().with_name("cuda")
TWO = {"test_gpu_devices.py"}


def needed(path):
    """How many GPUs a file of tests takes."""
    if path.parent != FOLDER or not path.name.startswith("test_gpu"):
        return 0
    return 2 if path.name in TWO else 1


def given(device):
    """How many a run on a device has. One that wants a GPU and finds none is to fail, not to be empty."""
    if not device.startswith("cuda"):
        return 0
    import torch

    return max(1, torch.cuda.device_count())


def pytest_ignore_collect(collection_path, config):
    if (wants := needed(collection_path)) and wants > given(config.getoption("device")):
        return True


def left_out(config):
    """Lines about the files of the folders that a run was asked for."""
    asked = [pathlib.Path(argument.split("::")[0]).resolve() for argument in config.args]
    paths = [path for path in FOLDER.glob("test_gpu*.py") if any(each in path.parents for each in asked)]
    here = given(config.getoption("device"))
    for wants in (1, 2):
        names = sorted(path.name for path in paths if needed(path) == wants > here)
        if names:
            why = f"need {wants} GPU{'s' if wants > 1 else ''}, and the run has {here}"
            yield f"left out: {len(names)} of tests/cuda that {why}: {', '.join(names)}"


def pytest_terminal_summary(terminalreporter, config):
    for line in left_out(config):
        terminalreporter.write_line(line)
