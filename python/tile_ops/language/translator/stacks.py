"""Deep recursion: calls of a kernel's functions go on in threads of their own, each with a stack for some of them, so that
neither Python's limit of recursion nor the stack of a thread ends them."""

import contextvars
import threading

from ..core.debugging import debugging
from ..core.registry import evaluating

EACH = 16  # calls, of which one may take 30 frames of Python


def on_a_new_stack(function):
    """What the function gives or raises, run in another thread while this one waits."""
    made, context, what, session = [], contextvars.copy_context(), evaluating.function, debugging.session

    def run():
        evaluating.function, debugging.session = what, session
        try:
            made.append((context.run(function), None))
        except BaseException as error:  # noqa: BLE001 it is raised there
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
