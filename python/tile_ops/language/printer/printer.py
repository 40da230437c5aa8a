"""Printer: the text of a function in Python that translates to given Tile IR."""

import contextlib
import re

from ..core import dtypes
from .expressions import ATOM, Expression, strict
from .spellings import TABLE
from .views import View, tuple_text

_LONG = 72  # characters of an expression that is no operand of another
_INDENT = "    "
_WORD = re.compile(r"[A-Za-z_]\w*")
_SIZES = {"dim", "num_blocks"}
_EFFECTS = {"store", "scatter", "scatter_rows", "store_offset", "add_tile", "assert", "print"}
_READS = {"load", "gather", "gather_rows", "load_offset"}


def _is_repeated(op):
    """Returns True if the text of an operation is written again at each use."""
    if op.name == "astype":
        source = op.operands[0].op
        return source is not None and source.name in _SIZES
    return op.name in ("constant", "broadcast", "reshape", "stride", *_SIZES)


class Printer:
    """Prints a function. parameters: a name for each of its parameters. constants: {value: name} of extents with a name."""

    def __init__(self, function, parameters, names, constants=None):
        self.function, self.names, self.constants = function, names, constants or {}
        self.lines, self.depth = [], 0
        self.made = {}  # expressions of values
        self.views = {}
        self.users = {}  # the operations that take a value
        self.uses = {}  # the operations that use a value, in whose text it is
        self.blocks = {}  # names of bid
        for value, name in zip(function.body.arguments, parameters, strict=True):
            if value.rank is None:
                self.made[value] = Expression(name, ATOM, dtypes.of_ir(value.dtype), value.shape)
            else:
                self.views[value] = View(name, dtypes.of_ir(value.dtype), tuple(range(value.rank)))
        self.far = self._far()
        self._count(function.body)

    def text(self):
        """Returns the lines of the body."""
        self.depth = 1
        self.region(self.function.body, lambda terminator: None)
        return "\n".join(self.lines or [_INDENT + "pass"])

    # What spellings ask for.

    def expression(self, value):
        """Returns the expression of a value: its name, or its text if this is the only use."""
        found = self.made.get(value)
        if found is not None:
            return found
        return self._spelled(value.op)

    def named(self, value):
        """Returns the expression of a value that is used more than once in a text."""
        made = self.expression(value)
        if made.level == ATOM and _WORD.fullmatch(made.text):
            return made
        name = self.names.fresh("t")
        self.line(f"{name} = {made.text}")
        return Expression(name, ATOM, made.dtype, made.shape)

    def view(self, value):
        return self.views[value]

    def whole(self, op):
        """Returns the view of an array whose memory is accessed by offsets."""
        view = self.view(op.operands[0])
        if view.fixed or not view.plain():
            raise self.unsupported(op, "an offset from an element of a view")
        return view

    def wide(self, view):
        return view.text.split(".")[0] in self.far

    def extent(self, number):
        return self.constants.get(number, str(number))

    def shape(self, shape):
        return tuple_text(self.extent(each) for each in shape)

    def reshaped(self, made, shape):
        """Returns an expression in another shape."""
        for known in (made, made.kept, made.origin):
            if known is not None and known.shape == shape:
                return known
        origin = made.origin or made
        after = Expression(f"{strict(origin).atom}.reshape({self.shape(shape)})", ATOM, made.dtype, shape, origin=origin)
        lead = len(shape) - len(made.shape)
        if lead >= 0 and shape[lead:] == made.shape and all(each == 1 for each in shape[:lead]):
            after.narrow = made
        return after

    def local_function(self, base, block):
        """Writes the function of a region and returns its name."""
        name = self.names.fresh(base)
        arguments = []
        count = len(block.arguments) // 2
        for at, value in enumerate(block.arguments):
            side, number = ("a", at) if at < count else ("b", at - count)
            arguments.append(self.names.fresh(side if count == 1 else f"{side}{number}"))
            self.made[value] = Expression(arguments[-1], ATOM, dtypes.of_ir(value.dtype), ())
        self.line("")
        self.line(f"def {name}({', '.join(arguments)}):")

        def returned(terminator):
            given = [strict(self.expression(each)).text for each in terminator.operands]
            self.line(f"return {', '.join(given)}")

        with self.indented():
            self.region(block, returned)
        self.line("")
        return name

    def unsupported(self, op, what=None):
        """Returns the error of an operation that Python cannot spell."""
        place = f"{op.where}: " if op.where else ""
        return NotImplementedError(
            f"{place}{op.name}: {what or 'this primitive'} has no spelling in Python; take the Tile IR, from ir()"
        )

    # Lines and regions.

    def line(self, text):
        self.lines.append(_INDENT * self.depth + text if text else "")

    @contextlib.contextmanager
    def indented(self):
        """Writes deeper lines inside the `with`, and `pass` if there are none."""
        before = len(self.lines)
        self.depth += 1
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def region(self, block, end):
        """Writes the operations of a block; end writes what its terminator does."""
        for op in block.ops:
            if op.name in ("yield", "break", "continue"):
                end(op)
            elif op.name in _CONTROL:
                _CONTROL[op.name](self, op)
            elif op.name in _VIEWS:
                self.views[op.results[0]] = _VIEWS[op.name](self, op)
            else:
                self._op(op)

    def _op(self, op):
        if op.name not in TABLE:
            raise self.unsupported(op)
        if op.name == "bid":
            return self._block(op)
        if not _is_repeated(op) and not self._is_operand(op):
            self._statement(op)

    def _spelled(self, op):
        if op.name not in TABLE:
            raise self.unsupported(op)
        return TABLE[op.name](self, op)

    def _is_operand(self, op):
        """Returns True if the operation is written where its only use is."""
        if len(op.results) != 1 or op.name in _READS or op.name in _EFFECTS or op.name.startswith("atomic_") or op.regions:
            return False
        uses = self.uses.get(op.results[0], ())
        if len(uses) != 1 or uses[0].block is not op.block:
            return len(uses) == 0
        made = self._spelled(op)
        if len(made.text) > _LONG:
            return False
        self.made[op.results[0]] = made
        return True

    def _statement(self, op):
        used = [each for each in op.results if self.uses.get(each)]
        made = self._spelled(op)
        if isinstance(made, str) or not used:
            self.line(made if isinstance(made, str) else made.text)
            return
        if made.kept is not None and all(
            user.name == "reshape" and user.attributes["shape"] == made.kept.shape for user in self.users[op.results[0]]
        ):
            made = made.kept
        names = []
        for value in op.results:
            names.append(self.names.of(op, self._default(op)))
            self.made[value] = Expression(names[-1], ATOM, dtypes.of_ir(value.dtype), made.shape or value.shape)
        target = names[0] if len(names) == 1 else ", ".join(names)
        self.line(f"{target} = {made.text}")

    def _default(self, op):
        return f"{self.view(op.operands[0]).text.split('.')[0]}_tile" if op.name in _READS else None

    def _block(self, op):
        axis = op.attributes["axis"]
        if axis not in self.blocks:
            name = self.names.of(op, ("block", "block_y", "block_z")[axis])
            self.blocks[axis] = Expression(name, ATOM, dtypes.int32, ())
            self.lines.insert(len(self.blocks) - 1, f"{_INDENT}{name} = tl.bid({axis})")
        self.made[op.results[0]] = self.blocks[axis]

    # Uses.

    def _count(self, block):
        def note(value, user):
            definition = value.op
            if definition is not None and not definition.regions and definition.name in TABLE and _is_repeated(definition):
                for each in definition.operands:
                    note(each, user)
            self.uses.setdefault(value, []).append(user)

        for op in block.ops:
            for region in op.regions:
                self._count(region)
            for value in op.operands:
                self.users.setdefault(value, []).append(op)
            if _is_repeated_op(op):
                continue
            for value in op.operands:
                note(value, op)

    def _far(self):
        """Returns the names of the arrays whose extents are 64-bit integers."""
        found, origin = set(), {}
        arrays = {value: view.text for value, view in self.views.items()}

        def visit(block):
            for op in block.ops:
                if op.name in _VIEWS:
                    origin[op.results[0]] = op.operands[0]
                if op.name == "dim" and op.results[0].dtype == "i64":
                    value = op.operands[0]
                    while value in origin:
                        value = origin[value]
                    found.add(arrays[value])
                for region in op.regions:
                    visit(region)

        visit(block=self.function.body)
        return found

    # Assignments of several values at once.

    def assign(self, names, values):
        """Writes the assignment of values to names, which the values may read."""
        made = [strict(self.expression(each)) for each in values]
        pairs = [(name, each.text) for name, each in zip(names, made) if each.text != name]
        written = set()
        for name, text in pairs:
            if written.intersection(_WORD.findall(text)):
                self.line(f"{', '.join(name for name, _ in pairs)} = {', '.join(text for _, text in pairs)}")
                return
            written.add(name)
        for name, text in pairs:
            self.line(f"{name} = {text}")

    def carried(self, values, base):
        """Names values that regions assign."""
        return [self.names.fresh(base) for _ in values]

    def bind(self, values, names):
        for value, name in zip(values, names):
            self.made[value] = Expression(name, ATOM, dtypes.of_ir(value.dtype), value.shape)


