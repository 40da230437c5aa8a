"""The ways in which gradients are added up and loops keep their values, by the numbers of C++, for tests that choose them."""

from tile_ops._derive import replay
from tile_ops._derive.traced import Traced

PARTIAL, ATOMIC, OWNER = 0, 1, 2  # numbers of C++'s Sharing
ALL, SEGMENTS, PLACES = 0, 1, 2  # numbers of C++'s Keeping
launch = Traced.launch


def launched(monkeypatch, *way):
    """Has all launches of derived kernels take a way: sharing, the folded axis or -1, keeping, places; the last two may lack.
    Returns a list to which each launch adds the _C.ReverseKernel of which it computes gradients."""
    kernels = []

    def launch_by_way(traced, *given):
        kernels.append(traced.kernel)
        return launch(traced, *given, way)

    monkeypatch.setattr(Traced, "launch", launch_by_way)
    monkeypatch.setattr(replay, "WAY", way)
    monkeypatch.setattr(replay, "KERNELS", kernels)
    return kernels
