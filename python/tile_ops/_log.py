"""TILE_LOG's lines as records of the logger "tile_ops", where a handler listens to it; else they stay on stderr."""

import atexit
import logging

from . import _C

logger = logging.getLogger("tile_ops")


def deliver(line: str) -> bool:
    """Called by a thread of our own, with one line. False: nobody listens."""
    if not logger.hasHandlers():
        return False
    if logger.level == logging.NOTSET:  # TILE_LOG asked for them; a level that was set is obeyed
        logger.setLevel(logging.INFO)
    logger.info("%s", line)
    return True


_C.log_to(deliver)
atexit.register(_C.end_log)
