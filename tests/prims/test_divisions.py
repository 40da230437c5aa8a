"""Remainders and floor quotients of floats: exact, for every size of the quotient, and at infinity, NaN and 0."""

import math

import pytest
import torch
from prims.ir_programs import DTYPES
from tile_ops import _C

SPECIAL = [0.0, -0.0, 1.0, -1.0, 3.0, -7.0, 0.1, 1e-40, math.inf, -math.inf, math.nan, 1e17, -1e30, 3e38]


def computed(op, x, y, dtype):
    out, n = torch.empty_like(x), len(x)
    loads = "".join(f"%{t}: {dtype}[{n}] = load %{a}, %z {{pad=0.0, shape=[{n}], steps=[{n}]}}\n" for t, a in ("xa", "yb"))
    text = f"""kernel k(%a: array<{dtype},1>, %b: array<{dtype},1>, %c: array<{dtype},1>) {{
%z: i32 = constant {{dtype=i32, value=0}}
{loads}%r: {dtype}[{n}] = {op} %x, %y
store %c, %r, %z {{steps=[{n}]}}
}}"""
    _C.run_ir(text, (1, 1, 1), [x, y, out])
    return out


def operands(dtype, kind, n):
    x, y = (torch.randn(n, dtype=torch.float64) for _ in range(2))
    if kind == "near":
        x = 10 * x
    if kind == "far":
        x, y = x * 10.0 ** torch.randint(0, 30, (n,)), y * 10.0 ** torch.randint(-8, 3, (n,))
    if kind == "whole":
        x, y = torch.randint(-1000, 1000, (n,)), torch.randint(-20, 20, (n,))
    if kind == "special":
        pick = lambda: torch.tensor(SPECIAL, dtype=torch.float64)[torch.randint(len(SPECIAL), (n,))]  # noqa: E731
        x, y = pick(), pick()
    x, y = x.to(DTYPES[dtype]), y.to(DTYPES[dtype])
    if kind == "multiples":  # and their neighbours, where a quotient rounds to the next integer
        x = y * torch.randint(1, 2000, (n,)).to(x.dtype)
        x = torch.where(torch.rand(n) < 0.5, x, x * (1 - torch.finfo(x.dtype).eps))
    return x, y


def floor_remainder(x, y):
    """By Python's exact fmod."""
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0:
        return math.nan
    rest = math.fmod(x, y)
    return rest, rest != 0 and (rest < 0) != (y < 0)


@pytest.mark.parametrize("kind", ["near", "far", "whole", "multiples", "special"])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("n", [1, 5, 1000])
def test_remainders(dtype, kind, n):
    x, y = operands(dtype, kind, n)
    got = computed("mod", x, y, dtype)
    for a, b, r in zip(x.tolist(), y.tolist(), got):
        exact = floor_remainder(a, b)
        if exact is math.nan:
            assert r.isnan(), (a, b, r)
            continue
        rest, negative = exact
        # The rest is a number of the dtype; adding the divisor rounds.
        single = torch.float64 if dtype == "f64" else torch.float32
        want = torch.tensor(rest, dtype=single)
        want = (want + torch.tensor(b, dtype=single) if negative else want).to(x.dtype)
        assert r == want and torch.signbit(r) == torch.signbit(want), (a, b, r, want)


@pytest.mark.parametrize("kind", ["near", "far", "whole", "multiples", "special"])
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_quotients(dtype, kind):
    """torch's, which come from the same formula."""
    x, y = operands(dtype, kind, 1000)
    got = computed("floordiv", x, y, dtype)
    single = torch.float64 if dtype == "f64" else torch.float32
    want = torch.floor_divide(x.to(single), y.to(single)).to(x.dtype)
    # A quotient that overflows is rounded in another order there.
    both = torch.isfinite(want) & torch.isfinite(got)
    assert torch.equal(got[both], want[both])
    assert torch.equal(torch.isnan(got), torch.isnan(want))
