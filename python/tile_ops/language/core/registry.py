"""Language functions: the functions that kernels call. Their parameters' annotations are checks."""

import functools
import inspect
import re
import threading

from . import advice
from .contracts import documented
from .debugging import debugging
from .errors import TileError, TileTypeError
from .named import Named
from .values import ArrayChoice, memory_of, over


def binding_text(error, signature=None):
    """Returns the error text for arguments that do not fit a signature, the same for every version of Python."""
    text = re.sub("required (keyword|positional)-only argument", "required argument", str(error))
    if signature is None:
        return text
    bare = [
        each.replace(annotation=each.empty, default=each.empty if each.default is each.empty else ...)
        for each in signature.parameters.values()
    ]
    shown = str(inspect.Signature(bare)).replace("Ellipsis", "...")
    return f"{text}; it takes {shown}"


METHODS = {}  # of tiles and constants, by name
FUNCTIONS = {}  # by name: every language function, except those that are only methods of views
DEVICE_ONLY = "Device functions can only be called from device code."


class _Evaluating(threading.local):
    function = None  # static_eval or a similar function, while it runs Python
    call = None  # (function, arguments, named) -> the result of a language function, while Python runs


evaluating = _Evaluating()


class LanguageFunction(Named):
    """A function that runs while a kernel is translated. Its first parameter, the translator, is not the user's.

    A parameter's annotation is a function (translator, value) that checks an argument and returns the converted value.
    """

    def __init__(self, function, host=None, views=False):
        parameters = list(inspect.signature(function).parameters.values())[1:]
        self.__name__, self.__doc__, self.__module__ = (
            function.__name__.rstrip("_").removeprefix("view_"),  # as kernels write it
            documented(function.__name__, function.__doc__),
            function.__module__,
        )
        self.__qualname__ = self.__name__
        self._function, self._host = function, host
        self._views = views  # it returns views of its arguments' memory
        self._checks = {each.name: each.annotation for each in parameters if each.annotation is not each.empty}
        self.of_values = function.__module__.endswith((".arithmetic", ".unary"))  # the result depends only on the operands
        self._strict = inspect.Signature([each.replace(annotation=each.empty) for each in parameters])
        named = [
            each.replace(kind=each.POSITIONAL_OR_KEYWORD) if each.kind is each.POSITIONAL_ONLY else each
            for each in self._strict.parameters.values()
        ]
        starred = any(each.kind is each.VAR_POSITIONAL for each in named)
        self._signature = self._strict if starred else inspect.Signature(named)

    @property
    def __signature__(self):
        return self._signature

    def signature(self, cutile):
        """Returns the signature in a dialect: in cuTile's, some parameters are positional-only."""
        return self._strict if cutile else self._signature

    def __call__(self, *arguments, **named):
        if debugging.session and self._host is not print:
            return debugging.session.language(self, arguments, named)
        if evaluating.function and (self.of_values or not self._host):
            return evaluating.call(self, arguments, named)
        if self._host and not any(isinstance(each, LanguageFunction) for each in arguments):
            return self._host(*arguments, **named)
        raise RuntimeError(
            f"{DEVICE_ONLY} {self.__name__}() is for a kernel, a function that @kernel marks; {advice.outside(self.__name__)}"
        )

    def lower(self, translator, arguments, named):
        """Returns the result of a call in a kernel. Errors name the function and the parameter."""
        signature = self.signature(translator.emitter.cutile)
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            raise TileTypeError(f"{self.__name__}(): {binding_text(error, signature)}") from None
        for name, value in bound.arguments.items():
            if isinstance(memory_of(value), ArrayChoice):
                return self._by_item(translator, bound, name, value)
        for name, check in self._checks.items():
            if name not in bound.arguments:
                continue
            try:
                bound.arguments[name] = check(translator, bound.arguments[name])
            except TileError as error:
                if not error.frames:
                    error.message = f'Invalid argument "{name}" of {self.__name__}(): {error.message}'
                raise
        return self._function(translator, *bound.args, **bound.kwargs)

    def _by_item(self, translator, bound, name, value):
        """Makes a branch for each array that may be chosen; the function is called on views of each."""
        choice = memory_of(value)

        def lowered(item):
            arguments = inspect.BoundArguments(bound.signature, bound.arguments | {name: over(value, item)})
            return self.lower(translator, arguments.args, arguments.kwargs)

        def of_item(at):
            if at == len(choice.items) - 1:
                return lowered(choice.items[at])
            emitter = translator.emitter
            here = emitter.emit("eq", choice.index, emitter.constant(at, choice.index.dtype))
            ways = (lambda: lowered(choice.items[at]), lambda: of_item(at + 1))
            return translator.chosen(here, ways, self.__name__)

        if not self._views:
            return of_item(0)
        made = [lowered(item) for item in choice.items]
        return over(made[0], ArrayChoice(tuple(map(memory_of, made)), choice.index))

    def __repr__(self):
        return f"<function {self.__name__} of tile_ops.language>"


def language_function(function=None, *, method=False, host=None, views=False):
    """Makes a LanguageFunction. method: tiles have it too. host: the implementation of calls outside of kernels. views:
    the result is a view of the memory that is passed."""
    if function is None:
        return lambda function: language_function(function, method=method, host=host, views=views)
    made = LanguageFunction(function, host, views)
    if method:
        METHODS[made.__name__] = made
    if not function.__name__.startswith("view_"):
        FUNCTIONS[made.__name__] = made
    return made


class HelperFunction(Named):
    """The object that @function makes from a Python function. Kernels call it; other code only if host."""

    is_helper = True

    def __init__(self, function, host, tile):
        functools.update_wrapper(self, function)
        self.function, self._host, self.tile = function, host, tile

    def __call__(self, *arguments, **named):
        if debugging.session:
            return debugging.session.helper(self)(*arguments, **named)
        if not self._host and evaluating.function != "static_assert":
            raise RuntimeError(
                f"{DEVICE_ONLY} {self.__name__}() is for a kernel; mark it with @function(host=True) to call it anywhere"
            )
        return self.function(*arguments, **named)

    def __get__(self, owner, kind=None):
        return self if owner is None else functools.partial(self, owner)

    def __repr__(self):
        return f"<function {self.__qualname__}>"


def function(function=None, /, *, host=False, tile=True):
    """Marks a function that kernels call.

    host: it may be called outside of kernels, too.
    tile: kernels may call it.
    Errors: a call outside of a kernel raises RuntimeError unless host is True.
    """
    if function is None:
        return lambda function: HelperFunction(function, host, tile)
    return HelperFunction(function, host, tile)
