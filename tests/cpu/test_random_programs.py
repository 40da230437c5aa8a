"""Random programs, with and without passes, interpreted and assembled, against torch's evaluation of the same
statements."""

import math

import pytest
import torch
from random_meaning import widened
from random_program import Program
from tile_ops import _C


def differences(got, expected, bound):
    """Elements that are wrong; those whose bound is infinite may be anything."""
    same = (got == expected) | (got.isnan() & expected.isnan()) if got.is_floating_point() else got == expected
    if bound is None or not got.is_floating_point():
        return ~same
    return ~(same | ((got - expected).abs() <= bound) | (bound == math.inf))


BESIDE = 64


def surrounded(x, byte):
    """A copy of the tensor amid bytes of one value, which no result may depend on, and whether all of those are still
    there."""
    count = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, x.stride())) + 2 * BESIDE
    memory = torch.full((count * x.itemsize,), byte, dtype=torch.uint8)
    copy = memory.view(x.dtype).as_strided(x.shape, x.stride(), BESIDE).copy_(x)
    outside = torch.ones(count, dtype=torch.bool)
    outside.as_strided(x.shape, x.stride(), BESIDE).fill_(False)
    return copy, lambda: bool((memory.view(count, x.itemsize)[outside] == byte).all())


def far_apart(x, byte):
    """Returns a copy whose first and last rows are more than 2^31 elements apart, if its elements have at most 4 bytes and it
    has two rows. The memory between the rows is not touched, so it is not checked either."""
    axis = next((axis for axis, n in enumerate(x.shape) if n > 1), None)
    if axis is None or x.itemsize > 4:
        return surrounded(x, byte)
    strides = list(torch.empty(x.shape, device="meta").stride())
    strides[axis] = max(2**31 // (x.shape[axis] - 1), x.numel()) + 64
    count = 1 + sum((n - 1) * stride for n, stride in zip(x.shape, strides))
    return torch.empty(count, dtype=x.dtype).as_strided(x.shape, strides).copy_(x), lambda: True


def mistake(program, expected, passes, byte, run_ir, placed=surrounded):
    """Returns the mistake in the arrays after the program, whose memory lies amid bytes of that value; None: there is none."""
    arrays, untouched = zip(*(placed(a.tensor, byte) for a in program.arrays))
    try:
        run_ir(program.text, program.grid, list(arrays), passes)
    except RuntimeError as error:
        return f"passes {passes}: {error}"
    for array, got, same_around, (x, bound) in zip(program.arrays, arrays, untouched, expected):
        if not same_around():
            return f"passes {passes}: memory next to {array.name} was written"
        wrong = differences(widened(got), x, bound)
        if wrong.any():
            at = tuple(wrong.nonzero()[0].tolist())
            return (
                f"passes {passes}: {array.name}{list(at)} of {array.dtype}{list(x.shape)} is {got[at].item()}, not "
                f"{x[at].item()} (bound {0 if bound is None else bound[at].item()}); {int(wrong.sum())} wrong"
            )
    return None


def run(seed, placed=surrounded):
    """How many elements were compared, and how many of them bit for bit."""
    program = Program(seed)
    expected = program.evaluate()
    for passes in (False, True):
        if text := mistake(program, expected, passes, 0 if (seed + passes) % 2 else 255, _C.run_ir, placed):
            pytest.fail(f"seed {seed}, {text}\n{program.text}")
    bounds = [b for a, (_, b) in zip(program.arrays, expected) if a.written and b is not None]
    return torch.tensor([[b.numel(), int((b < math.inf).sum()), int((b == 0).sum())] for b in bounds]).sum(0)


GROUPS = 10


@pytest.mark.parametrize("group", [*range(2), *(pytest.param(group, marks=pytest.mark.slow) for group in range(2, GROUPS))])
def test_random_programs(group, long, fused_loops):
    total = sum(run(GROUPS * i + group) for i in range(1000 if long else 50))
    elements, compared, exact = total.tolist()
    assert compared > 0.8 * elements and exact > 0.5 * elements, (elements, compared, exact)


def test_strides_beyond_int32(long, fused_loops):
    for seed in range(400 if long else 20):
        run(seed, far_apart)
