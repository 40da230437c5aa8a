"""The kernels of examples/ as a GPU gets them: they do not spill, and in the emulator do as the CPU's."""

import pathlib
import sys

import pytest
import torch
from emulate_operators import Emulation
from tile_ops import _C


@pytest.fixture(scope="module")
def kernels():
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
    import build_cpp

    build_cpp.load("tile_kernels")
    return torch.ops.kernels


# name: the operator's arguments. What a GPU gets of it does as the CPU's kernel does.
CALLS = {
    "transpose": lambda: (torch.randn(1, 70, 33),),
    "heat": lambda: (torch.randn(20, 300), 0.2, 1),
    "histogram": lambda: (torch.randn(9000), 7, -1.0, 1.0),
    "prefix_sum": lambda: (torch.randint(-9, 9, (9001,)),),
    "top_k": lambda: (torch.randn(2, 3000).round(decimals=1), 33),
    "fft": lambda: (torch.randn(1, 4096, dtype=torch.complex64), False, True),
    "picture_attention": lambda: (*torch.randn(3, 1, 2, 70, 64).bfloat16(), torch.randn(2, 13, 19), 0.3, 5.0),
    "slope_attention": lambda: (*torch.randn(3, 1, 2, 70, 64).bfloat16(), torch.rand(2), 0.3),
    "quantise": lambda: (torch.randn(70, 128), 4),
    "quantised_matmul": lambda: (
        torch.randn(20, 128).bfloat16(),
        torch.randint(0, 255, (70, 64), dtype=torch.uint8),
        torch.rand(70, 2),
    ),
    "option_price": lambda: (torch.tensor([1]), 100.0, 95.0, 0.01, 0.3, 0.5, 3, 3000, "asian"),
}
each_call = pytest.mark.parametrize("name", CALLS)


def meta(x):
    return torch.empty_like(x, device="meta") if isinstance(x, torch.Tensor) else x


@pytest.mark.slow  # NVRTC
@each_call
def test_a_gpu_s_kernels_do_not_spill(kernels, name):
    """In their usual configuration, or in one of those that are tried where that spills."""
    operator, arguments = getattr(kernels, name), list(map(meta, CALLS[name]()))
    spilled = {}
    for which in ("usual", "configurations"):
        for row in _C.inspect(which, 90, 0, lambda: operator(*arguments)):
            if spilled.get(row["kernel"], 1):
                code = _C.compile_text(row["text"], row["kernel"], row["entry"], row["arch"], row["path"])
                spilled[row["kernel"]] = code["spill_stores"] + code["spill_loads"]
        if not any(spilled.values()):
            break
    assert spilled and not any(spilled.values()), spilled


def test_attention_in_cpp_runs_on_warpgroup_instructions(kernels):
    q, slope = torch.empty(4, 16, 4096, 128, dtype=torch.bfloat16, device="meta"), torch.empty(16, device="meta")
    (row,) = _C.inspect("usual", 90, 0, lambda: kernels.slope_attention(q, q, q, slope, 0.1))
    assert row["path"] == "wgmma", row["why"]


@pytest.mark.slow  # compiles for the emulator
@each_call
def test_a_gpu_s_kernels_do_as_the_cpu_s(kernels, name):
    emulator = Emulation()
    operator, arguments = getattr(kernels, name), CALLS[name]()
    results = emulator.operator(operator)(*arguments), operator(*arguments)
    assert emulator.programs
    for ours, theirs in zip(*(each if isinstance(each, tuple) else (each,) for each in results)):
        if not theirs.dtype.is_floating_point and not theirs.dtype.is_complex:
            assert torch.equal(ours, theirs)
        else:
            exact = theirs.to(torch.complex128 if theirs.dtype.is_complex else torch.float64)
            rounded = theirs.dtype == torch.bfloat16 or name == "fft"
            assert (ours - exact).abs().max() <= (0.02 if rounded else 1e-5) * exact.abs().max()
