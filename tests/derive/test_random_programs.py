"""Derived gradients of random programs, against torch's of the same statements."""

import pytest
import torch
from tile_ops import _C
from tile_ops._derive.traced import Traced

from derive.random_derived import OwnedProgram, Program
from derive.ways import ATOMIC, OWNER, PARTIAL, PLACES, SEGMENTS

WAYS = {
    "partial sums": (PARTIAL, -1), "atomics": (ATOMIC, -1), "folded": (PARTIAL, 0), "folded, atomics": (ATOMIC, 1),
    "transposed": (OWNER, -1), "segments": (PARTIAL, -1, SEGMENTS), "two places": (PARTIAL, -1, PLACES, 2),
}  # fmt: skip


def mistake(seed, kind=Program, ways=WAYS):
    """Returns what is wrong with the gradients of a program; None: nothing."""
    program = kind(seed)
    torch.manual_seed(seed)
    inputs = [torch.randn(sizes, dtype=torch.float64, requires_grad=True) for _, _, sizes in program.inputs]
    results = program.evaluate(inputs)
    outs = [torch.zeros_like(each) for each in results]
    _C.run_ir(program.text, program.grid, [*(each.detach() for each in inputs), *outs], True)
    for ours, expected in zip(outs, results):
        if not torch.allclose(ours, expected, rtol=1e-9, atol=1e-9):
            return f"seed {seed}: the results differ\n{program.text}"
    incoming = [torch.randn_like(each) for each in outs]
    needed = [(r, g) for r, g in zip(results, incoming) if r.requires_grad]
    expected = [None] * len(inputs)
    if needed:
        expected = torch.autograd.grad([r for r, _ in needed], inputs, [g for _, g in needed], allow_unused=True)
    traced = Traced(_C.ReverseKernel(program.text))
    leaves = (*(each.detach() for each in inputs), *outs)
    for way, numbers in ways.items():
        targets = {i: (torch.full_like(inputs[i], torch.nan), False) for i in traced.inputs}
        traced.launch("random", program.grid, leaves, incoming, targets, traced.results, numbers)
        for i in traced.inputs:
            reference = torch.zeros_like(inputs[i]) if expected[i] is None else expected[i]
            if not torch.allclose(targets[i][0], reference, rtol=1e-7, atol=1e-8):
                off = (targets[i][0] - reference).abs().max().item()
                return f"seed {seed}, {way}: the gradient of input {i} is off by {off}\n{program.text}"
    return None


def mistake_if_saved(seed):
    """Returns what is wrong with the gradients if all that may be saved is, compared with those that save nothing."""
    program = Program(seed)
    torch.manual_seed(seed)
    inputs = [torch.randn(sizes, dtype=torch.float64) for _, _, sizes in program.inputs]
    outs = [torch.zeros_like(each) for each in program.evaluate(inputs)]
    incoming = [torch.randn_like(each) for each in outs]
    plain = Traced(_C.ReverseKernel(program.text))
    leaves, grid = (*inputs, *outs), (*program.grid, 1, 1)[:3]
    kernel = plain.kernel.saving(grid, leaves, plain.inputs, plain.results, True, True)
    if kernel is None:
        return None
    blocks = grid[0] * grid[1] * grid[2]
    dtypes = {"f64": torch.float64, "f32": torch.float32, "i32": torch.int32, "i64": torch.int64}
    saved = [torch.zeros((blocks, *shape), dtype=dtypes[dtype]) for dtype, shape, _ in kernel.saved]
    again = [torch.zeros_like(each) for each in outs]
    _C.run_ir(program.text, program.grid, list(leaves), True)
    _C.run_ir(kernel.text, program.grid, [*inputs, *again, *saved], True)
    if not all(torch.equal(x, y) for x, y in zip(outs, again)):
        return f"seed {seed}: the results differ\n{kernel.text}"
    for way, numbers in WAYS.items():
        found = []
        for traced, given in ((plain, leaves), (Traced(kernel), (*leaves, *saved))):
            targets = {i: (torch.full_like(inputs[i], torch.nan), False) for i in plain.inputs}
            traced.launch("random", program.grid, given, incoming, targets, plain.results, numbers)
            found.append([each for each, _ in targets.values()])
        for x, y in zip(*found):
            if not torch.allclose(x, y, rtol=1e-9, atol=1e-9):
                return f"seed {seed}, {way}: a gradient is off by {(x - y).abs().max().item()}\n{kernel.text}"
    return kernel.saved


@pytest.mark.parametrize("part", range(10))
def test_gradients_of_random_programs(part, request):
    count = 200 if request.config.getoption("long") else 20
    for seed in range(part * 1000, part * 1000 + count):
        assert not mistake(seed)


@pytest.mark.parametrize("part", range(4))
def test_gradients_of_random_programs_that_save(part, request):
    count, saving = 500 if request.config.getoption("long") else 30, 0
    for seed in range(part * 1000, part * 1000 + count):
        found = mistake_if_saved(seed)
        assert not isinstance(found, str), found
        saving += found is not None
    assert saving > count / 10


@pytest.mark.parametrize("part", range(4))
def test_gradients_of_random_programs_by_transposed_kernels(part, request):
    count = 2000 if request.config.getoption("long") else 250
    for seed in range(part * 10000, part * 10000 + count):
        assert not mistake(seed, OwnedProgram, {"transposed": WAYS["transposed"]})
