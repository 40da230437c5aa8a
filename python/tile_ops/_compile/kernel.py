"""Generates the source of a kernel in the Python language from inductor's operations.

Each access of an array gets a parameter of its own: the array as a strided view of the points of the kernel. Accesses
without strides gather from the flat memory. While inductor calls the operations the tile is not known yet, so that lines
contain words which codegen_kernel replaces: LOAD, STORE, INSIDE, COORDINATE, LANES, SHAPE, and POINTS, which is the shape
without the reduced elements.
"""

import dataclasses
import re

import sympy
import torch
from torch._inductor.codegen.common import DeferredLine, IndentedBuffer, PythonPrinter
from torch._inductor.codegen.simd import SIMDKernel
from torch._inductor.virtualized import V, ops
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from . import axes as axis_rules
from . import space as space_rules
from .active import Refused
from .compat import GraphFacts, hint, print_size, real_name, storage_size
from .ops import NARROW, Operations, computed_in, literal, name_of

MOST_PARAMETERS = 64
MOST_AXES = 8  # of an array


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
    """Returns True if the reduced elements of all arrays are apart in memory, and those of other axes are neighbours."""
    across = False
    for node in features.reduction_nodes():
        points, sums = node.get_ranges()
        symbols = [[sympy.Symbol(f"{letter}{i}", integer=True) for i in range(len(of))] for letter, of in (("p", points), ("s", sums))]
        for index in node._body.indexing_from_args(symbols).values():
            index = sympy.expand(index)
            if any(index.coeff(symbol) == 1 for symbol in symbols[1]):
                return False
            across |= any(index.coeff(symbol) == 1 for symbol in symbols[0])
    return across


@dataclasses.dataclass
class Access:
    parameter: str
    buffer: str
    offset: sympy.Expr
    strides: dict  # of the symbols
    row: list = dataclasses.field(default_factory=list)  # of the axes


def entries(values):
    return "(" + ", ".join(map(str, values)) + ("," if len(values) == 1 else "") + ")"


