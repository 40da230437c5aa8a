"""print: the text on the standard output, and exact errors."""

import print_cases
import pytest
import tile_ops
import torch
from tile_ops import _C


def test_prints_the_expected_text(capfd, device):
    for passes in (False, True):
        _C.run_ir(print_cases.TEXT, (1, 1, 1), print_cases.arguments(), passes)
        if device.type == "cuda":
            tile_ops.synchronize()
            torch.cuda.synchronize()
        assert capfd.readouterr().out == print_cases.SAID


def test_blocks_in_the_order_of_the_program(capfd, device):
    """Each of many blocks prints all its lines in order."""
    text = """kernel k(%x: array<i32,1>) {
%i: i32 = bid {axis=0}
print %i {format="%d begins\\n"}
print %i {format="%d ends\\n"}
}
"""
    _C.run_ir(text, (50, 1, 1), [torch.zeros(1, dtype=torch.int32)])
    if device.type == "cuda":
        torch.cuda.synchronize()
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines) == sorted(f"{i} {what}" for i in range(50) for what in ("begins", "ends"))
    assert all(lines.index(f"{i} begins") < lines.index(f"{i} ends") for i in range(50))


ERRORS = {
    'print %t {format="%s"}': "print: the conversion %s of '%s' is not known; use d i u o x X for integers and e E f F "
    "g G a A for floats",
    'print %t {format="%"}': "print: the conversion % of '%' is not known; use d i u o x X for integers and e E f F "
    "g G a A for floats",
    'print %t {format="%lls"}': "print: the conversion %lls of '%lls' is not known; use d i u o x X for integers and e E "
    "f F g G a A for floats",
    'print %t {format="%ll"}': "print: the conversion %ll of '%ll' is not known; use d i u o x X for integers and e E f "
    "F g G a A for floats",
    'print %t {format="%d %d"}': "print: '%d %d' has more conversions than the 1 values; give a value for each",
    'print %t, %t {format="%d"}': "print: '%d' has 1 conversions for 2 values; give a conversion for each",
    'print %t {format="%.3f"}': "print: the conversion %.3f does not fit i32[4]; use d, or cast with astype()",
    'print %f {format="%d"}': "print: the conversion %d does not fit f32[4]; use f, or cast with astype()",
    'print %m {format="%d"}': "print: operand 1 is array<i32,1>; it must be a tile: load() it from the array",
}


@pytest.mark.parametrize("line", ERRORS)
def test_exact_errors(line):
    text = f"""kernel k(%m: array<i32,1>) {{
%t: i32[4] = arange {{dtype=i32, size=4}}
%f: f32[4] = arange {{dtype=f32, size=4}}
{line}
}}
"""
    with pytest.raises(Exception) as error:
        _C.run_ir(text, (1, 1, 1), [torch.zeros(4, dtype=torch.int32)])
    assert ERRORS[line] in str(error.value)
