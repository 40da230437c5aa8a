"""The compile of this thread, if our backend runs it."""

import contextlib
import dataclasses
import threading


class Refused(Exception):
    """A kernel cannot be generated. targets: the torch operators that should be called instead."""

    def __init__(self, why, targets=()):
        super().__init__(why)
        self.targets = frozenset(targets)


@dataclasses.dataclass
class Compile:
    """The state that the parts of one compile share."""

    options: dict
    on_gpu: bool = False
    fallbacks: set = dataclasses.field(default_factory=set)  # torch operators that are called, not fused
    kernels: list = dataclasses.field(default_factory=list)  # names: kernels, products with their texts, attention
    reasons: dict = dataclasses.field(default_factory=dict)  # operator: why it is called
    steps: dict = dataclasses.field(default_factory=dict)  # operator: why it is computed in steps
    trains: bool = False  # the graph is a forward with a backward, or that backward
    is_package: bool = False  # the graph becomes an AOTInductor package
    place: str = ""  # the user's line of the kernel that could not be generated


_local = threading.local()


def current():
    """Returns the compile of this thread; None if inductor's own code is generated."""
    return getattr(_local, "compile", None)


@contextlib.contextmanager
def compiling(compile):
    before = current()
    _local.compile = compile
    try:
        yield
    finally:
        _local.compile = before
