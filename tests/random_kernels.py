"""Generates random Python functions of integers with all the control flow that kernels support."""

import linecache
import random

HEAD = '''"""Made by random_kernels."""

import contextlib
import functools

import tile_ops.language as tl

YES, NO, THREE = True, False, 3


def plus(amount):
    def decorate(function):
        @functools.wraps(function)
        def wrapped(x):
            return (function(x) + amount) % 97

        return wrapped

    return decorate


@plus(5)
def twice(x):
    return x * 2


@plus(THREE)
@plus(1)
def branched(x):
    if x > 40:
        return x - 40
    k = 0
    while k < 9:
        k += 2
        if k * 5 > x:
            return k
    return x + 1


def counted(x):
    total = 0
    for i in range(x % 5, -(x % 3), -1):
        if i == 2:
            continue
        total += i * x
    return total % 97


def adder(k):
    count = k
    made = lambda x: (x + count + again(1)) % 97

    def again(y):
        return y + count

    count = count + 1
    return made


@contextlib.contextmanager
def late(n):
    a = n
    yield lambda x: (a * 3 + x) % 97
    a = (n + 7) % 97


@contextlib.contextmanager
def nested(n):
    total = n % 13
    with late(n) as f:
        try:
            total = total + f(1)
            yield lambda x: (x + total + f(x)) % 97
            total = total * 3
        finally:
            total = total % 53
    total = (total + f(2)) % 97


@contextlib.contextmanager
def parted(n):
    k, f = 1, twice
    if n % 2 == 0:
        with late(n) as f:
            yield lambda x: (f(x) + k) % 97
        k = 5
    else:
        k = 2
        yield lambda x: (x * k) % 97
        k = 7
    k += 1


@contextlib.contextmanager
def unrolled(n):
    t = 0
    for i in tl.static_iter(range(3)):
        t = t + i
        if i == 1:
            yield lambda x: (t + x * n) % 97
        t = t * 2
'''
HELPERS = ["twice", "branched", "counted"]
MANAGERS = ["late", "nested", "parted", "unrolled"]


