"""Errors of kernels: what is wrong, then the location in each function on the way there, with a caret."""

import itertools
import linecache


class TileError(Exception):
    """The root of all errors of a kernel's text.

    message: what is wrong and what to do. frames: the locations, the kernel's first, the innermost function's last; each
    is a dictionary of function, file, line, column and end (from 1; end: behind the last character).
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
    """Python that is no part of the language."""


class TileTypeError(TileError):
    """A value of a type that does not go there."""


class TileValueError(TileError):
    """A constant that does not go there."""


class TileRecursionError(TileError):
    """Calls nested too deeply."""


class TileUnsupportedFeatureError(TileError):
    """Raised for what the language has and this device or version lacks."""


class TileInternalError(TileError):
    """A mistake of ours."""


class TileCompilerExecutionError(TileInternalError):
    """The compiler of GPU code failed."""


class TileCompilerTimeoutError(TileInternalError):
    """The compiler of GPU code took too long."""


class TileStaticEvalError(TileError):
    """An error in static_eval()."""


class TileStaticAssertionError(TileError):
    """A static_assert() that does not hold."""


class UnsupportedCallError(TileError):
    """A call of a Python function that kernels cannot run."""


def _shown(frame):
    at = f"  {frame['file']}:{frame['line']}:{frame['column']}, in {frame['function']}"
    text = linecache.getline(frame["file"], frame["line"]).rstrip()
    bare = text.lstrip()
    if not bare:
        return at
    first = frame["column"] - 1 - (len(text) - len(bare))
    width = max(1, min(frame["end"] - frame["column"], len(bare) - first))
    return f"{at}\n    {bare}\n    {' ' * first}{'^' * width}"
