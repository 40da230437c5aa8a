"""Generates the source of a kernel in the Python language from inductor's operations.

Each access of an array gets a parameter of its own: the array as a strided view of the points of the kernel. Accesses
without strides gather from the flat memory. While inductor calls the operations the tile is not known yet, so that lines
contain words which text.py replaces.
"""

import re

import sympy
import torch
from torch._inductor.codegen.common import DeferredLine, IndentedBuffer, PythonPrinter
from torch._inductor.codegen.simd import SIMDKernel
from torch._inductor.virtualized import V, ops
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from . import axes as axis_rules
from . import calls
from . import space as space_rules
from .active import Refused
from .compat import GraphFacts, hint, is_donated, print_size, real_name, storage_size
from .ops import NARROW, Operations, computed_in, literal, name_of
from .reductions import Reductions
from .text import Access, Source


class IndexPrinter(PythonPrinter):
    """Prints indices for kernels, where max and min are functions of tiles."""

    def _print_Max(self, expression):
        return self._nested("tl.maximum", expression)

    def _print_Min(self, expression):
        return self._nested("tl.minimum", expression)

    def _nested(self, name, expression):
        parts = [self._print(each) for each in expression.args]
        text = parts[0]
        for part in parts[1:]:
            text = f"{name}({text}, {part})"
        return text

    def _print_RoundToInt(self, expression):
        return f"tl.astype(tl.round({self._print(expression.args[0])}), tl.int64)"

    def _print_FloorToInt(self, expression):
        return f"tl.astype(tl.floor({self._print(expression.args[0])}), tl.int64)"

    def _print_ToFloat(self, expression):
        return f"tl.astype({self._print(expression.args[0])}, tl.float64)"

    def _print_Where(self, expression):
        condition, yes, no = (self._print(each) for each in expression.args)
        return f"tl.where({condition}, {yes}, {no})"


print_index = IndexPrinter().doprint


def is_strided(features):
    """Returns True if the reduced elements of all arrays are apart in memory, and those of other axes are neighbours.

    An array without neighbours along the other axes, such as a number for each row, is small beside the others and decides
    nothing.
    """
    across = along = False
    for node in features.reduction_nodes():
        points, sums = node.get_ranges()
        symbols = [
            [sympy.Symbol(f"{letter}{i}", integer=True) for i in range(len(of))] for letter, of in (("p", points), ("s", sums))
        ]
        found = [sympy.expand(index) for index in node._body.indexing_from_args(symbols).values()]
        neighbours = [symbol for symbol in symbols[0] if any(index.coeff(symbol) == 1 for index in found)]
        across |= bool(neighbours)
        for index in found:
            varies = not neighbours or any(index.has(symbol) for symbol in neighbours)
            along |= varies and any(index.coeff(symbol) == 1 for symbol in symbols[1])
    return across and not along


