"""NVRTC takes the instructions of floats with a mode, and what is made of them."""

import emulate
import pytest
import torch
from exact_rounding import CASTS, MODES
from tile_ops import _C

NAMES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i8": torch.int8,
    "u32": torch.uint32,
}


def compiled(dtype, steps, arch):
    """Returns True if the text of the steps over %x, which end in %r, compiles; each statement is of one dtype."""
    body = "\n".join(step.replace(" =", "[64] =", 1) for step in steps)
    text = f"""kernel k(%a: array<{dtype},1>, %b: array<{dtype},1>) {{
%i: i32 = bid {{axis=0}}
%x: {dtype}[64] = load %a, %i {{pad={"0" if dtype[0] in "iu" else "0.0"}, shape=[64], steps=[64]}}
{body}
store %b, %r, %i {{steps=[64]}}
}}
"""
    program = emulate.Case(text, (1, 1, 1), [torch.zeros(64, dtype=NAMES[dtype])] * 2, arch=arch).program
    return bool(_C.compile_text(program["text"], "k", program["entry"], arch, ""))


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_directed_arithmetic(dtype, arch):
    steps = [f"%r0: {dtype} = add_rz %x, %x"]
    for name in ("add", "sub", "mul", "div", "fma", "sqrt"):
        for mode in MODES:
            last = len(steps) - 1
            operands = f"%r{last}" + ", %x" * {"sqrt": 0, "fma": 2}.get(name, 1)
            steps.append(f"%r{last + 1}: {dtype} = {name}_{mode} {operands}")
    assert compiled(dtype, [*steps[:-1], steps[-1].replace(f"%r{len(steps) - 1}:", "%r:")], arch)


@pytest.mark.parametrize("target", ["f16", "bf16", "tf32", "f32"])
@pytest.mark.parametrize("source", ["f64", "f16"])
def test_directed_casts(source, target):
    modes = [mode for mode in CASTS if (target, mode) != ("bf16", "ra")]
    steps = [f"%c{mode}: {target} = astype_{mode} %x {{dtype={target}}}" for mode in modes]
    steps += [f"%d{mode}: {source} = astype %c{mode} {{dtype={source}}}" for mode in modes]
    steps += [f"%s0: {source} = add %drz, %drm", f"%s1: {source} = add %s0, %drp", f"%r: {source} = add %s1, %d{modes[-1]}"]
    assert source == target or compiled(source, steps, 80)


@pytest.mark.parametrize("dtype", NAMES)
def test_special_values(dtype):
    steps = [f"%s: {dtype} = sign %x"]
    if dtype[0] not in "iu":
        steps += [f"%n: {dtype} = minimum_nan %s, %x", f"%m: {dtype} = maximum_nan %n, %x"]
    if dtype == "f32":
        steps += ["%z: f32 = flush_subnormal %m"]
    last = steps[-1].split(":")[0]
    assert compiled(dtype, [*steps[:-1], steps[-1].replace(last, "%r", 1)], 80)
