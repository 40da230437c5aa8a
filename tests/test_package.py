"""The Python package: import, version check, forwarding, what the library links."""

import pathlib
import re
import subprocess
import sys

import pytest
import torch

import tile_ops

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = pathlib.Path(tile_ops.__file__).parent / "lib" / "libtile_ops.so"


def run_python(code: str, **options) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_imports_from_the_root_of_the_tree():
    # The root holds a folder tile_ops of C++; the package must win over it.
    out = run_python("import tile_ops; print(tile_ops.__file__)", cwd=ROOT)
    assert out == tile_ops.__file__


def test_other_torch_minor_is_an_import_error():
    with pytest.raises(ImportError) as error:
        tile_ops._check_torch("2.13.0", "2.11.0+cu130")
    assert str(error.value) == (
        f"tile_ops {tile_ops.__version__} was built for torch 2.13, but torch 2.11.0+cu130 is installed; run "
        "`pip install 'torch==2.13.*'`, or in the sources of tile_ops "
        "`pip install --no-build-isolation --no-deps --force-reinstall .`"
    )


@pytest.mark.slow
def test_import_checks_the_torch_that_is_present():
    code = "import torch; torch.__version__ = '1.99.0'\ntry: import tile_ops\nexcept ImportError as e: print(e)"
    built = (LIBRARY.parent / "torch_version.txt").read_text().strip().rsplit(".", 1)[0]
    assert f"was built for torch {built}, but torch 1.99.0 is installed; run `pip install " in run_python(code)


def test_same_minor_is_accepted():
    tile_ops._check_torch("2.13.0", "2.13.4+cpu")


def test_unknown_name():
    with pytest.raises(AttributeError) as error:
        tile_ops.no_such_operator
    assert str(error.value) == "module 'tile_ops' has no attribute 'no_such_operator', and torch.ops.tile no such operator"


@pytest.mark.slow
def test_import_is_quick():
    # Not a timing of this machine: what import costs is modules, and torch brings all of them but ours.
    code = "import sys, torch; a = set(sys.modules); import tile_ops; print(*sorted(set(sys.modules) - a))"
    # The formulas of FlopCounterMode are registered where its module is: two small ones of torch's, without triton.
    flops = {"torch.utils.flop_counter", "torch.utils.module_tracker"}
    assert {name for name in run_python(code).split() if name.split(".")[0] != "tile_ops"} <= flops


def test_library_links_torch_cpu_and_c10_only():
    text = subprocess.run(["readelf", "-d", str(LIBRARY)], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", text))
    allowed = {"libtorch_cpu.so", "libc10.so", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6"}
    allowed |= {"libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
    assert needed <= allowed


def test_library_shows_only_its_own_names():
    text = subprocess.run(["nm", "-DC", "--defined-only", str(LIBRARY)], capture_output=True, text=True, check=True).stdout
    names = [line.split(maxsplit=2)[2] for line in text.splitlines() if line.strip()]
    assert [name for name in names if "tile" not in name] == []


def test_cmake_prefix_path():
    assert (pathlib.Path(tile_ops.cmake_prefix_path) / "TileOps" / "TileOpsConfig.cmake").exists()
    assert tile_ops.__version__ == re.search(r'__version__ = "(.*)"', pathlib.Path(tile_ops.__file__).read_text())[1]
    assert torch.ops.tile is not None


@pytest.mark.slow
def test_every_operator_of_the_library_is_registered():
    """In a process of its own: tests of wrong schemas leave their errors in theirs."""
    run_python("from tile_ops import _C; assert _C.registration_errors() == [], _C.registration_errors()")
