"""Deep recursion: runs every few nested calls of a kernel's functions in a new thread with its own stack, so that neither
Python's recursion limit nor a thread's stack size is exceeded."""

import contextvars
import threading

from ..core.debugging import debugging
from ..core.registry import evaluating

EACH = 16  # nested calls per thread; one may take 30 Python frames


def on_a_new_stack(function):
    """Runs a function in a new thread while this one waits; returns its result or raises its error."""
    made, context, what, session = [], contextvars.copy_context(), evaluating.function, debugging.session

    def run():
        evaluating.function, debugging.session = what, session
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