class Function:
    """Generates one function of a, b and s. The names v0 to v2, which it returns, and f are always assigned."""

    def __init__(self, seed):
        self.random, self.lines, self.names = random.Random(seed), [], 0
        self.functions, self.values = ["f"], ["a", "b", "s", "v0", "v1", "v2"]
        self.loops = []  # (kind, the names assigned at each of its breaks so far)
        self.returns, self.left = True, self.random.randint(12, 30)
        self.line(0, "def program(a, b, s):")
        self.line(1, "v0, v1, v2 = a % 97, (a * b + 1) % 97, 3")
        self.line(1, "f = lambda x: (x + v0) % 97")
        self.block(1, 3)
        self.line(1, f"return {self.results()}")
        self.text = HEAD + "\n\n" + "\n".join(self.lines) + "\n"

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    def new(self, letter):
        self.names += 1
        return f"{letter}{self.names + 9}"

    def results(self):
        return f"({self.value()}) % 97, v0, v1, v2, ({self.called()}) % 97"

    def called(self):
        return f"{self.random.choice(self.functions + HELPERS)}({self.leaf()})"

    def leaf(self):
        return self.random.choice([*self.values, *self.values, str(self.random.randint(-5, 9))])

    def value(self):
        x, y, z = self.leaf(), self.leaf(), self.leaf()
        return self.random.choice([
            f"{x} + {y} * {z}", f"{x} * {y} - {z}", f"{x} - {y}", f"{x} // 3 + {y}", f"({x} if {self.test()} else {y}) + {z}",
            f"{self.called()} + {x}", f"max({x}, {y}) - min({y}, {z})", f"{x} * 2 + {self.called()}",
        ])  # fmt: skip

    def test(self):
        x, y = self.leaf(), self.leaf()
        return self.random.choice([
            f"{x} % 3 == {self.random.randint(0, 2)}", f"{x} > {y}", f"{x} + 4 < {y}", f"{x} % 2 == 0 and {y} > 3",
            f"not {x} > {y} or {y} == 5", f"0 <= {x} < {y}",
        ])  # fmt: skip

    def known(self):
        return self.random.choice(["YES", "NO", "THREE > 2", "not YES"])

    def assign(self, depth, name, value):
        self.line(depth, f"{name} = ({value}) % 97")

    def block(self, depth, most):
        """Adds a block; returns True if control reaches the statement after it."""
        count = self.random.randint(1, most)
        for _ in range(count):
            self.left -= 1
            if self.left < 0 or depth > 5:
                self.assign(depth, self.random.choice(["v0", "v1", "v2"]), self.value())
                return True
            kinds = [self.plain, self.plain, self.pair, self.if_, self.if_, self.if_known, self.for_, self.while_, self.endless,
                     self.with_, self.with_, self.closure, self.closure, self.finally_, self.static]  # fmt: skip
            if self.loops:
                kinds += [self.jump, self.jump]
            if self.returns and depth > 1:
                kinds += [self.return_]
            if self.random.choice(kinds)(depth) is False:
                return False
        return True

    def arm(self, depth, most=3):
        """Adds a nested block; returns the names assigned at its end, or None if control never reaches its end."""
        values, functions = list(self.values), list(self.functions)
        goes_on = self.block(depth, most)
        ended = (self.values, self.functions) if goes_on else None
        self.values, self.functions = values, functions
        return ended

    def join(self, ways):
        """Keeps the names assigned on every path that reaches the join; returns False if no path does."""
        ways = [way for way in ways if way]
        if not ways:
            return False
        for at, name in enumerate(("values", "functions")):
            setattr(self, name, [each for each in ways[0][at] if all(each in way[at] for way in ways)])
        return True

    def plain(self, depth):
        name = self.random.choice(["v0", "v1", "v2", None]) or self.new("t")
        self.assign(depth, name, self.value())
        if name not in self.values:
            self.values.append(name)

    def pair(self, depth):
        self.line(depth, self.random.choice(["[v0, v1]", "v0, v1"]) + f" = ({self.value()}) % 97, ({self.value()}) % 97")

    def if_(self, depth):
        self.line(depth, f"if {self.test()}:")
        ways = [self.arm(depth + 1)]
        if self.random.random() < 0.6:
            self.line(depth, "else:")
            ways.append(self.arm(depth + 1))
        else:
            ways.append((list(self.values), list(self.functions)))
        return self.join(ways)

    def if_known(self, depth):
        test = self.known()
        self.line(depth, f"if {test}:")
        first = self.arm(depth + 1)
        self.line(depth, "else:")
        second = self.arm(depth + 1)
        return self.join([first if test in ("YES", "THREE > 2") else second])

    def jump(self, depth):
        self.line(depth, f"if {self.test()}:")
        self.leave(depth + 1)
        if self.random.random() < 0.15:
            self.line(depth, "else:")
            self.leave(depth + 1)
            return False
        return True

    def leave(self, depth):
        kind, breaks = self.loops[-1]
        if self.random.random() < 0.5:
            breaks.append((list(self.values), list(self.functions)))
            self.line(depth, "break")
        else:
            if kind == "surely":
                breaks.append((list(self.values), list(self.functions)))
            self.line(depth, "continue")

    def return_(self, depth):
        self.line(depth, f"return {self.results()}")
        return False

    def body(self, depth, kind, returns):
        """Adds a loop's body; returns the names at its breaks and, if it `surely` has an iteration, at the iterations' ends."""
        outer, self.returns = self.returns, self.returns and returns
        self.loops.append((kind, []))
        end = self.arm(depth + 1)
        self.returns = outer
        return self.loops.pop()[1] + ([end] if end and kind == "surely" else [])

    def for_(self, depth):
        i = self.new("i")
        bounds = self.random.choice([
            f"{self.leaf()} % 6, {self.leaf()} % 7, s", f"{self.leaf()} % 5", f"{self.leaf()} % 9, {self.leaf()} % 4, -2",
            f"{self.leaf()} % 3, 6, {self.leaf()} % 3 + 1", f"{self.leaf()} % 7, -2, -1 - {self.leaf()} % 2",
            "4, 0, -1", "THREE", "-2, 5, 3", "1",
        ])  # fmt: skip
        surely = bounds in ("4, 0, -1", "THREE", "-2, 5, 3", "1")
        self.line(depth, f"for {i} in range({bounds}):")
        self.values.append(i)
        ends = self.body(depth, "surely" if surely else "counts", False)
        if surely:
            return self.join(ends)
        self.values.remove(i)
        return True

    def while_(self, depth):
        k = self.new("k")
        self.line(depth, f"{k} = 0")
        self.line(depth, f"while {k} < {self.random.randint(1, 5)} and {self.test()}:")
        self.line(depth + 1, f"{k} += 1")
        self.values.append(k)
        self.body(depth, "counts", True)

    def endless(self, depth):
        k = self.new("k")
        self.line(depth, f"{k} = {self.leaf()} % 3")
        self.line(depth, f"while {self.random.choice(['True', 'YES'])}:")
        self.line(depth + 1, f"{k} += 1")
        t = self.new("t")
        self.assign(depth + 1, t, self.value())
        self.values.append(k)
        self.values.append(t)
        self.line(depth + 1, f"if {k} > {self.random.randint(3, 6)}:")
        self.line(depth + 2, "break")
        at_break = list(self.values), list(self.functions)
        return self.join([at_break, *self.body(depth, "endless", True)])

    def with_(self, depth):
        g = self.new("g")
        more = self.new("g") if self.random.random() < 0.3 else None
        items = [f"{self.random.choice(MANAGERS)}({self.leaf()}) as {each}" for each in (g, more) if each]
        self.line(depth, f"with {', '.join(items)}:")
        self.functions += [each for each in (g, more) if each]
        return self.block(depth + 1, 3)

    def finally_(self, depth):
        self.line(depth, "try:")
        goes_on = self.block(depth + 1, 2)
        self.line(depth, "finally:")
        self.assign(depth + 1, "v1", "v1 * 3 + v0")
        return goes_on

    def closure(self, depth):
        name = self.random.choice(["f", None]) or self.new("h")
        base = self.random.choice(["v0", "v1", "v2"])
        how = self.random.randint(0, 3)
        if how == 0:
            self.line(depth, f"{name} = lambda x: (x + {base} * {self.random.randint(1, 4)}) % 97")
        elif how == 1:
            self.line(depth, f"{name} = lambda x, y={self.leaf()}: (x + {base} - y) % 97")
        elif how == 2:
            self.line(depth, f"def {name}(x):")
            self.line(depth + 1, f"if x > {base}:")
            self.line(depth + 2, "return x - 3")
            self.line(depth + 1, f"return ({base} + x) % 97")
        else:
            self.line(depth, f"{name} = {self.random.choice([f'adder({self.leaf()})', *HELPERS])}")
        if name not in self.functions:
            self.functions.append(name)

    def static(self, depth):
        self.line(depth, f"for x in tl.static_iter(({self.leaf()}, {self.leaf()}, 2)):")
        self.assign(depth + 1, "v2", "v2 + x * v0")


def function_of(seed):
    """Returns (the function, its source)."""
    text, file = Function(seed).text, f"<random kernel {seed}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    names = {"__name__": f"random_kernel_{seed}"}
    exec(compile(text, file, "exec"), names)  # noqa: S102 made above
    return names["program"], text
