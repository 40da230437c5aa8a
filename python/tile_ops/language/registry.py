"""Language functions: what a kernel calls, with the checks of its arguments as annotations."""

import inspect

from .errors import TileError, TileTypeError

METHODS = {}  # of tiles and constants, by name


class LanguageFunction:
    """A function that runs while a kernel is translated. Its first parameter, the translator, is not the user's.

    A parameter's annotation is a function (translator, value) -> value that checks and converts what is given.
    """

    def __init__(self, function, host=None):
        parameters = list(inspect.signature(function).parameters.values())[1:]
        self.__name__, self.__doc__, self.__module__ = function.__name__.rstrip("_"), function.__doc__, function.__module__
        self._function, self._host = function, host
        self._checks = {each.name: each.annotation for each in parameters if each.annotation is not each.empty}
        self._signature = inspect.Signature([each.replace(annotation=each.empty) for each in parameters])

    @property
    def __signature__(self):
        return self._signature

    def __call__(self, *arguments, **named):
        if self._host and not any(isinstance(each, LanguageFunction) for each in arguments):
            return self._host(*arguments, **named)
        raise RuntimeError("Device functions can only be called from device code.")

    def lower(self, translator, arguments, named):
        """The result of a call in a kernel. Errors name the function and the parameter."""
        try:
            bound = self._signature.bind(*arguments, **named)
        except TypeError as error:
            raise TileTypeError(f"{self.__name__}(): {error}") from None
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

    def __repr__(self):
        return f"<function {self.__name__} of tile_ops.language>"


def language_function(function=None, *, method=False, host=None):
    """Makes a LanguageFunction; method: tiles have it too. host: what a call outside of kernels does."""
    if function is None:
        return lambda function: language_function(function, method=method, host=host)
    made = LanguageFunction(function, host)
    if method:
        METHODS[made.__name__] = made
    return made
