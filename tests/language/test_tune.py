"""kernel.tune: configurations, keys, what measuring leaves alone, and the errors."""

import dataclasses
import json
import threading

import pytest
import tile_ops.language as tl
import torch
from raised import error_of
from tile_ops.language.tuning import copies, table, tuned
from torch._subclasses.fake_tensor import FakeTensorMode


@tl.kernel
def add(N: tl.Constant[int], x, y, P: tl.Constant[int], out, scale: float):
    i = tl.bid(0)
    tl.store(out, i, tl.load(x, i, N) * scale + tl.load(y, i, N) + (P - P))


def blocks(n, x, *_):
    return (tl.cdiv(len(x), n),)


CONFIGS = [{"N": 64, "P": 1}, {"N": 128, "P": 2}, {"N": 32, "P": 3, "num_ctas": 2}]


@pytest.fixture(autouse=True)
def no_disk(monkeypatch):
    """Choices of a test stay in it."""
    kept = {}
    monkeypatch.setattr(table, "cache_load", kept.get)
    monkeypatch.setattr(table, "cache_store", kept.__setitem__)
    for name in ("TILE_AUTOTUNE", "TILE_AUTOTUNE_PRINT"):
        monkeypatch.delenv(name, raising=False)
    return kept


@pytest.fixture
def times(monkeypatch):
    """How long each configuration is said to take; calls: how often was measured."""
    given = [3.0, 1.0, 2.0]

    def measured(candidates, device):
        given.calls += 1
        for candidate, us in zip(candidates, given):
            if candidate.error is None:
                candidate.times += [us] * 5

    class Times(list):
        calls = 0

    given = Times(given)
    monkeypatch.setattr(tuned, "measure", measured)
    return given


def test_a_launch_takes_the_fastest_and_is_right():
    kernel = add.tune(CONFIGS)
    for size in (1, 100, 1000):
        x, y = torch.randn(size), torch.randn(size)
        out = torch.zeros(size)
        kernel[blocks](x, y, out, 2.0)
        torch.testing.assert_close(out, 2 * x + y)
        kernel.launch(blocks, x, y, out, 3.0)
        torch.testing.assert_close(out, 3 * x + y)
        rows = kernel.table(x, y, out, 2.0).rows
        assert [row.config for row in rows] == CONFIGS and all(row.us > 0 and row.runs >= 3 for row in rows)
        least = min(range(3), key=lambda index: rows[index].us)
        assert kernel.best(x, y, out, 2.0) == CONFIGS[least]


def test_which_is_chosen(times):
    kernel = add.tune(CONFIGS)
    x, y, out = torch.randn(3, 100)
    assert kernel.best(x, y, out, 2.0) is None and kernel.table(x, y, out, 2.0) is None
    kernel[blocks](x, y, out, 2.0)
    assert kernel.best(x, y, out, 2.0) == CONFIGS[1] and times.calls == 1
    times[:] = [3.0, 2.0, 1.0]
    kernel[blocks](x, y, out, 5.0)
    assert times.calls == 1
    assert kernel.measure(blocks, x, y, out, 5.0).best == 2
    kernel[blocks](x, y, out, 5.0)
    assert times.calls == 2 and kernel.best(x, y, out, 5.0) == CONFIGS[2]


def test_the_key_of_default(times):
    kernel = add.tune(CONFIGS)

    def calls(size, dtype=torch.float32, scale=2.0):
        x, y, out = torch.ones(3, size, dtype=dtype)
        before = times.calls
        kernel[blocks](x, y, out, scale)
        return times.calls - before

    assert [calls(100), calls(128), calls(65), calls(100, scale=3.0), calls(64), calls(129), calls(256)] == [
        1, 0, 0, 0, 1, 1, 0,
    ]  # fmt: skip
    assert calls(100, torch.float64) == 1 and calls(0) == 1 and calls(0) == 0


def test_keys_of_names_and_functions(times):
    def calls_of(key):
        kernel, found = add.tune([{"N": 64}, {"N": 128}], key), []
        for size, p, scale in ((100, 1, 2.0), (101, 1, 2.0), (100, 2, 2.0), (100, 1, 3.0)):
            x, y, out = torch.ones(3, size)
            before = times.calls
            kernel[blocks](x, y, p, out, scale)
            found.append(times.calls - before)
        return found

    assert calls_of(None) == [1, 0, 1, 0]
    assert calls_of([]) == [1, 0, 1, 0]  # P is a constant: other kernels
    assert calls_of("x") == [1, 1, 1, 0]
    assert calls_of(["scale"]) == [1, 0, 1, 1]
    assert calls_of(lambda x, y, p, out, scale: (len(x) % 2, "even")) == [1, 1, 1, 0]
    assert calls_of(["scale", lambda x, *_: x.dtype]) == [1, 0, 1, 1]


