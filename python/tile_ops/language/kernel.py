"""kernel: turns a Python function into a tile kernel."""

import functools
import inspect
import os
import threading
import types

from .. import _C
from .core.annotations import hints_of, kinds_of
from .arguments import Flattener, constant_key, hashed, rebuilt
from .capture import Capture
from .core.emit import value_of
from .core.errors import TileSyntaxError
from .core.named import Named
from .core.reads import Reads, note_function, noting
from .core.signatures import binder, own_signature
from .core.untraced import untraced
from .translator.scope import Scope
from .translator.source import names_of, source_of
from .translator.translator import Translator
from .debug.run import debug
from .tuning.tuned import Tuned

_HINTS = {
    "num_ctas": (lambda value: 1 <= value <= 16 and value & (value - 1) == 0, "num_ctas should be a power of two from 1 to 16"),
    "occupancy": (lambda value: 1 <= value <= 32, "occupancy should be from 1 to 32"),
    "opt_level": (lambda value: 0 <= value <= 3, "opt_level should be from 0 to 3"),
    "num_worker_warps": (
        lambda value: 1 <= value <= 32 and value & (value - 1) == 0,
        "num_worker_warps should be a power of two from 1 to 32",
    ),
}
_HINTS_OF_CUTILE = {
    **_HINTS, "num_worker_warps": (lambda value: value in (4, 8), "num_worker_warps should be either 4 or 8")
}  # fmt: skip


class ByTarget:
    """Gives a hint's value for each kind of GPU: ByTarget(default=1, sm_90=2).

    Errors: ValueError for a name that is not sm_ and a number.
    """

    def __init__(self, *, default=None, **targets):
        for name in targets:
            if not (name.startswith("sm_") and name[3:].isdigit()):
                raise ValueError(f"ByTarget: {name!r} is no target; write sm_90, sm_100, ...")
        self.default, self.targets = default, targets

    def __eq__(self, other):
        return isinstance(other, ByTarget) and (self.default, self.targets) == (other.default, other.targets)

    def __hash__(self):
        return hash((self.default, tuple(sorted(self.targets.items()))))

    def __repr__(self):
        parts = [f"default={self.default!r}"] if self.default is not None else []
        return f"ByTarget({', '.join(parts + [f'{name}={value!r}' for name, value in self.targets.items()])})"


def _of_targets(hints):
    """Returns the hints in the compiler's form: (its name, possibly for one target, value)."""
    found = []
    for name, theirs in (("num_worker_warps", "warps"), ("occupancy", "occupancy"), ("num_ctas", "num_ctas")):
        value = hints[name]
        value = value if isinstance(value, ByTarget) else ByTarget(default=value)
        each = {theirs: value.default, **{f"{theirs}.{target}": of_target for target, of_target in value.targets.items()}}
        found += [(key, number) for key, number in each.items() if number is not None]
    return found


def _debugged():
    value = os.environ.get("TILE_DEBUG") or ""
    if value not in ("", "python"):
        raise ValueError(f"TILE_DEBUG={value}: it is python, which runs kernels as Python; unset it or set it to that")
    return value == "python"


@functools.lru_cache(maxsize=None)
def _launched_as_python(kind):
    """Makes a class of kernels whose launches run debug()."""

    def launch(self, grid, *arguments, stream=None, **named):
        self.debug(grid, *arguments, **named)

    methods = {"__getitem__": lambda self, grid: functools.partial(self.debug, grid), "launch": launch}
    return type(kind.__name__, (kind,), {"__module__": kind.__module__, "__doc__": kind.__doc__, **methods})


def _checked_hints(hints, rules):
    for name, value in hints.items():
        good, text = rules[name]
        each = [value.default, *value.targets.values()] if isinstance(value, ByTarget) else [value]
        for one in each:
            if one is not None and (isinstance(one, bool) or not isinstance(one, int) or not good(one)):
                raise ValueError(f"{text}, got {one!r}")
    return hints


