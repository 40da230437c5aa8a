"""The GPU's text of kernels in Python, run by the emulator, and compiled by NVRTC."""

import emulate
import pytest
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator, passed
from python_programs import PROGRAMS
from tile_ops import _C

pytestmark = pytest.mark.at_home


def cases():
    made = {}
    for name, make in PROGRAMS.items():
        torch.manual_seed(7)
        kernel, grid, arguments, wanted = make()
        grid = grid(*arguments) if callable(grid) else grid
        grid = ((*grid, 1, 1) if isinstance(grid, tuple) else (grid, 1, 1))[:3]
        made[name] = emulate.Case(kernel.ir(*arguments), grid, passed(kernel, arguments)), arguments, wanted
    return made


def test_programs_on_the_emulator():
    made = cases()
    reports = emulate.run([case for case, _, _ in made.values()])
    for (name, (_, arguments, wanted)), report in zip(made.items(), reports):
        assert not report, (name, report)
        for index, want in wanted.items():
            tolerance = {torch.float32: 2e-5, torch.bfloat16: 2e-2}.get(arguments[index].dtype, 0)
            torch.testing.assert_close(
                arguments[index].double(), want.double(), rtol=tolerance, atol=tolerance, msg=lambda m: f"{name}: {m}"
            )


@pytest.mark.parametrize("name", ["softmax", "matmul_bfloat16", "causal_attention", "bitonic_sort"])
@pytest.mark.parametrize("arch", [80, 90])
def test_nvrtc_compiles_them(name, arch):
    kernel, _, arguments, _ = PROGRAMS[name]()
    program = _C.cuda_program(kernel.ir(*arguments), passed(kernel, arguments), arch)
    assert program["entry"] in program["text"]


@pytest.mark.parametrize("hints, arch, bounds", [
    ({}, 90, "(256, 4)"), ({"num_worker_warps": 4}, 80, "(128, 8)"), ({"num_worker_warps": 16}, 90, "(512, 2)"), ({"num_worker_warps": 8, "occupancy": 3}, 90, "(256, 3)"),
    ({"num_worker_warps": tl.ByTarget(default=4, sm_90=8)}, 80, "(128, 8)"),
    ({"num_worker_warps": tl.ByTarget(default=4, sm_90=8)}, 90, "(256, 4)"), ({"occupancy": 32}, 90, "(256, 8)"),
])  # fmt: skip
def test_hints_reach_the_text(hints, arch, bounds):
    kernel = PROGRAMS["softmax"]()[0].replace_hints(**hints)
    x = torch.randn(4, 4096)
    out = torch.empty_like(x)
    arguments = x, out, 1.0, 4096
    program = _C.cuda_program(kernel.ir(*arguments), passed(kernel, arguments), arch)
    assert f"TILE_KERNEL{bounds}" in program["text"]
    (report,) = emulate.run([emulate.Case(kernel.ir(*arguments), (4, 1, 1), passed(kernel, arguments))])
    assert not report
    torch.testing.assert_close(out, torch.softmax(x, 1))


@tl.kernel
def wide_kernel(out, n: tl.ScalarInt64, scale: float):
    tl.store(out, 0, n * 2)
    tl.store(out, 1, (scale * 4).astype(tl.int64))


def test_an_integer_of_64_bits():
    out = torch.zeros(2, dtype=torch.int64)
    with on_the_emulator() as ran:
        wide_kernel[1](out, 2**40, 0.5)
    assert ran == ["wide_kernel"] and out.tolist() == [2**41, 2]
