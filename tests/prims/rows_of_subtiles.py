"""Rows of test_structured.py: sub-tiles taken out of tiles and put into them, at constant and computed indices."""

from prims.ir_programs import DTYPES, run, same, values
from random_meaning import FLOATS

# Tiles, and sub-tiles of them: one element, odd extents, whole axes, parts that lanes and that registers hold.
CUTS = [
    ((6, 10), (3, 5)),
    ((1, 7), (1, 1)),
    ((8, 64), (4, 16)),
    ((64, 8), (1, 8)),
    ((5, 3), (5, 3)),
    ((12,), (4,)),
    ((256,), (128,)),
    ((3, 4, 6), (1, 2, 6)),
    ((4, 1), ()),
    ((130,), ()),
]


def counts(whole, part):
    return [n // (part[i] if part else 1) for i, n in enumerate(whole)]


def program(whole, part, dtype, indices, op):
    pad = "0.0" if dtype in FLOATS else "0"
    zeros = lambda shape: ", %z" * len(shape)  # noqa: E731
    stored = list(part) or [1]
    text = f"%t: {dtype}{list(whole)} = load %a{zeros(whole)} {{pad={pad}, shape={list(whole)}, steps={list(whole)}}}\n"
    if op == "extract":
        return (
            text
            + f"""%r: {dtype}{list(part) or ""} = extract %t, {indices} {{shape={list(part)}}}
%w: {dtype}{stored} = reshape %r {{shape={stored}}}
store %b, %w{zeros(stored)} {{steps={stored}}}"""
        )
    return (
        text
        + f"""%p: {dtype}{stored} = load %b{zeros(stored)} {{pad={pad}, shape={stored}, steps={stored}}}
%v: {dtype}{list(part) or ""} = reshape %p {{shape={list(part)}}}
%r: {dtype}{list(whole)} = insert %t, %v, {indices}
store %a, %r{zeros(whole)} {{steps={list(whole)}}}"""
    )


def box(whole, part, at):
    """Which elements; an index outside is the nearest."""
    extents = part or [1] * len(whole)
    at = [min(max(i, 0), n - 1) for i, n in zip(at, counts(whole, part))]
    return tuple(slice(i * e, i * e + e) for i, e in zip(at, extents))


def subtiles(op):
    def row(dtype):
        number = list(DTYPES).index(dtype)
        for k, (whole, part) in list(enumerate(CUTS))[number % 3 :: 3] if dtype != "f32" else enumerate(CUTS):
            x, given = values(dtype, *whole), values(dtype, *(part or [1]))
            last = [n - 1 for n in counts(whole, part)]
            middle = [n // 2 for n in counts(whole, part)]
            places = [last, middle, [-3] * len(whole), [n + 1 for n in last]][(k + number) % 2 :: 2]
            for at in places:
                names = [f"%s{i}" for i in range(len(whole))]
                constants = "".join(f"%c{i}: i64 = constant {{dtype=i64, value={n}}}\n" for i, n in enumerate(at))
                for computed in (False, True) if at is places[0] else (True,):
                    indices = ", ".join(names if computed else [f"%c{i}" for i in range(len(at))])
                    text = ("" if computed else constants) + program(whole, part, dtype, indices, op)
                    got = run(text, [x, given], scalars=at if computed else ())
                    if op == "extract":
                        same(got[1], x[box(whole, part, at)].reshape(given.shape))
                    else:
                        expected = x.clone()
                        expected[box(whole, part, at)] = given.reshape(part or [1] * len(whole))
                        same(got[0], expected)

    return row


ROWS = {name: (subtiles(name), list(DTYPES)) for name in ("extract", "insert")}
