"""Rows of test_structured.py: rows of arrays at index tiles, elements at raw offsets; tiles as bytes."""

import torch
from prims.ir_programs import DTYPES, NUMBERS, run, same, unary, values
from random_meaning import FLOATS

# Sizes of an array, the axis of the rows, rows, lengths of the others, steps and indices of where they begin: in
# vectors and not, outside in front and behind, one element, the rows along the axis that lies in memory.
ROWS_OF_ARRAYS = [
    ((10, 64), 0, [3, 0, 9, -1, 10, 3, 5], [32], [32], [1]),
    ((10, 64), 0, [4], [16], [1], [5]),
    ((7, 33), 0, [6, 2, 1], [48], [16], [-1]),
    ((7, 33), 1, [32, 0, 33, 7, -5], [8], [1], [2]),
    ((4, 6, 16), 1, [5, 0, 2], [3, 16], [1, 16], [2, 0]),
    ((3, 40, 5), 2, [1, 1, 4, 7], [1, 7], [1, 3], [2, 11]),
    ((5, 9, 8), 0, [4, 4, 0, 2**31 - 1], [1, 8], [1, 8], [8, 0]),
    ((30,), 0, [29, 3, 30, 0], [], [], []),
    ((6, 512), 0, [5, 1, 0, 4], [512], [512], [0]),
]


def spans(size, axis, rows, lengths, steps, index):
    """Along each axis the positions of a tile's elements."""
    others = iter(zip(lengths, steps, index))
    result = []
    for i in range(len(size)):
        if i == axis:
            result.append(torch.tensor(rows))
        else:
            length, step, at = next(others)
            result.append(torch.arange(length) + step * at)
    return result


def inside(positions, size):
    """Returns for each element of a tile whether its positions are inside the array."""
    there = torch.ones([len(each) for each in positions], dtype=torch.bool)
    for axis, (each, n) in enumerate(zip(positions, size)):
        shape = [-1 if i == axis else 1 for i in range(len(positions))]
        there &= ((each >= 0) & (each < n)).reshape(shape)
    return there


def array_rows(dtype):
    """gather_rows of one array and scatter_rows of the tile into another, at rows of which no two are equal."""
    pad, number = ("2.0" if dtype in FLOATS else "0"), list(DTYPES).index(dtype)
    for k, (size, axis, rows, lengths, steps, index) in enumerate(ROWS_OF_ARRAYS):
        if dtype != "f32" and (k + number) % 2:
            continue
        positions = spans(size, axis, rows, lengths, steps, index)
        shape, steps = [len(each) for each in positions], [*steps[:axis], 1, *steps[axis:]]
        kind = "i64" if k % 2 else "i32"
        zeros = ", %z" * len(size)
        starts = "".join(f", %s{i}" for i in range(len(index)))
        body = f"""%i: {kind}[{len(rows)}] = load %b, %z {{pad=0, shape=[{len(rows)}], steps=[{len(rows)}]}}
%t: {dtype}{shape} = gather_rows %a, %i{starts} {{axis={axis}, pad={pad}, shape={shape}, steps={steps}}}
store %c, %t{zeros} {{steps={shape}}}
%j: {kind}[{len(rows)}] = load %d, %z {{pad=0, shape=[{len(rows)}], steps=[{len(rows)}]}}
scatter_rows %e, %t, %j{starts} {{axis={axis}, steps={steps}}}"""
        x, old = values(dtype, *size), values(dtype, *size)
        distinct = [i if i not in rows[:n] else -7 for n, i in enumerate(rows)]
        arrays = [
            torch.tensor(rows, dtype=DTYPES[kind]),
            values(dtype, *shape),
            torch.tensor(distinct, dtype=DTYPES[kind]),
            old,
        ]
        got = run(body, [x, *arrays], scalars=index)
        tile, there = torch.full(shape, float(pad), dtype=torch.float64), inside(positions, size)
        grid = torch.meshgrid(*positions, indexing="ij")
        tile[there] = x.double()[tuple(each[there] for each in grid)]
        same(got[2], tile)
        positions[axis] = torch.tensor(distinct)
        there, grid = inside(positions, size), torch.meshgrid(*positions, indexing="ij")
        expected = old.double().clone()
        expected[tuple(each[there] for each in grid)] = tile[there]
        same(got[4], expected)


def raw_offsets(dtype):
    """A masked copy in the order of memory, which is not that of the axes, and a scalar."""
    pad = "2.0" if dtype in FLOATS else "0"
    memory, old = values(dtype, 40), values(dtype, 40)
    offsets = torch.tensor([0, 17, 3, 29, 100, 8, 30, 31, 5], dtype=torch.int64)
    mask = torch.tensor([True, True, False, True, False, True, True, True, True])
    body = f"""%i: i64[9] = load %b, %z {{pad=0, shape=[9], steps=[9]}}
%m: bool[9] = load %c, %z {{pad=0, shape=[9], steps=[9]}}
%t: {dtype}[9] = load_offset %a, %i, %m {{pad={pad}}}
store_offset %d, %t, %i, %m
%u: {dtype} = load_offset %a, %s0 {{pad={pad}}}
store_offset %d, %u, %s1"""
    x, out = memory.view(4, 10).t(), old.view(4, 10).t()
    got = run(body, [x, offsets, mask, out], scalars=(9, 11))[3]
    positions, tile = offsets[mask], memory.double()[offsets[mask]]
    expected = old.double()
    expected[positions] = tile
    expected[11] = memory[9]
    same(got, expected.view(4, 10).t())


def packed(dtype):
    """Bytes of a matrix, and of one element."""
    for sizes in ((3, 5), (1, 1), (4, 32)):
        x = values(dtype, *sizes, high=100)
        if dtype in FLOATS:
            x = x / 7 - 3
        elif dtype.startswith("i"):
            x = -x
        got = unary("pack_to_bytes ", x, [x.numel() * x.itemsize], "u8")
        assert got.tolist() == x.contiguous().view(-1).view(torch.uint8).tolist()


def unpacked(_):
    for dtype in NUMBERS:
        for count in (1, 15, 64):
            x = torch.randint(0, 256, (count * DTYPES[dtype].itemsize,), dtype=torch.uint8)
            if dtype in FLOATS:
                x = (torch.rand(count) * 9 - 4).to(DTYPES[dtype]).view(torch.uint8)
            got = unary(f"unpack_from_bytes {{dtype={dtype}}}", x, [count], dtype)
            assert got.view(torch.uint8).tolist() == x.tolist(), dtype


ROWS = {
    "gather_rows": (array_rows, list(DTYPES)),
    "scatter_rows": (array_rows, list(DTYPES)),
    "load_offset": (raw_offsets, list(DTYPES)),
    "store_offset": (raw_offsets, list(DTYPES)),
    "pack_to_bytes": (packed, NUMBERS),
    "unpack_from_bytes": (unpacked, ["u8"]),
}
