"""Names the reason for which a test of torch's inductor suite fails: one line, equal for failures that have one cause."""

import linecache
import re
import traceback

ABOUT_CODE = "asserts on the code or the counters of inductor"
# Statements of the suite that look at generated code, at inductor's own counters or at its kernels.
_OF_CODE = re.compile(r"FileCheck|\bmetrics\b|counters|code|kernel|run_and_get|\.count\(|assert_called|mock")

_COMPARES = re.compile(r"[/\\]unittest[/\\]|[/\\]torch[/\\]testing[/\\]|[/\\]contextlib\.py$")


def reason_of(error, directory):
    """Returns the line for an exception of a test in the folder `directory`."""
    if is_about_code(error, directory):
        return ABOUT_CODE
    error = innermost(error)
    line = next((line for line in str(error).splitlines() if line.strip()), "")
    return normalised(f"{type(error).__name__}: {line}")


def is_about_code(error, directory):
    """Tells an assertion on what inductor generates from a compilation that fails and from a wrong value."""
    if not isinstance(error, (AssertionError, IndexError, ValueError, RuntimeError)) or hasattr(error, "inner_exception"):
        return False
    frames = list(traceback.extract_tb(error.__traceback__))
    own = [index for index, frame in enumerate(frames) if frame.filename.startswith(str(directory))]
    if not own or isinstance(error, RuntimeError) and "Expected to " not in str(error):
        return False
    # Below the statement of the suite is only what compares, and no compiled graph.
    if not all(_COMPARES.search(frame.filename) for frame in frames[own[-1] + 1 :]):
        return False
    statement = frames[own[-1]]
    last = getattr(statement, "end_lineno", None) or statement.lineno
    return any(_OF_CODE.search(linecache.getline(statement.filename, line)) for line in range(statement.lineno, last + 1))


def innermost(error):
    """Follows the wrappers that Dynamo and inductor put around an error of the backend."""
    while True:
        inner = getattr(error, "inner_exception", None)
        if inner is None and type(error).__name__ in ("LoweringException", "InductorError"):
            inner = error.__cause__
        if inner is None:
            return error
        error = inner


def normalised(text):
    """Replaces what differs between tests with one cause: paths, addresses, names of buffers and symbols, numbers."""
    text = re.sub(r"(/[\w.+-]+)+/", "", text)
    text = re.sub(r"0x[0-9a-f]+", "N", text)
    text = re.sub(r"\b(buf|tmp|arg|primals|tangents|op|s|u|x|r|i|q|kernel|ks)_?\d+(_\d*)*\b", r"\1N", text)
    text = re.sub(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "N", text)
    text = re.sub(r"N(, N)+", "N, …", text)
    return text[:160]
