"""Loops that are left, and elements that blocks share, in kernels written in C++."""

import pytest
import torch
from built import load_operators

load_operators()
SEARCH, COLLATZ, VIEWS, MASKED, COUNTS = range(5)


def integers(values):
    return torch.tensor(values, dtype=torch.int32)


def search():
    for x in ([1, -2, 3, 5, 7], [5], [-1], [1, 2, 3], [-5, 5, 5]):
        index = x.index(5) if 5 in x else -1
        total = sum(v for v in (x[:index] if index >= 0 else x) if v > 0)
        yield SEARCH, 1, integers(x), integers([9, 9]), integers([index, total])


def iterations(value):
    count = 0
    while value > 1 and count < 50:
        value, count = value // 2 if value % 2 == 0 else 3 * value + 1, count + 1
    return count


def collatz():
    x = [1, 2, 3, 6, 7, 27, 97, 0, 871]
    for blocks in (1, 2, 20):
        yield COLLATZ, blocks, integers(x), integers([9] * len(x)), integers([iterations(v) for v in x])


def views():
    blocks = 3
    x = torch.randint(0, 16, (4 * blocks - 1,), dtype=torch.int32)
    start = torch.randint(0, 16, (6, 9), dtype=torch.int32)
    expected = start.tolist()
    change = [max, min, lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: a + b]
    for block in range(blocks):
        for i in range(4):
            value = x[4 * block + i].item() if 4 * block + i < len(x) else 0
            for k in range(6):
                if 3 * block + i < 9:
                    expected[k][3 * block + i] = change[k](expected[k][3 * block + i], value)
    yield VIEWS, blocks, x, start, integers(expected)


def masked():
    x, start = torch.randint(0, 3, (16,), dtype=torch.int32), torch.randint(0, 3, (48,), dtype=torch.int32)
    expected = start.tolist()
    for i in range(16):
        value = x[i].item()
        before = expected[i] if i % 2 else 0
        expected[i] = expected[i] + 100 if i % 2 else value
        expected[16 + i] = before
        expected[32 + i] = expected[i] if i < 4 else value
        if i < 4 and expected[i] == value:
            expected[i] = -1
    yield MASKED, 1, x, start, integers(expected)


def counts():
    x = torch.randint(0, 10, (1000,), dtype=torch.int32)
    yield COUNTS, 63, x, integers([0] * 10), torch.bincount(x, minlength=10).int()


FAMILIES = {"search": search, "collatz": collatz, "views": views, "masked": masked, "counts": counts}


def check(operator, case):
    what, blocks, x, start, expected = case
    got = operator(x, start, what, blocks)
    assert torch.equal(got, expected), (got, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_results_equal_the_reference(family):
    for case in FAMILIES[family]():
        check(torch.ops.tt.language, case)
