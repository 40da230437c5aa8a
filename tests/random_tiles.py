"""Statements of random tile programs that access parts of tiles: sub-tiles, bytes, rows at index
tiles."""

import random

import torch
from random_meaning import DTYPES, FLOATS, HELD, SMALL, nearest, widened


def viewed(x, dtype):
    """The bytes of x as another dtype. Of one element contiguous() keeps a stride of 0, which no such view takes."""
    return widened(x.reshape(-1).clone(memory_format=torch.contiguous_format).view(dtype))


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


class Tiles:
    def subtile(self):
        """A part taken out, and often put in elsewhere; an index outside is the nearest."""
        x = self.pick(lambda v: v.shape)
        if not x:
            return
        part = [] if random.random() < 0.2 else [random.choice(divisors(n)) for n in x.shape]
        extents = part or [1] * len(x.shape)

        def box(s, index):
            at = [min(max(int(s.values[i][0]), 0), n // e - 1) for i, n, e in zip(index, x.shape, extents)]
            return tuple(slice(i * e, i * e + e) for i, e in zip(at, extents))

        def indices():
            return [self.scalar() if random.random() < 0.5 else self.constant("i32", random.randint(-1, 3)) for _ in extents]

        def names(index):
            return ", ".join(i.name for i in index)

        taken, put = indices(), indices()
        out = self.op(
            f"extract {x.name}, {names(taken)} {{shape={part}}}",
            x.dtype,
            part,
            lambda s: tuple(t if t is None else t[box(s, taken)].reshape(part) for t in s.values[x]),
            x.known,
        )
        if random.random() < 0.6:
            value = out if random.random() < 0.5 else self.like(out, known=x.known)

            def inserted(s):
                (a, ea), (b, eb), slices = s.values[x], s.values[value], box(s, put)
                a, b = a.clone(), b.reshape(a[slices].shape)
                a[slices] = b
                if ea is None and eb is None:
                    return a, None
                bound = torch.zeros(a.shape, dtype=torch.float64) if ea is None else ea.clone()
                bound[slices] = torch.zeros_like(b, dtype=torch.float64) if eb is None else eb.reshape(b.shape)
                return a, bound

            self.op(f"insert {x.name}, {value.name}, {names(put)}", x.dtype, x.shape, inserted, x.known and value.known)

    def as_bytes(self):
        """Bytes of a tile, or a tile of other bytes."""
        x = self.pick(lambda v: v.shape and v.known and v.dtype != "bool" and v.dtype not in SMALL and v.dtype not in FLOATS)
        if not x:
            return
        own = DTYPES[x.dtype]
        if x.dtype != "u8" or len(x.shape) != 1 or random.random() < 0.3:
            count = torch.Size(x.shape).numel() * own.itemsize
            if count < 1500:
                self.op(f"pack_to_bytes {x.name}", "u8", [count], lambda s: (viewed(s.values[x][0].to(own), torch.uint8), None))
            return
        fits = [d for d in DTYPES if d != "bool" and d not in HELD and x.shape[0] % DTYPES[d].itemsize == 0]
        other = random.choice(fits)
        self.op(
            f"unpack_from_bytes {x.name} {{dtype={other}}}",
            other,
            [x.shape[0] // DTYPES[other].itemsize],
            lambda s: (viewed(s.values[x][0].to(torch.uint8), DTYPES[other]), None),
        )

    def rows(self):
        """Rows of an array at an index tile, which may point outside."""
        array = random.choice([a for a in self.arrays if not a.written])
        index = self.pick(lambda v: len(v.shape) == 1 and v.dtype == "i32")
        rank = array.tensor.dim()
        if not index or torch.Size(array.tile).numel() * index.shape[0] > 1500:
            return
        axis, others = random.randrange(rank), [self.scalar() for _ in range(rank - 1)]
        shape, steps = list(array.tile), [random.randint(1, n + 1) for n in array.tile]
        shape[axis], steps[axis] = index.shape[0], 1
        pad = random.choice([0.0, -1.5]) if array.dtype in HELD else 0

        def meaning(s):
            x, _ = s.memory[array.name]
            given, indices = iter(others), []
            for i, (n, step) in enumerate(zip(shape, steps)):
                at = s.values[index][0] if i == axis else torch.arange(n) + step * int(s.values[next(given)][0])
                indices.append(at.reshape([-1 if k == i else 1 for k in range(rank)]))
            there = torch.ones(shape, dtype=torch.bool)
            for at, n in zip(indices, x.shape):
                there = there & (at >= 0) & (at < n)
            found = x[tuple(torch.where((at >= 0) & (at < n), at, 0) for at, n in zip(indices, x.shape))]
            filling = nearest(torch.tensor(pad), array.dtype).item() if array.dtype in HELD else pad
            return torch.where(there, found, torch.tensor(filling, dtype=x.dtype)), None

        starts = "".join(f", {i.name}" for i in others)
        self.op(
            f"gather_rows {array.name}, {index.name}{starts} {{axis={axis}, pad={pad!r}, shape={shape}, steps={steps}}}",
            array.dtype,
            shape,
            meaning,
        )
