"""Threads whose errors are the test's."""

import threading


def in_threads(work, arguments, start=None):
    """work(*each) in a thread of its own for each; raises what went wrong first. start: where they meet."""
    wrong = []

    def guarded(*each):
        try:
            work(*each)
        except BaseException as error:  # noqa: BLE001  raised again by the test's own thread
            wrong.append(error)
            if start:
                start.abort()

    threads = [threading.Thread(target=guarded, args=each) for each in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
