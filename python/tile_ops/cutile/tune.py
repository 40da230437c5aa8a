"""exhaustive_search: runs every configuration of a kernel and reports the fastest."""

import contextlib
import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Generic, TypeVar

import torch

from ..language.tuning.keys import device_of
from ..language.tuning.measure import Candidate, TileLaunchTimeoutError, measure
from ..language.tuning.progress import Progress
from ..language.tuning.trial import TrialFailed, Trials

__all__ = ["exhaustive_search", "Measurement", "TileLaunchTimeoutError", "TrialFailed", "TuningResult"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Measurement(Generic[T]):
    """The time of one configuration in microseconds, over num_samples runs. error_margin_us: of their mean, at 95 %."""

    config: T
    mean_us: float
    num_samples: int
    error_margin_us: float


@dataclasses.dataclass(frozen=True)
class TuningResult(Generic[T]):
    """best: the fastest Measurement; successes: all of them, fastest first; failures: (config, exception class,
    message)."""

    best: Measurement[T]
    successes: Sequence[Measurement[T]]
    failures: Sequence[tuple[T, type[BaseException], str]]

    def summary(self, *, top_k=10, bottom_k=2):
        """Returns a text with the fastest and the slowest configurations, one per line."""
        lines = [f"{len(self.successes)} succeeded, {len(self.failures)} failed"]
        shown = list(self.successes)
        if len(shown) > top_k + bottom_k:
            shown = [*shown[:top_k], None, *shown[-bottom_k:]]
        for each in shown:
            lines.append("  ..." if each is None else f"  {each.mean_us:10.2f} us ± {each.error_margin_us:.2f}  {each.config}")
        failed = [
            f"  failed: {config}: {kind.__name__}: {(text.splitlines() or [''])[0]}" for config, kind, text in self.failures
        ]
        return "\n".join([*lines, *failed])

    def __str__(self):
        return self.summary()


def _stream_of(stream, device):
    """Returns the torch stream for the stream argument of a launch, or None on a CPU."""
    if device.type != "cuda":
        return None
    if isinstance(stream, torch.cuda.Stream):
        return stream
    handle = stream if isinstance(stream, int) else getattr(stream, "cuda_stream", getattr(stream, "ptr", 0))
    return torch.cuda.ExternalStream(handle, device) if handle else torch.cuda.default_stream(device)


class _Runs:
    """Runs a kernel with one configuration, each time with new arguments."""

    def __init__(self, stream, grid, kernel, arguments_of):
        self.stream, self.grid, self.kernel, self._arguments_of = stream, grid, kernel, arguments_of
        self.arguments = arguments_of()
        self._fresh = True

    def renew(self):
        """Makes new arguments unless none were used yet: a run may change its arguments, for example a counter."""
        if not self._fresh:
            self.arguments = self._arguments_of()
        self._fresh = False

    def run(self):
        from . import launch

        launch(self.stream, self.grid, self.kernel, self.arguments)


def _times(runs, trials, best):
    """Returns the times of runs in microseconds: at least 5, for about 50 ms; fewer if much slower than the best."""
    if trials:
        trials.run(runs.kernel, runs.grid, runs.arguments)
    runs.renew()
    runs.run()  # compiles
    device, measured = device_of(runs.arguments), Candidate(runs.run, runs.renew)
    with torch.cuda.device(device if device.type == "cuda" else -1):
        limit = trials.limit if trials else None
        measure([measured], device, stream=_stream_of(runs.stream, device), limit=limit, best=best)
    if measured.error is not None:
        raise measured.error
    return measured.times


def _measurement(config, times):
    margin = 1.96 * statistics.stdev(times) / math.sqrt(len(times)) if len(times) > 1 else 0.0
    return Measurement(config, statistics.fmean(times), len(times), margin)


def exhaustive_search(
    search_space, stream, grid_fn, kernel, args_fn, hints_fn=None, *, quiet=False, single_run_timeout_sec=None
):
    """Times a kernel with each configuration of search_space and returns a TuningResult.

    grid_fn, args_fn: functions of a configuration that return the launch's grid and arguments; args_fn is called before
    each run. hints_fn: returns the kernel's hints. kernel: a kernel, or a function of a configuration that returns one.
    A configuration that raises is added to the failures. single_run_timeout_sec: each configuration first runs once in
    a separate process; if that run takes longer, the process is killed and a TileLaunchTimeoutError is added to the
    failures. Errors: ValueError if the space is empty, or no configuration succeeds.
    """
    from . import kernel as kernel_type

    space = list(search_space)
    if not space:
        raise ValueError("Search space is empty")
    successes, failures, best = [], [], None
    with contextlib.ExitStack() as stack:
        trials = None
        if single_run_timeout_sec is not None:
            trials = stack.enter_context(Trials(single_run_timeout_sec))
        name = getattr(kernel, "__name__", "a kernel")
        progress = stack.enter_context(Progress(name, len(space), quiet=quiet))
        for config in space:
            fastest = min(successes, key=lambda each: each.mean_us, default=None)
            said = f"{fastest.config} at {fastest.mean_us:.1f} us" if fastest else ""
            progress.show(len(successes) + len(failures), len(failures), said)
            try:
                made = kernel if isinstance(kernel, kernel_type) else kernel(config)
                made = made.replace_hints(**hints_fn(config)) if hints_fn else made
                runs = _Runs(stream, grid_fn(config), made, lambda config=config: args_fn(config))
                times = _times(runs, trials, best)
            except Exception as error:  # noqa: BLE001 it is added to the failures
                failures.append((config, type(error), str(error)))
                continue
            best = min(statistics.median(times), math.inf if best is None else best)
            successes.append(_measurement(config, times))
    if not successes:
        raise ValueError(
            f"No valid config among {len(space)}; the first failed with {failures[0][1].__name__}: {failures[0][2]}"
        )
    successes.sort(key=lambda each: each.mean_us)
    result = TuningResult(successes[0], tuple(successes), tuple(failures))
    if not quiet:
        print(result)
    return result
