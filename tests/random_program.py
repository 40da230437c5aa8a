"""Random tile programs: text for the interpreter, and the same program run with torch, block by block."""

import dataclasses
import itertools
import math
import random
import re

import torch
from random_elements import Elements
from random_meaning import DTYPES, FLOATS, HELD, INTEGERS, SMALL, nearest, widened
from random_regions import Regions
from random_statements import Arithmetic
from random_tiles import Tiles


@dataclasses.dataclass
class Array:
    name: str
    dtype: str
    tile: tuple  # the shape in which it is loaded and stored
    tensor: torch.Tensor
    written: bool = False
    known: bool = True
    shared: bool = False  # by all blocks: not loaded


def random_tensor(dtype, sizes):
    """Values with their corners, in memory of any strides."""
    if dtype == "bool":
        x = torch.rand(sizes) < 0.5
    elif dtype in HELD:
        x = torch.randn(sizes, dtype=torch.float64) * random.choice([1, 1, 4, 30])
        if random.random() < 0.3:
            x = x.round()
        if random.random() < 0.2 and x.numel() > 3:
            for value in random.choices([0.0, -0.0, math.inf, -math.inf, math.nan], k=2):
                x.view(-1)[random.randrange(x.numel())] = value
    else:
        x = torch.randint(0 if dtype.startswith("u") else -20, 100, sizes)
        if random.random() < 0.2:
            corners = [-1, 0, 2**63 - 1] if dtype == "u64" else [torch.iinfo(DTYPES[dtype]).max, torch.iinfo(DTYPES[dtype]).min]
            x.view(-1)[random.randrange(x.numel())] = random.choice(corners)
        if dtype in ("i64", "u64") and random.random() < 0.3:
            x = x * random.choice([2**36 + 1, 2**55 + 1, -(2**50) - 1])
    x = x.to(DTYPES[dtype])
    if len(sizes) > 1 and random.random() < 0.3:
        x = x.mT.contiguous().mT
    if random.random() < 0.2:
        wide = torch.empty([*sizes[:-1], 2 * sizes[-1]], dtype=x.dtype)
        wide[..., ::2] = x
        x = wide[..., ::2]
    return x