class kernel(_C.TileKernel, Named):  # noqa: N801 a decorator
    """Makes a kernel of a Python function: `@kernel` or `@kernel(hints)`. The function runs once for each block of a grid.

    kernel[grid](*arguments) launches it. grid is an integer, a tuple of up to three, or a function of the arguments. Arguments
    may be passed by name, and left out if the parameter has a default.

    Shapes: tensors become arrays of any rank, extents and strides. NumPy arrays and arrays of other libraries with DLPack or
    __cuda_array_interface__ do, too.
    Dtypes: arrays have those of tile_ops.language. int, float and bool become scalars of dtype int32, float32 and bool_. None,
    and arguments of parameters annotated with Constant, are compile-time constants.
    Errors: TileError, with the place in the kernel, for code that the language refuses. TypeError and ValueError for
    arguments, grids and hints, and for tensors on more than one device.

    On a CPU the launch returns when the kernel has run. On a GPU it runs in the current stream.

    The Python code and constants that the kernel reads, in globals, closures, modules and classes, may change. The next
    launch then compiles it again.

    num_worker_warps: a power of two up to 32 (4 or 8 in cutile). A GPU deals tiles over so many warps, unless the kernel
    multiplies matrices.
    occupancy: the blocks that a multiprocessor shall hold at once, which bounds a thread's registers.
    num_ctas: from 2 on, sm_90 may run two neighbouring blocks of a grid together, which copy a tile once if both multiply it.
    opt_level: accepted.

    These hints never change results. Each may be ByTarget(default=4, sm_90=8).
    """

    _dialect = False  # True in cutile
    hint_names = tuple(_HINTS)

    def __new__(cls, function=None, /, **hints):
        if function is None:
            return functools.partial(cls, **hints)
        return super().__new__(_launched_as_python(cls) if _debugged() else cls)

    def __init__(self, function, /, *, num_ctas=None, occupancy=None, opt_level=3, num_worker_warps=None):
        if not isinstance(function, types.FunctionType):
            raise TypeError(f"kernel: {function!r} is no Python function")
        self._pyfunc = function
        self._hints = _checked_hints(
            {"num_ctas": num_ctas, "occupancy": occupancy, "opt_level": opt_level, "num_worker_warps": num_worker_warps},
            _HINTS_OF_CUTILE if self._dialect else _HINTS,
        )
        self._target_hints = _of_targets(self._hints)
        self._words, self._structures, self._lock = {}, [], threading.Lock()
        self._capture, self._unhinted = Capture(), None
        parameters = inspect.signature(function).parameters.values()
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise TileSyntaxError(
                    f"{function.__name__}: a kernel's parameters are named; *{parameter.name} is not supported"
                )
        functools.update_wrapper(self, function, updated=())
        hints = hints_of(function)
        self.parameters = tuple(each.name for each in parameters)
        self._annotations = [hints.get(name) for name in self.parameters]
        self._argument_names = tuple(  # the names in errors
            f"Invalid kernel argument #{position}, '{name}' of {function.__name__}"
            for position, name in enumerate(self.parameters)
        )
        self.letters = kinds_of(function)  # of the parameters, by annotations.kinds_of
        self._signature = self._binder(function.__name__, list(parameters))
        self._bind_to(self._capture)

    def _bind_to(self, capture):
        """Makes `capture` record the Python state that is read; all kernels of one function share it."""
        self._capture, code = capture, self._pyfunc.__code__
        self._bind(self._pyfunc.__name__.strip("<>"), code.co_filename, code.co_firstlineno, self.letters, capture)

    _binder = staticmethod(binder)

    def __call__(self, *_, **__):
        raise TypeError(f"{self.__name__} is a kernel; launch it with {self.__name__}[grid](...)")

    def replace_hints(self, **hints):
        """Returns a kernel of the same function with other hints."""
        made = type(self)(self._pyfunc, **{**self._hints, **hints})
        made._unhinted = self._unhinted or self
        made._bind_to(self._capture)
        return made

    def _without_name(self):
        if self._unhinted is None:
            return super()._without_name()
        return _hinted, (self._unhinted, self._hints)

    def tune(self, configs, key=None, *, verbose=False):
        """Returns a kernel that is launched without some constants and uses the fastest of these configurations.

        configs: dictionaries of Constant parameters, the same ones in each, and hints. key: the properties of the
        arguments, besides dtypes, ranks, the other constants and the device, for which a configuration is chosen: names
        of parameters (tensors by their shape, numbers by their value), functions of the arguments, or a list of these;
        by default the tensors' extents, rounded up to powers of two. verbose: prints the table of times, as
        TILE_AUTOTUNE_PRINT=1 does. Errors: ValueError or TypeError for an invalid configuration or key; a launch raises
        ValueError if every configuration fails.
        """
        return Tuned(self, configs, key, verbose)

    @untraced
    def debug(self, grid, *arguments, **named):
        """Runs the function as Python, one block after another, the first axis of the grid fastest: print, breakpoint()
        and a debugger work in it. Tiles hold torch tensors (tile.tensor). Each call of the language is compiled and run
        separately, so that results equal those of a launch. Tensors on a GPU are copied to the CPU and back. If
        TILE_DEBUG=python is set when a kernel is made, its launches do this.
        """
        debug(self, grid, self._signature(*arguments, **named))

    def ir(self, *arguments, passes=False, **named):
        """Returns the Tile IR for these arguments as text; with passes, also after each pass. Tensors may be fake."""
        return self._ir(self._signature(*arguments, **named), passes)

    def check(self, *arguments, **named):
        """Raises the errors in the kernel's source that a launch with these arguments would raise. Tensors may be fake
        or on meta."""
        self._ir(self._signature(*arguments, **named), True)

    # Methods that launches call.

    @untraced
    def _flatten(self, position, value):
        """Returns (word, letters, leaves) for an argument that is not a plain tensor or number."""
        flattener = Flattener(self._argument_names[position])
        structure = flattener.structure(value, self._annotations[position])
        return self._word(hashed(structure), structure), flattener.letters, tuple(flattener.leaves)

    @untraced
    def _constant(self, position, value):
        """Returns a number for the value of a Constant parameter; equal values of one type have the same number."""
        return self._word(constant_key(self._argument_names[position], value), None)

    def _word(self, key, structure):
        with self._lock:
            if key not in self._words:
                self._words[key] = len(self._structures)
                self._structures.append(structure)
            return self._words[key]

    @untraced
    def _translate(self, builder, described, arguments, generation):
        """Fills the builder from the function's source. described: number, dtype and rank or () of each argument that
        is not a constant. generation: the one of self._capture that gets the reads."""
        with noting(Reads()) as reads:
            self._translated(builder, described, arguments)
        self._capture.add(generation, reads)

    def _translated(self, builder, described, arguments):
        function = self._pyfunc
        note_function(function)
        source = source_of(function)
        translator = Translator(builder, self._dialect)
        for name, value in self._target_hints:
            builder.hint(name, value)
        scope = Scope(function.__name__, source, function, None, names_of(source.node))
        translator.scope, values = scope, []
        for each, value in zip(described, arguments):
            if each is None:
                value = translator.host_value(value)
            elif isinstance(each, list):
                value = rebuilt(translator, self._structures[each[0]], iter(each[1]))
            else:
                value = value_of(each)
            values.append(value)
        for name, value in self._bound(values).items():
            scope.bind(name, value, source.node.lineno)
        translator.run_kernel(scope, source.node.body)

    def _bound(self, values):
        """Returns the values by the function's own parameters, which differ from the kernel's if it is a wrapper."""
        own = own_signature(self._pyfunc)
        if tuple(own.parameters) == self.parameters:
            return dict(zip(self.parameters, values))
        bound = own.bind(*values)
        bound.apply_defaults()
        return bound.arguments

    def __repr__(self):
        return f"<kernel {self.__name__}>"


def _hinted(kernel, hints):
    return kernel.replace_hints(**hints)
