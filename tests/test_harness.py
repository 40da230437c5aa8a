"""The harness itself: shards cover the suite once, seeds repeat, a failing or dying C++ test is reported."""

import os
import pathlib
import random
import re
import subprocess
import sys
import types

import gpus
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
HARNESS = ("built.py", "conftest.py", "first_calls.py", "googletest.py", "gpus.py")


def collected(*flags: str, paths=("tests/test_project.py", "tests/support")) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", *paths, *flags]
    usual = {name: value for name, value in os.environ.items() if name != "TILE_LONG"}
    done = subprocess.run(command, cwd=ROOT, env=usual, capture_output=True, text=True)
    return re.findall(r"^\S+::.*$", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_shards_cover_the_suite_once():
    every_test = collected()
    shards = [collected("--shard", f"{i}/3") for i in (1, 2, 3)]
    assert len(every_test) > 10 and sorted(sum(shards, [])) == sorted(every_test)
    assert all(shards)


KINDS = {"f16": "half", "bf16": "half", "f32": "float", "f64": "float"}
KINDS |= {f"{sign}{bits}": "integer" for sign in "iu" for bits in (8, 16, 32, 64)}


@pytest.mark.slow
def test_a_run_without_long_emulates_every_primitive_in_each_kind_of_dtype():
    paths = ["tests/cuda/test_primitives.py", "tests/cuda/test_float_modes_emulated.py"]
    every_test, kept = collected("--long", paths=paths), collected(paths=paths)

    def of_kinds(tests):
        """Returns each test's function and parameters, with the kind of a dtype instead of its name. Leaves out casts of
        a dtype to itself, which test nothing."""
        parts = [re.split(r"[\[\]-]", test) for test in tests]
        return {tuple(KINDS.get(part, part) for part in each) for each in parts if len(set(each)) == len(each)}

    assert len(every_test) > 2 * len(kept) > 0 and of_kinds(kept) == of_kinds(every_test)


@pytest.mark.slow
def test_a_run_without_long_emulates_every_operator_in_two_dtypes():
    with torch.device("cpu"):
        from test_operators import CASES

    dtypes = {case[0].name: set() for case in CASES.values()}
    for test in collected(paths=["tests/cuda/test_operators.py"]):
        if case := re.search(r"::test_operator\[(\w+)-(\w+)\]", test):
            dtypes[CASES[case[1]][0].name].add(case[2])
    assert all(len(each) >= 2 for each in dtypes.values()), dtypes


def test_shard_that_does_not_exist():
    command = [sys.executable, "-m", "pytest", "tests/test_harness.py", "--shard", "4/3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--shard 4/3: expected I/N with 1 <= I <= N, as in --shard 2/4" in done.stderr


@pytest.mark.slow
def test_a_run_goes_on_where_one_ended(tmp_path):
    (tmp_path / "tests").mkdir()
    for name in HARNESS:
        (tmp_path / "tests" / name).write_text((ROOT / "tests" / name).read_text())
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["tests"]\n')
    (tmp_path / "tests" / "test_two.py").write_text("def test_good(): pass\ndef test_bad(): assert 0\n")
    command = [sys.executable, "-m", "pytest", "tests", "--done", "done.txt"]
    first, second = (subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout for _ in range(2))
    assert (tmp_path / "done.txt").read_text() == "tests/test_two.py::test_good\n"
    assert "1 failed, 1 passed" in first and "1 failed, 1 deselected" in second


@pytest.mark.parametrize(
    "device, count, left", [("cpu", 0, 2), ("cpu", 2, 2), ("cuda", 0, 1), ("cuda", 1, 1), ("cuda:0", 2, 0)]
)
def test_files_that_need_more_gpus_are_left_out_and_named(monkeypatch, device, count, left):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    cuda = ROOT / "tests" / "cuda"
    config = types.SimpleNamespace(getoption=lambda _: device, args=[str(ROOT / "tests")])
    files = [cuda / name for name in ("test_gpu_devices.py", "test_gpu.py", "test_shapes.py")]
    ignored = [gpus.pytest_ignore_collect(file, config) for file in files]
    assert ignored == [left > 0 or None, left > 1 or None, None]
    lines = list(gpus.left_out(config))
    assert len(lines) == left
    if left:
        here = int(device != "cpu")
        why = f"need 2 GPUs, and the run has {here}"
        assert lines[-1] == f"left out: 1 of tests/cuda that {why}: test_gpu_devices.py"
    config.args = [str(cuda / "test_shapes.py")]
    assert not list(gpus.left_out(config))


@pytest.mark.parametrize("repeated", [0, 1])
def test_every_test_starts_from_its_seed(repeated, seed):
    assert torch.initial_seed() == seed
    drawn = random.random()
    assert drawn == random.Random(seed).random()


# Stands in for a GoogleTest program: lists two cases, then passes one and fails or dies at the other.
PROGRAM = """#!{python}
import json, pathlib, sys
report = [a.split("json:")[1] for a in sys.argv if a.startswith("--gtest_output=json:")][0]
cases = [{{"name": name, "file": "case.cpp", "line": 1, "result": "COMPLETED"}} for name in ("Good", "Bad")]
if "--gtest_list_tests" not in sys.argv:
    if {dies}:
        sys.exit("killed")
    cases[1]["failures"] = [{{"failure": "one is not two"}}]
pathlib.Path(report).write_text(json.dumps({{"testsuites": [{{"name": "Case", "testsuite": cases}}]}}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("dies, failed, text", [(False, 1, "one is not two"), (True, 2, "test_case ended with 1")])
def test_cpp_failures_are_failures(dies, failed, text, tmp_path):
    # A tree of its own, with this harness in it.
    for name in HARNESS:
        (tmp_path / "tests").mkdir(exist_ok=True)
        (tmp_path / "tests" / name).write_text((ROOT / "tests" / name).read_text())
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["tests"]\n')
    (tmp_path / "tests" / "case").mkdir()
    (tmp_path / "tests" / "case" / "case.cpp").write_text("// a test\n")
    program = tmp_path / "build" / "tests" / "test_case"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.format(python=sys.executable, dies=dies))
    program.chmod(0o755)
    environment = {**os.environ, "TILE_OPS_BUILD_DIR": str(tmp_path / "build")}
    command = [sys.executable, "-m", "pytest", "tests"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert f"{failed} failed" in done.stdout.splitlines()[-1]
    assert text in done.stdout
