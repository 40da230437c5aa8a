"""Random differentiable programs: Tile IR text, and the same program in torch, block by block, with autograd."""

import itertools
import math
import random

import torch

UNARY = {
    "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "atan": torch.atan, "neg": torch.neg,
    "erf": torch.erf, "silu": torch.nn.functional.silu, "abs": torch.abs,
}  # fmt: skip
BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}
REDUCTIONS = {
    "reduce_sum": lambda x, axes: x.sum(axes), "reduce_max": lambda x, axes: x.amax(axes),
    "reduce_min": lambda x, axes: x.amin(axes),
}  # fmt: skip


class State:
    """One block's values."""

    def __init__(self, block, memory, results):
        self.block, self.memory, self.results, self.values = block, memory, results, {}


class Jump(Exception):
    """Leaves an iteration with the value that it carries on."""

    def __init__(self, kind, value):
        self.kind, self.value = kind, value


class Program:
    """A random program. text: its Tile IR of float64; evaluate(): its results by torch; grid; arrays: the sizes of the inputs,
    then of the results."""

    sums = 0.3  # the part of the loops that add up
    counts = (0, 1, 2, 3, 3, 7)  # numbers of iterations

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines, self.count, self.depth = [], 0, 0
        self.blocks = self.random.choice([(1, 1), (3, 1), (2, 1), (2, 3)])
        self.extents = self.random.sample([1, 2, 3, 4, 6, 8], 3)
        self.inputs, self.results, self.body = [], [], []
        self.zero, self.one = self.scalar("constant {dtype=i32, value=0}", 0), self.scalar("constant {dtype=i32, value=1}", 1)
        self.bids = [self.bid(axis) for axis in range(2)]
        for _ in range(self.random.randint(1, 3)):
            self.inputs.append(self.new_array())
        self.indices = []  # those of the loops around
        self.pool = []  # (name, shape)
        self.load()
        for _ in range(self.random.randint(5, 14)):
            self.step()
        for _ in range(self.random.randint(1, 2)):
            self.store()

    # Text.
    def name(self):
        self.count += 1
        return f"%v{self.count}"

    def line(self, text):
        self.lines.append("  " * (self.depth + 1) + text)

    def does(self, action):
        self.body.append(action)

    def value(self, text, shape, meaning):
        name = self.name()
        self.line(f"{name}: f64{self.shown(shape)} = {text}")
        self.does(lambda s: s.values.__setitem__(name, meaning(s)))
        self.pool.append((name, tuple(shape)))
        return self.pool[-1]

    def scalar(self, text, number):
        name = self.name()
        self.line(f"{name}: i32 = {text}")
        self.does(lambda s: s.values.__setitem__(name, number(s) if callable(number) else number))
        return name

    def bid(self, axis):
        return self.scalar(f"bid {{axis={axis}}}", lambda s: s.block[axis])

    @staticmethod
    def shown(shape):
        return f"[{','.join(map(str, shape))}]" if shape else ""

    # Values.
    def shape(self):
        return [self.random.choice(self.extents) for _ in range(2)]

    def new_array(self):
        tile = self.shape()
        sizes = [
            max(1, e * self.random.choice([1, b, b]) + self.random.choice([0, 0, -1, 2])) for e, b in zip(tile, self.blocks)
        ]
        return f"%a{len(self.inputs)}", tile, sizes

    def pick(self, shape=None):
        fits = [each for each in self.pool if shape is None or each[1] == tuple(shape)]
        return self.random.choice(fits[-6:]) if fits else self.fill(shape)

    def fill(self, shape):
        number = round(self.random.uniform(-1, 1), 3)
        scalar = self.name()
        self.line(f"{scalar}: f64 = constant {{dtype=f64, value={number}}}")
        return self.value(
            f"broadcast {scalar} {{shape={list(shape)}}}", shape, lambda s: torch.full(list(shape), number, dtype=torch.float64)
        )

    def step(self):
        steps = (
            [self.unary] * 4 + [self.binary] * 5 + [self.reduction, self.move, self.join, self.product, self.choose, self.part]
        )
        steps += [self.running, self.recurrence, self.load, self.load]
        if self.depth < 2:
            steps += [self.loop, self.branch, self.until]
        self.random.choice(steps)()

    def unary(self):
        x, shape = self.pick()
        name = self.random.choice(list(UNARY))
        self.value(f"{name} {x}", shape, lambda s: UNARY[name](s.values[x]))

    def binary(self):
        x, shape = self.pick()
        y, _ = self.pick(shape)
        name = self.random.choice(list(BINARY))
        made, _ = self.value(f"{name} {x}, {y}", shape, lambda s: BINARY[name](s.values[x], s.values[y]))
        self.value(f"tanh {made}", shape, lambda s: s.values[made].tanh())  # values stay small

    def reduction(self):
        x, shape = self.pick()
        axis, name = self.random.randrange(len(shape)), self.random.choice(list(REDUCTIONS))
        rest = [e for i, e in enumerate(shape) if i != axis]
        made, _ = self.value(f"{name} {x} {{axes=[{axis}]}}", rest, lambda s: REDUCTIONS[name](s.values[x], axis))
        self.pool.pop()
        open_shape = [1 if i == axis else e for i, e in enumerate(shape)]
        opened, _ = self.value(
            f"reshape {made} {{shape={open_shape}}}", open_shape, lambda s: s.values[made].reshape(open_shape)
        )
        self.value(f"broadcast {opened} {{shape={list(shape)}}}", shape, lambda s: s.values[opened].expand(shape))

    def move(self):
        x, (m, n) = self.pick()
        if self.random.random() < 0.5:
            self.value(f"permute {x} {{axes=[1, 0]}}", (n, m), lambda s: s.values[x].t())
        else:
            self.value(f"reshape {x} {{shape={[n, m]}}}", (n, m), lambda s: s.values[x].reshape(n, m))

    def join(self):
        x, shape = self.pick()
        y, _ = self.pick(shape)
        axis = self.random.randrange(2)
        joint = [e * 2 if i == axis else e for i, e in enumerate(shape)]
        if math.prod(joint) <= 256:
            self.value(f"cat {x}, {y} {{axis={axis}}}", joint, lambda s: torch.cat((s.values[x], s.values[y]), axis))

    def part(self):
        x, shape = self.pick()
        axis = self.random.randrange(2)
        if shape[axis] % 2:
            return
        half = [e // 2 if i == axis else e for i, e in enumerate(shape)]
        which = self.random.choice([0, 1])
        index = ", ".join([self.zero, self.one][which if i == axis else 0] for i in range(2))
        at = (which * half[axis], half[axis])
        piece, _ = self.value(f"extract {x}, {index} {{shape={half}}}", half, lambda s: s.values[x].narrow(axis, *at))
        if self.random.random() < 0.5:
            y, _ = self.pick(shape)

            def inserted(s):
                made = s.values[y].clone()
                made.narrow(axis, *at).copy_(s.values[piece])
                return made

            self.value(f"insert {y}, {piece}, {index}", shape, inserted)

    def product(self):
        x, (m, k) = self.pick()
        fits = [each for each in self.pool if each[1][0] == k]
        if not fits:
            return
        y, (_, n) = self.random.choice(fits)
        acc, _ = self.pick((m, n))
        made, _ = self.value(f"mma {x}, {y}, {acc}", (m, n), lambda s: s.values[x] @ s.values[y] + s.values[acc])
        self.value(f"atan {made}", (m, n), lambda s: s.values[made].atan())

    def choose(self):
        x, shape = self.pick()
        y, _ = self.pick(shape)
        z, _ = self.pick(shape)
        mask = self.name()
        self.line(f"{mask}: bool{self.shown(shape)} = lt {x}, {y}")
        self.value(f"where {mask}, {z}, {x}", shape, lambda s: torch.where(s.values[x] < s.values[y], s.values[z], s.values[x]))

    def running(self):
        x, shape = self.pick()
        axis, back, product = self.random.randrange(2), self.random.randrange(2), self.random.random() < 0.5
        a, b, c = self.name(), self.name(), self.name()
        made = self.name()
        self.line(f"{made}: f64{self.shown(shape)} = scan {x} {{axis={axis}, reverse={back}}} ({a}: f64, {b}: f64) {{")
        self.line(f"  {c}: f64 = {'mul' if product else 'add'} {a}, {b}")
        self.line(f"  yield {c}")
        self.line("}")

        def meaning(s):
            v = s.values[x].flip(axis) if back else s.values[x]
            v = v.cumprod(axis) if product else v.cumsum(axis)
            return v.flip(axis) if back else v

        self.does(lambda s: s.values.__setitem__(made, meaning(s)))
        self.pool.append((made, shape))
        self.value(f"sin {made}", shape, lambda s: s.values[made].sin())

    def recurrence(self):
        """h = a h + b, as a scan of pairs, or its last element."""
        x, shape = self.pick()
        y, _ = self.pick(shape)
        axis, last = self.random.randrange(2), self.random.random() < 0.4
        kind = f"reduce {x}, {y} {{axis={axis}}}" if last else f"scan {x}, {y} {{axis={axis}, reverse=0}}"
        rest = [e for i, e in enumerate(shape) if i != axis] if last else list(shape)
        a, b, c, d, e, f, g, first, made = (self.name() for _ in range(9))
        self.line(
            f"{first}: f64{self.shown(rest)}, {made}: f64{self.shown(rest)} = {kind} ({a}: f64, {b}: f64, {c}: f64, {d}: f64) {{"
        )
        for line in (f"{e}: f64 = mul {a}, {c}", f"{f}: f64 = mul {b}, {c}", f"{g}: f64 = add {f}, {d}", f"yield {e}, {g}"):
            self.line(f"  {line}")
        self.line("}")

        def run(s):
            h, all = torch.zeros_like(s.values[y].select(axis, 0)), []
            for gate, row in zip(s.values[x].unbind(axis), s.values[y].unbind(axis)):
                h = gate * h + row
                all.append(h)
            s.values[made] = h if last else torch.stack(all, axis)

        self.does(run)
        if last:
            opened, one = self.name(), [1 if i == axis else e for i, e in enumerate(shape)]
            self.line(f"{opened}: f64{self.shown(one)} = reshape {made} {{shape={one}}}")
            self.value(
                f"broadcast {opened} {{shape={list(shape)}}}", shape, lambda s: s.values[made].unsqueeze(axis).expand(shape)
            )
        else:
            self.value(f"tanh {made}", shape, lambda s: s.values[made].tanh())

    # Memory.
    def load(self):
        array, tile, sizes = self.random.choice(self.inputs)
        index = [self.random.choice([self.zero, self.one, bid, bid, *self.indices]) for bid in self.bids]
        steps = [self.random.choice([e, e, e, max(1, e // 2)]) for e in tile]
        pad = self.random.choice([0.0, 0.5])

        def meaning(s):
            made = torch.full(tile, pad, dtype=torch.float64)
            spans = []
            for i, e, step, size in zip(index, tile, steps, sizes):
                low = s.values[i] * step
                spans.append((low, min(low + e, size)))
            if all(low < high for low, high in spans):
                (a, b), (c, d) = spans
                made[: b - a, : d - c] = s.memory[array][a:b, c:d]
            return made

        self.value(f"load {array}, {', '.join(index)} {{pad={pad}, shape={tile}, steps={steps}}}", tile, meaning)

    def store(self):
        x, (m, n) = self.pick()
        name = f"%r{len(self.results)}"
        sizes = [max(1, e * b - self.random.choice([0, 0, 1])) for e, b in zip((m, n), self.blocks)]
        self.results.append((name, sizes))
        self.line(f"store {name}, {x}, {', '.join(self.bids)} {{steps={[m, n]}}}")

        def run(s):
            i, j = s.block[0] * m, s.block[1] * n
            a, b = min(i + m, sizes[0]), min(j + n, sizes[1])
            s.results[name].append(((i, a, j, b), s.values[x][: max(0, a - i), : max(0, b - j)]))

        self.does(run)

    # Regions.
    def region(self, write):
        """Writes lines of a region; returns its statements and drops its values from the pool."""
        body, pool, self.body = self.body, list(self.pool), []
        self.depth += 1
        write()
        self.depth -= 1
        inner, self.body, self.pool = self.body, body, pool
        return inner

    def loop(self):
        start, shape = self.pick()
        count = self.random.choice(self.counts)
        high = self.scalar(f"constant {{dtype=i32, value={count}}}", count)
        low = self.random.choice([self.zero, self.bids[0]])
        index, carried, made, end = self.name(), self.name(), self.name(), []
        counter, counted, following = self.name(), self.name(), self.name()
        tile = f"f64{self.shown(shape)}"
        self.line(
            f"{counted}: i32, {made}: {tile} = for {low}, {high}, {self.one}, {self.zero}, {start} ({index}: i32, "
            f"{counter}: i32, {carried}: {tile}) {{"
        )

        def write():
            self.pool.append((carried, shape))
            self.indices += [index, counter]
            self.line(f"  {following}: i32 = add {counter}, {self.one}")
            for _ in range(self.random.randint(1, 4)):
                self.step()
            x, _ = self.pick(shape)
            way = self.random.random()
            if way < self.sums:
                x, _ = self.value(f"add {carried}, {x}", shape, lambda s, x=x: s.values[carried] + s.values[x])
            elif way < 0.8:
                x, _ = self.value(f"mul {carried}, {x}", shape, lambda s, x=x: s.values[carried] * s.values[x])
                x, _ = self.value(f"cos {x}", shape, lambda s, x=x: s.values[x].cos())
            self.line(f"yield {following}, {x}")
            end.append(x)
            del self.indices[-2:]

        inner = self.region(write)
        self.line("}")

        def run(s):
            value, s.values[counter] = s.values[start], 0
            for i in range(s.values[low], count):
                s.values[index], s.values[carried] = i, value
                before = s.values[counter]
                for statement in inner:
                    statement(s)
                value, s.values[counter] = s.values[end[0]], before + 1
            s.values[made] = value

        self.does(run)
        self.pool.append((made, shape))

    def until(self):
        """A loop that ends by a condition, perhaps by two, and may go on early."""
        start, shape = self.pick()
        count = self.random.choice([0, 1, 3, 6])
        high = self.scalar(f"constant {{dtype=i32, value={count}}}", count)
        index, carried, last, made, end = self.name(), self.name(), self.name(), self.name(), []
        inside, following, tile = self.name(), self.name(), f"f64{self.shown(shape)}"
        self.line(f"{last}: i32, {made}: {tile} = loop {self.zero}, {start} ({index}: i32, {carried}: {tile}) {{")

        def jump():
            """Leaves the loop, or goes on, if the sum of a tile exceeds a number; perhaps only in some iterations."""
            x, own = self.pick()
            y, _ = self.pick(shape)
            kind, limit = self.random.choice(["break", "continue"]), round(self.random.uniform(-2, 2), 3)
            total, number, exceeds = self.name(), self.name(), self.name()
            self.line(f"{total}: f64 = reduce_sum {x} {{axes={list(range(len(own)))}}}")
            self.line(f"{number}: f64 = constant {{dtype=f64, value={limit}}}")
            self.line(f"{exceeds}: bool = gt {total}, {number}")
            lines = [f"if {exceeds} () {{", f"  {kind} {following}, {y}", "} () {", "  yield", "}"]
            some = self.random.random() < 0.5
            if some:
                early = self.name()
                self.line(f"{early}: bool = gt {index}, {self.one}")
                lines = [f"if {early} () {{", *(f"  {line}" for line in lines), "  yield", "} () {", "  yield", "}"]
            for line in lines:
                self.line(line)

            def run(s):
                if s.values[x].sum() > limit and (not some or s.values[index] > 1):
                    raise Jump(kind, s.values[y])

            self.does(run)

        def write():
            self.pool.append((carried, shape))
            self.indices.append(index)
            for line in (f"{inside}: bool = lt {index}, {high}", f"if {inside} () {{", "  yield", "} () {"):
                self.line(line)
            for line in (f"  break {index}, {carried}", "}", f"{following}: i32 = add {index}, {self.one}"):
                self.line(line)
            for _ in range(self.random.randint(1, 2)):
                for _ in range(self.random.randint(1, 3)):
                    self.step()
                if self.random.random() < 0.7:
                    jump()
            x, _ = self.pick(shape)
            if self.random.random() < 0.5:
                x, _ = self.value(f"mul {carried}, {x}", shape, lambda s, x=x: s.values[carried] * s.values[x])
                x, _ = self.value(f"cos {x}", shape, lambda s, x=x: s.values[x].cos())
            self.line(f"continue {following}, {x}")
            end.append(x)
            self.indices.pop()

        inner = self.region(write)
        self.line("}")

        def run(s):
            value, i = s.values[start], 0
            while i < count:
                s.values[index], s.values[carried] = i, value
                i += 1
                try:
                    for statement in inner:
                        statement(s)
                    value = s.values[end[0]]
                except Jump as jump:
                    value = jump.value
                    if jump.kind == "break":
                        break
            s.values[made], s.values[last] = value, i

        self.does(run)
        self.pool.append((made, shape))

    def branch(self):
        shape = self.pick()[1]
        condition, made, ends, inner = self.name(), self.name(), [], []
        self.line(f"{condition}: bool = eq {self.bids[0]}, {self.one}")
        self.line(f"{made}: f64{self.shown(shape)} = if {condition} () {{")

        def write():
            for _ in range(self.random.randint(1, 3)):
                self.step()
            ends.append(self.pick(shape)[0])
            self.line(f"yield {ends[-1]}")

        inner.append(self.region(write))
        self.line("} () {")
        inner.append(self.region(write))
        self.line("}")

        def run(s):
            which = 0 if s.block[0] == 1 else 1
            for statement in inner[which]:
                statement(s)
            s.values[made] = s.values[ends[which]]

        self.does(run)
        self.pool.append((made, shape))

    # Running.
    @property
    def text(self):
        arrays = [name for name, *_ in self.inputs] + [name for name, _ in self.results]
        head = ", ".join(f"{name}: array<f64,2>" for name in arrays)
        return f"kernel random({head}) {{\n" + "\n".join(self.lines) + "\n}\n"

    @property
    def grid(self):
        return (*self.blocks, 1)

    def evaluate(self, tensors):
        """Returns the results for tensors of the inputs."""
        results = {name: [] for name, _ in self.results}
        memory = {name: tensor for (name, *_), tensor in zip(self.inputs, tensors)}
        for j, i in itertools.product(range(self.blocks[1]), range(self.blocks[0])):
            state = State((i, j), memory, results)
            for statement in self.body:
                statement(state)
        made = []
        for name, sizes in self.results:
            whole = torch.zeros(sizes, dtype=torch.float64)
            for (a, b, c, d), part in results[name]:
                if part.numel():
                    index = torch.zeros(sizes, dtype=torch.bool)
                    index[a:b, c:d] = True
                    whole = whole.masked_scatter(index, part)
            made.append(whole)
        return made


class OwnedProgram(Program):
    """A random program that reads each array in one place, in loops at their index, so that transposed kernels own gradients."""

    sums = 1.0
    counts = (0, 1, 2, 3)  # values grow

    def step(self):
        self.random.choice([self.loop] * (2 - self.depth) * 2 + [self.load, self.unary, self.binary, self.product, self.move])()

    def load(self):
        if len(self.inputs) >= 10:
            return
        self.inputs.append(self.new_array())
        array, tile, sizes = self.inputs[-1]
        index = [self.random.choice(self.bids), self.random.choice(self.bids)]
        if self.indices:
            index[self.random.randrange(2)] = self.indices[-2]

        def meaning(s):
            made = torch.zeros(tile, dtype=torch.float64)
            (a, b), (c, d) = ((s.values[i] * e, min(s.values[i] * e + e, size)) for i, e, size in zip(index, tile, sizes))
            if a < b and c < d:
                made[: b - a, : d - c] = s.memory[array][a:b, c:d]
            return made

        self.value(f"load {array}, {', '.join(index)} {{pad=0.0, shape={tile}, steps={tile}}}", tile, meaning)
