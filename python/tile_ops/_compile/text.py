"""Writes the source of a kernel once its axes and its tile are known.

Every tile has all axes, with extent 1 along those of blocks and of loops, and along those that an array lacks: values of all
arrays then broadcast without a change of shape.
"""

import dataclasses
import re

import sympy
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.virtualized import V
from torch.utils._sympy.functions import FloorDiv

from . import space as space_rules
from .active import Refused
from .compat import hint

MOST_AXES = 8  # of an array
MOST_PARAMETERS = 64  # of a kernel
NO_PLACE = {"tl.int32": 2**31 - 1, "tl.int64": 2**63 - 1}  # for PLACE, where the tile is outside of a row


@dataclasses.dataclass
class Access:
    """An array of the kernel: a parameter that is a strided view of the points."""

    parameter: str
    buffer: str
    offset: sympy.Expr
    strides: dict  # of the symbols
    row: list = dataclasses.field(default_factory=list)  # strides of the axes


def entries(values):
    return "(" + ", ".join(map(str, values)) + ("," if len(values) == 1 else "") + ")"


class Source:
    """The tile of a kernel, and its source. `kernel` has the axes, and the arrays with their strides along them."""

    def __init__(self, kernel, reductions, body):
        self.kernel, self.axes = kernel, kernel.axes
        self.hints = [max(1, hint(axis.extent)) for axis in self.axes]
        self.static = [isinstance(axis.extent, (int, sympy.Integer)) for axis in self.axes]
        self.extent = [kernel.size_text(axis.extent) for axis in self.axes]
        reduced = [axis.space in reductions for axis in self.axes]
        rows = [each.row for each in kernel.live] or [[0] * len(self.axes)]
        kept = kernel.keeps_elements or kernel.flat_live
        self.space = space = space_rules.choose(
            self.axes,
            rows,
            self.hints,
            reduced,
            kernel.persistent_reduction,
            kernel.is_gpu,
            self.static,
            space_rules.KEPT if kept else space_rules.WALKED,
            space_rules.ADDED_UP if not kept and self.adds_up(body, reduced) else None,
        )
        self.order = (*space.blocks, *space.loops, *space.covered)
        self.tile = {i: 1 for i in self.order} | space.batch
        for group in (0, 1):
            self.tile.update(zip(space.dims[group], space.extents[group]))
        self.shape = tuple(self.tile[i] for i in self.order) or (1,)
        self.sums = list(space.dims[space.reduced]) if space.reduced is not None else []
        self.check()
        self.grid = []  # (axes, the tile's extent) of each number of a block
        self.head = []
        self.at = {}  # the text of each axis' index, in tiles
        self.number_blocks()

    def adds_up(self, body, reduced):
        """Returns True if the kernel reads elements for one reduction and writes none."""
        written = [each.row for each in self.kernel.live if re.search(rf"\bSTORE\({each.parameter}\b", body)]
        return body.count("axis=AXIS") == 1 and not any(
            by != 0 and is_sum for row in written for by, is_sum in zip(row, reduced)
        )

    def check(self):
        if len(self.shape) > MOST_AXES:
            raise Refused(f"a kernel over {len(self.shape)} axes")
        if self.kernel.features.is_reduction() and not self.sums:
            raise Refused("a reduction of one element")
        known = V.graph.sizevars.statically_known_leq
        if not self.space.walked:
            for i in self.sums:
                if not self.static[i] and not known(self.axes[i].extent, self.tile[i]):
                    raise Refused("a row whose length is not known to fit a tile")

    def number_blocks(self):
        space = self.space
        groups = {group: space.dims[group] for group in (1, 0) if group != space.reduced} | {2: space.batch}
        for group, axes in groups.items():
            for k, i in enumerate(axes):
                self.at[i] = "0"
                if k == 0 and not (self.static[i] and self.tile[i] >= self.hints[i]):
                    self.at[i] = f"t{group}"
                    self.head.append(f"t{group} = tl.bid({len(self.grid)})")
                    self.grid.append(([i], self.tile[i]))
        if space.blocks:
            self.head.append(f"b = tl.bid({len(self.grid)})")
            for i in reversed(space.blocks[1:]):
                self.head += [f"b{i} = b % {self.extent[i]}", f"b = b // {self.extent[i]}"]
            self.head.append(f"b{space.blocks[0]} = b")
            self.grid.append((space.blocks, 1))
        self.at.update({i: f"b{i}" for i in space.blocks})
        self.at.update({i: f"l{i}" for i in space.loops})
        self.at.update({i: "j" if space.walked else "0" for i in self.sums})

    def blocks(self):
        """Returns three expressions of sizes, the grid."""
        counts = []
        for axes, many in self.grid:
            extent = sympy.prod([self.axes[i].extent for i in axes])
            counts.append(FloorDiv(extent + many - 1, many))
        return [*counts, 1, 1, 1][:3]

    def coordinate(self, i):
        """Returns the text of an axis' coordinate, which broadcasts to the tile. It has the dtype of the kernel's indices, so
        that a product with a stride has it, too."""
        at, dtype = self.at[i], self.kernel.index_dtype
        if dtype != "tl.int32" and at != "0":
            at = f"tl.astype({at}, {dtype})"
        if i not in self.space.covered:
            return at
        own = f"tl.arange({self.tile[i]}, dtype={dtype})"
        if at != "0":
            own += f" + {at} * {self.tile[i]}"
        return f"tl.reshape({own}, {entries([self.tile[i] if n == i else 1 for n in self.order])})"

    def counted(self, row):
        """Returns the text of the sum of coordinates times strides."""
        parts = [f"{self.coordinate(i)} * {self.kernel.size_text(by)}" for i, by in enumerate(row) if by != 0]
        return "(" + " + ".join(parts or ["0"]) + ")"

    def inside(self, axes):
        return " & ".join(f"({self.coordinate(i)} < {self.extent[i]})" for i in axes)

    def place(self, access):
        """Returns the index and the shape of an array's tile."""
        used = [access.row[i] != 0 for i in self.order]
        index = [self.at[i] if uses else "0" for i, uses in zip(self.order, used)]
        tile = [self.tile[i] if uses else 1 for i, uses in zip(self.order, used)]
        return entries(index or ["0"]), entries(tile or [1])

    @property
    def is_exact(self):
        """True if tiles have no elements outside of the reduced axes."""
        return all(
            self.static[i] and (self.hints[i] % self.tile[i] == 0 if self.space.walked else self.hints[i] == self.tile[i])
            for i in self.sums
        )

    def replace(self, line, in_loop):
        """Returns a line without the words of kernel.py and reductions.py."""
        arrays = {each.parameter: each for each in self.kernel.live}

        def load(match):
            index, tile = self.place(arrays[match[1]])
            return f"tl.load({match[1]}, {index}, {tile})"

        def store(match):
            index, tile = self.place(arrays[match[1]])
            return f"tl.store({match[1]}, {index}, tl.broadcast_to(tl.astype({match[2]}, {match[1]}.dtype), {tile}))"

        def scatter(match):
            lanes = "POINT_LANES" if match[1] == "POINTS" else "LANES"
            return f"tl.scatter({match[2]}, {match[3]}, tl.astype({match[4]}, {match[2]}.dtype), mask={lanes})"

        line = re.sub(r"\bLOAD\((\w+)\)", load, line)
        line = re.sub(r"^STORE\((\w+), (\w+)\)$", store, line)
        line = re.sub(r"^SCATTER_(\w+)\((\w+), (.*), (\w+)\)$", scatter, line)
        line = replace_inside(line, None if self.is_exact else "INSIDE_LANES")
        if not in_loop:
            line = re.sub(r"\bLANES\b", "POINT_LANES", line)
        over = [self.order.index(i) for i in self.sums]
        points = tuple(1 if n in over else many for n, many in enumerate(self.shape))
        axis = str(over[0]) if len(over) == 1 else entries(over)
        words = {
            "LAST": str(NO_PLACE[self.kernel.index_dtype]),
            "SHAPE": entries(self.shape),
            "POINTS": entries(points),
            "AXIS": axis,
        }
        line = re.sub(r"\b(LAST|SHAPE|POINTS|AXIS)\b", lambda match: words[match[1]], line)
        return re.sub(r"\bTILE\(", "(", line)

    def definitions(self, body, in_loop):
        """Returns lines that define the words which `body` uses.

        in_loop: those that vary along the walked axes; they are defined in the loop, and the others before it.
        """
        walked = {*self.space.loops, *self.sums} if self.space.walked else set()
        every = list(self.space.covered)
        points = [i for i in every if i not in walked and i not in self.sums]
        found = []

        def define(word, text, varies):
            if varies == in_loop and re.search(rf"\b{word}\b", body):
                found.append(f"{word} = {text}")

        define("POINT_LANES", self.inside(points) or "True", False)
        define("LANES", self.inside(every) or "True", bool(walked))
        define("INSIDE_LANES", self.inside(self.sums), bool(walked))
        for symbol, row in self.kernel.coordinate_rows.items():
            varies = any(by != 0 and i in walked for i, by in enumerate(row))
            number = self.counted(row)
            if symbol in self.kernel.coordinate_cuts:
                divisor, length = map(self.kernel.size_text, self.kernel.coordinate_cuts[symbol])
                number = f"{number} // {divisor} % {length}"
            define(f"COORDINATE_{symbol}", f"tl.astype({number}, {self.kernel.index_dtype})", varies)
        if self.kernel.place_row is not None:
            define("PLACE", f"tl.broadcast_to({self.counted(self.kernel.place_row)}, {entries(self.shape)})", bool(walked))
        return found

    def write(self, body):
        """Returns the source of the kernel with this body, in which WALK, BEGIN and END enclose what a loop repeats."""
        lines, in_loop = [], not self.space.walked
        for line in body.split("\n"):
            in_loop = (in_loop or line == "BEGIN") and not (self.space.walked and line == "END")
            lines.append(self.replace(line, in_loop))
        text = "\n".join(lines)
        before, repeated = self.definitions(text, False), self.definitions(text, True)
        kernel = self.kernel
        parameters = [each.parameter for each in kernel.live] + list(kernel.flat_live.values())
        is_wide = kernel.index_dtype == "tl.int64"
        parameters += [f"{name}: tl.ScalarInt64" if is_wide or name in kernel.wide else name for name in kernel.sizes.values()]
        if len(parameters) > MOST_PARAMETERS:
            raise Refused(f"a kernel of {len(parameters)} parameters")
        code = IndentedBuffer()
        code.writeline(f"def KERNEL({', '.join(parameters)}):")
        with code.indent():
            code.writelines([*self.head, *before])
            for line in lines:
                if line == "WALK":
                    self.write_loops(code)
                elif line == "BEGIN":
                    code.do_indent()
                    code.writelines(repeated)
                elif line == "END":
                    code.do_unindent(1 + len(self.space.loops))
                else:
                    code.writeline(line)
        return code.getvalue()

    def write_loops(self, code):
        for i in self.space.loops:
            code.writeline(f"for l{i} in range({self.extent[i]}):")
            code.do_indent()
        (i,) = self.sums
        many = self.tile[i]
        count = -(-self.hints[i] // many) if self.static[i] else f"tl.cdiv({self.extent[i]}, {many})"
        code.writeline(f"for j in range({count}):")


def replace_inside(text, lanes):
    """Replaces each INSIDE(value, other), of which the value may contain calls. lanes: None if all of the tile is inside."""
    word = "INSIDE("
    while (begin := text.rfind(word)) >= 0:
        depth, comma, end = 0, None, begin
        for end in range(begin + len(word) - 1, len(text)):
            depth += (text[end] == "(") - (text[end] == ")")
            if text[end] == "," and depth == 1:
                comma = end
            if depth == 0:
                break
        value, other = text[begin + len(word) : comma], text[comma + 1 : end].strip()
        text = text[:begin] + (f"tl.where({lanes}, {value}, {other})" if lanes else f"({value})") + text[end + 1 :]
    return text
