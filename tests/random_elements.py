"""Generates random statements on single elements of arrays, by gather, scatter and the atomic operations, and blocks that
wait for each other through them."""

import random

import torch
from random_meaning import FLOATS, HELD, INTEGERS, SMALL, boolean, floating, integer
from random_statements import Value

# The elementwise primitive that makes the new element; without one the element becomes the operand.
COMBINED = {
    "atomic_add": "add",
    "atomic_max": "maximum",
    "atomic_min": "minimum",
    "atomic_and": "bitwise_and",
    "atomic_or": "bitwise_or",
    "atomic_xor": "bitwise_xor",
}
CHANGES = [*COMBINED, "atomic_xchg", "atomic_cas", "atomic_store"]


def takes(name, dtype):
    """Returns True if the operation is one of elements of the dtype."""
    if name not in COMBINED:
        return True
    return dtype not in HELD if "bitwise" in COMBINED[name] else dtype != "bool" and dtype not in SMALL


def new_element(name, dtype, old, x):
    primitive = COMBINED.get(name)
    if primitive is None:
        return x
    if dtype in FLOATS:
        return floating(primitive, dtype, old, None, x, None)[0]
    return boolean(primitive, old, x) if dtype == "bool" else integer(primitive, dtype, old, x)


def same_bits(x, y):
    """Returns where two tensors without NaN have the same bits."""
    return (x == y) & ((x.signbit() == y.signbit()) if x.is_floating_point() else True)


def names(*values):
    return ", ".join(v.name for v in values if v is not None)


