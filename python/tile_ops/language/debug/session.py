"""Session: implements the language while one kernel is debugged."""

import ast
import functools
import sys
import types

import torch

from ..core import dtypes
from ..core.errors import TileStaticAssertionError, TileTypeError
from ..core.registry import HelperFunction, LanguageFunction
from ..core.values import Method, RawMemory, Strict, Tile, TiledView, shown
from ..functions import grid
from ..functions.shapes import converted
from ..functions.text import assert_
from ..translator import attributes, ranges
from ..translator.calls import _BUILTINS
from .body import Bodies
from .compiled_calls import CompiledCall, is_made
from .skeletons import Flattener
from .values import DebugArray, DebugConstant, DebugRange, DebugRaw, DebugTile, DebugView

_compiled_calls = {}


def _attribute(translator, owner, name):
    return attributes.attribute(translator, owner, name)


def _item(translator, owner, index):
    return attributes.item(translator, owner, index)


def _operator_of(node):
    """Returns the function for a binary, comparison or unary operator's node."""

    def body(translator, *values):
        if len(values) == 1:
            return translator.signed(node(), *values)
        if issubclass(node, ast.cmpop):
            return translator.compared(node(), *values)
        return translator.binary(node(), *values)

    body.__name__ = node.__name__
    return body


_operators = functools.lru_cache(maxsize=None)(_operator_of)


class Session:
    """blocks: of the grid; block: the current one; cutile: the dialect."""

    def __init__(self, kernel, blocks):
        self.kernel, self.blocks, self.block = kernel, blocks, (0, 0, 0)
        self.bodies = Bodies(self)

    def call(self, body, /, *arguments, **named):
        """Returns the result of a language function's call. Errors are the same as in a kernel."""
        flattener = Flattener()
        skeleton = flattener.call(arguments, named)
        key = body, skeleton, self._location(), self.kernel._dialect
        try:
            compiled = _compiled_calls.get(key)
        except TypeError:
            raise TileTypeError(f"{getattr(body, '__name__', body)}(): an argument is not a value of a kernel") from None
        if compiled is None or not compiled.current():
            compiled = _compiled_calls[key] = CompiledCall(
                body, skeleton, flattener.leaves, self._location(), self.kernel._dialect
            )
        try:
            made = compiled.run(flattener.leaves)
        except RuntimeError as error:
            raise RuntimeError(self._in_kernel(str(error), compiled)) from None
        if body in (grid.bid, grid.num_blocks):
            axis = arguments[0] if arguments else named["axis"]
            made[0].fill_((self.block if body is grid.bid else self.blocks)[axis])
        return self._dressed(compiled.result, made, (body, arguments, named))

    def _in_kernel(self, text, compiled):
        """Returns an assertion's error with this kernel and block."""
        return text.replace(
            f"block (0, 0, 0) of kernel {getattr(compiled._body, '__name__', 'call')}",
            f"block {self.block} of kernel {self.kernel.__name__}",
        )

    def _location(self):
        """Returns file and line of the user's code that is running."""
        frame = sys._getframe(2)
        while frame is not None and frame.f_code not in self.bodies.codes:
            frame = frame.f_back
        if frame is None:
            code = self.kernel._pyfunc.__code__
            return code.co_filename, code.co_firstlineno
        return frame.f_code.co_filename, frame.f_lineno

    def _dressed(self, value, made, call):
        """Returns the result with tensors, arrays and bound methods in place."""
        if is_made(value, "tile"):
            return DebugTile(made[value.at], value.dtype, value.shape)
        if is_made(value, "array"):
            array = value.array
            strides = tuple(array.strides.items())
            return DebugArray(None, array.dtype, array.ndim, array.wide, array.extents.items(), strides, (*call, value.at))
        if isinstance(value, TiledView):
            array = self._dressed(value.array, made, call)
            return DebugView(array, value.tile_shape, value.traversal_steps, value.padding)
        if isinstance(value, RawMemory):
            return DebugRaw(self._dressed(value.array, made, call))
        if isinstance(value, Method):
            return self.bound(value.function, call[1][0])
        if isinstance(value, Strict):
            return DebugConstant(value.value, value.dtype)
        return tuple(self._dressed(each, made, call) for each in value) if type(value) is tuple else value

    def bound(self, function, owner):
        """Returns a function bound to its owner."""
        if isinstance(function, types.FunctionType):
            return functools.partial(self.bodies.of(function), owner)
        return functools.partial(self.call, function, owner)

    def attribute(self, owner, name):
        return self.call(_attribute, owner, name)

    def item(self, owner, index):
        return self.call(_item, owner, index)

    def operator(self, node, *values):
        return self.call(_operators(node), *values)

    def builtin(self, function, *values):
        return self.call(_BUILTINS[function], *values)

    def language(self, function, arguments, named):
        """Calls a language function for the kernel's Python."""
        if isinstance(function, LanguageFunction):
            return self.call(function, *arguments, **named)
        return self.special(function.__name__, arguments)

    def converted(self, dtype, arguments):
        """Implements a dtype's call, such as float32(x)."""
        return self.call(converted, dtype, *arguments)

    def helper(self, helper):
        """Returns the prepared function of a HelperFunction."""
        return self.bodies.of(helper.function if isinstance(helper, HelperFunction) else helper)

    # Implementations of what kernels compile from source.

    def special(self, name, arguments):
        """Implements static_eval, static_assert and static_iter."""
        if name == "static_eval":
            return arguments[0]
        if name == "static_iter":
            return iter(arguments[0].plain if isinstance(arguments[0], DebugRange) else arguments[0])
        condition, message = arguments[0], arguments[1] if len(arguments) > 1 else None
        if isinstance(condition, Tile) or not isinstance(condition, bool):
            raise TileTypeError(f"static_assert: the condition must be a boolean, got {shown(condition)}")
        if not condition:
            text = str(message) if len(arguments) > 1 else ""
            raise TileStaticAssertionError(f"Static assertion failed: {text}" if text else "Static assertion failed")
        return None

    def range(self, *values):
        values = ranges.bounds(values)
        if values.step.__index__() == 0:
            if not isinstance(values.step, Tile):
                raise ranges.zero_step()
            self.call(assert_, False, ranges.ZERO_STEP)
        return DebugRange(values)

    def asserted(self, condition, message=None):
        if isinstance(condition, Tile):
            self.call(assert_, condition, message)
        elif not condition:
            self.call(assert_, False, message)

    def negated(self, value):
        return self.operator(ast.Not, value) if isinstance(value, Tile) else not value

    def extreme(self, function, *values):
        if any(isinstance(each, (Tile, Strict)) for each in values):
            return self.builtin(function, *values)
        return function(*values)

    @staticmethod
    def scalar(value, dtype):
        """Returns a number of the launch as a tile."""
        return DebugTile(torch.tensor([value], dtype=dtype.torch, device="cpu"), dtype, ())

    @staticmethod
    def array(tensor, wide=False, extents=(), strides=()):
        return DebugArray(tensor, dtypes.known(tensor.dtype), tensor.dim(), wide, extents, strides)
