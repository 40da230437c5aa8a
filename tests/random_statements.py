"""Random statements of tile programs, text and meaning in torch: arithmetic. Memory and regions: random_program."""

import dataclasses
import math
import random

import torch
from random_meaning import DTYPES, FLOATS, GENTLE, HELD, INTEGERS, PREDICATES, SMALL, TABLE, best, boolean, cast, error
from random_meaning import finished, floating, fma, function, function_of_two, integer, ordered, nearest, product
from random_meaning import reduced, widened

ROUNDED, ROUNDED_OF_TWO = (
    [
        n
        for n, r in TABLE.items()
        if r["elementwise"] and r["operands"] == count and r["ulp"] > 0 and r["reference"] and set(FLOATS) <= set(r["dtypes"])
    ]
    for count in (1, 2)
)
UNARY = {
    "float": ["neg", "abs", "sqrt", "floor", "ceil", "round", "trunc"],
    "int": ["neg", "abs", "bitwise_not"],
    "bool": ["logical_not"],
}
BINARY = {
    "float": ["add", "sub", "mul", "div", "floordiv", "mod", "minimum", "maximum"],
    "int": [
        "add",
        "sub",
        "mul",
        "floordiv",
        "mod",
        "cdiv",
        "minimum",
        "maximum",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "shift_left",
        "shift_right",
    ],
    "bool": ["bitwise_and", "bitwise_or", "bitwise_xor"],
}
# Operations that passes may replace by an operand.
PASSED_ON = {"reshape", "broadcast", "permute", "cat", "where", "minimum", "maximum", "neg", "abs", "astype"}
STEADY = {"neg", "abs", "add", "sub", "mul", "minimum", "maximum"}  # of operands with an error


def kind(dtype):
    return "float" if dtype in FLOATS else "int" if dtype in INTEGERS else "bool"


def stays(state):
    """The statement of lines that a smaller program keeps."""


@dataclasses.dataclass
class Line:
    text: str
    depth: int
    statements: list = dataclasses.field(default_factory=list)  # functions that do what it says, the innermost first


@dataclasses.dataclass(frozen=True, eq=False)
class Value:
    name: str
    dtype: str
    shape: tuple
    known: bool  # every bit is

    @property
    def type(self):
        return self.dtype + (str(list(self.shape)).replace(" ", "") if self.shape else "")

    def is_like(self, other):
        return (self.dtype, self.shape) == (other.dtype, other.shape)