def test_tensors_are_as_one_launch_leaves_them():
    @tl.kernel
    def count(x, total, log, N: tl.Constant[int]):
        i = tl.bid(0)
        tl.store(x, i, tl.load(x, i, N) * 2 + 1)
        tl.atomic_add(total, 0, 1)
        ticket = tl.atomic_add(log, 0, 1)
        tl.assert_(ticket < tl.num_blocks(0), "a run met the count of another")

    memory = torch.arange(200, dtype=torch.float32)
    x, total, log = memory[3:187:2], torch.zeros(1, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)[1:]
    expected = memory.clone()
    expected[3:187:2] = expected[3:187:2] * 2 + 1
    kernel = count.tune([{"N": 16}, {"N": 16, "occupancy": 2}])
    kernel[(6,)](x, total, log)
    torch.testing.assert_close(memory, expected, rtol=0, atol=0)
    assert total.item() == log.item() == 6 and kernel.best(x, total, log) is not None


@dataclasses.dataclass(frozen=True)
class Pair:
    left: object
    right: object


def test_structured_arguments():
    @tl.kernel
    def total(pair, arrays, more, out, N: tl.Constant[int]):
        t = tl.load(pair.left, 0, N) * pair.right + tl.load(more[0], 0, N) * more[1]
        tl.store(out, 0, t + tl.load(arrays[1], 0, N) + tl.load(out, 0, N))

    a, b, c, d = torch.randn(4, 8)
    out = torch.ones(8)
    kernel = total.tune([{"N": 8}, {"N": 16}], verbose=False)
    kernel[1](Pair(a, 2.0), [b, c], (d, 3.0), out)
    torch.testing.assert_close(out, a * 2 + d * 3 + c + 1)
    assert kernel.table(Pair(a, 2.0), [b, c], (d, 3.0), out).key == (
        'pair=["Pair", ["float32", [8]], "float"], arrays=["list", ["float32", [8]], ["float32", [8]]], '
        'more=["tuple", ["float32", [8]], "float"], out=["float32", [8]]'
    )
    if not out.is_cuda:
        left = a.numpy().copy()
        kernel[1](Pair(a, 1.0), [b, c], (left, 0.0), out)


def test_what_fails_is_in_the_table(capsys):
    kernel = add.tune([{"N": 0, "P": 0}, {"N": 64, "P": 0}, {"N": "many", "P": 0}], verbose=True)
    x, y, out = torch.randn(3, 100)
    kernel[blocks](x, y, out, 1.0)
    torch.testing.assert_close(out, x + y)
    found = kernel.table(x, y, out, 1.0)
    assert found.best == 1 and [row.us is None for row in found.rows] == [True, False, True]
    lines = str(found).splitlines()
    assert capsys.readouterr().err == str(found) + "\n"
    assert lines[0] == (
        'add: 3 configurations; x=["float32", [128]], y=["float32", [128]], out=["float32", [128]], scale="float"'
    )
    assert lines[1] == "          us  ratio  runs  configuration"
    assert lines[2].endswith("  N=64, P=0") and "  1.00  " in lines[2]
    assert lines[3] == (
        "      failed               N=0, P=0: TileTypeError: "
        'Invalid argument "shape" of load(): extent 0 of shape (0,) is below 1'
    )
    assert lines[4].startswith("      failed               N='many', P=0: TileTypeError: ") and len(lines) == 5


def test_where_all_fail():
    x, y, out = torch.randn(3, 100)
    assert error_of(add.tune([{"N": 0, "P": 7}, {"N": 0, "P": 0}])[1], x, y, out, 1.0).splitlines()[0] == (
        "ValueError: tune: every configuration of add fails; the first, N=0, P=7, with TileTypeError: "
        'Invalid argument "shape" of load(): extent 0 of shape (0,) is below 1'
    )
    assert error_of(add.tune(CONFIGS)["four"], x, y, out, 1.0) == (
        "ValueError: tune: every configuration of add fails; the first, N=64, P=1, with TypeError: the grid is 'four'; "
        "give a tuple of one to three integers, or a function of the arguments that gives one"
    )


