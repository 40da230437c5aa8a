"""Defines plain Python functions with dictionaries, enumerations, dataclasses and tuples, which kernels run unchanged."""

import dataclasses
import enum


class Color(enum.Enum):
    RED = 1
    GREEN = 2

    def mixed(self, other):
        return self.value * 10 + other.value

    @property
    def is_red(self):
        return self is Color.RED

    @classmethod
    def first(cls):
        return cls(1)


class Size(enum.IntEnum):
    SMALL = 4
    BIG = 8


class Perm(enum.Flag):
    R = 1
    W = 2
    X = 4


class Name(str, enum.Enum):
    LEFT = "left"
    RIGHT = "right"


class Weight(float, enum.Enum):
    LIGHT = 0.5
    HEAVY = 2.0


@dataclasses.dataclass(frozen=True)
class Pair:
    first: object
    second: object = 3

    def total(self):
        return self.first + self.second

    @property
    def swapped(self):
        return Pair(self.second, self.first)

    @classmethod
    def twice(cls, value):
        return cls(value, second=value)

    @staticmethod
    def zero():
        return Pair(0, 0)


def dictionary(n):
    d = {"a": n, "b": 2, Size.BIG: 7, (1, 2): 5, None: 1, 1.5: 4}
    return d["a"] + d["b"] * 10 + d[8] * 100 + d[(1, 2)] * 1000 + d[None] + d[3 / 2] + len(d)


def dictionary_of_parts(n):
    a = {"x": n, "y": 1}
    b = {**a, "y": n + 1, **{"z": 5}}
    c = a | {"y": 20}
    d = dict(b, w=n)
    e = dict((("k", 2), ("l", n)))
    return b["y"] + c["y"] + d["w"] + d["z"] + e["l"] + e["k"] + len(dict()) + b.get("none", 7) + b.copy()["x"]


def dictionary_questions(n):
    d = {"a": n, 3: 1}
    score = 0
    if "a" in d and "b" not in d and 3.0 in d:
        score = score + 1
    if d.get("b") is None and d.get("b", 5) == 5:
        score = score + 10
    if d == {3: 1, "a": n} and d != {"a": n}:
        score = score + 100
    if tuple(d) == ("a", 3) and tuple(d.keys()) == ("a", 3):
        score = score + 1000
    keys, values = d.items()
    if not {} and d:
        score = score + keys[1] + values[1]
    return score


def with_names(a, b=2, **more):
    return a * b + more["c"] + len(more)


def dictionary_as_names(n):
    given = {"b": 3, "c": n}
    return with_names(n, **given) + with_names(a=n, **{**given, "d": 1})


def dictionary_in_branches(n):
    d = {"a": n, "b": 1}
    if n > 3:
        d = {"a": n * 2, "b": 5}
    else:
        d = {**d, "a": 0}
    k = 0
    while k < 3:
        d = {**d, "b": d["b"] + d["a"]}
        k = k + 1
    return d["a"] * 100 + d["b"]


def enumeration(n):
    c = Color(1)
    d = Color["GREEN"]
    score = n
    if c is Color.RED and c == Color.RED and c != d and c is not d:
        score = score + 1
    if c in (Color.RED, Color.GREEN) and d in Color and c.is_red and not d.is_red:
        score = score + 10
    if c.name == "RED" and d.value == 2 and len(Color) == 2 and Color(c) is c and Color.first() is c:
        score = score + 100
    return score + c.mixed(d) * 1000


def integer_enumeration(n):
    total = Size.SMALL + n + Size.BIG * 2 - Size.SMALL // 3 + (Size.BIG | 1) + -Size.SMALL + n * Size.SMALL
    if Size.SMALL < Size.BIG and Size.SMALL <= 4 and 4 == Size.SMALL and Size.BIG > 7 and Size.BIG != 4:
        total = total + 1000
    if n > Size.SMALL:
        total = total + 1
    if n == Size.SMALL or n in (Size.BIG, 99):
        total = total + 2
    return total + (10, 20, 30, 40, 50)[Size.SMALL] + max(Size.SMALL, 5) + int(Size.BIG) + Size(4) % 3 + len((n,) * Size.SMALL)


def other_enumerations(n):
    score = n
    flags = Perm.R | Perm.W
    if Perm.R in flags and Perm.X not in flags and (flags & Perm.W) == Perm.W and flags and not flags & Perm.X:
        score = score + 1
    if (flags ^ Perm.R) is Perm.W and ~flags == Perm.X:
        score = score + 10
    if Name.LEFT == "left" and Name("right") is Name.RIGHT and Name.LEFT.value + "!" == "left!":
        score = score + 100
    if Weight.LIGHT < Weight.HEAVY and Weight.LIGHT * 2 == 1:
        score = score + 1000
    return score


def enumeration_in_branches(n):
    c = Color.RED
    s = Size.SMALL
    if n > 3:
        s = Size.BIG
    return s + n + c.value


def records(n):
    p = Pair.twice(n)
    q = Pair(n).swapped
    method = q.total
    return p.total() + q.first * 100 + q.second * 1000 + method() + Pair.zero().first + dataclasses.replace(p, first=1).first


def class_inside(n):
    class Mode(enum.Enum):
        A = 1
        B = 2

        def other(self):
            return Mode.B if self == Mode.A else Mode.A

    @dataclasses.dataclass(frozen=True)
    class Triple:
        a: int
        b: int = 5
        factor = 3

        def all(self):
            return (self.a + self.b) * self.factor + n

        def again(self):
            return Triple(self.b, self.a)

    return Triple(n).all() + Triple(1, b=n).again().a + Mode.A.other().value


def tuples(n):
    a, b = (n, 2), ()
    t = (7, *a, 8, *b, *(1, *a))
    return t[1] + t[2] * 10 + len(t) * 100 + t[-2] + (*a,)[0]


def tuple_questions(n):
    score = 0
    if n in (1, 5, 7):
        score = score + 1
    if n not in (2, 5, 9):
        score = score + 10
    if (n, 1) in ((5, 1), (6, 2)) or (n, 2) in ((6, 2),):
        score = score + 100
    if n in () or 3 in (1, 2) or 2 in (n, 2):
        score = score + 1000
    if (n, 2) == (5, 2) and (n, 2) != (5, 3):
        score = score + 10000
    found = n in (6, n + 1, 2 * n - 5)
    return score + found


def conversions(n):
    return int("12") + int(float("2.5")) + n + (float("-inf") < n) + bool("a") + int(True)


FUNCTIONS = (
    dictionary, dictionary_of_parts, dictionary_questions, dictionary_as_names, dictionary_in_branches, enumeration,
    integer_enumeration, other_enumerations, enumeration_in_branches, records, class_inside, tuples, tuple_questions,
    conversions,
)  # fmt: skip
