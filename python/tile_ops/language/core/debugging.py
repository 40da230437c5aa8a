"""The switch for debugging, in which a kernel runs as Python and the language's functions work on concrete values."""

import threading


class _Debugging(threading.local):
    session = None  # the debug.session.Session of the kernel that this thread runs


debugging = _Debugging()
