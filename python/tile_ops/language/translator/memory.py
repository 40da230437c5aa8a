"""Arrays and views at control-flow joins: the index of the chosen array, and the bounds of its slices."""

from ..core import dtypes
from ..core.values import Array, ArrayChoice, RawMemory, Tile, TiledView, constant_of, memory_of, of_one_width, over


def facts_of(array):
    """Returns the facts that must agree: everything that is known about the array at compile time."""
    return array.dtype, array.ndim, array.extents, array.strides


def _parts(array, newest):
    """Returns the array as of the value `newest`, and the slices (axis, start, stop) that were taken of it since."""
    slices = []
    while array.number > newest and array.origin:
        array, *taken = array.origin
        slices.append(taken)
    return array, slices[::-1]


def _bound(value):
    """Returns a description of a slice's bound: its number, or the dtype of its tile."""
    return value.dtype if isinstance(value, Tile) else int(constant_of(value))


def _met(x, y):
    """Returns the bound that two bounds join to."""
    if isinstance(x, int) and isinstance(y, int):
        return x if x == y else dtypes.of_constant(max(x, y, key=abs))
    x, y = (y, x) if isinstance(x, int) else (x, y)
    same = dtypes.fits(y, x) if isinstance(y, int) else x is y
    return x if same else dtypes.int64


def _kind(value):
    """Returns the kind of a view."""
    if isinstance(value, TiledView):
        return TiledView, value.tile_shape, value.traversal_steps, value.padding
    return (RawMemory,) if isinstance(value, RawMemory) else (Array,)


class Memory:
    """A layout: one of several arrays, or a view of one. `bounds`: by array and the axes of its slices, [start, stop]
    for each slice."""

    most = 16  # largest number of alternatives

    def __init__(self, value, newest, bounds=None):
        memory = memory_of(value)
        items = memory.items if isinstance(memory, ArrayChoice) else (memory,)
        self._value, self._newest, self._facts = value, newest, facts_of(items[0])
        self._arrays, self.bounds = {}, {}
        if bounds is not None:
            return
        for item in items:
            base, slices = _parts(item, newest)
            self._arrays[base.number] = base
            self._add(self._key(base, slices), [[_bound(start), _bound(stop)] for _, start, stop in slices])

    @staticmethod
    def _key(base, slices):
        return base.number, tuple(axis for axis, *_ in slices)

    def _add(self, key, bounds):
        known = self.bounds.get(key, bounds)
        self.bounds[key] = [[_met(*pair) for pair in zip(*two)] for two in zip(known, bounds)]

    def of(self, value):
        """Returns the layout of another value; None if it is not memory, or of another kind or with other facts."""
        if memory_of(value) is None or _kind(value) != _kind(self._value):
            return None
        other = Memory(value, self._newest)
        return other if other._facts == self._facts else None

    def met(self, value):
        """Returns the layout that also covers this value; None as in of()."""
        other = self.of(value)
        if other is None:
            return None
        both = Memory(self._value, self._newest, {})
        both._arrays = self._arrays | other._arrays
        for layout in (self, other):
            for key, bounds in layout.bounds.items():
                both._add(key, bounds)
        return both

    def fits(self, value):
        both = self.met(value)
        return both is not None and both.bounds == self.bounds

    def types(self):
        """Returns the types of its tiles as [(dtype, shape)]."""
        index = [dtypes.int32] if len(self.bounds) > 1 else []
        known = [bound for bounds in self.bounds.values() for pair in bounds for bound in pair]
        return [(dtype, ()) for dtype in index + [each for each in known if not isinstance(each, int)]]

    def tiles(self, emitter, value):
        """Returns the tiles of a value that fits: the index of the array, and the bounds of slices that are not
        constants."""
        memory = memory_of(value)
        choice = memory if isinstance(memory, ArrayChoice) else ArrayChoice((memory,), None)
        parts = [_parts(item, self._newest) for item in choice.items]
        keys = list(self.bounds)
        own = [self._key(*each) for each in parts]
        made = [picked(emitter, choice, [keys.index(key) for key in own], dtypes.int32)] if len(keys) > 1 else []
        for key, bounds in self.bounds.items():
            for at, pair in enumerate(bounds):
                for side, bound in enumerate(pair, 1):
                    if isinstance(bound, int):
                        continue
                    given = [slices[at][side] if mine == key else 0 for mine, (_, slices) in zip(own, parts)]
                    made.append(picked(emitter, choice, given, bound))
        return made

    def value(self, emitter, tiles):
        """Returns the value; `tiles` is an iterator over its tiles."""
        index = next(tiles) if len(self.bounds) > 1 else None
        items = []
        for (number, axes), bounds in self.bounds.items():
            array = self._arrays[number]
            for axis, pair in zip(axes, bounds):
                array = emitter.slice(array, axis, *(each if isinstance(each, int) else next(tiles) for each in pair))
            if axes:
                array.extents, array.strides = self._facts[2:]
            items.append(array)
        return over(self._value, items[0] if index is None else ArrayChoice(of_one_width(items), index))


def picked(emitter, choice, values, dtype):
    """Returns the value for the chosen item, in this dtype."""
    if choice.index is not None and choice.index.dtype is dtype and values == list(range(len(values))):
        return choice.index
    made = emitter.as_dtype(values[-1], dtype)
    if all(each is values[0] or (isinstance(each, int) and each == values[0]) for each in values):
        return made
    for at, each in reversed(list(enumerate(values[:-1]))):
        here = emitter.emit("eq", choice.index, emitter.constant(at, choice.index.dtype))
        made = emitter.emit("where", here, emitter.as_dtype(each, dtype), made)
    return made
