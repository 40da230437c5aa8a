"""Errors of kernels: a message, then the location in each function on the call path, with a caret."""

import itertools
import linecache


class TileError(Exception):
    """Is the base class of all errors in the text of a kernel.

    message: the error and what to do.
    frames: the locations, from the kernel to the innermost function. Each is a dictionary of function, file, line, column
    and end, which count from 1; end is the position after the last character.
    """

    def __init__(self, message):
        super().__init__(message)
        self.message = message
        self.frames = []

    def __str__(self):
        texts = [self.message]
        for text, same in itertools.groupby(map(_shown, self.frames)):
            count = len(list(same))  # more than one in a recursion
            texts += [text] * count if count < 4 else [text, f"  [{count - 1} more calls at this line]"]
        return "\n".join(texts)


class TileSyntaxError(TileError):
    """Raised for Python that the language does not have."""


class TileTypeError(TileError):
    """Raised for a value of a wrong type, dtype or shape."""


class TileValueError(TileError):
    """Raised for a constant with a wrong value."""


class TileRecursionError(TileError):
    """Raised for calls that nest too deeply."""


class TileUnsupportedFeatureError(TileError):
    """Raised for a feature of the language that this device or version lacks."""


class TileInternalError(TileError):
    """Raised for an error of tile_ops itself. Please report it."""


class TileCompilerExecutionError(TileInternalError):
    """Raised if the compiler of GPU code fails."""


class TileCompilerTimeoutError(TileInternalError):
    """Raised if the compiler of GPU code takes too long."""


class TileStaticEvalError(TileError):
    """Raised for an exception of the expression of static_eval()."""


class TileStaticAssertionError(TileError):
    """Raised by a static_assert() whose condition is false."""


class UnsupportedCallError(TileError):
    """Raised for a call of a Python function that kernels cannot run."""


def _shown(frame):
    at = f"  {frame['file']}:{frame['line']}:{frame['column']}, in {frame['function']}"
    text = linecache.getline(frame["file"], frame["line"]).rstrip()
    bare = text.lstrip()
    if not bare:
        return at
    first = frame["column"] - 1 - (len(text) - len(bare))
    width = max(1, min(frame["end"] - frame["column"], len(bare) - first))
    return f"{at}\n    {bare}\n    {' ' * first}{'^' * width}"
