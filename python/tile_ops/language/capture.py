"""Tracks the Python state (globals, closures, attributes) that a function's kernels were compiled for."""

import threading

from .. import _C
from .core.reads import Reads
from .core.untraced import untraced

_MOST = 64  # states that are remembered; returning to an older one recompiles


class Capture(_C.Capture):
    """Numbers each state, a generation, and makes the number part of a kernel's key: all kernels of one generation read the
    same values."""

    def __init__(self):
        self._generations, self._count, self._lock = {0: Reads()}, 1, threading.RLock()
        self._current = 0

    @untraced
    def _changed(self):
        """Finds the generation that matches the current state, or starts one. _C calls it when a comparison fails."""
        with self._lock:
            for number in reversed(self._generations):
                if self._generations[number].hold():
                    break
            else:
                number, self._count = self._count, self._count + 1
                self._generations[number] = Reads()
                if len(self._generations) > _MOST:
                    del self._generations[min(self._generations)]
            self._current = number
            self._watch_it()

    def add(self, number, reads):
        """Adds the reads of a translation to the generation that it was made for. None: there is no such generation."""
        with self._lock:
            generation = self._generations.get(number)
            if generation is None:
                return
            generation.consistent &= reads.consistent
            for entry in reads.entries.values():
                generation.add(entry)
            if number == self._current:
                self._watch_it()

    def _watch_it(self):
        generation = self._generations[self._current]
        never = () if generation.consistent else (("call", bool),)
        self._watch(self._current, (*generation.checks(), *never))
