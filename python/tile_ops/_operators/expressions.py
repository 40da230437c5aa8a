"""Translates functions of scalars, the expressions of operators, into the trace of a kernel."""

import inspect

from ..language.core import dtypes
from ..language.core.emit import value_of
from ..language.core.errors import TileTypeError
from ..language.core.reads import Reads, noting
from ..language.core.values import shown
from ..language.translator.scope import Scope
from ..language.translator.source import names_of, source_of
from ..language.translator.translator import Translator


def _started(builder, function):
    source = source_of(function)
    translator = Translator(builder, False)
    translator.scope = Scope(function.__name__, source, function, None, names_of(source.node))
    return translator


def _call(translator, function, given):
    """Returns the tuple of a function's results. given: (number, dtype, shape) for tiles, [value] for constants."""
    values = tuple(translator.host_value(each[0]) if isinstance(each, list) else value_of(each) for each in given)
    made = translator.call(function, values, {})
    return made if type(made) is tuple else (made,)


def _noted(capture):
    """Returns a decorator for functions that _C calls in a trace: _C also passes the generation of the capture (a
    language.capture.Capture), under which the values that the call reads from Python are recorded."""

    def decorated(translate):
        def noted(builder, given, generation):
            with noting(Reads()) as reads:
                numbers = translate(builder, given)
            capture.add(generation, reads)
            return numbers

        return noted

    return decorated


def expression(function, capture):
    """Returns the function that _C calls to trace an expression."""

    @_noted(capture)
    def translate(builder, given):
        translator = _started(builder, function)
        return tuple(translator.emitter.tile(each).number for each in _call(translator, function, given))

    return translate


def combination(function, capture):
    """Does the same for a combine function, whose results have the dtypes of its first arguments."""

    @_noted(capture)
    def translate(builder, given):
        translator = _started(builder, function)
        made, wanted = _call(translator, function, given), [value_of(each).dtype for each in given[: len(given) // 2]]
        if len(made) != len(wanted):
            raise TileTypeError(f"{function.__name__}() gives {len(made)} values for {len(wanted)} accumulated ones")
        numbers = []
        for value, dtype in zip(made, wanted):
            tile = translator.emitter.tile(value)
            if dtypes.promote(tile.dtype, dtype) is not dtype:
                raise TileTypeError(f"{function.__name__}() gives {shown(tile)} where {dtype} is accumulated")
            numbers.append(translator.emitter.cast(tile, dtype).number)
        return tuple(numbers)

    return translate


def finishing(function, totals, capture):
    """Does the same for a finish function. The last argument is the count, which is dropped if the function does not
    take it."""
    counts = "count" in inspect.signature(function).parameters

    @_noted(capture)
    def translate(builder, given):
        translator = _started(builder, function)
        made = _call(translator, function, given if counts else given[:totals])
        return tuple(translator.emitter.tile(each).number for each in made)

    return translate
