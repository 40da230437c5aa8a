"""Records the Python state that a translation reads, and checks whether it still has the same meaning."""

import contextlib
import dataclasses
import enum
import functools
import threading
import types
import weakref

MISSING = object()


def raw_attribute(kind, name):
    """Returns a name's entry in a class or the first base that has one, without the descriptor protocol; else MISSING."""
    for each in kind.__mro__:
        if name in vars(each):
            return vars(each)[name]
    return MISSING


def _of_cell(cell, _):
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _attribute(owner, name):
    try:
        return getattr(owner, name, MISSING)
    except Exception:  # noqa: BLE001 whatever a user's code raises
        return MISSING


_MOST_BYTES = 1 << 16


def _described(value, _):
    """Returns the facts about an array without its elements; for a small NumPy array also the elements."""
    facts = [type(value), str(value.dtype), tuple(value.shape)]
    for name in ("device", "strides", "stride"):
        fact = getattr(value, name, None)
        facts.append(str(fact() if callable(fact) else fact))
    return (*facts, value.tobytes() if hasattr(value, "tobytes") and value.nbytes <= _MOST_BYTES else None)


_READERS = {
    "item": lambda owner, key: owner.get(key, MISSING),
    "cell": _of_cell,
    "type": raw_attribute,
    "attribute": _attribute,
    "function": lambda function, _: (function.__code__, function.__defaults__, function.__kwdefaults__),
    "list": lambda owner, _: tuple(owner),
    "dict": lambda owner, _: tuple(owner.items()),
    "set": lambda owner, _: frozenset(owner),
    "array": _described,
}


class Read:
    """One read: kind, owner and key say where, value holds the result. An array is held weakly: the value of the read that
    leads to it keeps it alive."""

    __slots__ = ("kind", "_owner", "key", "value")

    def __init__(self, kind, owner, key):
        self.kind, self.key = kind, key
        self._owner = weakref.ref(owner) if kind == "array" else owner
        self.value = self.read()

    @property
    def owner(self):
        """Returns the object that is read, or None for an array that has been freed."""
        return self._owner() if self.kind == "array" else self._owner

    def read(self):
        owner = self.owner
        return self.value if owner is None else _READERS[self.kind](owner, self.key)

    def same(self):
        """Returns True if the value is unchanged. A launch calls it for the kinds that _C does not compare itself."""
        return self.read() == self.value

    def check(self):
        """Returns the comparison that _C.Capture makes before a launch."""
        value = () if self.value is MISSING else (self.value,)
        if self.kind in ("item", "type", "attribute"):
            return (self.kind, self.owner, self.key, *value)
        if self.kind in ("cell", "list", "dict", "set"):
            return (self.kind, self.owner, *value)
        if self.kind == "function":
            return (self.kind, self.owner, *self.value)
        return ("call", self.same)


class Reads:
    """All reads of one translation, or of a generation. consistent: no value changed between reads."""

    def __init__(self):
        self.entries, self.consistent = {}, True

    def note(self, kind, owner, key=None):
        """Records a read and returns the value."""
        entry = Read(kind, owner, key)
        self.add(entry)
        return entry.value

    def note_function(self, function):
        """Records the code and the defaults of a function."""
        if is_fixed(function.__globals__):
            return
        self.note("function", function)
        if function.__kwdefaults__:
            self.note("dict", function.__kwdefaults__)

    def add(self, entry):
        owner = entry.owner
        if owner is None:
            return
        key = entry.kind, id(owner), entry.key
        known = self.entries.get(key)
        if known is None or known.owner is None:
            self.entries[key] = entry
        elif known is not entry:
            self.consistent &= alike(known.value, entry.value, Reads())

    def hold(self):
        """Returns True if all values still have the same meaning; equivalent new objects then replace the old ones."""
        found, adopted = [], Reads()
        self.entries = {key: entry for key, entry in self.entries.items() if entry.owner is not None}
        for entry in self.entries.values():
            value = entry.read()
            if not alike(entry.value, value, adopted):
                return False
            found.append((entry, value))
        for entry, value in found:
            entry.value = value
        for entry in adopted.entries.values():
            self.add(entry)
        return self.consistent

    def checks(self):
        return tuple(entry.check() for entry in self.entries.values())


class _Reading(threading.local):
    reads = None  # the Reads of the translation in this thread


reading = _Reading()