class TileKernel(SIMDKernel):
    overrides = Operations
    kexpr = staticmethod(print_size)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.accesses = []
        self.known = {}
        self.flat = {}  # buffer: the parameter of its memory
        self.sizes = {}  # an expression of sizes that vary: its parameter
        self.coordinates = {}  # symbol of an index that is computed: nothing
        self.before, self.inner, self.after = [], IndentedBuffer(), IndentedBuffer()
        self.joined = 0
        self.layout = None

    # What inductor asks of a kernel.
    def dtype_to_str(self, dtype):
        return name_of(dtype)

    def want_no_x_dim(self):
        return False

    def should_use_cooperative_reduction(self):
        return False

    def should_use_persistent_reduction(self):
        if not self.features.is_reduction():
            return False
        most = space_rules.WHOLE_ROW
        if is_strided(self.features):
            most = space_rules.WHOLE_COLUMN
        return V.graph.sizevars.statically_known_leq(self.features.reduction_numel, most)

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

    def index_text(self, index):
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
        return text

    def index_value(self, expression, dtype):
        expression = self.plain(expression)
        return self.cse.generate(
            self.compute,
            f"tl.astype(TILE({self.index_text(expression)}), {name_of(computed_in(dtype))})",
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
            self.known[key] = access = Access(f"{'o' if written else 'a'}{len(self.accesses)}", buffer, offset, strides)
            self.accesses.append(access)
        return self.known[key].parameter

    def affine(self, index):
        found = axis_rules.affine(index, self.range_tree_nodes)
        return found

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
            if mask:  # which may be wider than the index
                tile = f"tl.broadcast_to({tile}, {self.shape})"
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
        self.write(name, index, value, None, False)

    def write(self, name, index, value, mode, in_loop):
        if mode is not None:
            raise Refused(f"a store with mode {mode}")
        name_of(V.graph.get_dtype(name))
        self.args.output(name)
        index = self.plain(index)
        found = self.affine(index)
        if found is None:
            text = f"SCATTER({self.memory(name)}, TILE({self.index_text(index)}), {value})"
        else:
            text = f"STORE({self.parameter(name, *found, True)}, {value})"
        self.cse.store_cache[name] = value
        (self.inner if in_loop else self.stores).writeline(DeferredLine(name, text))

    def masked(self, mask, body, other):
        with self.mask_loads(mask, other) as both:
            result = body()
        dtype = result.dtype
        other = "True" if other is True else literal(other)
        return self.cse.generate(
            self.compute, f"tl.where({both}, {result}, tl.astype({other}, {name_of(dtype)}))", dtype=dtype
        )

    # Reductions.
    def reduction(self, dtype, src_dtype, reduction_type, value):
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            make = getattr(self, f"_{reduction_type}", None)
            if make is None:
                raise Refused(f"the reduction {reduction_type}")
            self.cse.reduction_cache[key] = make(computed_in(dtype), computed_in(src_dtype), value)
        return self.cse.reduction_cache[key]

    def joining(self, start, join, finish, dtype, values=1):
        """Reduces by accumulators: over the tile if it holds all, else they are tiles that a loop updates.

        start: texts of the accumulators' first values; join(accumulators) -> texts of the next ones; finish: a text of the
        accumulators. Returns a variable of the finished value, or a list of them for a list of texts.
        """
        names = [f"acc{self.joined + i}" for i in range(values)]
        self.joined += values
        for name, text in zip(names, start):
            self.before.append(f"{name} = {text}")
        for name, text in zip(names, join(names)):
            self.compute.writeline(f"{name}_next = {text}")
        for name in names:
            self.compute.writeline(f"{name} = {name}_next")
        return names

    def combined(self, dtype, source, value, start, join, last):
        """A reduction of one accumulator. join: with {a} and {b}; last: with {x}, over the dimension AXIS."""
        if source == torch.bool:
            source = dtype
            value = f"tl.astype({value}, {name_of(dtype)})"
        inside = f"INSIDE({value}, {start})"
        if self.persistent_reduction:
            # A value that is the same for all elements of a row counts as often as the row is long.
            return self.cse.generate(
                self.compute, last.format(x=f"tl.broadcast_to(tl.astype({inside}, {name_of(dtype)}), SHAPE)"), dtype=dtype
            )
        value = self.cse.generate(self.compute, f"tl.astype({inside}, {name_of(dtype)})", dtype=dtype)
        (name,) = self.joining(
            [f"tl.full(SHAPE, {start}, {name_of(dtype)})"], lambda a: [join.format(a=a[0], b=value)], None, dtype
        )
        return self.cse.generate(self.after, last.format(x=name), dtype=dtype)

    def _sum(self, dtype, source, value):
        return self.combined(dtype, source, value, "0", "{a} + {b}", "tl.sum({x}, axis=AXIS, keepdims=True)")

    def _prod(self, dtype, source, value):
        return self.combined(dtype, source, value, "1", "{a} * {b}", "tl.prod({x}, axis=AXIS, keepdims=True)")

    def _xor_sum(self, dtype, source, value):
        last = "tl.reduce({x}, AXIS, XOR, 0, keepdims=True)"
        if dtype == torch.bool:
            raise Refused("xor_sum of bool")
        return self.combined(dtype, source, value, "0", "{a} ^ {b}", last)

    def _any(self, dtype, source, value):
        if source != torch.bool:
            value = self.cse.generate(self.compute, f"({value} != 0)", dtype=torch.bool)
        found = self.combined(
            torch.int32, torch.bool, value, "0", "tl.maximum({a}, {b})", "tl.max({x}, axis=AXIS, keepdims=True)"
        )
        return self.cse.generate(self.finished, f"({found} != 0)", dtype=torch.bool)

    @property
    def finished(self):
        """Where what follows a reduction is computed."""
        return self.compute if self.persistent_reduction else self.after

    def _extreme(self, dtype, source, value, which):
        nan = ", propagate_nan=True" if source.is_floating_point else ""
        if source == torch.bool:
            found = self._extreme(
                torch.int32, torch.int32, self.cse.generate(self.compute, f"tl.astype({value}, tl.int32)", dtype=torch.int32), which
            )
            return self.cse.generate(self.finished, f"({found} != 0)", dtype=torch.bool)
        start = self.least(source, which)
        join = f"tl.{which}imum({{a}}, {{b}}{nan})"
        return self.combined(dtype, source, value, start, join, f"tl.{which}({{x}}, axis=AXIS, keepdims=True{nan})")

    @staticmethod
    def least(dtype, which):
        """Returns the text of what every value of a dtype precedes."""
        if dtype.is_floating_point:
            return literal(float("-inf" if which == "max" else "inf"))
        limits = torch.iinfo(dtype)
        return repr(limits.min if which == "max" else limits.max)

    def _max(self, dtype, source, value):
        return self._extreme(dtype, source, value, "max")

    def _min(self, dtype, source, value):
        return self._extreme(dtype, source, value, "min")

    def _argmax(self, dtype, source, value):
        return self._position(source, value, "max")

    def _argmin(self, dtype, source, value):
        return self._position(source, value, "min")

    def _position(self, source, value, which):
        """Returns the first position of the extreme; a NaN is beyond all numbers. value: perhaps with the positions."""
        value, place = value if isinstance(value, tuple) else (value, "PLACE")
        if source == torch.bool:
            source, value = torch.int32, self.cse.generate(self.compute, f"tl.astype({value}, tl.int32)", dtype=torch.int32)
        floating, name = source.is_floating_point, name_of(source)
        start, sign = self.least(source, which), ">" if which == "max" else "<"
        value = self.cse.generate(self.compute, f"tl.broadcast_to(INSIDE({value}, {start}), SHAPE)", dtype=source)
        place = f"tl.astype(tl.broadcast_to(INSIDE({place}, LAST), SHAPE), tl.int64)"
        place = self.cse.generate(self.compute, place, dtype=torch.int64)
        if self.persistent_reduction:
            best, where = value, place
        else:

            def join(accumulators):
                best, where = accumulators
                better = f"({value} {sign} {best})"
                if floating:
                    better = f"({better} | (({value} != {value}) & ({best} == {best})))"
                # Equal values keep the first position; a lane that has seen nothing has the last one.
                better = f"({better} | (({value} == {best}) & ({place} < {where})))"
                return [f"tl.where({better}, {value}, {best})", f"tl.where({better}, {place}, {where})"]

            best, where = self.joining(
                [f"tl.full(SHAPE, {start}, {name})", "tl.full(SHAPE, LAST, tl.int64)"], join, None, source, 2
            )
        nan = ", propagate_nan=True" if floating else ""
        extreme = self.cse.generate(self.finished, f"tl.{which}({best}, axis=AXIS, keepdims=True{nan})", dtype=source)
        same = f"({best} == {extreme})"
        if floating:
            same = f"({same} | (({best} != {best}) & ({extreme} != {extreme})))"
        return self.cse.generate(
            self.finished, f"tl.min(tl.where({same}, {where}, LAST), axis=AXIS, keepdims=True)", dtype=torch.int64
        )

    def _welford_reduce(self, dtype, source, value):
        if self.persistent_reduction:
            return self.welford_reduce_fallback(dtype, value)
        name = name_of(dtype)
        value = self.cse.generate(self.compute, f"tl.astype({value}, {name})", dtype=dtype)
        return self.moments_of_loop(dtype, value, "0", f"tl.full(SHAPE, 1, {name})")

    def _welford_combine(self, dtype, source, value):
        if not self.persistent_reduction:
            return self.moments_of_loop(dtype, *value)
        mean, squares, count = (
            self.cse.generate(self.compute, f"tl.broadcast_to(INSIDE({each}, 0), SHAPE)", dtype=dtype) for each in value
        )
        return self.joined_moments(dtype, mean, squares, count)

    def moments_of_loop(self, dtype, mean, squares, count):
        """Returns mean, sum of squared differences and count of what a loop walks. Each lane of the tile has its own, so that
        squares of large numbers do not cancel; they are joined after the loop."""
        name = name_of(dtype)
        added = self.cse.generate(self.compute, f"tl.astype(INSIDE(tl.broadcast_to({count}, SHAPE), 0), {name})", dtype=dtype)
        squares = self.cse.generate(self.compute, f"tl.astype(INSIDE(tl.broadcast_to({squares} * {added}, SHAPE), 0), {name})" if squares == "0" else f"INSIDE({squares}, 0)", dtype=dtype)

        def join(accumulators):
            own_mean, own_squares, own_count = accumulators
            both = self.cse.generate(self.compute, f"({own_count} + {added})", dtype=dtype)
            part = self.cse.generate(self.compute, f"({added} / tl.maximum({both}, 1))", dtype=dtype)
            apart = self.cse.generate(self.compute, f"INSIDE({mean} - {own_mean}, 0)", dtype=dtype)
            return [
                f"{own_mean} + {apart} * {part}",
                f"{own_squares} + {squares} + {apart} * {apart} * ({own_count} * {part})",
                str(both),
            ]

        return self.joined_moments(dtype, *self.joining([f"tl.zeros(SHAPE, {name})"] * 3, join, None, dtype, 3))

    def joined_moments(self, dtype, mean, squares, count):
        """Returns mean, sum of squared differences and count of lanes together."""
        into = self.finished

        def total(text):
            return self.cse.generate(into, f"tl.sum({text}, axis=AXIS, keepdims=True)", dtype=dtype)

        all_count = total(count)
        all_mean = self.cse.generate(into, f"{total(f'{mean} * {count}')} / {all_count}", dtype=dtype)
        apart = self.cse.generate(into, f"{mean} - {all_mean}", dtype=dtype)
        return all_mean, total(f"{squares} + {count} * {apart} * {apart}"), all_count

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
        digits = {
            symbol: axis_rules.Digit(entry.root.prefix, entry.divisor, entry.length)
            for symbol, entry in self.range_tree_nodes.items()
        }
        reductions = {tree.prefix for tree in self.range_trees if tree.is_reduction}
        sizes = {
            tree.prefix: tree.numel
            for tree in self.range_trees
            if not tree.is_reduction or self.features.is_reduction()
        }
        uses = [each.strides for each in live] + [{symbol: sympy.Integer(1)} for symbol in coordinates]
        # The number of an element of a reduction, which argmax asks for, is one more use.
        number = [{self.full_symbol(prefix): sympy.Integer(1)} for prefix in sizes if prefix in reductions and "PLACE" in text]
        for use in number:
            for symbol in use:
                entry = self.range_tree_nodes[symbol]
                digits[symbol] = axis_rules.Digit(entry.root.prefix, entry.divisor, entry.length)
        made = axis_rules.split(uses + number, digits, sizes, facts)
        if made is None:
            raise Refused("indices that cut the points at places which do not divide one another")
        axes, rows = axis_rules.merge(*made, facts)
        for access, row in zip(live, rows):
            access.row = row
        self.axes, self.live, self.flat_live = axes, live, flat
        self.coordinate_rows = dict(zip(coordinates, rows[len(live) :]))
        self.place_row = rows[-1] if number else None
        return self.text(text, reductions)

    def full_symbol(self, prefix):
        tree = next(tree for tree in self.range_trees if tree.prefix == prefix)
        return tree.lookup(sympy.S.One, tree.numel).symbol()

    def text(self, body, reductions):
        axes, is_gpu = self.axes, self.is_gpu
        hints = [max(1, hint(axis.extent)) for axis in axes]
        static = [isinstance(axis.extent, (int, sympy.Integer)) for axis in axes]
        reduced = [axis.space in reductions for axis in axes]
        space = self.space = space_rules.choose(
            axes, [each.row for each in self.live] or [[0] * len(axes)], hints, reduced, self.persistent_reduction, is_gpu, static
        )
        if not space.walked and space.reduced is not None:
            for i in space.dims[space.reduced]:
                if not static[i] and not V.graph.sizevars.statically_known_leq(axes[i].extent, space.extents[space.reduced][0]):
                    raise Refused("a row whose length is not known to fit a tile")
        extent = [self.size_text(axis.extent) for axis in axes]
        if self.features.is_reduction() and space.reduced is None:
            raise Refused("a reduction of one element")

        # The index of each axis: a number of a block or loop, or the tile's number along a dimension.
        at, head, grid = {}, [], []
        for dim in (1, 0):
            if dim == space.reduced:
                continue
            for k, (i, many) in enumerate(zip(space.dims[dim], space.extents[dim])):
                at[i] = "0"
                if k == 0 and not (static[i] and many >= hints[i]):
                    at[i] = f"t{dim}"
                    head.append(f"t{dim} = tl.bid({len(grid)})")
                    grid.append((axes[i].extent, many))
        if space.blocks:
            # GPUs have few blocks along the last axes of a grid, so that the longest comes first there.
            head.append(f"b = tl.bid({len(grid)})")
            for k, i in enumerate(reversed(space.blocks)):
                at[i] = f"b{i}"
                if k + 1 < len(space.blocks):
                    head += [f"b{i} = b % {extent[i]}", f"b = b // {extent[i]}"]
                else:
                    head.append(f"b{i} = b")
            grid.append(([axes[i].extent for i in space.blocks], 1))
        for i in space.loops:
            at[i] = f"l{i}"
        exact = space.reduced is None or all(
            static[i] and (hints[i] % many == 0 if space.walked else hints[i] == many)
            for i, many in zip(space.dims[space.reduced], space.extents[space.reduced])
        )
        if space.reduced is not None:
            for i in space.dims[space.reduced]:
                at[i] = "j" if space.walked else "0"

        # Every tile has all axes, with extent 1 along those of blocks, of loops, and those that an array lacks: values of all
        # arrays then broadcast without a change of shape.
        order = (*space.blocks, *space.loops, *space.dims[0], *space.dims[1])
        many = {i: 1 for i in order}
        for dim in (0, 1):
            many.update(zip(space.dims[dim], space.extents[dim]))
        shape = tuple(many[i] for i in order) or (1,)
        if len(shape) > MOST_AXES:
            raise Refused(f"a kernel over {len(shape)} axes")
        over = [order.index(i) for i in space.dims[space.reduced]] if space.reduced is not None else []

        def coordinate(i):
            """Returns the text of an axis' coordinate, which broadcasts to the tile."""
            if many[i] == 1 and i not in (*space.dims[0], *space.dims[1]):
                return at[i]
            own = f"tl.arange({many[i]}, dtype=tl.int32)" + ("" if at[i] == "0" else f" + {at[i]} * {many[i]}")
            return f"tl.reshape({own}, {entries([many[i] if n == i else 1 for n in order])})"

        def counted(row):
            parts = [f"{coordinate(i)} * {self.size_text(by)}" for i, by in enumerate(row) if by != 0]
            return "(" + " + ".join(parts or ["0"]) + ")"

        def place(access):
            index = [at[i] if access.row[i] != 0 else "0" for i in order]
            tile = [many[i] if access.row[i] != 0 else 1 for i in order]
            return index or ["0"], tile or [1]

        by_name = {each.parameter: each for each in self.live}

        def load(match):
            index, tile = place(by_name[match.group(1)])
            return f"tl.load({match.group(1)}, {entries(index)}, {entries(tile)})"

        def store(match):
            parameter, value = match.groups()
            index, tile = place(by_name[parameter])
            return f"tl.store({parameter}, {entries(index)}, tl.broadcast_to(tl.astype({value}, {parameter}.dtype), {entries(tile)}))"

        def scatter(match):
            memory, index, value = match.groups()
            return f"tl.scatter({memory}, {index}, tl.astype({value}, {memory}.dtype), mask=LANES)"

        body = re.sub(r"\bLOAD\((\w+)\)", load, body)
        body = re.sub(r"\bSTORE\((\w+), (\w+)\)", store, body)
        body = re.sub(r"\bSCATTER\((\w+), (.*), (\w+)\)$", scatter, body, flags=re.MULTILINE)
        body = self.without_masks(body) if exact else self.with_masks(body)
        defined = []
        if re.search(r"\bLANES\b", body):
            tests = [f"({coordinate(i)} < {extent[i]})" for dim in (0, 1) for i in space.dims[dim]]
            defined.append("LANES = " + (" & ".join(tests) if tests else "True"))
        if "INSIDE_LANES" in body:
            tests = [f"({coordinate(i)} < {extent[i]})" for i in space.dims[space.reduced]]
            defined.append("INSIDE_LANES = " + " & ".join(tests))
        for symbol, row in self.coordinate_rows.items():
            defined.append(f"COORDINATE_{symbol} = tl.astype({counted(row)}, {self.index_dtype})")
        if re.search(r"\bPLACE\b", body):
            defined.append(f"PLACE = tl.broadcast_to({counted(self.place_row)}, {entries(shape)})")
            body = re.sub(r"\bPLACE\b", "PLACE", body)
        body = re.sub(r"\bLAST\b", "2147483647", body)
        body = re.sub(r"\bSHAPE\b", entries(shape), body)
        points = tuple(1 if n in over else many for n, many in enumerate(shape))
        body = re.sub(r"\bPOINTS\b", entries(points), body)
        body = re.sub(r"\bAXIS\b", str(over[0]) if len(over) == 1 else str(tuple(over)), body)
        body = re.sub(r"\bTILE\(", "(", body)

        parameters = [each.parameter for each in self.live] + list(self.flat_live.values()) + list(map(str, self.sizes.values()))
        if len(parameters) > MOST_PARAMETERS:
            raise Refused(f"a kernel of {len(parameters)} parameters")
        code = IndentedBuffer()
        code.writeline(f"def KERNEL({', '.join(parameters)}):")
        with code.indent():
            for line in head:
                code.writeline(line)
            if not space.walked:
                for line in defined:
                    code.writeline(line)
            inside = False
            for line in body.split("\n"):
                if line == "WALK":
                    for i in space.loops:
                        code.writeline(f"for l{i} in range({extent[i]}):")
                        code.do_indent()
                    (i,) = space.dims[space.reduced]
                    many = space.extents[space.reduced][0]
                    count = -(-hints[i] // many) if static[i] else f"tl.cdiv({extent[i]}, {many})"
                    code.writeline(f"for j in range({count}):")
                elif line == "BEGIN":
                    code.do_indent()
                    inside = True
                    for each in defined:
                        code.writeline(each)
                elif line == "END":
                    code.do_unindent(1 + len(space.loops))
                    inside = False
                else:
                    code.writeline(line)
            assert not inside
        self.grid = grid
        self.order = order
        return code.getvalue()

    @staticmethod
    def without_masks(body):
        return _replace_inside(body, lambda value, start: f"({value})")

    @staticmethod
    def with_masks(body):
        return _replace_inside(body, lambda value, start: f"tl.where(INSIDE_LANES, {value}, {start})")

    # The call.
    def call_kernel(self, name, node=None, deallocate_ws=True):
        """Writes the call: the tensors, and the numbers that vary."""
        numbers = {}

        def number(expression):
            expression = V.graph.sizevars.simplify(sympy.sympify(expression))
            if isinstance(expression, sympy.Integer):
                return int(expression)
            text = print_size(expression)
            return f"n{numbers.setdefault(text, len(numbers))}"

        tensors = {}

        def tensor(buffer):
            return tensors.setdefault(buffer, len(tensors))

        layout = []
        for access in self.live:
            sizes = [number(self.axes[i].extent) if access.row[i] != 0 else 1 for i in self.order] or [1]
            strides = [number(access.row[i]) if access.row[i] != 0 else 1 for i in self.order] or [1]
            layout.append(("array", tensor(access.buffer), number(access.offset), tuple(sizes), tuple(strides)))
        for buffer in self.flat_live:
            layout.append(("array", tensor(buffer), 0, (number(storage_size(buffer)),), (1,)))
        for expression in self.sizes:
            layout.append(("number", number(expression)))

        def blocks(extent, many):
            if isinstance(extent, list):
                return number(sympy.prod(extent))
            return number((extent + many - 1) // many if isinstance(extent, int) else -((-extent) // many) if isinstance(extent, sympy.Integer) else _cdiv(extent, many))

        grid = [blocks(*each) for each in self.grid] + [1, 1, 1]
        arguments = [*tensors, *numbers]
        wrapper = V.graph.wrapper_code
        call = f"{name}_call{wrapper.tile_calls}" if hasattr(wrapper, "tile_calls") else f"{name}_call0"
        wrapper.tile_calls = getattr(wrapper, "tile_calls", 0) + 1
        call = f"{name}_call{wrapper.tile_calls}"
        wrapper.header.writeline(f"{call} = tile_call({name}, {tuple(layout)!r}, {tuple(grid[:3])!r})")
        wrapper.writeline(f"{call}({', '.join(arguments)})")


def _cdiv(extent, many):
    return FloorDiv(extent + (many - 1), many)


def _replace_inside(body, replacement):
    """Replaces INSIDE(value, start); value may contain calls."""
    while (begin := body.rfind("INSIDE(")) >= 0:
        depth, comma, end = 0, None, begin + len("INSIDE")
        for end in range(begin + len("INSIDE"), len(body)):
            letter = body[end]
            depth += (letter == "(") - (letter == ")")
            if letter == "," and depth == 1:
                comma = end
            if depth == 0:
                break
        value, start = body[begin + len("INSIDE(") : comma], body[comma + 1 : end].strip()
        body = body[:begin] + replacement(value, start) + body[end + 1 :]
    return body
