"""Sends the lines of TILE_LOG to the logger "tile_ops" if it has a handler; otherwise they go to stderr."""

import atexit
import logging

from . import _C

logger = logging.getLogger("tile_ops")


def deliver(line: str) -> bool:
    """Logs one line and returns True, or returns False if no handler listens. A thread of the library calls it."""
    if not logger.hasHandlers():
        return False
    if logger.level == logging.NOTSET:  # the default level drops INFO; a level that the user set is kept
        logger.setLevel(logging.INFO)
    logger.info("%s", line)
    return True


_C.log_to(deliver)
atexit.register(_C.end_log)
