"""Reads the text of Tile IR."""

import dataclasses
import re

_TOKEN = re.compile(
    r'\s+|(?P<comment>//[^\n]*)|(?P<text>"(?:\\.|[^"\\])*")|(?P<value>%\w+)|(?P<name>[A-Za-z_][\w.]*)'
    r"|(?P<number>-?\d[\w.]*(?:(?<=e)[+-]?\d+)?|-inf|-nan)|(?P<sign>[][(){}<>,:=])"
)
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}


@dataclasses.dataclass(eq=False, repr=False)
class Value:
    """A value: shape is a tuple of a tile, rank is None then; of an array shape is None."""

    dtype: str
    shape: tuple | None
    rank: int | None = None
    op: object = None  # that defines it; None: an argument of a block
    block: object = None


@dataclasses.dataclass(eq=False, repr=False)
class Op:
    """An operation."""

    name: str
    results: list
    operands: list
    attributes: dict
    regions: list
    block: object
    where: str = ""  # file:line:column


@dataclasses.dataclass(eq=False, repr=False)
class Block:
    """A region of an operation, or the body of a kernel."""

    arguments: list
    ops: list


@dataclasses.dataclass(eq=False, repr=False)
class Function:
    """A kernel."""

    name: str
    attributes: dict
    body: Block


class _Reader:
    def __init__(self, text):
        self.tokens = [(each.lastgroup, each.group()) for each in _TOKEN.finditer(text) if each.lastgroup is not None]
        self.at, self.values, self.newest = 0, {}, None

    def peek(self):
        while self.at < len(self.tokens) and self.tokens[self.at][0] == "comment":
            if self.newest is not None:
                self.newest.where = self.tokens[self.at][1][2:].strip()
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else (None, None)

    def take(self, word=None):
        kind, text = self.peek()
        if word is not None and text != word:
            raise ValueError(f"Tile IR: expected {word!r}, got {text!r}")
        self.at += 1
        return text

    def accept(self, word):
        if self.peek()[1] == word:
            self.at += 1
            return True
        return False

    def listed(self, item, end):
        made = []
        while not self.accept(end):
            made.append(item())
            self.accept(",")
        return made

    def type(self):
        dtype = self.take()
        if dtype == "array":
            self.take("<")
            dtype = self.take()
            self.take(",")
            rank = int(self.take())
            self.take(">")
            return Value(dtype, None, rank)
        return Value(dtype, tuple(self.listed(lambda: int(self.take()), "]")) if self.accept("[") else ())

    def defined(self):
        name = self.take()
        self.take(":")
        value = self.values[name] = self.type()
        return value

    def attribute(self):
        if self.accept("["):
            return tuple(self.listed(self.attribute, "]"))
        kind, text = self.peek()
        self.take()
        if kind == "text":
            return re.sub(r"\\(.)", lambda found: _ESCAPED[found[1]], text[1:-1])
        if kind == "number" or text in ("inf", "nan"):
            return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        return text

    def attributes(self):
        def entry():
            name = self.take()
            self.take("=")
            return name, self.attribute()

        return dict(self.listed(entry, "}")) if self.accept("{") else {}

    def block(self):
        block = Block(self.listed(self.defined, ")"), [])
        for each in block.arguments:
            each.block = block
        return block

    def fill(self, block):
        self.take("{")
        while not self.accept("}"):
            block.ops.append(self.op(block))
        return block

    def op(self, block):
        results = []
        while self.peek()[0] == "value":
            results.append(self.defined())
            self.accept(",")
        if results:
            self.take("=")
        op = Op(self.take(), results, [], {}, [], block)
        self.newest = op
        more = self.peek()[0] == "value"
        while more:
            op.operands.append(self.values[self.take()])
            more = self.accept(",")
        op.attributes = self.attributes()
        for each in results:
            each.op, each.block = op, block
        while self.accept("("):
            op.regions.append(self.fill(self.block()))
        self.peek()
        return op

    def function(self):
        self.take("kernel")
        name = self.take()
        self.take("(")
        body = self.block()
        # Attributes and the body both begin with a brace; only an attribute has a sign of equality.
        attributes = self.attributes() if self.tokens[self.at + 2][1] == "=" and self.tokens[self.at + 1][0] == "name" else {}
        return Function(name, attributes, self.fill(body))


def read(text):
    """Returns the Function of a text."""
    return _Reader(text).function()