def _is_repeated_op(op):
    return op.name in TABLE and not op.regions and _is_repeated(op)


_VIEWS = {
    "index": lambda printer, op: printer.view(op.operands[0]).indexed([printer.expression(each) for each in op.operands[1:]]),
    "slice": lambda printer, op: printer.view(op.operands[0]).sliced(
        op.attributes["axis"], *(printer.expression(each) for each in op.operands[1:])
    ),
    "permute_array": lambda printer, op: printer.view(op.operands[0]).permuted(op.attributes["axes"]),
}


def _loop_end(printer, names, body):
    """Returns what writes the terminators of a loop's body."""

    def end(terminator):
        printer.assign(names, terminator.operands)
        if terminator.name == "break":
            printer.line("break")
        elif terminator.name == "continue" and terminator.block is not body:
            printer.line("continue")

    return end


_loops = []  # the ends of the loops around the current operation


def _range_text(printer, op):
    low, high, step = (printer.expression(each) for each in op.operands[:3])
    if low.dtype is not dtypes.int32 and all(each.number is not None for each in (low, high, step)):
        high = strict(high)
    if step.number == 1:
        return f"range({high.text})" if low.number == 0 else f"range({low.text}, {high.text})"
    return f"range({low.text}, {high.text}, {step.text})"


