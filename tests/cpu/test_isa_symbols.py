"""No code of one instruction set leaks: an object of csrc/cpu/isa defines tables in its own namespace, and nothing else to link to."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TILE_OPS_BUILD_DIR") or ROOT / "build" / "dev")


def exported(archive: pathlib.Path) -> list[tuple[str, str]]:
    out = subprocess.run(["nm", "-C", "--defined-only", "--extern-only", str(archive)], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return re.findall(r"^[0-9a-f]+ (\w) (.+)$", out.stdout, re.MULTILINE)


@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512"])
def test_only_tables_are_visible(level):
    archive = BUILD / f"libtile_cpu_{level}.a"
    assert archive.exists(), f"{archive} is not built; run `make build`"
    symbols = exported(archive)
    assert ("D", f"tile::cpu::{level}::gemm_table") in symbols or ("R", f"tile::cpu::{level}::gemm_table") in symbols
    # Weak (W, V, u) or code (T) would be linked once for all instruction sets, or called from outside.
    leaks = [name for kind, name in symbols if kind not in "DR" or not re.fullmatch(rf"tile::cpu::{level}::\w+_table", name)]
    assert leaks == []
