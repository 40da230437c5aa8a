"""Tests cutile.tune: the types of its results, runs that hang, crash or change their arguments, and its progress line."""

import os
import signal
import typing

import pytest
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch
from tile_ops.cutile.tune import Measurement, TileLaunchTimeoutError, TrialFailed, TuningResult, exhaustive_search
from tile_ops.language.tuning import measure, progress, trial

# These trials run on the CPU; for a GPU the same worker process launches on it.


@ct.kernel
def spins(x, out, N: ct.Constant[int]):
    t = ct.load(x, (0,), (N,))
    ct.store(out, (0,), t + t)
    flag = ct.extract(t, 0, ()).item()
    while flag != 0:
        ct.atomic_add(out, 0, 1)


@ct.kernel
def counts(total, ticket, N: ct.Constant[int]):
    while ct.atomic_cas(ticket, 0, 0, 1) != 0:  # a second run on the same memory would never end
        pass
    ct.store(total, (0,), ct.load(total, (0,), (N,)) + 1)


def arguments_of(config):
    return torch.full((16,), config, dtype=torch.int32), torch.zeros(16, dtype=torch.int32), 16


def search(space, kernel=spins, arguments=arguments_of, **named):
    return exhaustive_search(space, 0, lambda config: (1,), kernel, arguments, quiet=True, **named)


def test_results_are_generic():
    assert typing.get_origin(TuningResult[typing.Any]) is TuningResult
    assert typing.get_args(TuningResult[int]) == (int,) and typing.get_origin(Measurement[str]) is Measurement
    assert set(ct.tune.__all__) >= {"exhaustive_search", "TuningResult"}

    def annotated() -> ct.tune.TuningResult[typing.Any]:
        return search([0])

    result = annotated()
    assert isinstance(result, TuningResult) and isinstance(result.best, Measurement)
    assert result.failures == () and result.best is result.successes[0]


@pytest.mark.slow  # starts processes
def test_a_run_that_does_not_end():
    result = search([0, 1, 0], single_run_timeout_sec=1.0)
    assert [each.config for each in result.successes] == [0, 0]
    text = "spins: kernel launch exceeded timeout 1.0 sec; its process was ended"
    assert result.failures == ((1, TileLaunchTimeoutError, text),)
    assert issubclass(TileLaunchTimeoutError, RuntimeError)
    assert str(result).splitlines()[0] == "2 succeeded, 1 failed"
    assert str(result).splitlines()[-1] == f"  failed: 1: TileLaunchTimeoutError: {text}"
    with pytest.raises(ValueError) as error:
        search([1], single_run_timeout_sec=0.5)
    assert str(error.value) == (
        "No valid config among 1; the first failed with TileLaunchTimeoutError: spins: kernel launch exceeded timeout 0.5 sec; "
        "its process was ended"
    )


@pytest.mark.slow
def test_one_process_serves_many_configurations(monkeypatch):
    started = []
    made = trial._Process.__init__
    monkeypatch.setattr(trial._Process, "__init__", lambda self: (started.append(1), made(self))[1])
    trial._end_idle()
    assert len(search([0] * 4, single_run_timeout_sec=60).successes) == 4
    assert len(search([0] * 2, single_run_timeout_sec=float("inf")).successes) == 2
    assert len(started) == 1
    (process,) = trial._idle
    os.kill(process._process.pid, signal.SIGKILL)  # as the system does when it is out of memory
    process._process.wait()
    assert len(search([0], single_run_timeout_sec=60).successes) == 1 and len(started) == 2


@pytest.mark.slow
def test_a_run_that_ends_its_process(monkeypatch):
    with trial.Trials(60) as trials:
        trials.run(spins, 1, arguments_of(0))
        answer = trials._process.answer

        def dies(seconds=None):
            os.kill(trials._process._process.pid, signal.SIGSEGV)
            return answer(seconds)

        monkeypatch.setattr(trials._process, "answer", dies)
        with pytest.raises(TrialFailed) as error:
            for _ in range(100):  # the answer may have arrived before the signal
                trials.run(spins, 1, arguments_of(0))
        assert str(error.value) == "spins: a run ended its process: SIGSEGV"
        trials.run(spins, 1, arguments_of(0))


