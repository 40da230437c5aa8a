"""Threads whose errors are the test's, and calls with other counts of torch's threads."""

import threading

import torch


def with_torch_threads(counts, call):
    """Returns the results of call() with each count of torch's threads."""
    before, results = torch.get_num_threads(), []
    try:
        for count in counts:
            torch.set_num_threads(count)
            results.append(call())
    finally:
        torch.set_num_threads(before)
    return results


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