WRONG = [
    (([],), "ValueError: add.tune: there are no configurations; give at least one dictionary of constants"),
    (([4],), "TypeError: add.tune: configuration #0 is 4; give a dictionary of constants"),
    (
        ([{"x": 4}],),
        "ValueError: add.tune: configuration #0 sets 'x', which is not a Constant parameter; annotate it with Constant",
    ),
    (
        ([{"N": 4}, {"M": 4}],),
        "ValueError: add.tune: configuration #1 sets 'M'; the Constant parameters are N, P, and the hints num_ctas, "
        "occupancy, opt_level, num_worker_warps",
    ),
    (
        ([{"N": 4}, {"N": 4, "P": 1}],),
        "ValueError: add.tune: configuration #1 sets the constants N, P, and #0 N; let all set the same, since launches "
        "leave them out",
    ),
    (
        ([{"N": [4]}],),
        "TypeError: add.tune: configuration #0, N: Objects of type 'list' are not supported for a Constant parameter.",
    ),
    (([{"N": 4, "num_ctas": 3}],), "ValueError: num_ctas should be a power of two from 1 to 16, got 3"),
    (
        (CONFIGS, "N"),
        "ValueError: add.tune: the key names 'N'; the parameters that configurations leave to launches are x, y, out, "
        "scale",
    ),
    ((CONFIGS, [3]), "TypeError: add.tune: the key holds 3; give names of parameters, or functions of the arguments"),
    ((CONFIGS, 3), "TypeError: add.tune: the key is 3; give names of parameters, functions of the arguments, or a list of these"),
]  # fmt: skip


@pytest.mark.parametrize("given, text", WRONG, ids=range(len(WRONG)))
def test_wrong_configurations_and_keys(given, text):
    assert error_of(add.tune, *given) == text


def test_wrong_launches():
    kernel = add.tune(CONFIGS)
    x, y, out = torch.randn(3, 100)
    assert error_of(kernel, 1) == "TypeError: add is a kernel; launch it with add[grid](...)"
    assert error_of(kernel[1], x) == (
        "TypeError: add() missing 3 required positional arguments: 'y', 'out', and 'scale'; its configurations set N, P"
    )
    assert error_of(kernel.best, x, y, out, 1.0, 64) == (
        "TypeError: add() takes 4 positional arguments but 5 were given; its configurations set N, P"
    )
    assert error_of(add.tune(CONFIGS, lambda *_: object)[1], x, y, out, 1.0) == (
        "TypeError: add.tune: a function of the key gave <class 'object'>; let it give numbers, strings or dtypes, or a "
        "tuple of them"
    )
    kernel = add.tune(CONFIGS, lambda x, y, out, scale: (x.shape, (y.dtype, [scale])))  # a shape is a tuple
    kernel[blocks](x, y, out, 1.0)
    assert kernel.best(x, y, out, 1.0) is not None and kernel.best(x[:50], y, out, 1.0) is None
    assert repr(kernel) == "<kernel add, 3 configurations>" and kernel.__name__ == "add" and kernel.kernel is add


def test_the_variables(monkeypatch, capsys, times):
    x, y, out = torch.randn(3, 100)
    monkeypatch.setenv("TILE_AUTOTUNE", "0")
    kernel = add.tune(CONFIGS)
    kernel[blocks](x, y, out, 1.0)
    torch.testing.assert_close(out, x + y)
    assert times.calls == 0 and kernel.best(x, y, out, 1.0) is None
    monkeypatch.setenv("TILE_AUTOTUNE", "1")
    monkeypatch.setenv("TILE_AUTOTUNE_PRINT", "1")
    measured = add.tune(CONFIGS)
    measured[blocks](x, y, out, 1.0)
    assert times.calls == 1 and capsys.readouterr().err.startswith("add: 3 configurations; x=")
    monkeypatch.setenv("TILE_AUTOTUNE", "0")
    again = add.tune(CONFIGS)
    again[blocks](x, y, out, 1.0)
    assert again.best(x, y, out, 1.0) == CONFIGS[1] and times.calls == 1  # it was kept
    assert capsys.readouterr().err.startswith("add: 3 configurations, from disk; x=")
    monkeypatch.setenv("TILE_AUTOTUNE", "on")
    assert error_of(add.tune(CONFIGS)[blocks], x, y, out, 1.0) == (
        "ValueError: TILE_AUTOTUNE=on: it is 0 or 1, whether configurations are measured whose times are not known; unset "
        "it or set it to one of these"
    )
    monkeypatch.setenv("TILE_AUTOTUNE", "1")
    monkeypatch.setenv("TILE_AUTOTUNE_PRINT", "2")
    assert error_of(add.tune(CONFIGS[:2])[blocks], x, y, out, 1.0) == (
        "ValueError: TILE_AUTOTUNE_PRINT=2: it is 0 or 1, whether tables of times are printed; unset it or set it to one "
        "of these"
    )