@contextlib.contextmanager
def noting(reads):
    """Records all reads inside the `with` block in `reads`."""
    outer, reading.reads = reading.reads, reads
    try:
        yield reads
    finally:
        reading.reads = outer


def is_fixed(names):
    """Returns True for modules of this package, whose names never change at run time."""
    return str(names.get("__name__", "")).split(".")[0] == "tile_ops"


def note(kind, owner, key=None):
    """Records a read if a translation is under way."""
    if reading.reads is not None:
        reading.reads.note(kind, owner, key)


def note_item(names, name):
    """Records the read of a name in a module or in builtins."""
    if not is_fixed(names):
        note("item", names, name)


def note_function(function):
    """Records the code and the defaults of a function if a translation is under way."""
    if reading.reads is not None:
        reading.reads.note_function(function)


def note_attribute(owner, name):
    """Records the read of an object's own attribute; that of its class is recorded separately."""
    if hasattr(owner, "__dict__"):
        note("item", vars(owner), name)
    if isinstance(raw_attribute(type(owner), name), types.MemberDescriptorType):
        note("attribute", owner, name)


def note_value(value):
    """Records the contents of a mutable value, which may change while the object stays the same."""
    if reading.reads is None or value is None or isinstance(value, (bool, int, float, str, tuple, type)):
        return
    if isinstance(value, (list, dict, set)):
        note(next(kind.__name__ for kind in (list, dict, set) if isinstance(value, kind)), value)
    elif dataclasses.is_dataclass(value):
        if not type(value).__dataclass_params__.frozen:
            for field in dataclasses.fields(value):
                note_attribute(value, field.name)
    elif is_array(value):
        note("array", value)


def is_array(value):
    """Returns True for arrays of torch or NumPy, without importing either."""
    return any(
        (each.__module__.split(".")[0], each.__name__) in (("torch", "Tensor"), ("numpy", "ndarray"))
        for each in type(value).__mro__
    )


def alike(old, new, adopted):
    """Returns True if two values mean the same in a kernel. adopted: the Reads to which the reads of `new` are added if it
    is a new function with the same code, or a new array with the same elements."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, enum.Enum):
        return False
    if isinstance(old, float):
        return old.hex() == new.hex()
    if isinstance(old, (bool, int, str, bytes, complex, frozenset, slice, types.CodeType)):
        return old == new
    if isinstance(old, tuple):
        return len(old) == len(new) and all(alike(*each, adopted) for each in zip(old, new))
    if isinstance(old, types.FunctionType):
        return _alike_functions(old, new, adopted)
    if isinstance(old, types.MethodType):
        return old.__self__ is new.__self__ and alike(old.__func__, new.__func__, adopted)
    if isinstance(old, functools.partial):
        parts = [(each.func, each.args, tuple(each.keywords.items())) for each in (old, new)]
        return alike(*parts, adopted)
    if isinstance(old, functools._lru_cache_wrapper):
        return alike(old.__wrapped__, new.__wrapped__, adopted)
    if isinstance(old, (staticmethod, classmethod)):
        return alike(old.__func__, new.__func__, adopted)
    if getattr(type(old), "is_helper", False):
        return old.tile == new.tile and alike(old.function, new.function, adopted)
    if dataclasses.is_dataclass(old) and not isinstance(old, type) and type(old).__dataclass_params__.frozen:
        return all(alike(getattr(old, field.name), getattr(new, field.name), adopted) for field in dataclasses.fields(old))
    if is_array(old):
        return _described(old, None) == adopted.note("array", new)
    if type(old).__module__ == "numpy" and hasattr(old, "tobytes"):
        return old.dtype == new.dtype and old.tobytes() == new.tobytes()
    return False


def _alike_functions(old, new, adopted):
    key = "function", id(new), None
    if key in adopted.entries:  # this comparison is already under way
        return True
    if old.__globals__ is not new.__globals__ or len(old.__closure__ or ()) != len(new.__closure__ or ()):
        return False
    adopted.note_function(new)
    parts = [
        (each.__code__, each.__defaults__, each.__kwdefaults__ and tuple(each.__kwdefaults__.items())) for each in (old, new)
    ]
    if not alike(*parts, adopted):
        return False
    for before, now in zip(old.__closure__ or (), new.__closure__ or ()):
        if before is not now and not alike(_of_cell(before, None), adopted.note("cell", now), adopted):
            return False
    return True
