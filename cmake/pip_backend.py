"""Implements the build backend that pyproject.toml names: setuptools, and a note on what an isolated build fetches."""

from setuptools.build_meta import *  # noqa: F403
from setuptools import build_meta

import terminal

# torch is pinned so that an isolated build fetches the version that the release was tested with.
TORCH = "torch==2.13.0"
FETCHED = ["cmake>=3.26", "ninja>=1.11", TORCH]
NOTE = f"""\
tile_ops: an isolated build. pip now fetches {TORCH} with the libraries of CUDA that it needs, which are gigabytes, CMake and
Ninja, all for this build only, and then compiles for some minutes. The package will require that torch.
A faster build against an installed torch (2.11 or later):
    pip install 'setuptools>=65' wheel cmake ninja
    pip install --no-build-isolation .
"""


def _with_note(required):
    terminal.say(NOTE)
    return [*required, *FETCHED]


# pip calls these only for an isolated build, before it fetches anything.
def get_requires_for_build_wheel(config_settings=None):
    return _with_note(build_meta.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings=None):
    return _with_note(build_meta.get_requires_for_build_editable(config_settings))
