"""Tile IR around one primitive: small values of every dtype, the program run with and without passes."""

import torch
from random_meaning import FLOATS, INTEGERS
from tile_ops import _C

DTYPES = {"bool": torch.bool, **INTEGERS, **FLOATS}
NUMBERS = [d for d in DTYPES if d != "bool"]


def values(dtype, *sizes, high=5):
    """Small whole numbers: every dtype holds them, and sums and products of a few."""
    return torch.randint(0, 2 if dtype == "bool" else high, sizes).to(DTYPES[dtype])


def same(got, expected):
    assert torch.equal(got.double(), expected.double()), (got, expected)


def run(body, arrays, grid=(1, 1, 1), scalars=()):
    """Runs the body over copies of the arrays %a, %b, … and scalars %s0, …; gives the arrays without and with
    passes."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    parameters = [f"%{chr(97 + i)}: array<{names[a.dtype]},{a.dim()}>" for i, a in enumerate(arrays)]
    parameters += [f"%s{i}: i32" for i in range(len(scalars))]
    results = []
    for passes in (False, True):
        copies = [a.clone() for a in arrays]
        zero = "%z: i32 = constant {dtype=i32, value=0}\n%one: i32 = constant {dtype=i32, value=1}"
        _C.run_ir(f"kernel k({', '.join(parameters)}) {{\n{zero}\n{body}\n}}\n", grid, [*copies, *scalars], passes)
        results.append(copies)
    for one, two in zip(*results):
        same(one, two)
    return results[0]


def unary(text, x, sizes, dtype):
    """op(x) of a whole tile of x, where `text` has the op's name and attributes around the operand."""
    name, _, attributes = text.partition(" ")
    source = {v: k for k, v in DTYPES.items()}[x.dtype]
    shape, out = list(x.shape), list(sizes)
    body = f"""%t: {source}{shape} = load %a{", %z" * x.dim()} {{pad=0, shape={shape}, steps={shape}}}
%r: {dtype}{out if out else ""} = {name} %t {attributes}
%w: {dtype}{out or [1]} = reshape %r {{shape={out or [1]}}}
store %b, %w{", %z" * max(len(out), 1)} {{steps={out or [1]}}}"""
    return run(
        body.replace("pad=0", "pad=0.0" if source in FLOATS else "pad=0"), [x, torch.ones(out or [1], dtype=DTYPES[dtype])]
    )[1].reshape(out)
