"""sanitize.py: what compute-sanitizer says is understood, and its calls are those of every operator."""

import operators
import pytest
import sanitize

CLEAN = "========= COMPUTE-SANITIZER\nthe call ran\n========= ERROR SUMMARY: 0 errors\n"
RACES = (
    "the call ran\n========= Error: Race reported between Write access\n"
    "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)\n"
)


@pytest.mark.parametrize(
    "output, code, expected",
    [
        (CLEAN, 0, ("ok", "")),
        ("the call ran\n========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", 0, ("ok", "")),
        (
            "========= Invalid __global__ read\nthe call ran\n========= ERROR SUMMARY: 1 error\n",
            99,
            ("wrong", "========= Invalid __global__ read"),
        ),
        (RACES, 99, ("wrong", "========= Error: Race reported between Write access")),
        ("RuntimeError: no memory\n", 1, ("wrong", "RuntimeError: no memory")),
        ("the call ran\n", 0, ("wrong", "the call ran")),  # without a summary nothing was watched
        ("========= Error: Device not supported.\n", 1, ("unsupported", "========= Error: Device not supported.")),
        ("", 1, ("wrong", "ended with 1")),
    ],
)
def test_what_the_tool_says(output, code, expected):
    assert sanitize.verdict(output, code) == expected


def test_every_operator_is_called():
    names = {name.split()[0] for name in sanitize.listed()}
    backward = {name for name in operators.all_names() if name.endswith("_backward") and "double" not in name}
    assert names >= {name.removesuffix("_backward") for name in backward}


def test_a_missing_tool(monkeypatch, capsys):
    monkeypatch.setattr(sanitize, "found_tool", lambda: None)
    monkeypatch.setattr("sys.argv", ["sanitize.py"])
    assert sanitize.main() == 2
    said = "compute-sanitizer is neither on PATH nor in /usr/local/cuda; install the CUDA toolkit's, or set CUDA_HOME\n"
    assert capsys.readouterr().out == said
