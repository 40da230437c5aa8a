"""Builds the package: setuptools asks, CMake builds and installs into the package (pyproject.toml holds the rest)."""

import importlib.metadata
import os
import pathlib
import re
import sys

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "cmake"))
import build as cmake_build  # noqa: E402


def version() -> str:
    return re.search(r'__version__ = "(.*)"', (ROOT / "python/tile_ops/__init__.py").read_text())[1]


def torch_requirement() -> str:
    """The minor that is built for: a library for one minor does not load in another."""
    try:
        major, minor = importlib.metadata.version("torch").split(".")[:2]
    except importlib.metadata.PackageNotFoundError:
        return "torch>=2.11"
    return f"torch=={major}.{minor}.*"


class CMakeBuild(build_ext):
    def run(self):
        if self.editable_mode or self.inplace:
            prefix = ROOT / "python" / "tile_ops"
        else:
            prefix = pathlib.Path(self.build_lib).resolve() / "tile_ops"
        folder = os.environ.get("TILE_OPS_BUILD_DIR") or pathlib.Path(self.build_temp).resolve()
        cmake_build.build(pathlib.Path(folder), prefix, ["-DTILE_OPS_PYTHON_MODULE=AUTO"], hidden=True)

    def get_outputs(self):
        return []

    def get_output_mapping(self):
        return {}


setup(
    version=version(),
    license="Apache-2.0",  # here, because setuptools before 77 refuses the text in pyproject.toml
    platforms=["Linux x86-64"],
    install_requires=[torch_requirement()],
    package_dir={"": "python"},
    packages=find_packages("python"),
    include_package_data=False,
    package_data={"": ["*.pyi", "py.typed", "_operator_docs.txt", "*.pack"]},
    # Has no sources: it says that the package holds machine code, and runs CMakeBuild.
    ext_modules=[Extension("tile_ops._C", [])],
    cmdclass={"build_ext": CMakeBuild},
)
