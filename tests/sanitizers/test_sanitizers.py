"""The sanitizers' option and runs, without a build: wrong values, the programs that are run, what counts as wrong."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest
from built import BUILD

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
spec = importlib.util.spec_from_file_location("sanitizers_run", HERE / "run.py")
run = sys.modules["sanitizers_run"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)


def option_error(*options):
    sys.path.insert(0, str(ROOT / "cmake"))
    from build import tool

    command = [tool("cmake"), *(f"-D{option}" for option in options), "-P", str(ROOT / "cmake" / "Sanitize.cmake")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    return " ".join(done.stderr.split())


def test_an_unknown_sanitizer_is_an_error():
    assert "TILE_OPS_SANITIZE is 'memory'; choose address (with undefined) or thread, or leave it empty" in option_error(
        "TILE_OPS_SANITIZE=memory"
    )


def test_the_python_module_has_none():
    assert (
        "TILE_OPS_SANITIZE=thread with TILE_OPS_PYTHON_MODULE=AUTO: Python itself has no sanitizer; leave the "
        "module out" in option_error("TILE_OPS_SANITIZE=thread", "TILE_OPS_PYTHON_MODULE=AUTO")
    )


def test_every_cpp_test_program_is_run(pytestconfig):
    if pytestconfig.getoption("without_cpp"):  # nothing is built
        return
    built = set(re.findall(r"^build (test_\w+): phony tests/", (BUILD / "build.ninja").read_text(), re.MULTILINE))
    assert {each.program.name for each in run.runs("address", [])} == built


def test_kernels_run_again_for_each_instruction_set():
    lines = [str(each) for each in run.runs("address", ["baseline", "avx2"])]
    for folder in run.RUN_KERNELS:
        said = [
            line.split(f"test_{folder}")[1] for line in lines if line.endswith(f"test_{folder}") or f"test_{folder} " in line
        ]
        assert said == ["", " TILE_ISA=baseline TILE_ASSEMBLER=off", " TILE_ISA=avx2 TILE_ASSEMBLER=off"]
    assert sum("test_ir" in line for line in lines) == 1
    assert "baseline" in run.machine_isas()


def test_programs_with_threads_run_under_the_thread_sanitizer():
    listed = {each.program.name for each in run.runs("thread", ["baseline"])}
    assert {"test_runtime", "test_support", "test_tile_ops", "test_torch"} <= listed
    assert "test_ir" not in listed


@pytest.mark.parametrize(
    "script, state, said",
    [
        ("echo passed", "ok", ""),
        ("echo one is not two; exit 1", "ended with 1", "one is not two\n"),
        # A child that dies where the test expects it to.
        ('(echo ERROR: leaks > "${ASAN_OPTIONS##*log_path=}.1"); exit 0', "a report", "ERROR: leaks\n"),
        ("echo waits; sleep 60 & wait", "takes longer than 0.3 s; try --seconds", "waits\n"),
        ("kill -SEGV $$", "ended with -11", ""),
        ('test "$TILE_ISA" = avx2 || exit 3', "ok", ""),
    ],
)
def test_what_counts_as_wrong(script, state, said, tmp_path):
    program = tmp_path / "test_program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert run.verdict(run.Run("address", program, {"TILE_ISA": "avx2"}), 0.3 if "sleep" in script else 30) == (state, said)


@pytest.mark.parametrize("file", sorted(HERE.glob("*.supp")), ids=lambda file: file.name)
def test_every_suppression_has_its_reason_and_is_of_others_code(file):
    explained = False
    for line in file.read_text().splitlines():
        explained = line.startswith("#") or explained and line != ""
        if line and not line.startswith("#"):
            assert explained, f"{line}: say why, in a comment above"
            assert re.fullmatch(r"\w+:\S+", line) and "tile" not in line
