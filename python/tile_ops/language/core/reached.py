"""Records everything that plain Python code may read when it runs at compile time, by following its names."""

import dis
import functools
import sys
import types

from .reads import MISSING, is_array, is_fixed, note, note_attribute, note_function, note_item, raw_attribute, reading

_OTHERS = {"builtins", "numpy", "torch", "tile_ops"}


def is_users(module):
    """Returns True if a module, by its name, holds a user's functions."""
    return _is_searched(module) and module.split(".")[0] not in sys.stdlib_module_names


def _is_searched(module):
    """Returns True if the objects of a module's classes are searched. The standard library's are: they hold users' values."""
    return (module or "builtins").split(".")[0] not in _OTHERS


@functools.lru_cache(maxsize=4096)
def names_of_code(code):
    """Returns the names of globals and of attributes that a code object and its nested code objects use."""
    plain, attributes = set(), set()
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_CLASSDEREF"):
            plain.add(each.argval)
        elif each.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"):
            attributes.add(each.argval)
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            inner = names_of_code(each)
            plain |= inner[0]
            attributes |= inner[1]
    return frozenset(plain), frozenset(attributes)


class _Walk:
    """Follows values to the values that code reaches through them by its attribute names."""

    def __init__(self):
        self.attributes, self.functions, self.constants = set(), [], set()
        self._seen, self._owners, self._done = {}, [], set()

    def code(self, code, names, cells, local=()):
        """Follows the globals and free names of a code object. names: the dictionary of its globals; local: names of neither
        kind."""
        plain, attributes = names_of_code(code)
        self.attributes |= attributes
        for name, cell in cells.items():
            note("cell", cell)
            try:
                self._named(name, cell.cell_contents)
            except ValueError:
                pass
        for name in plain.difference(cells, local):
            note_item(names, name)
            if name in names:
                self._named(name, names[name])

    def _named(self, name, value):
        if _is_plain(value):
            self.constants.add(f"{name} = {value!r}")
        self.value(value)

    def value(self, value):
        if id(value) in self._seen or value is None or isinstance(value, (bool, int, float, str, bytes)):
            return
        self._seen[id(value)] = value
        if isinstance(value, types.FunctionType):
            if is_users(value.__module__) and not is_fixed(value.__globals__):
                note_function(value)
                self.functions.append(value)
                for each in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
                    self.value(each)
                self.code(value.__code__, value.__globals__, dict(zip(value.__code__.co_freevars, value.__closure__ or ())))
            return
        for kind in (list, dict, set):
            if isinstance(value, kind):
                note(kind.__name__, value)
        if isinstance(value, (list, tuple, set, frozenset)):
            inner = value
        elif isinstance(value, dict):
            inner = [each for pair in value.items() for each in pair]
        else:
            inner = _inner(value)
        for each in list(inner):
            self.value(each)
        if is_array(value):
            note("array", value)
        elif isinstance(value, types.ModuleType):
            if is_users(value.__name__):
                self._owners.append(value)
        elif is_users(value.__module__) if isinstance(value, type) else _is_searched(type(value).__module__):
            self._owners.append(value)

    def finish(self):
        """Looks up every attribute name in every object found so far, until nothing new is found."""
        done = -1
        while done != len(self._done):
            done = len(self._done)
            for owner in list(self._owners):
                for name in list(self.attributes):
                    if (id(owner), name) not in self._done:
                        self._done.add((id(owner), name))
                        self._attribute(owner, name)

    def _attribute(self, owner, name):
        if isinstance(owner, types.ModuleType):
            if name in vars(owner):
                note_item(vars(owner), name)
                self._named(name, vars(owner)[name])
            return
        kind = owner if isinstance(owner, type) else type(owner)
        found = raw_attribute(kind, name)
        if found is not MISSING:
            note("type", kind, name)
            self._named(name, found)
        if kind is owner or (found is MISSING and name not in getattr(owner, "__dict__", ())):
            return
        note_attribute(owner, name)
        if name in getattr(owner, "__dict__", ()) or isinstance(found, types.MemberDescriptorType):
            self._named(name, getattr(owner, name, None))


def _is_plain(value):
    return value is None or type(value) in (bool, int, float, str) or (type(value) is tuple and all(map(_is_plain, value)))


def _inner(value):
    """Returns the values that a wrapper wraps; empty for other values."""
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if isinstance(value, functools.partial):
        return value.func, *value.args, *value.keywords.values()
    if isinstance(value, (staticmethod, classmethod)):
        return (value.__func__,)
    if isinstance(value, property):
        return value.fget, value.fset
    if isinstance(value, functools.cached_property):
        return (value.func,)
    if isinstance(value, functools._lru_cache_wrapper):
        return (value.__wrapped__,)
    if getattr(type(value), "is_helper", False):
        return (value.function,)
    if isinstance(value, type) and is_users(value.__module__):
        return [each for name, each in vars(value).items() if name.startswith("__") and callable(each)]
    return ()


def note_evaluated(code, function, local):
    """Records what an expression may read when Python evaluates it for a kernel. function: provides its globals and
    closure; local: the kernel's own names."""
    if reading.reads is None:
        return
    walk, used = _Walk(), names_of_code(code)[0].difference(local)
    free = zip(function.__code__.co_freevars, function.__closure__ or ())
    walk.code(code, function.__globals__, {name: cell for name, cell in free if name in used}, local)
    walk.finish()


def reached_from(function):
    """Returns the users' Python functions that a function may call, at any depth, and the constants that they name, as
    strings."""
    walk = _Walk()
    walk.value(function)
    walk.finish()
    return walk.functions, walk.constants
