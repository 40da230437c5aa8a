"""Words for whoever builds: on stderr, and on the terminal where pip keeps what is said to itself."""

import os
import sys


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        return
    try:
        with open(os.ctermid(), "w") as terminal:  # without one, as in a CI, this is an error
            print(f"\r{text}", file=terminal, flush=True)
    except OSError:
        pass
