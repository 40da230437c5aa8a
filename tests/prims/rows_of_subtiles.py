"""Rows of test_structured.py: sub-tiles taken out of tiles and put into them, at constant and computed indices."""

from prims.ir_programs import DTYPES, run, same, values
from random_meaning import FLOATS

# Tiles, and sub-tiles of them: one element, odd extents, whole axes, elements that lanes and that registers hold.
SUBTILES = [
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


def counts(tile, subtile):
    return [n // (subtile[i] if subtile else 1) for i, n in enumerate(tile)]


def program(tile, subtile, dtype, indices, op):
    pad = "0.0" if dtype in FLOATS else "0"
    zeros = lambda shape: ", %z" * len(shape)  # noqa: E731
    stored = list(subtile) or [1]
    text = f"%t: {dtype}{list(tile)} = load %a{zeros(tile)} {{pad={pad}, shape={list(tile)}, steps={list(tile)}}}\n"
    if op == "extract":
        return (
            text
            + f"""%r: {dtype}{list(subtile) or ""} = extract %t, {indices} {{shape={list(subtile)}}}
%w: {dtype}{stored} = reshape %r {{shape={stored}}}
store %b, %w{zeros(stored)} {{steps={stored}}}"""
        )
    return (
        text
        + f"""%p: {dtype}{stored} = load %b{zeros(stored)} {{pad={pad}, shape={stored}, steps={stored}}}
%v: {dtype}{list(subtile) or ""} = reshape %p {{shape={list(subtile)}}}
%r: {dtype}{list(tile)} = insert %t, %v, {indices}
store %a, %r{zeros(tile)} {{steps={list(tile)}}}"""
    )


def box(tile, subtile, at):
    """Which elements; an index outside is the nearest."""
    extents = subtile or [1] * len(tile)
    at = [min(max(i, 0), n - 1) for i, n in zip(at, counts(tile, subtile))]
    return tuple(slice(i * e, i * e + e) for i, e in zip(at, extents))


def subtiles(op):
    def row(dtype):
        number = list(DTYPES).index(dtype)
        for k, (tile, subtile) in list(enumerate(SUBTILES))[number % 3 :: 3] if dtype != "f32" else enumerate(SUBTILES):
            x, given = values(dtype, *tile), values(dtype, *(subtile or [1]))
            last = [n - 1 for n in counts(tile, subtile)]
            middle = [n // 2 for n in counts(tile, subtile)]
            positions = [last, middle, [-3] * len(tile), [n + 1 for n in last]][(k + number) % 2 :: 2]
            for at in positions:
                names = [f"%s{i}" for i in range(len(tile))]
                constants = "".join(f"%c{i}: i64 = constant {{dtype=i64, value={n}}}\n" for i, n in enumerate(at))
                for computed in (False, True) if at is positions[0] else (True,):
                    indices = ", ".join(names if computed else [f"%c{i}" for i in range(len(at))])
                    text = ("" if computed else constants) + program(tile, subtile, dtype, indices, op)
                    got = run(text, [x, given], scalars=at if computed else ())
                    if op == "extract":
                        same(got[1], x[box(tile, subtile, at)].reshape(given.shape))
                    else:
                        expected = x.clone()
                        expected[box(tile, subtile, at)] = given.reshape(subtile or [1] * len(tile))
                        same(got[0], expected)

    return row


ROWS = {name: (subtiles(name), list(DTYPES)) for name in ("extract", "insert")}
