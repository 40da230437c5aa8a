"""Reductions of a generated kernel: over a tile that holds whole rows, or by accumulators in a loop that walks them.

The lines contain words that text.py replaces: INSIDE(value, other) is the value where the tile is inside of the row, SHAPE the
tile's shape, POINTS the shape without the reduced elements, AXIS what is reduced, PLACE the number of an element in its row, and LAST a number that no element has.
"""

import torch

from .active import Refused
from .ops import computed_in, literal, name_of


class Reductions:
    """Implements ops.reduction for a kernel, with a method _kind(dtype, source, value) for each kind."""

    def reduction(self, dtype, src_dtype, reduction_type, value):
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            make = getattr(self, f"_{reduction_type}", None)
            if make is None:
                raise Refused(f"the reduction {reduction_type}")
            self.cse.reduction_cache[key] = make(computed_in(dtype), computed_in(src_dtype), value)
        return self.cse.reduction_cache[key]

    def accumulated(self, start, join):
        """Returns the names of accumulators, which are tiles that the loop updates.

        start: texts of their first values; join(accumulators) -> texts of the next ones.
        """
        names = [f"acc{self.joined + i}" for i in range(len(start))]
        self.joined += len(start)
        for name, text in zip(names, start):
            self.before.append(f"{name} = {text}")
        for name, text in zip(names, join(names)):
            self.compute.writeline(f"{name}_next = {text}")
        for name in names:
            self.compute.writeline(f"{name} = {name}_next")
        return names

    def joined_tiles(self, dtypes, start, join):
        """Returns what accumulators of the points are after a loop that reduces each tile for itself, as on a CPU."""
        texts = [f"tl.full(POINTS, {each}, {name_of(dtype)})" for dtype, each in zip(dtypes, start)]
        names = self.accumulated(texts, join)
        return [self.cse.generate(self.after, f"({name})", dtype=dtype) for name, dtype in zip(names, dtypes)]

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
        if not self.is_gpu:
            whole = f"tl.broadcast_to(tl.astype({inside}, {name_of(dtype)}), SHAPE)"
            part = self.cse.generate(self.compute, last.format(x=whole), dtype=dtype)
            return self.joined_tiles([dtype], [start], lambda names: [join.format(a=names[0], b=part)])[0]
        value = self.cse.generate(self.compute, f"tl.astype({inside}, {name_of(dtype)})", dtype=dtype)
        (name,) = self.accumulated(
            [f"tl.full(SHAPE, {start}, {name_of(dtype)})"], lambda names: [join.format(a=names[0], b=value)]
        )
        return self.cse.generate(self.after, last.format(x=name), dtype=dtype)

    def _sum(self, dtype, source, value):
        return self.combined(dtype, source, value, "0", "{a} + {b}", "tl.sum({x}, axis=AXIS, keepdims=True)")

    def _prod(self, dtype, source, value):
        return self.combined(dtype, source, value, "1", "{a} * {b}", "tl.prod({x}, axis=AXIS, keepdims=True)")

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
                torch.int32,
                torch.int32,
                self.cse.generate(self.compute, f"tl.astype({value}, tl.int32)", dtype=torch.int32),
                which,
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
        nan = ", propagate_nan=True" if floating else ""

        def first(best, where, into):
            extreme = self.cse.generate(into, f"tl.{which}({best}, axis=AXIS, keepdims=True{nan})", dtype=source)
            same = f"({best} == {extreme})"
            if floating:
                same = f"({same} | (({best} != {best}) & ({extreme} != {extreme})))"
            text = f"tl.min(tl.where({same}, {where}, LAST), axis=AXIS, keepdims=True)"
            return extreme, self.cse.generate(into, text, dtype=torch.int64)

        if self.persistent_reduction:
            return first(value, place, self.compute)[1]
        if not self.is_gpu:
            value, place = first(value, place, self.compute)
            self.keeps_elements = True

        def join(accumulators):
            best, where = accumulators
            better = f"({value} {sign} {best})"
            if floating:
                better = f"({better} | (({value} != {value}) & ({best} == {best})))"
            # Equal values keep the first position; a lane that has seen nothing has the last one.
            better = f"({better} | (({value} == {best}) & ({place} < {where})))"
            return [f"tl.where({better}, {value}, {best})", f"tl.where({better}, {place}, {where})"]

        if not self.is_gpu:
            return self.joined_tiles([source, torch.int64], [start, "LAST"], join)[1]
        best, where = self.accumulated([f"tl.full(SHAPE, {start}, {name})", "tl.full(SHAPE, LAST, tl.int64)"], join)
        return first(best, where, self.after)[1]

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
        return self.joined_moments(dtype, mean, squares, count, self.compute)

    def moments_of_loop(self, dtype, mean, squares, count):
        """Returns mean, sum of squared differences and count of what a loop walks. Each lane of the tile has its own, so that
        squares of large numbers do not cancel; they are joined after the loop."""
        name = name_of(dtype)
        self.keeps_elements = True
        if not self.is_gpu and self.walks_columns:  # a row's moments are closer with an accumulator for each lane
            return self.moments_of_tiles(dtype, mean, squares, count)
        added = self.cse.generate(self.compute, f"tl.astype(INSIDE(tl.broadcast_to({count}, SHAPE), 0), {name})", dtype=dtype)
        squares = self.cse.generate(
            self.compute,
            f"tl.astype(INSIDE(tl.broadcast_to({squares} * {added}, SHAPE), 0), {name})"
            if squares == "0"
            else f"INSIDE({squares}, 0)",
            dtype=dtype,
        )

        def join(accumulators):
            return self.moments_together(dtype, accumulators, (mean, squares, added), "INSIDE({0}, 0)", "tl.maximum({0}, 1)")

        return self.joined_moments(dtype, *self.accumulated([f"tl.zeros(SHAPE, {name})"] * 3, join), self.after)

    def moments_of_tiles(self, dtype, mean, squares, count):
        """Returns the same of a loop that computes the moments of each tile for itself."""
        name = name_of(dtype)
        own = [
            self.cse.generate(self.compute, f"tl.astype(tl.broadcast_to(INSIDE({each}, 0), SHAPE), {name})", dtype=dtype)
            for each in (mean, squares, count)
        ]
        mean, squares, count = self.joined_moments(dtype, *own, self.compute)

        return tuple(
            self.joined_tiles([dtype] * 3, ["0"] * 3, lambda names: self.moments_together(dtype, names, (mean, squares, count)))
        )

    def moments_together(self, dtype, one, other, inside="{0}", counted="{0}"):
        """Returns the texts of mean, sum of squared differences and count of two parts together (Chan, Golub and LeVeque, 1979).

        inside, counted: what becomes of the difference of the means, and of the count that is a divisor.
        """
        mean, squares, count = one
        other_mean, other_squares, other_count = other
        both = self.cse.generate(self.compute, f"({count} + {other_count})", dtype=dtype)
        part = self.cse.generate(self.compute, f"({other_count} / {counted.format(both)})", dtype=dtype)
        apart = self.cse.generate(self.compute, inside.format(f"({other_mean} - {mean})"), dtype=dtype)
        return [
            f"{mean} + {apart} * {part}",
            f"{squares} + {other_squares} + {apart} * {apart} * ({count} * {part})",
            str(both),
        ]

    def joined_moments(self, dtype, mean, squares, count, into):
        """Returns mean, sum of squared differences and count of lanes together."""

        def total(text):
            return self.cse.generate(into, f"tl.sum({text}, axis=AXIS, keepdims=True)", dtype=dtype)

        all_count = total(count)
        all_mean = self.cse.generate(into, f"{total(f'{mean} * {count}')} / {all_count}", dtype=dtype)
        apart = self.cse.generate(into, f"{mean} - {all_mean}", dtype=dtype)
        return all_mean, total(f"{squares} + {count} * {apart} * {apart}"), all_count
