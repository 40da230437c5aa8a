"""Fuzzing of the IR's parser, of schemas and of operators' calls: the corpus in every run, random cases with --long."""

import pathlib
import sys

import pytest
from built import BUILD, OPERATORS
from fuzz import cases

HERE = pathlib.Path(__file__).parent
PARSER = [BUILD / "tests" / "fuzz_parser"]
SCHEMAS = [sys.executable, HERE / "schemas.py"]
CALLS = [sys.executable, HERE / "calls.py"]


def files(folder):
    return sorted((HERE / "corpus" / folder).iterdir())


@pytest.fixture
def failures():
    """A folder that stays, as inputs that fail are wanted again."""
    if not PARSER[0].exists() or not OPERATORS.exists():
        raise pytest.UsageError(f"{PARSER[0]} or {OPERATORS} is not built; run `make build-tests`")
    folder = BUILD / "fuzz"
    folder.mkdir(exist_ok=True)
    return folder


def test_corpus_is_small():
    paths = [path for folder in ("parser", "schemas", "calls") for path in files(folder)]
    assert len(paths) <= 60 and all(path.stat().st_size <= 5000 for path in paths)


def test_corpus_of_the_parser(failures):
    said = cases.run([*PARSER, *files("parser")], failures, ".tile")
    assert not said, said


def test_parser(long, seed, failures):
    folder = failures / "parser"
    flags = ["--corpus", HERE / "corpus" / "parser", "--failures", folder, "--seed", seed]
    said = cases.run([*PARSER, *flags, "--runs", 2_000_000 if long else 10_000], folder, ".tile")
    assert not said, said


# The corpus and random cases in one process: each loads torch.
@pytest.mark.slow
@pytest.mark.parametrize(
    "program, suffix, few, many", [(SCHEMAS, ".txt", 200, 20_000), (CALLS, ".json", 50, 10_000)], ids=["schemas", "calls"]
)
def test_corpus_and_random(program, suffix, few, many, long, seed, failures):
    folder = failures / program[1].stem
    flags = ["--failures", folder, "--seed", seed, "--runs", many if long else few]
    said = cases.run([*program, *files(program[1].stem), *flags], folder, suffix)
    assert not said, said
