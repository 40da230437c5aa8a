"""Reads the errors of calls that must fail."""

import pytest


def error_of(function, *arguments, **named):
    """Returns the class and the message of the error that a call raises."""
    with pytest.raises(Exception) as raised:
        function(*arguments, **named)
    return f"{type(raised.value).__name__}: {raised.value}"