class TileKernel(Reductions, SIMDKernel):
    overrides = Operations
    kexpr = staticmethod(print_size)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.accesses = []
        self.known = {}
        self.flat = {}  # buffer: the parameter of its memory
        self.written = set()  # buffers
        self.sizes = {}  # an expression of sizes that vary: its parameter
        self.wide = set()  # those parameters that have 64 bits
        self.coordinate_rows = {}  # strides of the axes whose sum is a coordinate
        self.coordinate_cuts = {}  # (divisor, length), if it is only a digit of that sum
        self.coordinates = {}  # symbol of an index that is computed: nothing
        self.before, self.inner, self.after = [], IndentedBuffer(), IndentedBuffer()
        self.joined = 0
        self.keeps_elements = False  # a walked tile is read again after it is reduced

    # Inductor asks these of a kernel.
    def dtype_to_str(self, dtype):
        return name_of(dtype)

    def want_no_x_dim(self):
        return False

    def should_use_cooperative_reduction(self):
        return False

    def should_use_persistent_reduction(self):
        if not self.features.is_reduction():
            return False
        most = space_rules.WHOLE_COLUMN if self.walks_columns else space_rules.WHOLE_ROW
        return V.graph.sizevars.statically_known_leq(self.features.reduction_numel, most)

    @property
    def walks_columns(self):
        return is_strided(self.features)

    def codegen_iteration_ranges_entry(self, entry):
        pass

    def check_bounds(self, expr, size, lower, upper):
        index = self.index_text(expr)
        tests = ([f"({index} >= 0)"] if lower else []) + ([f"({index} < {self.size_text(size)})"] if upper else [])
        if tests:
            allowed = " & ".join(tests)
            mask = f"tl.logical_not({self._load_mask}) | " if self._load_mask else ""
            self.compute.writeline(f"tl.assert_({mask}({allowed}) | tl.logical_not(LANES), 'index out of bounds')")

    def device_assert_async(self, condition, message):
        self.compute.writeline(f"tl.assert_({condition} | tl.logical_not(LANES), {message!r})")

    # Indices.
    @property
    def is_gpu(self):
        return V.graph.get_current_device_or_throw().type == "cuda"

    @property
    def shape(self):
        """Returns the word for the shape of what is computed now: after a reduction, its elements are gone."""
        return "SHAPE" if self.inside_reduction or not self.features.is_reduction() else "POINTS"

    def plain(self, index):
        """Returns an index in which divisions by constants are symbols of their own where that is possible."""
        sizes = V.graph.sizevars
        index = sizes.simplify_with_ranges(index, self.var_ranges())
        for atom in index.atoms(FloorDiv, ModularIndexing):
            entry = self.range_tree_nodes.get(atom.args[0])
            if entry is None or not all(isinstance(each, (int, sympy.Integer)) for each in atom.args[1:]):
                continue
            by = atom.args[1]
            if not sizes.statically_known_multiple_of(entry.length, by):
                continue
            length = sizes.simplify(entry.length / by)
            if isinstance(atom, ModularIndexing):
                if not sizes.statically_known_multiple_of(length, atom.args[2]):
                    continue
                length = atom.args[2]
            symbol = entry.root.lookup(sizes.simplify(entry.divisor * by), length).symbol()
            index = index.subs(atom, symbol)
        return index

    def size_text(self, expression):
        """Returns the text of an expression of sizes alone: a number, or a parameter that the caller computes."""
        expression = V.graph.sizevars.simplify(sympy.sympify(expression))
        return str(expression) if isinstance(expression, sympy.Integer) else str(self.size_parameter(expression))

    def size_parameter(self, expression):
        name = self.sizes.setdefault(expression, f"n{len(self.sizes)}")
        return sympy.Symbol(name, integer=True)

    def index_text(self, index, is_value=False):
        names = {}
        for symbol in index.free_symbols:
            if symbol in self.range_tree_nodes:
                names[symbol] = sympy.Symbol(f"COORDINATE_{symbol}", integer=True)
                self.coordinates[symbol] = None
            elif str(symbol).startswith("tmp"):
                names[symbol] = symbol
            else:
                names[symbol] = self.size_parameter(symbol)
        text = f"({print_index(index.xreplace(names))})"
        if re.search(r"\b(math\.|round\()", text):
            raise Refused(f"the index {index}")
        if self.index_dtype == "tl.int32" and not axis_rules.fits(index, self.ranges_of(index, is_value)):
            text = re.sub(r"\b(COORDINATE_\w+|n\d+|tmp\d+)\b", r"tl.astype(\1, tl.int64)", text)
            self.wide |= {str(names[symbol]) for symbol in names}
        return text

    def ranges_of(self, index, is_value):
        """Returns {symbol: its least and greatest value}, where indices have 32 bits, so that the memory has no more elements.

        Lengths that vary and loaded numbers do not lead out of the memory. is_value: the index is a number of the program.
        """
        ranges, most = {}, axis_rules.MOST
        for symbol in index.free_symbols:
            entry = self.range_tree_nodes.get(symbol)
            if entry is None:
                ranges[symbol] = (-2 * most, 2 * most) if is_value else (0, 0)
            elif isinstance(entry.length, (int, sympy.Integer)):
                ranges[symbol] = (0, int(entry.length) - 1)
            else:
                ranges[symbol] = (0, most if is_value else 0)
        return ranges

    def index_value(self, expression, dtype):
        expression = self.plain(expression)
        return self.cse.generate(
            self.compute,
            f"tl.astype(TILE({self.index_text(expression, True)}), {name_of(computed_in(dtype))})",
            dtype=computed_in(dtype),
        )

    def indirect_indexing(self, index_var, size, check=True, wrap_neg=True):
        if wrap_neg:
            negative = ops.lt(index_var, ops.constant(0, torch.int64))
            index_var = ops.where(negative, ops.add(index_var, ops.index_expr(size, torch.int64)), index_var)
        index = sympy.Symbol(str(getattr(index_var, "value", index_var)), integer=True)
        if check:
            self.check_bounds(index, size, True, True)
        return index

    # Memory.
    def parameter(self, buffer, offset, strides, written):
        buffer = real_name(buffer)
        key = (buffer, offset, tuple(sorted((str(symbol), stride) for symbol, stride in strides.items())), written)
        if key not in self.known:
            self.known[key] = access = Access(
                f"{'o' if written else 'a'}{len(self.accesses)}", buffer, offset, strides, written
            )
            self.accesses.append(access)
        return self.known[key].parameter

    def affine(self, index):
        return axis_rules.affine(index, self.range_tree_nodes)

    def memory(self, buffer):
        return self.flat.setdefault(real_name(buffer), f"f{len(self.flat)}")

    def load(self, name, index):
        dtype = V.graph.get_dtype(name)
        self.args.input(name)
        index = self.plain(index)
        found = None if self._load_mask else self.affine(index)
        if found is None:
            mask = f", mask={self._load_mask}" if self._load_mask else ""
            tile = self.index_text(index)
            if mask:  # gives the index its shape, which may be wider
                tile = self.cse.generate(self.compute, tile, dtype=torch.int64)
                tile = f"tl.where({self._load_mask}, {tile}, {tile})"
            text, into = f"tl.gather({self.memory(name)}, {tile}{mask})", self.compute
        else:
            text, into = f"LOAD({self.parameter(name, *found, False)})", self.loads
        if dtype in NARROW:
            text = f"tl.astype({text}, tl.float32)"
        return self.cse.generate(into, text, dtype=computed_in(dtype))

    def seed(self, name, offset):
        self.args.input(name)
        memory = self.memory(name)
        return self.cse.generate(self.compute, f"tl.load({memory}, ({offset},), ())", dtype=torch.int64)

    def store(self, name, index, value, mode=None):
        self.write(name, index, value, mode, self.inside_reduction and not self.persistent_reduction)

    def store_reduction(self, name, index, value):
        self.write(name, index, value, None, False, "POINTS")

    def write(self, name, index, value, mode, in_loop, shape=None):
        if mode is not None:
            raise Refused(f"a store with mode {mode}")
        name_of(V.graph.get_dtype(name))
        self.args.output(name)
        self.written.add(real_name(name))
        index = self.plain(index)
        found = self.affine(index)
        if found is None:
            shape = shape or self.shape
            text = f"SCATTER_{shape}({self.memory(name)}, TILE({self.index_text(index)}), {value})"
        else:
            text = f"STORE({self.parameter(name, *found, True)}, {value})"
        self.cse.store_cache[name] = value
        (self.inner if in_loop else self.stores).writeline(DeferredLine(name, text))

    def masked(self, mask, body, other):
        with self.mask_loads(mask, other) as both:
            result = body()
        dtype = result.dtype
        other = "True" if other is True else literal(other)
        return self.cse.generate(self.compute, f"tl.where({both}, {result}, tl.astype({other}, {name_of(dtype)}))", dtype=dtype)

    def codegen_body(self):
        if self.inside_reduction and not self.persistent_reduction:
            if not (self.loads or self.compute or self.stores or self.inner):
                return
            for line in self.before:
                self.body.writeline(line)
            self.body.writeline("WALK")
            self.body.writeline("BEGIN")
            for part in (self.loads, self.compute, self.inner):
                self.body.splice(part)
            self.body.writeline("END")
            self.body.splice(self.after)
            self.body.splice(self.stores)
            kept = OrderedSet()
            for each in self.cse.reduction_cache.values():
                kept.update(each if isinstance(each, tuple) else (each,))
            self.cse.invalidate(kept)
            self.before.clear()
            for part in (self.loads, self.compute, self.inner, self.after, self.stores):
                part.clear()
            return
        for part in (self.loads, self.compute, self.stores):
            self.body.splice(part)
            part.clear()

    # The text.
    def codegen_kernel(self, name=None):
        self.codegen_body()
        facts = GraphFacts()
        lines = [line for line in self.body.getvalue().split("\n") if line]
        text = "\n".join(lines)
        live = [each for each in self.accesses if re.search(rf"\b(LOAD|STORE)\({each.parameter}\b", text)]
        flat = {buffer: parameter for buffer, parameter in self.flat.items() if re.search(rf"\b{parameter}\b", text)}
        coordinates = [symbol for symbol in self.coordinates if f"COORDINATE_{symbol}" in text]
        reductions = {tree.prefix for tree in self.range_trees if tree.is_reduction}
        sizes = {tree.prefix: tree.numel for tree in self.range_trees if not tree.is_reduction or self.features.is_reduction()}
        uses = [each.strides for each in live] + [{symbol: sympy.Integer(1)} for symbol in coordinates]
        # The number of an element of a reduction, which argmax asks for, is one more use.
        number = [{self.full_symbol(prefix): sympy.Integer(1)} for prefix in sizes if prefix in reductions and "PLACE" in text]
        digits = {
            symbol: axis_rules.Digit(entry.root.prefix, entry.divisor, entry.length)
            for symbol, entry in self.range_tree_nodes.items()
        }
        made = axis_rules.split(uses + number, digits, sizes, facts)
        if made is None:
            self.inplace_update_buffers.clear()
            return self.by_numbers(text, sizes, reductions, digits)
        axes, rows = axis_rules.merge(*made, facts)
        for access, row in zip(live, rows):
            access.row = row
        self.overwrite(text, live, flat)
        self.coordinate_rows = dict(zip(coordinates, rows[len(live) :]))
        text, live = self.shared(text, live)
        self.axes, self.live, self.flat_live = axes, live, flat
        self.place_row = rows[-1] if number else None
        self.writer = Source(self, reductions, text)
        return self.writer.write(text)

    def overwrite(self, text, live, flat):
        """Lets results have the memory of operands, as inductor planned, where each element is read where it is written.

        That is done with what the forward saved: it would stay until the kernel has run. Other buffers inductor reuses anyway, and
        kernels of one text are one kernel.
        """
        for result, operand in list(self.inplace_update_buffers.items()):
            reads = [each for each in live if each.buffer == operand]
            places = {(each.offset, tuple(each.row)) for each in live if each.buffer in (result, operand)}
            apart = {result, operand} & set(flat) or len(places) != 1 or not reads
            if apart or not is_donated(operand) or self.is_read_ahead(text, reads):
                del self.inplace_update_buffers[result]
                continue
            for each in reads:
                each.buffer = result

    def is_read_ahead(self, text, reads):
        """Returns True if a loop of sums reads an array, which a GPU does an iteration ahead only if the kernel does not write it."""
        parts = re.split(r"\bWALK\b", text)[1:]
        found = [part for part in parts if any(re.search(rf"\bLOAD\({each.parameter}\b", part) for each in reads)]
        return self.is_gpu and (len(found) > 1 or any("STORE(" not in part.split("END")[0] for part in found))

    def shared(self, text, live):
        """Returns the text and accesses with one parameter for an array that is written and read, so that the order of both is kept:
        arrays of two parameters have no memory in common."""
        left = []
        for access in live:
            stores = [each for each in live if each.is_written and each.buffer == access.buffer]
            if access.is_written or not stores:
                left.append(access)
                continue
            same = [each for each in stores if (each.offset, each.row) == (access.offset, access.row)]
            if not same:
                raise Refused("an array is read at other places than it is written")
            text = re.sub(rf"\b{access.parameter}\b", same[0].parameter, text)
        return text, left

    def by_numbers(self, text, sizes, reductions, digits):
        """Returns the source of a kernel whose indices have no common axes: each element is gathered by its own number."""
        accesses = {each.parameter: each for each in self.accesses}

        def index(access):
            return self.index_text(access.offset + sum(symbol * stride for symbol, stride in access.strides.items()))

        def load(match):
            return f"tl.gather({self.memory(accesses[match[1]].buffer)}, {index(accesses[match[1]])})"

        def store(match):
            access = accesses[match[1]]
            is_reduced = self.features.is_reduction() and all(digits[each].space not in reductions for each in access.strides)
            shape = "POINTS" if is_reduced else "SHAPE"
            return f"SCATTER_{shape}({self.memory(access.buffer)}, {index(access)}, {match[2]})"

        text = re.sub(r"\bLOAD\((\w+)\)", load, text)
        text = re.sub(r"^STORE\((\w+), (\w+)\)$", store, text, flags=re.MULTILINE)
        one = sympy.Integer(1)
        self.axes = [axis_rules.Axis(space, one, size) for space, size in sizes.items() if size != 1]
        self.live = []
        self.flat_live = {buffer: name for buffer, name in self.flat.items() if re.search(rf"\b{name}\b", text)}
        for symbol in self.coordinates:
            entry = self.range_tree_nodes[symbol]
            self.coordinate_rows[symbol] = [one if axis.space == entry.root.prefix else 0 for axis in self.axes]
            self.coordinate_cuts[symbol] = (entry.divisor, entry.length)
        self.place_row = [one if axis.space in reductions else 0 for axis in self.axes] if "PLACE" in text else None
        self.writer = Source(self, reductions, text)
        return self.writer.write(text)

    def full_symbol(self, prefix):
        tree = next(tree for tree in self.range_trees if tree.prefix == prefix)
        return tree.lookup(sympy.S.One, tree.numel).symbol()

    # The call.
    def call_kernel(self, name, node=None, deallocate_ws=True):
        """Writes the call: the tensors, and the numbers that vary."""
        numbers, likely = {}, {}

        def number(expression):
            expression = V.graph.sizevars.simplify(sympy.sympify(expression))
            if isinstance(expression, sympy.Integer):
                return int(expression)
            found = f"n{numbers.setdefault(expression, len(numbers))}"
            likely[found] = hint(expression)
            return found

        tensors = {}

        def tensor(buffer):
            return tensors.setdefault(buffer, len(tensors))

        layout = []
        for access in self.live:
            sizes = [number(self.axes[i].extent) if access.row[i] != 0 else 1 for i in self.writer.order] or [1]
            strides = [number(access.row[i]) if access.row[i] != 0 else 1 for i in self.writer.order] or [1]
            layout.append(("array", tensor(access.buffer), number(access.offset), tuple(sizes), tuple(strides)))
        for buffer in self.flat_live:
            layout.append(("array", tensor(buffer), 0, (number(storage_size(buffer)),), (1,)))
        for expression in self.sizes:
            layout.append(("number", number(expression)))

        grid = tuple(number(each) for each in self.writer.blocks())
        launch = calls.Launch(name, self.source, layout, grid, list(tensors), list(numbers), likely, self.written)
        calls.write_launch(launch)