class Arithmetic:
    """Writes arithmetic into a program. The subclass sets up what the program holds."""

    # Text and meaning side by side.
    def line(self, text):
        self.lines.append(Line("  " * (self.depth + 1) + text, self.depth))

    def does(self, run, results=()):
        """A statement: what the lines since the last one, its regions' among them, do to a state."""
        self.results_of[run] = results
        for line in reversed(self.lines):
            if line.depth < self.depth or (line.depth == self.depth and line.statements):
                break
            line.statements.append(run)
        self.body.append(run)

    def value(self, dtype, shape, known=True):
        self.count += 1
        value = Value(f"%{self.count}", dtype, tuple(shape), known or dtype not in HELD)
        self.named[value.name] = value
        return value

    def op(self, text, dtype, shape, meaning, known=True):
        value = self.value(dtype, shape, known)
        self.line(f"{value.name}: {value.type} = {text}")

        def run(state):
            x, e = meaning(state)
            assert tuple(x.shape) == value.shape, (text, x.shape, value.shape)
            state.values[value] = (x, None if e is None else e.expand(x.shape))

        self.does(run, [value])
        self.pool.append(value)
        return value

    def apply(self, text, operands, dtype, shape, meaning, attributes="", known=True):
        """An op whose meaning takes the values and errors of its operands."""
        names = ", ".join(o.name for o in operands)
        result = self.op(
            f"{text} {names}{attributes}", dtype, shape, lambda s: meaning(*(s.values[o] for o in operands)), known
        )
        if text == "mul" or (text in PASSED_ON and self.products & set(operands)):
            self.products.add(result)
        return result

    # Operands.
    def pick(self, test=lambda v: True, make=None):
        found = [v for v in self.pool if test(v)]
        recent = found[-6:] if random.random() < 0.6 else found
        return random.choice(recent) if recent else make() if make else None

    def constant(self, dtype, number):
        exact = torch.tensor(number, dtype=torch.bool if dtype == "bool" else torch.float64 if dtype in HELD else torch.int64)
        return self.op(
            f"constant {{dtype={dtype}, value={int(number) if dtype == 'bool' else number!r}}}",
            dtype,
            (),
            lambda s: (exact, None),
        )

    def number(self, dtype):
        if dtype == "bool":
            return self.constant(dtype, random.random() < 0.5)
        if dtype in HELD:
            return self.constant(dtype, nearest(torch.tensor(random.choice([0.0, 1.0, -1.5, 0.25, 3.0, 100.0])), dtype).item())
        wide = [2**62 - 1, -(2**60) - 2**36 - 1] if dtype in ("i64", "u64") and random.random() < 0.3 else []
        return self.constant(
            dtype, random.choice(wide or ([0, 1, 2, 3, 5, 31] if dtype.startswith("u") else [0, 1, -1, 2, 3, -7, 31]))
        )

    def scalar(self, dtype="i32"):
        return (
            self.pick(lambda v: v.dtype == dtype and not v.shape, lambda: self.number(dtype))
            if random.random() < 0.8
            else self.number(dtype)
        )

    def spread(self, x, shape):
        """Broadcast to the shape."""
        if x.shape == tuple(shape):
            return x
        if x.shape and len(x.shape) != len(shape):
            x = self.reshape(x, [1] * (len(shape) - len(x.shape)) + list(x.shape))
        if x.shape == tuple(shape):
            return x
        return self.apply(
            "broadcast",
            [x],
            x.dtype,
            shape,
            lambda a: (a[0].expand(shape), None if a[1] is None else a[1].expand(shape)),
            f" {{shape={list(shape)}}}",
            x.known,
        )

    def like(self, x, known=False):
        fits = [v for v in self.pool if v.is_like(x) and (v.known or not known)]
        if fits and random.random() < 0.8:
            return random.choice(fits[-8:])
        smaller = [
            v
            for v in self.pool
            if v.dtype == x.dtype
            and (v.known or not known)
            and len(v.shape) <= len(x.shape)
            and all(a in (1, b) for a, b in zip(v.shape[::-1], x.shape[::-1]))
        ]
        return self.spread(random.choice(smaller) if smaller and random.random() < 0.7 else self.number(x.dtype), x.shape)

    def reshape(self, x, shape):
        return self.apply(
            "reshape",
            [x],
            x.dtype,
            shape,
            lambda a: tuple(None if t is None else t.reshape(list(shape)) for t in a),
            f" {{shape={list(shape)}}}",
            x.known,
        )

    def astype(self, x, dtype):
        return (
            x
            if x.dtype == dtype
            else self.apply("astype", [x], dtype, x.shape, lambda a: cast(*a, x.dtype, dtype), f" {{dtype={dtype}}}", x.known)
        )

    def tile(self, known=False, computed=False):
        """Picks or loads a tile; computed: one of a dtype that has arithmetic."""
        fits = [d for d in self.dtypes if not computed or d not in SMALL]
        return self.pick(
            lambda v: (v.known or not known) and not (computed and v.dtype in SMALL) and (v.shape or random.random() < 0.2),
            lambda: self.load(self.array(dtype=random.choice(fits))),
        )

    # Statements.
    def unary(self):
        x = self.tile(computed=True)
        name = random.choice(UNARY[kind(x.dtype)])
        if (x.dtype.startswith("u") and name in ("neg", "abs")) or not (x.known or name in STEADY):
            return
        meaning = {
            "float": lambda a: floating(name, x.dtype, *a),
            "int": lambda a: (integer(name, x.dtype, a[0]), None),
            "bool": lambda a: (boolean(name, a[0]), None),
        }[kind(x.dtype)]
        self.apply(name, [x], x.dtype, x.shape, meaning, known=x.known)

    def binary(self):
        x = self.tile(computed=True)
        name = random.choice(BINARY[kind(x.dtype)])
        steady = name in STEADY or x.dtype not in FLOATS
        if not (x.known or steady):
            return
        y = self.like(x, known=not steady)
        if x.dtype in FLOATS and name in ("div", "floordiv", "mod"):  # of 0 and -0 ops may give either
            y = self.binary_of("maximum", self.binary_of("mul", y, y), self.spread(self.constant(x.dtype, 0.5), x.shape))
        elif random.random() < 0.3:
            x, y = y, x
        self.binary_of(name, x, y)

    def binary_of(self, name, x, y):
        if name in ("add", "sub") and x.dtype in ("f32", "f64") and {x, y} & self.products:
            # A product that is only added goes into the sum without being rounded.
            def meaning(a, b):
                z, e = floating(name, x.dtype, a[0], error(a[1], a[0]), b[0], error(b[1], b[0]))
                slack = sum(torch.finfo(FLOATS[x.dtype]).eps * p[0].abs() for v, p in ((x, a), (y, b)) if v in self.products)
                return finished(z, e + slack)

            return self.apply(name, [x, y], x.dtype, x.shape, meaning, known=False)
        meaning = {
            "float": lambda a, b: floating(name, x.dtype, *a, *b),
            "int": lambda a, b: (integer(name, x.dtype, a[0], b[0]), None),
            "bool": lambda a, b: (boolean(name, a[0], b[0]), None),
        }[kind(x.dtype)]
        return self.apply(name, [x, y], x.dtype, x.shape, meaning, known=x.known and y.known)

    def rounded(self):
        name = random.choice(ROUNDED)
        x = self.pick(lambda v: v.dtype in FLOATS and (v.known or name in GENTLE))
        if x:
            self.apply(name, [x], x.dtype, x.shape, lambda a: function(name, x.dtype, *a), known=False)

    def rounded_of_two(self):
        name = random.choice(ROUNDED_OF_TWO)
        x = self.pick(lambda v: v.dtype in FLOATS and v.known)
        if x:
            y = self.like(x, known=True)
            if name == "pow" and random.random() < 0.5:
                x = self.apply("abs", [x], x.dtype, x.shape, lambda a: floating("abs", x.dtype, *a))
            self.apply(
                name, [x, y], x.dtype, x.shape, lambda a, b, base=x: function_of_two(name, base.dtype, a[0], b[0]), known=False
            )

    def fused(self):
        x = self.pick(lambda v: v.dtype in FLOATS)
        if x:
            y, z = self.like(x), self.like(x)
            self.apply(
                "fma",
                [x, y, z],
                x.dtype,
                x.shape,
                lambda a, b, c: fma(x.dtype, a[0], b[0], c[0], a[1], b[1], c[1]),
                known=False,
            )

    def predicate(self):
        x = self.tile(known=True, computed=True)
        name = random.choice(["eq", "ne"] if x.dtype == "bool" else list(PREDICATES))
        if x.dtype in FLOATS and random.random() < 0.2:
            name = random.choice(["isnan", "isinf"])
            return self.apply(name, [x], "bool", x.shape, lambda a: (getattr(torch, name)(a[0]), None))
        y = self.like(x, known=True)
        return self.apply(
            name, [x, y], "bool", x.shape, lambda a, b: (PREDICATES[name](ordered(a[0], x.dtype), ordered(b[0], x.dtype)), None)
        )

    def where(self):
        x = self.tile()
        y, mask = self.like(x), self.like(Value("", "bool", x.shape, True))

        def meaning(c, a, b):
            z = torch.where(c[0], a[0], b[0])
            if a[1] is None and b[1] is None:
                return z, None
            zero = torch.zeros_like(z)
            return z, torch.where(c[0], zero if a[1] is None else a[1], zero if b[1] is None else b[1])

        self.apply("where", [mask, x, y], x.dtype, x.shape, meaning, known=x.known and y.known)

    def convert(self):
        x = self.tile()
        if x.dtype in INTEGERS and random.random() < 0.3:
            own = DTYPES[x.dtype]
            other = random.choice([d for d, t in DTYPES.items() if t.itemsize == own.itemsize and d not in (x.dtype, "bool")])
            return self.apply(
                "bitcast",
                [x],
                other,
                x.shape,
                lambda a: (widened(a[0].to(own).view(DTYPES[other])), None),
                f" {{dtype={other}}}",
            )
        target = random.choice(self.dtypes)
        if x.known or target in HELD:
            self.astype(x, target)

    def near_a_tie(self):
        """A constant next to the middle of two numbers of the float that it becomes; a float on the way hides that."""
        target = random.choice([d for d in self.dtypes if d in HELD and d != "f64"])
        half = torch.finfo(HELD[target]).eps / 2
        source = random.choice(["f64", "i64", "u64"] if target in ("f32", "bf16") else ["f64"])
        number = (1 + half) * 2.0**60
        number = (
            int(number) + random.choice([1, -1]) if source != "f64" else number * 2.0**-60 + random.choice([1, -1]) * 2.0**-40
        )
        self.astype(self.constant(source, number), target)

    def move(self):
        x = self.pick(lambda v: v.shape)
        if not x:
            return
        way, rank = random.choice(["permute", "reshape", "expand", "broadcast", "cat"]), len(x.shape)
        if way == "permute":
            axes = random.sample(range(rank), rank)
            self.apply(
                "permute",
                [x],
                x.dtype,
                [x.shape[a] for a in axes],
                lambda a: tuple(None if t is None else t.permute(axes) for t in a),
                f" {{axes={axes}}}",
                x.known,
            )
        elif way == "reshape":
            self.reshape(x, [math.prod(x.shape)] if random.random() < 0.5 else x.shape[::-1])
        elif way == "expand" and rank < 4:
            at = random.randint(0, rank)
            x = self.reshape(x, [*x.shape[:at], 1, *x.shape[at:]])
            extent = random.choice(self.extents)
            if extent * math.prod(x.shape) < 1500 and random.random() < 0.5:
                self.spread(x, [*x.shape[:at], extent, *x.shape[at + 1 :]])
        elif way == "broadcast":
            self.spread(self.scalar(x.dtype), x.shape)
        elif way == "cat" and math.prod(x.shape) < 600:
            y, axis = self.like(x), random.randrange(rank)

            def meaning(a, b):
                z = torch.cat([a[0], b[0]], axis)
                errors = [torch.zeros_like(t[0]) if t[1] is None else t[1] for t in (a, b)]
                return z, None if a[1] is None and b[1] is None else torch.cat(errors, axis)

            self.apply(
                "cat",
                [x, y],
                x.dtype,
                [2 * n if i == axis else n for i, n in enumerate(x.shape)],
                meaning,
                f" {{axis={axis}}}",
                x.known and y.known,
            )

    def reduction(self):
        x = self.pick(lambda v: v.shape and v.dtype not in SMALL)
        if not x:
            return
        names = ["reduce_any", "reduce_all"] if x.dtype == "bool" else ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min"]
        names += [] if x.dtype == "bool" or not x.known else ["argmax", "argmin"]
        name = random.choice(names)
        axes = sorted(random.sample(range(len(x.shape)), 1 if name.startswith("arg") else random.randint(1, len(x.shape))))
        shape = [n for i, n in enumerate(x.shape) if i not in axes]
        if name.startswith("arg"):
            self.apply(name, [x], "i32", shape, lambda a: (best(name, x.dtype, a[0], axes[0]), None), f" {{axis={axes[0]}}}")
        else:
            exact = x.known and (x.dtype not in FLOATS or name in ("reduce_max", "reduce_min"))
            self.apply(name, [x], x.dtype, shape, lambda a: reduced(name, x.dtype, *a, axes), f" {{axes={axes}}}", exact)

    def combine(self):
        """reduce and scan with a region: one tile by a primitive, or a value and its place."""
        x = self.pick(lambda v: v.shape and v.known and v.dtype != "bool" and v.dtype not in SMALL)
        if not x:
            return
        axis, name = random.randrange(len(x.shape)), random.choice(["reduce", "scan"])
        reverse = name == "scan" and random.random() < 0.5
        attributes = f" {{axis={axis}{', reverse=1' if reverse else ''}}}"
        shape = x.shape if name == "scan" else [n for i, n in enumerate(x.shape) if i != axis]
        inner = random.choice(
            ["minimum", "maximum"] if x.dtype in FLOATS else ["add", "mul", "minimum", "maximum", "bitwise_xor"]
        )
        a, b, c = (self.value(x.dtype, ()) for _ in range(3))
        result = self.value(x.dtype, shape)
        self.line(f"{result.name}: {result.type} = {name} {x.name}{attributes} ({a.name}: {x.dtype}, {b.name}: {x.dtype}) {{")
        self.line(f"  {c.name}: {x.dtype} = {inner} {a.name}, {b.name}")
        self.line(f"  yield {c.name}")
        self.line("}")

        def run(state):
            parts = list(state.values[x][0].unbind(axis))
            total, running = None, []
            for part in reversed(parts) if reverse else parts:
                if total is None:
                    total = part
                elif x.dtype in FLOATS:
                    total = floating(inner, x.dtype, total, None, part, None)[0]
                else:
                    total = integer(inner, x.dtype, total, part)
                running.append(total)
            if name == "scan":
                total = torch.stack(running[::-1] if reverse else running, axis)
            state.values[result] = total, None

        self.does(run)
        self.pool.append(result)

    def matrix(self):
        acc = random.choice(["f32", "f32", "f64", "i32", "f16"])
        sources = {"f32": ["f32", "bf16", "f16", *SMALL], "f64": ["f64"], "i32": ["i8", "u8"], "f16": ["f16", *SMALL]}[acc]
        source = random.choice(sources)
        x = self.pick(lambda v: len(v.shape) in (2, 3) and (v.known or source in HELD))
        if not x:
            return
        *batch, m, k = x.shape
        n = random.choice(self.extents)
        if k * n * math.prod(batch) > 3000:
            return
        x, y = (
            self.astype(x, source),
            self.like(Value("", random.choice(sources) if acc == "i32" else source, (*batch, k, n), False)),
        )
        z = self.like(Value("", acc, (*batch, m, n), False))
        self.apply(
            "mma", [x, y, z], acc, z.shape, lambda a, b, c: product(acc, a[0], b[0], c[0], a[1], b[1], c[1]), known=False
        )

    def fresh(self):
        dtype = random.choice([d for d in self.dtypes if d != "bool" and d not in SMALL])
        if random.random() < 0.5:
            return self.number(random.choice(self.dtypes))
        size = random.choice(self.extents)
        number = cast(torch.arange(size), None, "i64", dtype)[0]
        return self.op(f"arange {{dtype={dtype}, size={size}}}", dtype, (size,), lambda s: (number, None))

    def index(self):
        """An integer scalar, of which indices and bounds are made."""
        if random.random() < 0.3:
            array = random.choice(self.arrays)
            axis = random.randrange(array.tensor.dim())
            name, of = random.choice(
                [("dim", array.tensor.shape), ("dim", array.tensor.shape), ("stride", array.tensor.stride())]
            )
            number = torch.tensor(of[axis])
            return self.op(
                f"{name} {array.name} {{axis={axis}}}", "i32" if name == "dim" else "i64", (), lambda s: (number, None)
            )
        name = random.choice(["add", "sub", "mul", "minimum", "maximum", "floordiv", "cdiv", "mod"])
        return self.binary_of(name, self.scalar(), self.scalar())

    def predicate_of_scalars(self):
        x, y = self.scalar(), self.scalar()
        return self.apply("lt", [x, y], "bool", (), lambda a, b: (a[0] < b[0], None))

    def predicate_like(self, value):
        y = self.like(value)
        return self.apply("le", [value, y], "bool", value.shape, lambda a, b: (a[0] <= b[0], None))
