"""Derived kernels and others, printed as Python: the printed file computes the same."""

import importlib
import importlib.util

import pytest
import tile_ops
import tile_ops.language as tl
import torch
from tile_ops import _C
from tile_ops.language.core.dtypes import of_ir
from tile_ops.language.printer.file import file_of, kernel_text
from tile_ops.language.printer.ir import read

from derive.cases import CASES
from derive.test_gradients import PAIRS, arguments_of


def imported(tmp_path, text, name):
    """Returns the kernel of a name in a text that is written to a file and imported."""
    path = tmp_path / f"printed_{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def launches_of(case, arguments):
    """Returns (kernel, grid, arguments) of the launches of an operator, which are not run."""
    launches = []
    with torch.no_grad():
        _C.record_launches(lambda: case.operator(*arguments), launches)
    return launches


def flat(kernel, arguments):
    """Returns the arguments of a printed kernel: of several parts of one argument each is an argument."""
    parts = {}
    for value, number in _C.passed_arguments(kernel, arguments):
        parts.setdefault(number, []).append(value)
    return [each for number, value in enumerate(arguments) for each in parts.get(number, [value])]


def copied(arguments):
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in arguments]


def axes_of(grid):
    grid = (grid,) if isinstance(grid, int) else tuple(grid)
    return (*grid, *(1,) * (3 - len(grid)))


def gradients_by_source(tmp_path, derivative, grid, arguments, incoming):
    """Computes gradients by the printed kernel, with the memory that its report asks for."""
    found, leaves, inputs, results = derivative._parts(arguments)
    (text,) = derivative._texts(arguments, False)[0]
    values = read(text).body.arguments[len(leaves) + len(results) :]
    axes, memories, outputs = axes_of(grid), [], []
    for i, value in zip(inputs, values):
        way = derivative.report(*arguments)[derivative._name(arguments, i)].split(", or ")[0]
        parts = [axes[int(each.strip(","))] for each in way.split() if each.strip(",").isdigit()]
        memories.append(torch.zeros((*parts, *leaves[i].shape), dtype=of_ir(value.dtype).torch))
        outputs.append((memories[-1], tuple(range(len(parts)))))
    for value in values[len(inputs) :]:  # more places than there are iterations
        shape = (axes[0] * axes[1] * axes[2], 64, *(64,) * (value.rank - 2))
        memories.append(torch.full(shape, torch.nan).to(of_ir(value.dtype).torch))
    made = imported(tmp_path, derivative.source(*arguments), read(text).name)
    made[grid](*flat(derivative.kernel, arguments), *incoming, *memories)
    return [(memory.sum(axes) if axes else memory).to(leaves[i].dtype) for i, (memory, axes) in zip(inputs, outputs)]


@pytest.mark.parametrize("name, dtype", PAIRS, ids=str)
def test_printed_gradients_are_equal(name, dtype, tmp_path):
    case = CASES[name]
    launches = launches_of(case, arguments_of(case, dtype, False))
    for kernel, grid, arguments in launches:
        derivative = tile_ops.derive(kernel)
        _, leaves, inputs, results = derivative._parts(arguments)
        if inputs and results:
            incoming = [torch.randn(leaves[i].shape).to(leaves[i].dtype) for i in results]
            expected = [torch.full_like(leaves[i], torch.nan) for i in inputs]
            derivative[grid](*arguments, *incoming, *expected)
            made = gradients_by_source(tmp_path, derivative, grid, arguments, incoming)
            for ours, theirs in zip(made, expected, strict=True):
                summed = "summed" in str(derivative.report(*arguments)) or "atomics" in str(derivative.report(*arguments))
                exact = dict(rtol=0, atol=0) if not summed else {}
                torch.testing.assert_close(ours, theirs, equal_nan=True, **exact)
        kernel[grid](*arguments)


@pytest.mark.parametrize("name, dtype", PAIRS, ids=str)
def test_printed_kernels_are_equal(name, dtype, tmp_path):
    case = CASES[name]
    for kernel, grid, arguments in launches_of(case, arguments_of(case, dtype, False)):
        passed = [number for _, number in _C.passed_arguments(kernel, arguments)]
        function = read(kernel.ir(*arguments))
        made = imported(tmp_path, file_of([kernel_text(function, kernel, arguments, passed)]), function.name)
        before = copied(flat(kernel, arguments))
        kernel[grid](*arguments)
        made[grid](*before)
        for ours, theirs in zip(before, flat(kernel, arguments), strict=True):
            if isinstance(ours, torch.Tensor):
                torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


@tl.kernel
def exponential_kernel(x, out, N: tl.Constant[int]):
    tl.store(out, (tl.bid(0),), tl.exp(tl.load(x, (tl.bid(0),), (N,))))


def test_a_primitive_without_a_spelling_is_an_error(tmp_path):
    arguments = torch.rand(8), torch.empty(8), 8
    text = exponential_kernel.ir(*arguments).replace(" = exp ", " = unknown ")
    with pytest.raises(NotImplementedError, match=r"test_source.py:\d+:\d+: unknown: this primitive has no spelling in Python"):
        kernel_text(read(text), exponential_kernel, arguments, (0, 1))


def test_an_elementwise_kernel_reads_as_written():
    arguments = torch.rand(8), torch.empty(8), 8
    text = kernel_text(read(exponential_kernel.ir(*arguments)), exponential_kernel, arguments, (0, 1))
    assert text == (
        "@tl.kernel\ndef exponential_kernel(x, out, N: tl.Constant[int]):\n    tl.static_assert(N == 8)\n    block = tl.bid(0)\n"
        "    x_tile = tl.load(x, (block,), (N,))\n    tl.store(out, (block,), tl.exp(x_tile))"
    )
