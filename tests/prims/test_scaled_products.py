"""mma_scaled: values of 8 bits with a power of two for each block of them; special scales; exact errors."""

import math

import pytest
import scaled_cases
import torch
from tile_ops import _C


@pytest.mark.parametrize("pair", scaled_cases.PAIRS, ids="-".join)
@pytest.mark.parametrize("shape, each, batch", scaled_cases.SHAPES)
def test_is_the_product(pair, shape, each, batch):
    for passes in (False, True):
        text, arguments, expected = scaled_cases.case(*pair, shape, each, batch)
        _C.run_ir(text, (1, 1, 1), arguments, passes)
        assert torch.equal(arguments[-1], expected)


def test_the_least_and_the_greatest_scale_and_none():
    text, arguments, _ = scaled_cases.case("f8e4m3", "f8e4m3", (1, 1, 1), 1)
    x, xs, y, ys, acc, out = arguments
    x.copy_(torch.ones(1, 1)), y.copy_(torch.ones(1, 1)), acc.zero_()
    for left, right, expected in ((0, 254, 1.0), (254, 127, 2.0**127), (127, 0, 2.0**-127), (255, 127, math.nan)):
        xs.fill_(left), ys.fill_(right)
        _C.run_ir(text, (1, 1, 1), arguments)
        assert torch.equal(out, torch.full((1, 1), expected)) or (math.isnan(expected) and out.isnan().all())


ERRORS = {
    (
        "f32[4,8]",
        "u8[4,1]",
        "f8e4m3[8,2]",
        "u8[1,2]",
        "f32[4,2]",
    ): "mma_scaled: cannot scale f32[4,8]; operands are f8e4m3 or f8e5m2",
    (
        "f8e4m3[4,8]",
        "u8[4,3]",
        "f8e4m3[8,2]",
        "u8[1,2]",
        "f32[4,2]",
    ): "mma_scaled: the scales of f8e4m3[4,8] are u8[4,3]; they are u8, the bits of e8m0, one for each block of "
    "elements along axis 1",
    (
        "f8e4m3[4,8]",
        "u8[4,1]",
        "f8e5m2[8,2]",
        "u8[2,2]",
        "f16[4,2]",
    ): "mma_scaled: cannot multiply into f16[4,2]; scaled products accumulate in f32",
    (
        "f8e4m3[8]",
        "u8[1]",
        "f8e5m2[8,2]",
        "u8[2,2]",
        "f32[4,2]",
    ): "mma_scaled: cannot multiply f8e4m3[8]; all must have 2 or all 3 axes",
}


@pytest.mark.parametrize("types", ERRORS, ids=str)
def test_exact_errors(types):
    parameters, lines = [], ["%z: i32 = constant {dtype=i32, value=0}"]
    for i, kind in enumerate(types):
        dtype, sizes = kind.split("[")
        rank = sizes.count(",") + 1
        parameters.append(f"%a{i}: array<{dtype},{rank}>")
        lines.append(
            f"%t{i}: {kind} = load %a{i}, {', '.join(['%z'] * rank)} {{pad={'0' if dtype == 'u8' else '0.0'}, "
            f"shape=[{sizes}, steps=[{sizes}}}"
        )
    lines.append(f"%r: {types[-1]} = mma_scaled %t0, %t1, %t2, %t3, %t4")
    text = f"kernel k({', '.join(parameters)}) {{\n" + "\n".join(lines) + "\n}\n"
    with pytest.raises(Exception) as error:
        _C.run_ir(text, (1, 1, 1), [torch.zeros([1] * p.count(","), dtype=torch.uint8) for p in parameters])
    assert ERRORS[types] in str(error.value)