def _for(printer, op):
    body = op.regions[0]
    index, *arguments = body.arguments
    names = printer.carried(arguments, "value")
    bounds = _range_text(printer, op)
    printer.assign(names, op.operands[3:])
    printer.bind(arguments, names)
    printer.bind(op.results, names)
    used = printer.uses.get(index)
    name = printer.names.fresh(next((each for each in "ijklm" if each not in printer.names.used), "i") if used else "_")
    printer.bind([index], [name])
    printer.line(f"for {name} in {bounds}:")
    _inside(printer, body, names)


def _loop(printer, op):
    body = op.regions[0]
    names = printer.carried(body.arguments, "value")
    printer.assign(names, op.operands)
    printer.bind(body.arguments, names)
    printer.bind(op.results, names)
    printer.line("while True:")
    _inside(printer, body, names)


def _inside(printer, body, names):
    end = _loop_end(printer, names, body)
    _loops.append(end)
    try:
        with printer.indented():
            printer.region(body, end)
    finally:
        _loops.pop()


def _if(printer, op):
    names = printer.carried(op.results, "value")
    condition = strict(printer.expression(op.operands[0]))
    text = f"not {condition.text[1:]}" if re.fullmatch(r"~\w+", condition.text) else condition.text

    def end(terminator):
        if terminator.name == "yield":
            printer.assign(names, terminator.operands)
        else:
            _loops[-1](terminator)

    printer.line(f"if {text}:")
    with printer.indented():
        printer.region(op.regions[0], end)
    other = op.regions[1]
    if len(other.ops) > 1 or other.ops[-1].name != "yield" or names:
        printer.line("else:")
        with printer.indented():
            printer.region(other, end)
    printer.bind(op.results, names)


_CONTROL = {"for": _for, "loop": _loop, "if": _if}