def test_tensors_without_memory(times):
    kernel = add.tune(CONFIGS)
    x, y, out = torch.randn(3, 100)
    with FakeTensorMode():
        fake = [torch.empty(100) for _ in range(3)]
    meta = [torch.empty(100, device="meta") for _ in range(3)]
    for tensors in (fake, meta):
        kernel.check(*tensors, 1.0)
        assert "load" in kernel.ir(*tensors, 1.0) and kernel.ir(*tensors, 1.0, passes=True).startswith("// trace\n")
        assert kernel.best(*tensors, 1.0) is None
        assert (
            "a tensor on meta has no memory; launch on one of cpu or cuda" in error_of(kernel[1], *tensors, 1.0)
            or tensors is fake
        )
    text = "TypeError: Invalid kernel argument #1, 'x' of add: a tensor without memory"
    assert error_of(kernel[1], *fake, 1.0).startswith(text)
    assert times.calls == 0
    kernel[blocks](x, y, out, 1.0)
    assert kernel.best(*fake, 1.0) == CONFIGS[1] and "[128]" in kernel.ir(*fake, 1.0)


def test_what_does_not_fit_is_not_measured(monkeypatch, times):
    monkeypatch.setattr(copies, "_free", lambda device: 1000)
    x, y, out = torch.randn(3, 100)
    kernel = add.tune(CONFIGS)
    with pytest.warns(RuntimeWarning) as warned:
        kernel[blocks](x, y, out, 1.0)
    torch.testing.assert_close(out, x + y)
    large = f"its tensors have 0.0 GiB and {x.device} has 0.0 GiB left for copies of them"
    assert str(warned[0].message) == (
        f"tune: add is not measured: {large}; it runs with N=64, P=1. Call measure(grid, ...) with smaller tensors of the "
        "same key"
    )
    assert times.calls == 0
    assert error_of(kernel.measure, blocks, x, y, out, 1.0) == (
        f"ValueError: tune: add cannot be measured: {large}; measure with smaller tensors"
    )


def test_threads_measure_once(times):
    kernel, failures = add.tune(CONFIGS), []

    def run():
        x, y, out = torch.randn(3, 100)
        kernel[blocks](x, y, out, 1.0)
        if not torch.allclose(out, x + y):
            failures.append(out)

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert times.calls == 1 and not failures


def test_torch_compile_runs_it_as_it_is():
    kernel = add.tune(CONFIGS)

    @torch.compile(backend="eager")
    def twice(x, y):
        out = torch.empty_like(x)
        kernel[blocks](x, y, out, 1.0)
        return out * 2

    x, y = torch.randn(2, 100)
    for _ in range(2):
        torch.testing.assert_close(twice(x, y), 2 * (x + y))
    assert kernel.best(x, y, x, 1.0) is not None


def test_what_is_kept_wrong_is_a_miss(no_disk, times):
    x, y, out = torch.randn(3, 100)
    add.tune(CONFIGS)[blocks](x, y, out, 1.0)
    (digest,) = no_disk
    good = json.loads(no_disk[digest])
    wrong = [b"", b"\xff", b"[]", b"{}", b"3", {**good, "best": 3}, {**good, "best": "a"}, {**good, "rows": good["rows"][:2]}]
    wrong.append({**good, "rows": [[None, 0, "x"]] * 3})
    for count, each in enumerate(wrong):
        no_disk[digest] = each if isinstance(each, bytes) else json.dumps(each).encode()
        kernel = add.tune(CONFIGS)
        kernel[blocks](x, y, out, 1.0)
        assert times.calls == count + 2 and not kernel.table(x, y, out, 1.0).stored
