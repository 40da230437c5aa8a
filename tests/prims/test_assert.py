"""assert: exact texts, and what is stored when one fails."""

import re

import pytest
import torch
from assertions import Asserting, cases, positive, said
from tile_ops import _C

CASES = cases()


def check(case, run):
    out = torch.zeros_like(case.expected)
    if case.error is None:
        run(case.text, case.grid, [case.a, out])
        assert torch.equal(out, case.expected)
        return
    with pytest.raises(RuntimeError) as error:
        run(case.text, case.grid, [case.a, out])
    assert said(error) == case.message
    # Other blocks may have run or not.
    assert not ((out != 0) & (out != case.expected)).any()


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_error_names_the_failed_assertion(name, passes):
    check(CASES[name], lambda text, grid, arguments: _C.run_ir(text, grid, arguments, passes))


def test_a_kernel_runs_again_after_a_failure():
    case = CASES["a matrix"]
    for _ in range(3):
        check(case, _C.run_ir)
    fine = torch.rand(9, 700) + 0.5
    check(Asserting(case.body, fine, fine, None, case.grid), _C.run_ir)


def test_threads_stop_after_a_failure():
    """The error is that of the first failing block, though many blocks run on all threads."""
    a = torch.ones(2_000_000)
    a[1_234_567] = -1
    case = Asserting(
        positive("1000"),
        a,
        a.clone(),
        "assertion failed: a is positive; element [567] of bool[1000] in block (1234, 0, 0) of kernel check",
        (2000, 1, 1),
    )
    case.expected[1_234_000:1_235_000] = 0
    for _ in range(5):
        check(case, _C.run_ir)
    check(Asserting(case.body, -a, torch.zeros_like(a), None, (0, 1, 1)), _C.run_ir)
    out = torch.zeros_like(a)
    with pytest.raises(RuntimeError) as error:
        _C.run_ir(case.text, case.grid, [-a.abs(), out])
    assert re.fullmatch(
        r"ir:11: assertion failed: a is positive; element \[0\] of bool\[1000\] in block \(\d+, 0, 0\) "
        r"of kernel check",
        said(error),
    )
    assert not out.any()


@pytest.mark.parametrize(
    "line, text",
    [
        ('assert %t {message="a"}', "assert: takes a bool tile, got f32[3]; compare it with something"),
        ('assert %a {message="a"}', "assert: operand 1 is array<f32,1>; it must be a tile: load() it from the array"),
        ("assert %ok", "assert: attribute 'message' is missing"),
        ("assert %ok {message=3}", "assert: attribute 'message' is 3, which is of the wrong kind"),
        ('assert %ok, %ok {message="a"}', "assert: takes 1 operands, got 2"),
    ],
)
def test_what_cannot_be_asserted(line, text):
    source = f"""kernel k(%a: array<f32,1>) {{
%z: i32 = constant {{dtype=i32, value=0}}
%t: f32[3] = load %a, %z {{pad=0.0, shape=[3], steps=[3]}}
%ok: bool[3] = eq %t, %t
{line}
}}
"""
    with pytest.raises((TypeError, ValueError, RuntimeError)) as error:
        _C.run_ir(source, (1, 1, 1), [torch.ones(3)])
    assert str(error.value) == "tile text 5:1: " + text