@pytest.mark.slow
def test_trials_leave_the_arguments_alone():
    memory = torch.zeros(64, dtype=torch.int32)
    total, ticket = memory[3:19], memory[40:41]

    @ct.kernel
    def wide(total, ticket, by, flag, N: ct.Constant[int]):
        ct.store(total, (0,), (ct.load(total, (0,), (N,)) + 1).astype(total.dtype))
        ct.store(ticket, (0,), ct.full((1,), 7, ct.int32))

    with trial.Trials(60) as trials:
        trials.run(wide, lambda *_: (1,), (total, ticket, 2.5, True, 16))
        with pytest.raises(TrialFailed) as error:
            trials.run(wide, (-1,), (total, ticket, 2.5, True, 16))
    assert memory.eq(0).all()
    assert str(error.value) == "ValueError: launch of wide: the grid is (-1, 1, 1); an axis must be at least 0"


def test_each_run_has_arguments_of_its_own():
    made = []

    def fresh(config):
        made.append((torch.zeros(16), torch.zeros(1, dtype=torch.int32), 16))
        return made[-1]

    result = search(["one"], counts, fresh)
    assert result.best.num_samples >= 5 and len(made) == result.best.num_samples + 1
    assert all(total.eq(1).all() for total, *_ in made)


def test_failures_hold_types_and_messages():
    result = search([16, 100], arguments=lambda n: (*arguments_of(0)[:2], n))
    ((config, kind, text),) = result.failures
    assert (config, kind) == (100, ct.TileTypeError)
    assert text.splitlines()[0] == 'Invalid argument "shape" of load(): extent 100 of shape (100,) is not a power of two'
    assert str(result).splitlines()[-1] == f"  failed: 100: TileTypeError: {text.splitlines()[0]}"


@pytest.mark.parametrize("limit", [0, -1.0, True, "1", float("nan")])
def test_a_limit_that_is_none(limit):
    with pytest.raises(ValueError) as error:
        search([0], single_run_timeout_sec=limit)
    assert str(error.value) == f"single_run_timeout_sec is {limit!r}; give seconds, more than 0, or None for no limit"


def test_slow_configurations_are_dropped_early():
    def run(*times, best=None):
        candidates = [measure.Candidate(lambda: None) for _ in times]
        given = iter(times)
        for each in candidates:
            each.times.append(next(given))
        measure.drop_slow(candidates, 10, 5000, best)
        return [each.dropped for each in candidates]

    assert run(1.0, 4999.0, 5000.0) == [False, False, True]
    assert run(1000.0, 9999.0, 10001.0) == [False, False, True]
    assert run(6000.0, best=500.0) == [True] and run(6000.0, best=700.0) == [False]


def test_a_slow_configuration_is_run_once_where_it_takes_long():
    @tl.kernel
    def repeats(out, N: tl.Constant[int]):
        for _ in range(N):
            tl.atomic_add(out, 0, 1)

    kernel, out = repeats.tune([{"N": 1}, {"N": 3_000_000}]), torch.zeros(1, dtype=torch.int32)
    table = kernel.measure(1, out)
    assert [row.config["N"] for row in table] == [1, 3_000_000] and len(table) == 2 and table[1].runs == 1
    assert table[1].us > 20_000 and table.best == 0


class Terminal:
    def __init__(self):
        self.shown = ""

    def isatty(self):
        return True

    def write(self, text):
        self.shown += text

    def flush(self):
        pass


def test_progress_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("TILE_PROGRESS", raising=False)

    def shown(**named):
        terminal = Terminal()
        monkeypatch.setattr(progress.sys, "stderr", terminal)
        with progress.Progress("add", 12, **named) as line:
            line.show(0)
            line._begin -= 1  # as if a second had passed
            line.show(3, 1, "N=4 at 12.0 us")
        return terminal.shown

    line = "\r\033[Ktile: tuning add, 3 of 12 configurations measured, 1 failed, best N=4 at 12.0 us\r\033[K"
    assert shown() == line and shown(quiet=True) == ""
    monkeypatch.setenv("TILE_PROGRESS", "0")
    assert shown() == ""
    monkeypatch.setenv("TILE_PROGRESS", "1")
    monkeypatch.setenv("TERM", "dumb")
    assert shown() == ""
