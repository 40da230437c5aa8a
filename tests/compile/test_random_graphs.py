"""Random programs compute the same when they are compiled; a program that does not is made smaller."""

import re

import pytest
import random_graphs
import torch
from compiled_calls import compiled
from random_graphs import Program, difference, make, shrink

pytestmark = pytest.mark.usefixtures("uncached")
A_GRAPH = 25  # programs that are compiled together
GRAPHS, LONG = 3, 120


def run(programs, device):
    """Returns for each program what differs between it compiled, together with the others, and run by torch."""
    functions = [program.function(f"program{k}") for k, program in enumerate(programs)]

    def together(*arguments):
        return [function(*each) for function, each in zip(functions, arguments)]

    ours, theirs = ([program.make_arguments(device) for program in programs] for _ in range(2))
    expected = together(*theirs)
    results = compiled(together)(*ours)
    return [difference(program, *each) for program, *each in zip(programs, zip(results, ours), zip(expected, theirs))]


def failure(program, device):
    """Returns what differs, or the error of the compiled program; raises what torch itself raises."""
    program.function()(*program.make_arguments(device))
    try:
        return run([program], device)[0]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def tell(program, device):
    smaller = shrink(program, lambda candidate: failure(candidate, device) is not None)
    return f"{smaller.text('program')}\narguments: {smaller.arguments}, seed {smaller.seed}\n{failure(smaller, device)}"


@pytest.mark.parametrize("graph", [*range(GRAPHS), *(pytest.param(k, marks=pytest.mark.long) for k in range(GRAPHS, LONG))])
def test_random_programs_compute_the_same_when_compiled(graph, seed, device):
    programs = [make(seed + k) for k in range(A_GRAPH)]
    try:
        different = [program for program, what in zip(programs, run(programs, device)) if what]
    except Exception:
        different = [program for program in programs if failure(program, device)]
        if not different:
            raise
    alone = [program for program in different if failure(program, device)]
    assert not different, tell(alone[0], device) if alone else f"only together with others: {different[0].text('program')}"


def test_programs_vary(seed):
    text = "\n".join(make(seed + k).text("f") for k in range(300))
    templates = [
        *random_graphs.EXACT,
        *random_graphs.VIEWS,
        *random_graphs.ROUNDED,
        *random_graphs.CONTINUOUS,
        *random_graphs.CHANGES,
    ]
    names = {word for each in templates for word in re.findall(r"\.(\w+)\(", each)}
    assert all(f".{name}(" in text for name in names)


def test_a_program_that_fails_is_made_smaller():
    lines = ["v0 = a0 + a1", "v1 = v0.abs()", "v2 = v1.sin()", "a0.add_(1)", "v4 = torch.maximum(v1, v0)"]
    program = Program([((3,), torch.float32)] * 2, lines, {"v2": False, "v4": True}, 0)

    def fails(candidate):
        candidate.function()(*candidate.make_arguments("cpu"))
        return "maximum" in candidate.text("f")

    smaller = shrink(program, fails)
    assert len(smaller.lines) == 1 and list(smaller.results) == ["v4"]
