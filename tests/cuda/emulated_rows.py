"""Rows of the table of operators whose kernels the emulator runs, and the compilation of a file's launches at once."""

import emulate
import operators
import pytest
import torch
from emulate_operators import Emulation

CALLS = {
    name: (operators.TABLE[row], make) for row, calls in operators.rows_with("emulated").items() for name, make in calls.items()
}


def made(name, dtype):
    """Returns (the operator's row, arguments, keyword arguments) of a call; its kernels are the same each time."""
    row, make = CALLS[name]
    torch.manual_seed(0)
    return row, *make(dtype)


def cases(names):
    """Returns the parameters (name, dtype) of the calls in bfloat16 and float32."""
    return [
        pytest.param(name, dtype, marks=pytest.mark.slow if dtype == torch.float32 else (), id=f"{name}-{str(dtype)[6:]}")
        for name in names
        for dtype in (torch.bfloat16, torch.float32)
    ]


def compile_at_once(request, call):
    """Compiles the launches of the module's selected tests. call(emulation, name, dtype): makes those of one."""
    emulation = Emulation(runs=False)
    for item in request.session.items:
        if getattr(item, "module", None) is request.module and hasattr(item, "callspec"):
            call(emulation, **item.callspec.params)
    emulate.functions(emulation.programs)
