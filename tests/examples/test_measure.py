"""How benchmarks are timed: in turns, with limits."""

import functools
import time

import measure
import pytest


def test_limits_of_time_nest():
    with pytest.raises(TimeoutError, match="takes longer than 0.2 s"):
        with measure.time_limit(0.2):
            with pytest.raises(TimeoutError, match="takes longer than 0.05 s"):
                with measure.time_limit(0.05):
                    time.sleep(5)
            time.sleep(5)
    with measure.time_limit(0.05):
        pass
    time.sleep(0.1)  # nothing comes later


def test_a_limit_is_named_where_code_replaces_its_exception():
    def replaced():
        try:
            time.sleep(5)
        except TimeoutError:
            raise RuntimeError("a graph is not compiled") from None

    with pytest.raises(TimeoutError, match="^takes longer than 0.05 s$"), measure.time_limit(0.05):
        replaced()
    with pytest.raises(RuntimeError, match="^early$"), measure.time_limit(5):
        raise RuntimeError("early")


def test_a_call_among_many_is_a_mean():
    calls = []
    times = measure.rounds_of({"x": lambda: calls.append(0)}, seconds=0, least=3, calls=7)
    assert len(calls) == 2 + 3 * 7 and times["x"] < 1e-3


def test_a_turn_begins_with_calls_that_do_not_count(monkeypatch):
    clock, order = [0.0], []

    def call(name, takes):
        order.append(name)
        clock[0] += takes[min(order.count(name), len(takes)) - 1]

    monkeypatch.setattr(measure.time, "perf_counter", lambda: clock[0])
    functions = {
        name: functools.partial(call, name, takes) for name, takes in {"x": [1, 1, 4, 4, 2, 2], "y": [1, 1, 6, 6, 3]}.items()
    }
    times = measure.rounds_of(functions, seconds=0, least=1, calls=2, settle=8)
    assert "".join(order) == "xxyy" + "xx" + "xx" + "yy" + "yy" and times == {"x": 2, "y": 3}
