"""exhaustive_search: runs every configuration of a kernel and says which is fastest."""

import dataclasses
import functools
import math
import statistics

import torch

from ..language.tuning.keys import device_of
from ..language.tuning.measure import Candidate, measure


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One configuration's time in microseconds, over num_samples runs; error_margin_us: of their mean, at 95 %."""

    config: object
    mean_us: float
    num_samples: int
    error_margin_us: float


@dataclasses.dataclass(frozen=True)
class TuningResult:
    """best: the fastest Measurement; successes: all of them, fastest first; failures: (config, exception type,
    message)."""

    best: Measurement
    successes: tuple
    failures: tuple

    def summary(self, *, top_k=10, bottom_k=2):
        """The fastest and the slowest configurations, a line each."""
        lines = [f"{len(self.successes)} succeeded, {len(self.failures)} failed"]
        shown = list(self.successes)
        if len(shown) > top_k + bottom_k:
            shown = [*shown[:top_k], None, *shown[-bottom_k:]]
        for each in shown:
            lines.append(
                "  ..." if each is None else f"  {each.mean_us:10.2f} us ± {each.error_margin_us:.2f}  {each.config}"
            )
        return "\n".join([*lines, *(f"  failed: {config}: {kind}: {text}" for config, kind, text in self.failures)])

    def __str__(self):
        return self.summary()


def _stream_of(stream, device):
    """torch's stream of what a launch takes as one; None: on a CPU."""
    if device.type != "cuda":
        return None
    if isinstance(stream, torch.cuda.Stream):
        return stream
    handle = stream if isinstance(stream, int) else getattr(stream, "cuda_stream", getattr(stream, "ptr", 0))
    return torch.cuda.ExternalStream(handle, device) if handle else torch.cuda.default_stream(device)


def _times(run, arguments, stream, limit):
    """Times of runs in microseconds: at least 5, for about 50 ms."""
    run()  # compiles
    device, measured = device_of(arguments), Candidate(run)
    with torch.cuda.device(device if device.type == "cuda" else -1):
        measure([measured], device, stream=_stream_of(stream, device), limit=limit)
    if measured.error is not None:
        raise measured.error
    return measured.times


def exhaustive_search(
    search_space, stream, grid_fn, kernel, args_fn, hints_fn=None, *, quiet=False, single_run_timeout_sec=None
):
    """Times a kernel with each configuration of search_space; a TuningResult.

    grid_fn, args_fn: from a configuration to the launch's grid and arguments; hints_fn: to the kernel's hints. kernel:
    a kernel, or a function from a configuration to one. One that raises is among the failures. Errors: ValueError
    where the space is empty, or nothing succeeds.
    """
    from . import kernel as kernel_type
    from . import launch

    space = list(search_space)
    if not space:
        raise ValueError("Search space is empty")
    successes, failures = [], []
    for config in space:
        try:
            made = kernel if isinstance(kernel, kernel_type) else kernel(config)
            made = made.replace_hints(**hints_fn(config)) if hints_fn else made
            grid, arguments = grid_fn(config), args_fn(config)
            run = functools.partial(launch, stream, grid, made, arguments)
            times = _times(run, arguments, stream, single_run_timeout_sec)
        except Exception as error:  # noqa: BLE001 it is reported
            failures.append((config, type(error).__name__, str(error)))
            continue
        margin = 1.96 * statistics.stdev(times) / math.sqrt(len(times))
        successes.append(Measurement(config, statistics.fmean(times), len(times), margin))
    if not successes:
        raise ValueError(
            f"No valid config among {len(space)}; the first failed with {failures[0][1]}: {failures[0][2]}"
        )
    successes.sort(key=lambda each: each.mean_us)
    result = TuningResult(successes[0], tuple(successes), tuple(failures))
    if not quiet:
        print(result)
    return result
