"""Deep recursion: runs every few nested calls of a kernel's functions in a new thread with its own stack, so that neither
Python's recursion limit nor a thread's stack size is exceeded."""

import contextvars
import threading

from ..core.debugging import debugging
from ..core.reads import reading
from ..core.registry import evaluating

EACH = 16  # nested calls per thread; one may take 30 Python frames
_STATES = (debugging, evaluating, reading)  # a translation sets these for its thread


def on_a_new_stack(function):
    """Runs a function in a new thread while this one waits; returns its result or raises its error."""
    made, context = [], contextvars.copy_context()
    states = [dict(vars(each)) for each in _STATES]

    def run():
        for each, values in zip(_STATES, states):
            vars(each).update(values)
        try:
            made.append((context.run(function), None))
        except BaseException as error:  # noqa: BLE001 the waiting thread raises it
            made.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    interrupted = None
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as error:  # noqa: BLE001 Ctrl-C; the builder is in use until the thread ends
            interrupted = error
    if interrupted:
        raise interrupted
    ((value, error),) = made
    if error is not None:
        raise error
    return value