class Elements:
    def gather(self):
        array = random.choice([a for a in self.arrays if not a.written])
        first = self.pick(lambda v: v.shape and v.dtype == "i32")
        if not first:
            return
        index = [first] + [self.like(first) for _ in array.tile[1:]]
        mask = self.like(self.predicate_like(first)) if random.random() < 0.5 else None
        atomic = random.random() < 0.3
        pad = random.choice([0.0, 2.5]) if array.dtype in HELD and not atomic else 0

        def meaning(s):
            x, _ = s.memory[array.name]
            at = [s.values[i][0] for i in index]
            there = torch.ones_like(at[0], dtype=torch.bool) if mask is None else s.values[mask][0]
            for i, extent in zip(at, x.shape):
                there = there & (i >= 0) & (i < extent)
            return torch.where(there, x[tuple(torch.where(there, i, 0) for i in at)], torch.tensor(pad, dtype=x.dtype)), None

        text = (
            f"atomic_load {array.name}, {names(*index, mask)}{self.order('acquire')}"
            if atomic
            else f"gather {array.name}, {names(*index, mask)} {{pad={pad!r}}}"
        )
        self.op(text, array.dtype, first.shape, meaning)

    def order(self, *others):
        """Attributes of an atomic operation."""
        attributes = [f'order="{random.choice(["relaxed", *others])}"'] if random.random() < 0.5 else []
        attributes += [f'scope="{random.choice(["device", "system"])}"'] if random.random() < 0.3 else []
        return f" {{{', '.join(attributes)}}}" if attributes else ""

    def own_elements(self, size):
        """Numbers of elements, and indices that are the block's alone: each once, perhaps the last one first."""
        own = self.binary_of("mul", self.bids[0], self.constant("i32", size))
        number = self.numbers(size)
        if random.random() < 0.5:
            number = self.binary_of("sub", self.spread(self.constant("i32", size - 1), (size,)), number)
        return number, self.binary_of("add", number, self.spread(own, (size,)))

    def numbers(self, size):
        return self.op(f"arange {{dtype=i32, size={size}}}", "i32", (size,), lambda s: (torch.arange(size), None))

    def some_of(self, number):
        """A mask, or none."""
        return self.predicate_like(number) if random.random() < 0.6 else None

    def elements(self, dtype):
        """An array of which no tile is loaded."""
        array = self.array(True, dtype, [random.choice(self.extents)])
        array.shared = True
        return array, array.tile[0]

    def scatter(self):
        if len(self.blocks) > 1 or self.depth:
            return
        array, size = self.elements(random.choice(self.dtypes))
        number, index = self.own_elements(size)
        value, mask = self.like(Value("", array.dtype, (size,), array.known), known=array.known), self.some_of(number)
        self.line(f"scatter {array.name}, {names(value, index, mask)}")

        def run(s):
            (x, e), (tile, bound) = s.memory[array.name], s.values[value]
            there = self.there(s, x, index, mask)
            at = s.values[index][0][there]
            x[at] = tile[there]
            e[at] = torch.zeros(len(at), dtype=torch.float64) if bound is None else bound[there]

        self.does(run)

    @staticmethod
    def there(s, x, index, mask):
        at = s.values[index][0]
        return (True if mask is None else s.values[mask][0]) & (at >= 0) & (at < x.shape[0])

    def atomic_of_all_blocks(self):
        """Changes whose order does not matter, at any elements, some of them more than once."""
        if len(self.blocks) > 1:
            return
        name = random.choice(list(COMBINED))
        array, size = self.elements(random.choice([d for d in [*INTEGERS, "bool"] if takes(name, d)]))
        number = self.numbers(size)
        index, mask = self.like(number), self.some_of(number)
        value = self.like(Value("", array.dtype, (size,), True), known=True)
        unused = f"%unused{len(self.lines)}: {array.dtype}[{size}] = "
        order = self.order("acquire", "release", "acq_rel")
        self.line(f"{unused}{name} {array.name}, {names(value, index, mask)}{order}")

        def run(s):
            x, _ = s.memory[array.name]
            there = self.there(s, x, index, mask)
            for at, one in zip(s.values[index][0][there], s.values[value][0][there]):
                x[at] = new_element(name, array.dtype, x[at], one)

        self.does(run)

    def atomic_of_own_elements(self):
        """Any change of elements that no other block touches: the value before is known."""
        if len(self.blocks) > 1:
            return
        name = random.choice(CHANGES)
        dtype = random.choice([d for d in self.dtypes if takes(name, d)])
        if dtype in HELD and self.depth:
            return  # a NaN that was written is no longer compared by value
        array, size = self.elements(dtype)
        array.known = True
        if dtype in HELD:
            array.tensor = array.tensor.double().nan_to_num(1.0).to(array.tensor.dtype)
        number, index = self.own_elements(size)
        mask = self.some_of(number)
        values = [self.like(Value("", dtype, (size,), True), known=True) for _ in range(1 + (name == "atomic_cas"))]
        if name == "atomic_cas" and random.random() < 0.6:  # where it changes something
            there = self.op(
                f"atomic_load {array.name}, {names(index, mask)}",
                dtype,
                (size,),
                lambda s: (self.found(s, array, index, mask, torch.zeros(size)), None),
            )
            values[0] = there

        def change(s):
            x, _ = s.memory[array.name]
            given = [s.values[v][0] for v in values]
            before = self.found(s, array, index, mask, given[0] if name == "atomic_cas" else torch.zeros(size))
            there = self.there(s, x, index, mask)
            there = there & same_bits(before, given[0]) if name == "atomic_cas" else there
            x[s.values[index][0][there]] = new_element(name, dtype, before, given[-1])[there]
            return before, None

        if name == "atomic_store":
            self.line(f"{name} {array.name}, {names(*values, index, mask)}{self.order('release')}")
            self.does(change)
        else:
            order = self.order("acquire", "release", "acq_rel")
            self.op(f"{name} {array.name}, {names(*values, index, mask)}{order}", dtype, (size,), change)

    def critical(self):
        """Adds an update of a tile by all blocks, one after the other in any order: under a lock, or by tickets."""
        value = self.pick(lambda v: v.shape and (v.dtype in INTEGERS or v.dtype == "bool"))
        if not value:
            return
        name = random.choice([n for n in COMBINED if takes(n, value.dtype)])
        array = self.array(True, value.dtype, list(value.shape))
        gates = [self.array(True, "i32", [1]) for _ in range(2)]
        for gate in gates:
            gate.tensor.zero_()
        for each in (array, *gates):
            each.shared = True
        zero, one, number = self.constant("i32", 0), self.constant("i32", 1), len(self.lines)
        tickets = random.random() < 0.5
        for line in self.enters(tickets, gates, zero.name, one.name, number):
            self.line(line)
        at, shape = f", {zero.name}" * len(value.shape), list(value.shape)
        self.line(f"%was{number}: {value.type} = load {array.name}{at} {{pad=0, shape={shape}, steps={shape}}}")
        self.line(f"%new{number}: {value.type} = {COMBINED[name]} %was{number}, {value.name}")
        self.line(f"store {array.name}, %new{number}{at} {{steps={shape}}}")
        order = f'{{order="{random.choice(["release", "acq_rel"])}"}}'
        leave = f"atomic_add {gates[1].name}, {one.name}" if tickets else f"atomic_xchg {gates[1].name}, {zero.name}"
        if not tickets and "acq" not in order and random.random() < 0.5:
            self.line(f"atomic_store {gates[1].name}, {zero.name}, {zero.name} {order}")
        else:
            self.line(f"%left{number}: i32 = {leave}, {zero.name} {order}")

        def run(s):
            x, _ = s.memory[array.name]
            part = tuple(slice(0, min(n, size)) for n, size in zip(shape, x.shape))
            x[part] = new_element(name, array.dtype, x[part], s.values[value][0][part])
            for gate in gates:
                s.memory[gate.name][0][0] += tickets

        self.does(run)

    @staticmethod
    def enters(tickets, gates, zero, one, number):
        """Yields lines that wait until the block has exclusive access."""
        order = f'{{order="{random.choice(["acquire", "acq_rel"])}"}}'
        if not tickets:
            look, free = f"atomic_cas {gates[1].name}, {zero}, {one}, {zero} {order}", zero
        else:
            yield f'%ticket{number}: i32 = atomic_add {gates[0].name}, {one}, {zero} {{order="relaxed"}}'
            look, free = f'atomic_load {gates[1].name}, {zero} {{order="acquire"}}', f"%ticket{number}"
            if random.random() < 0.5:
                look = f"atomic_add {gates[1].name}, {zero}, {zero} {order}"
        yield "loop () {"
        yield f"  %now{number}: i32 = {look}"
        yield f"  %free{number}: bool = eq %now{number}, {free}"
        yield f"  if %free{number} () {{"
        yield from ("    break", "  } () {", "    yield", "  }", "  continue", "}")

    def found(self, s, array, index, mask, otherwise):
        """Returns the elements at the places, otherwise the tile's value."""
        x, _ = s.memory[array.name]
        there = self.there(s, x, index, mask)
        return torch.where(there, x[torch.where(there, s.values[index][0], 0)], otherwise.to(x.dtype))
