"""No code of one instruction set leaks out of csrc/cpu/*/isa under a name that others share."""

import pathlib
import re
import subprocess

import pytest
from built import BUILD


def exported(archive: pathlib.Path, member: str = "") -> list[tuple[str, str]]:
    """(kind, name) of what the archive, or one object of it, lets others link to."""
    out = subprocess.run(["nm", "-A", "-C", "--defined-only", "--extern-only", str(archive)], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    found = re.findall(r":([^:]+):[0-9a-f]+ (\w) (.+)$", out.stdout, re.MULTILINE)
    return [(kind, name) for file, kind, name in found if not member or file == member]


def archive(level: str) -> pathlib.Path:
    path = BUILD / f"libtile_cpu_{level}.a"
    assert path.exists(), f"{path} is not built; run `make build`"
    return path


# A symbol outside the namespace of its instruction set would be linked once for all of them: the copy that the linker
# keeps could be one that this machine cannot run.
@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512"])
def test_symbols_stay_in_their_namespace(level):
    symbols = exported(archive(level))
    assert ("D", f"tile::cpu::{level}::gemm_table") in symbols
    own = re.compile(rf"[^(]*\btile::cpu::{level}::")
    assert [name for _, name in symbols if not own.match(name)] == []


# The matrix products export their table and nothing else to link to.
@pytest.mark.parametrize("level", ["baseline", "avx2", "avx512"])
def test_matrix_products_export_one_table(level):
    names = [name for _, name in exported(archive(level), "gemm.cpp.o")]
    assert names == [f"tile::cpu::{level}::gemm_table"]
