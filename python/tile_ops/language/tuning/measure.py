"""Times of runs, with events on a GPU and the clock on a CPU. All measurements of kernels use this."""

import dataclasses
import statistics
import time
import typing

import torch


class TileLaunchTimeoutError(RuntimeError):
    """A run exceeded its time limit."""


@dataclasses.dataclass
class Candidate:
    """A function to measure. before: is called before each run and is not timed; times: of its runs, in microseconds;
    error: why it is not measured further; dropped: True if that is because others are much faster."""

    run: typing.Callable
    before: typing.Callable = lambda: None
    times: list = dataclasses.field(default_factory=list)
    error: Exception | None = None
    dropped: bool = False

    @property
    def median(self):
        return statistics.median(self.times)


def _flush(device):
    """Returns a function that overwrites a GPU's cache. It also keeps the GPU busy while the host launches, so that
    events time only the run."""
    if device.type != "cuda":
        return lambda: None
    size = max(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0), 1 << 24)
    return torch.empty(2 * size, dtype=torch.uint8, device=device).zero_


def _started(candidate, device, stream, flush):
    """Starts a run and returns a function that waits for its end and returns its microseconds."""
    candidate.before()
    flush()
    if device.type != "cuda":
        start = time.perf_counter()
        candidate.run()
        spent = (time.perf_counter() - start) * 1e6
        return lambda: spent
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record(stream)
    candidate.run()
    last.record(stream)

    def microseconds():
        last.synchronize()
        return first.elapsed_time(last) * 1e3

    return microseconds


def _one_round(candidates, device, stream, flush, limit):
    started = []
    for each in candidates:
        try:
            started.append((each, _started(each, device, stream, flush)))
        except Exception as error:  # noqa: BLE001 it is reported
            each.error = error
    for each, microseconds in started:  # runs on a GPU follow each other without a gap
        try:
            each.times.append(microseconds())
        except Exception as error:  # noqa: BLE001
            each.error = error
            continue
        if limit is not None and each.times[-1] > limit * 1e6:
            each.error = TileLaunchTimeoutError(f"a run took {each.times[-1] / 1e6:.3f} s; the limit is {limit} s")


# (times as slow as the best, least microseconds of a run): one such run is enough to drop a candidate. A shorter run
# is repeated, because a slow moment of the machine may have hit it.
SLOW = (10, 20_000)
_DROPS = ((1, *SLOW), (3, 3, 0))  # (after how many rounds, then as SLOW)


def drop_slow(candidates, factor, least, best=None):
    """Drops the candidates that are `factor` times as slow as the best and take at least `least` microseconds."""
    best = min([each.median for each in candidates] + ([best] if best is not None else []))
    for each in candidates:
        each.dropped = each.median > factor * best and each.median >= least


def measure(candidates, device, *, stream=None, seconds=0.05, least=5, most=200, limit=None, best=None):
    """Adds to the times of the candidates without an error. They run alternately, so that a slow moment of the machine
    affects all of them.

    device: where they run; stream: a torch.cuda.Stream, by default the current one. There are at least `least` rounds,
    then more until `seconds` per candidate are spent, but at most `most`. A candidate that is three times as slow as
    the best is dropped after the third round, and a long run that is ten times as slow after the first. limit: seconds;
    a longer run is a TileLaunchTimeoutError. best: the median of the best candidate that was measured before, or None.
    """
    begin, rounds, flush = time.perf_counter(), 0, _flush(device)
    candidates = [each for each in candidates if each.error is None and not each.dropped]
    while candidates and (rounds < least or (time.perf_counter() - begin < seconds * len(candidates) and rounds < most)):
        with torch.cuda.stream(stream):
            _one_round(candidates, device, stream, flush, limit)
        rounds += 1
        candidates = [each for each in candidates if each.error is None]
        for after, factor, shortest in _DROPS:
            if rounds == after and candidates:
                drop_slow(candidates, factor, shortest, best)
                candidates = [each for each in candidates if not each.dropped]
