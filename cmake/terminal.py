"""Prints messages for the person who builds: on stderr, and on the terminal too where pip captures stderr."""

import os
import sys


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        return
    try:
        with open(os.ctermid(), "w") as terminal:  # raises OSError without a terminal, as in CI
            print(f"\r{text}", file=terminal, flush=True)
    except OSError:
        pass
