"""Shows a line on the terminal while configurations are measured, like the one while kernels are compiled."""

import os
import sys
import time

_AFTER = 0.5  # seconds before the line appears


def _shows(stream):
    try:
        terminal = stream.isatty()
    except (AttributeError, ValueError):  # no stream, or a closed one
        return False
    return terminal and os.environ.get("TERM", "dumb") != "dumb" and os.environ.get("TILE_PROGRESS") != "0"


class Progress:
    """The line; leaving the `with` block removes it."""

    def __init__(self, what, total, *, quiet=False):
        self._what, self._total, self._begin, self._shown = what, total, time.monotonic(), False
        self._on = not quiet and _shows(sys.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._shown:
            self._write("\r\033[K")

    def show(self, done, failed=0, best=""):
        """Updates the line. done: the number of measured configurations; best: a description of the fastest so far."""
        if self._on and time.monotonic() - self._begin >= _AFTER:
            parts = [f"tile: tuning {self._what}, {done} of {self._total} configurations measured"]
            parts += [f"{failed} failed"] if failed else []
            parts += [f"best {best}"] if best else []
            self._shown = True
            self._write("\r\033[K" + ", ".join(parts))

    @staticmethod
    def _write(text):
        sys.stderr.write(text)
        sys.stderr.flush()
