"""assert in kernels made for a GPU, run by the emulator: the texts of the CPU, and those of clusters."""

import emulate
import pytest
import torch
from assertions import Asserting, positive
from emulate import Case
from emulate_operators import Emulation, to_gpu
from prims.test_assert import CASES, check
from tile_ops import _C


@pytest.fixture(scope="module")
def programs():
    """Compiles the programs of all cases at once."""
    arguments = {name: [case.a, torch.zeros_like(case.expected)] for name, case in CASES.items()}
    emulate.functions(
        [
            Case(case.text, case.grid, arguments[name], passes).program
            for name, case in CASES.items()
            for passes in (False, True)
        ]
    )


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_errors_equal_those_of_the_cpu(programs, name, passes):
    check(CASES[name], lambda text, grid, arguments: emulate.run_ir(text, grid, arguments, passes))


@pytest.mark.parametrize("index", [None, (3, 5), (2, 1111), (1, 2047)])
def test_all_blocks_of_a_cluster_end(index):
    """Whichever of them holds the element; the cluster stands for one block of the grid."""
    a = torch.rand(12, 2048) + 0.5
    row = 8
    error = None
    if index:
        a[row + index[0], index[1]] = -1
        error = f"assertion failed: a is positive; element [{index[0]},{index[1]}] of bool[4,2048] in block (2, 0, 0) of kernel check"
    expected = a.clone()
    if index:
        expected[row:] = 0
    # After the assertion there is a sum that the blocks exchange.
    body = (
        positive("4,2048", "%i, %z")
        + """
%s: f32[4] = reduce_sum %t {axes=[1]}
%w: f32[4,1] = reshape %s {shape=[4,1]}
store %b, %w, %i, %z {steps=[4,1]}"""
    )
    case = Asserting(body, a, expected, error, (3, 1, 1))
    given = Case(case.text, case.grid, [a, torch.zeros_like(a)], block_bytes=2048)
    assert given.program["cluster"] == 16 and "first_false_in_cluster<" in given.program["text"]
    (report,) = emulate.run([given])
    assert report == (error and (case.message,))
    out = given.arguments[1]
    assert not out[row:].any() if index else torch.equal(out[:, 1:], a[:, 1:])
    torch.testing.assert_close(out[:row, 0], a[:row].sum(1))


def test_a_scalar_ends_a_cluster_before_its_blocks_have_met():
    body = """%first: bool = lt %i, %one
assert %first {message="only the first"}
""" + positive("4,2048", "%i, %z")
    a = torch.rand(8, 2048) + 0.5
    case = Asserting(body, a, a, "assertion failed: only the first; block (1, 0, 0) of kernel check", (2, 1, 1))
    given = Case(case.text, case.grid, [a, torch.zeros_like(a)], block_bytes=2048)
    assert given.program["cluster"] == 16
    assert emulate.run([given]) == [(case.message,)]
    assert torch.equal(given.arguments[1][:4], a[:4]) and not given.arguments[1][4:].any()


def test_under_the_emulation_of_an_operator_the_error_is_the_same():
    case = CASES["a matrix"]
    metas = [to_gpu(case.a), to_gpu(torch.zeros_like(case.expected))]
    with pytest.raises(RuntimeError) as error:
        Emulation().call(lambda: _C.run_ir(case.text, case.grid, metas))
    assert str(error.value) == case.message


def test_kernels_without_assertions_have_no_trace_of_them():
    body = positive("4").replace('assert %ok {message="a is positive"}\n', "")
    program = Case(Asserting(body, torch.ones(4), torch.ones(4), None).text, (1, 1, 1), [torch.ones(4), torch.ones(4)]).program
    assert program["assertions"] == [] and "ailure" not in program["text"] and "assert" not in program["text"]
