"""Random loops and branches of tile programs; their bodies come from the program's other statements."""

import itertools
import random

import torch
from random_statements import stays


class Regions:
    def region(self, arguments, fill):
        """Statements of a region, and what `fill` gives; what is made there is not seen outside."""
        outer, pool = self.body, list(self.pool)
        self.body, self.depth = [], self.depth + 1
        self.pool += arguments
        end = fill()
        inner, self.body, self.pool, self.depth = self.body, outer, pool, self.depth - 1
        return inner, end

    def steps(self, most):
        for _ in range(random.randint(0, most)):
            self.step()

    def carried(self):
        values = [self.tile() for _ in range(random.randint(0, 2))]
        inner = [self.value(v.dtype, v.shape, v.known and random.random() < 0.7) for v in values]
        self.products.update(inner)
        return values, inner

    def next_of(self, argument):
        """A value that the argument may have in the next iteration."""
        return self.like(argument, known=argument.known)

    @staticmethod
    def declared(values):
        return ", ".join(f"{v.name}: {v.type}" for v in values)

    def head(self, results, text):
        self.line((f"{self.declared(results)} = " if results else "") + text)

    def counted(self):
        high = self.binary_of("minimum", self.scalar(), self.constant("i32", random.randint(1, 5)))
        low = self.constant("i32", random.choice([0, 0, 1, -2]))
        step = self.constant("i32", random.choice([1, 1, 2]))
        values, inner = self.carried()
        counter = self.value("i32", ())
        results = [self.value(v.dtype, v.shape, v.known) for v in inner]
        self.head(
            results, f"for {', '.join(v.name for v in (low, high, step, *values))} ({self.declared([counter, *inner])}) {{"
        )

        def fill():
            self.steps(4)
            ends = [self.next_of(v) for v in inner]
            self.line("yield " + ", ".join(v.name for v in ends) if ends else "yield")
            return ends

        body, ends = self.region([counter, *inner], fill)
        self.line("}")

        def run(s):
            now = [s.values[v] for v in values]
            for i in range(int(s.values[low][0]), int(s.values[high][0]), int(s.values[step][0])):
                s.values[counter] = torch.tensor(i), None
                s.values.update(zip(inner, now))
                s.run(body)
                now = [s.values[v] for v in ends]
            s.values.update(zip(results, now))

        self.does(run, results)
        self.pool += results
        self.products.update(results)

    def branch(self):
        condition = self.predicate_of_scalars()
        kinds = [self.tile() for _ in range(random.randint(0, 2))]
        results = [self.value(v.dtype, v.shape, v.known and random.random() < 0.7) for v in kinds]
        sides = []
        self.head(results, f"if {condition.name} () {{")
        for side in range(2):

            def fill():
                self.steps(3)
                ends = [self.next_of(v) for v in results]
                self.line("yield " + ", ".join(v.name for v in ends) if ends else "yield")
                return ends

            sides.append(self.region([], fill))
            self.line("} () {" if side == 0 else "}")

        def run(s):
            body, ends = sides[0 if bool(s.values[condition][0]) else 1]
            s.run(body)
            s.values.update(zip(results, [s.values[v] for v in ends]))

        self.does(run, results)
        self.pool += results
        self.products.update(results)

    def endless(self):
        """A loop that a counter ends; it breaks in the middle, before values change."""
        start, limit = self.constant("i32", 0), self.binary_of("minimum", self.scalar(), self.constant("i32", 3))
        values, inner = self.carried()
        count = self.value("i32", ())
        results = [self.value("i32", ())] + [self.value(v.dtype, v.shape, v.known) for v in inner]
        self.head(results, f"loop {', '.join(v.name for v in (start, *values))} ({self.declared([count, *inner])}) {{")
        middle = []

        def fill():
            self.steps(2)
            stop = self.apply("ge", [count, limit], "bool", (), lambda a, b: (a[0] >= b[0], None))
            first, self.body = self.body, []
            left = [self.next_of(v) for v in inner]
            self.line(f"if {stop.name} () {{")
            self.line("  break " + ", ".join(v.name for v in (count, *left)))
            self.line("} () {")
            self.line("  yield")
            self.line("}")
            self.does(stays)
            middle.extend([first + self.body, stop, left])
            self.body = []
            self.steps(2)
            following = self.binary_of("add", count, self.constant("i32", 1))
            ends = [following] + [self.next_of(v) for v in inner]
            self.line("continue " + ", ".join(v.name for v in ends))
            return ends

        rest, ends = self.region([count, *inner], fill)
        self.line("}")
        first, stop, left = middle

        def run(s):
            now = [s.values[start]] + [s.values[v] for v in values]
            for iteration in itertools.count():
                assert iteration < 50
                s.values.update(zip([count, *inner], now))
                s.run(first)
                if bool(s.values[stop][0]):
                    s.values.update(zip(results, [s.values[v] for v in (count, *left)]))
                    return
                s.run(rest)
                now = [s.values[v] for v in ends]

        self.does(run, results)
        self.pool += results
        self.products.update(results)
