"""The switch for debugging, under which a kernel runs as Python: then the language's functions work on values at hand."""

import threading


class _Debugging(threading.local):
    session = None  # debug.session.Session of the kernel that this thread runs


debugging = _Debugging()