class Program(Arithmetic, Regions, Tiles, Elements):
    def __init__(self, seed):
        random.seed(seed)
        torch.manual_seed(seed)
        self.lines, self.body, self.arrays, self.pool, self.products, self.count = [], [], [], [], set(), 0
        self.named, self.results_of = {}, {}  # the values by name; those of a statement
        # statements that a smaller program lacks; values by what stands for them
        self.dropped, self.instead = set(), {}
        self.depth, self.blocks = 0, [random.randint(1, 3)] + ([random.randint(1, 2)] if random.random() < 0.3 else [])
        extents = [random.choice([1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 64, 130]) for _ in range(3)]
        self.extents = [e for e in extents if e > 1] or [4]
        self.dtypes = random.sample(list(FLOATS), 2) + random.sample(list(INTEGERS), 2) + ["bool", "i32", "f32"]
        self.dtypes += random.sample(list(SMALL), 1) if random.random() < 0.4 else []
        self.bids = [
            self.op(f"bid {{axis={axis}}}", "i32", (), lambda s, axis=axis: (s.block[axis], None))
            for axis in range(len(self.blocks))
        ]
        self.op("num_blocks {axis=0}", "i32", (), lambda s: (torch.tensor(self.blocks[0]), None))
        for _ in range(random.randint(2, 4)):
            self.load(self.array())
        for _ in range(random.randint(0, 2)):
            self.array(own=True)
        for _ in range(random.randint(8, 22)):
            self.step()
        for _ in range(random.randint(1, 3)):
            self.finish()

    # Statements.
    def step(self):
        weights = {
            self.unary: 3,
            self.binary: 7,
            self.rounded: 2,
            self.rounded_of_two: 1,
            self.fused: 1,
            self.predicate: 2,
            self.where: 2,
            self.convert: 3,
            self.near_a_tie: 1,
            self.move: 4,
            self.reduction: 3,
            self.combine: 1,
            self.matrix: 2,
            self.fresh: 2,
            self.gather: 1,
            self.index: 2,
            self.store: 2,
            self.reload: 5,
            self.scatter: 1,
            self.atomic_of_all_blocks: 1,
            self.atomic_of_own_elements: 1,
            self.critical: 1,
            self.subtile: 2,
            self.as_bytes: 1,
            self.rows: 1,
        }
        if self.depth < 3:
            weights |= {self.counted: 2, self.branch: 2, self.endless: 1}
        random.choices(list(weights), list(weights.values()))[0]()

    # Memory.
    def array(self, own=False, dtype=None, tile=None):
        """An array of the program; one of its own is written by each block at its own index."""
        dtype = dtype or random.choice(self.dtypes)
        if tile is None:
            tile = [random.choice(self.extents) for _ in range(random.randint(len(self.blocks) if own else 1, 3))]
            while math.prod(tile) > 1200:
                tile[random.randrange(len(tile))] = 1
        sizes = []
        for axis, extent in enumerate(tile):
            covered = extent * (self.blocks[axis] if axis < len(self.blocks) else random.choice([1, 1, 2, 3]))
            sizes.append(max(1, covered + random.choice([0, 0, -1, -extent // 2, 1, 3])))
        known = random.random() < 0.5 or dtype not in HELD
        array = Array(f"%a{len(self.arrays)}", dtype, tuple(tile), random_tensor(dtype, sizes), own, known)
        self.arrays.append(array)
        return array

    def own_index(self, array):
        """Returns an index that only this block writes: its own along the axes of the grid, anything along the others."""
        return [self.bids[axis] if axis < len(self.blocks) else self.scalar() for axis in range(len(array.tile))]

    def view(self, array):
        """The array, or a part of it: name, tile, how torch sees it; None where the part is outside."""
        name, tile, find, way = array.name, list(array.tile), lambda s: s.memory[array.name], random.random()
        if array.written or way < 0.6:
            return name, tile, find
        self.count += 1
        own, rank = f"%v{self.count}", len(tile)
        if way < 0.75 and rank > 1:
            at = self.scalar()
            self.line(f"{own}: array<{array.dtype},{rank - 1}> = index {name}, {at.name}")
            self.body.append(lambda s: None)

            def one(s):
                i, (x, e) = int(s.values[at][0]), find(s)
                return (x[i], e) if 0 <= i < x.shape[0] else (x[0], "outside")

            return own, tile[1:], one
        if way < 0.9:
            axes = random.sample(range(rank), rank)
            self.line(f"{own}: array<{array.dtype},{rank}> = permute_array {name} {{axes={axes}}}")
            return own, [tile[a] for a in axes], lambda s: (find(s)[0].permute(axes), find(s)[1])
        axis = random.randrange(rank)
        start, stop = sorted(random.randint(0, array.tensor.shape[axis]) for _ in range(2))
        low, high = self.constant("i32", start), self.constant("i32", stop)
        self.line(f"{own}: array<{array.dtype},{rank}> = slice {name}, {low.name}, {high.name} {{axis={axis}}}")
        return own, tile, lambda s: (find(s)[0].narrow(axis, start, stop - start), find(s)[1])

    def load(self, array):
        name, tile, find = self.view(array)
        index = (
            self.own_index(array)
            if array.written
            else [random.choice([self.scalar, lambda: random.choice(self.bids)])() for _ in tile]
        )
        steps = tile if array.written or random.random() < 0.7 else [random.randint(1, t + 1) for t in tile]
        pad = random.choice([0.0, 0.0, -1.5, -math.inf, math.nan]) if array.dtype in HELD else 0
        filling = nearest(torch.tensor(pad), array.dtype).item() if array.dtype in HELD else pad

        def meaning(s):
            x, e = find(s)
            inside, full = overlap(x, e, [int(s.values[i][0]) for i in index], tile, steps)
            out = torch.full(tile, filling, dtype=x.dtype)
            if full is not None:
                out[full] = x[inside]
            bound = None
            if isinstance(e, torch.Tensor):
                bound = torch.zeros(tile, dtype=torch.float64)
                if full is not None:
                    bound[full] = e[inside]
            return out, bound

        indices = "".join(f", {i.name}" for i in index)
        return self.op(
            f"load {name}{indices} {{pad={pad!r}, shape={tile}, steps={steps}}}",
            array.dtype,
            tile,
            meaning,
            array.known or not array.written,
        )

    def reload(self):
        written = [a for a in self.arrays if a.written and not a.shared]
        self.load(random.choice(written if written and random.random() < 0.6 else [a for a in self.arrays if not a.shared]))

    def store(self):
        found = [a for a in self.arrays if a.written and not a.shared]
        if found:
            array = random.choice(found)
            self.write(array, self.stored(array))

    def stored(self, array):
        fits = [v for v in self.pool if (v.dtype, v.shape) == (array.dtype, array.tile) and (v.known or not array.known)]
        if fits and random.random() < 0.7:
            return random.choice(fits[-5:])
        fits = [v for v in self.pool if v.shape == array.tile and (v.known or not array.known and array.dtype in HELD)]
        value = random.choice(fits[-5:]) if fits else self.scalar()
        return self.spread(self.astype(value, array.dtype), array.tile)

    def write(self, array, value):
        index = self.own_index(array)
        self.line(f"store {array.name}, {value.name}{''.join(f', {i.name}' for i in index)} {{steps={list(array.tile)}}}")

        def run(s):
            (x, e), (tile, bound) = s.memory[array.name], s.values[value]
            inside, full = overlap(x, e, [int(s.values[i][0]) for i in index], array.tile, array.tile)
            if full is not None:
                x[inside] = tile[full]
                e[inside] = 0.0 if bound is None else bound[full]

        self.does(run)

    def finish(self):
        """A result: a value in an array of its shape."""
        value = self.pick()
        shape = [1] * (len(self.blocks) - len(value.shape)) + list(value.shape)
        array = self.array(True, value.dtype, shape)
        array.known = value.known
        self.write(array, value if list(value.shape) == shape else self.reshape(value, shape))

    # Running.
    @property
    def text(self):
        arrays = ", ".join(f"{a.name}: array<{a.dtype},{a.tensor.dim()}>" for a in self.arrays)
        return f"kernel random({arrays}) {{\n" + "\n".join(map(self.renamed, self.shown())) + "\n}\n"

    def shown(self):
        return [line.text for line in self.lines if all(map(self.has, line.statements))]

    def has(self, statement):
        return statement not in self.dropped

    def renamed(self, text):
        return re.sub(r"%\d+", lambda name: self.standing_for(self.named[name[0]]).name, text) if self.instead else text

    def standing_for(self, value):
        while value in self.instead:
            value = self.instead[value]
        return value

    @property
    def grid(self):
        return tuple(self.blocks + [1] * (3 - len(self.blocks)))

    def evaluate(self):
        """Each array after the program, and the bound of each element's error."""
        memory = {}
        for array in self.arrays:
            x = widened(array.tensor).clone()
            memory[array.name] = x, torch.zeros(x.shape, dtype=torch.float64) if array.written else None
        for block in itertools.product(*(range(n) for n in self.grid)):
            State(memory, [torch.tensor(i) for i in block], self).run(self.body)
        return [memory[array.name] for array in self.arrays]


class State:
    def __init__(self, memory, block, program):
        self.memory, self.block, self.program, self.values = memory, block, program, {}

    def run(self, body):
        for statement in body:
            if self.program.has(statement):
                statement(self)
                continue
            for value in self.program.results_of[statement]:
                if value in self.program.instead:
                    self.values[value] = self.values[self.program.standing_for(value)]


def overlap(x, e, index, tile, steps):
    """Returns a tile's slices in an array and the part of the tile inside it; None if it is outside."""
    inside, full = [], []
    for i, extent, step, size in zip(index, tile, steps, x.shape):
        low = i * step
        first, last = max(low, 0), min(low + extent, size)
        if first >= last or isinstance(e, str):
            return None, None
        inside.append(slice(first, last))
        full.append(slice(first - low, last - low))
    return tuple(inside), tuple(full)
