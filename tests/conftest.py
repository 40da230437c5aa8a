"""Options of the suite (--shard, --done, --long, --device, --seed), one seed for each test, seconds for each folder."""

import collections
import contextlib
import os
import pathlib
import random
import re
import zlib

import pytest

TESTS = pathlib.Path(__file__).parent
# Folders whose tests make tensors on the CPU on every device: they are about that target, or bring them to the device
# themselves.
AT_HOME = {"cpu", "cuda", "prims"}
pytest_plugins = ["googletest", "gpus"]


def pytest_addoption(parser):
    group = parser.getgroup("tile_ops")
    group.addoption("--shard", default="1/1", metavar="I/N", help="run shard I of N; the shards are disjoint and even")
    group.addoption(
        "--done",
        metavar="FILE",
        help="leave out the tests that FILE names, and add to it those that pass: goes on where a run ended",
    )
    group.addoption("--long", action="store_true", help="full counts of random cases (also TILE_LONG=1)")
    group.addoption("--device", default="cpu", help="the torch device of the tests' tensors: cuda runs the suite on a GPU")
    group.addoption("--seed", type=int, help="this seed for every test, instead of one made of the test's name")


def pytest_configure(config):
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", config.getoption("shard"))
    if not match or int(match[1]) > int(match[2]):
        raise pytest.UsageError(f"--shard {config.getoption('shard')}: expected I/N with 1 <= I <= N, as in --shard 2/4")
    config.shard = int(match[1]) - 1, int(match[2])
    # C++ tests and programs that tests start read the variable.
    if os.environ.get("TILE_LONG") == "1":
        config.option.long = True
    elif config.getoption("long"):
        os.environ["TILE_LONG"] = "1"
    # A pack in the tree, which may be of another NVRTC, would hide what is compiled.
    os.environ.setdefault("TILE_PACKS", "none")
    if config.getoption("device") != "cpu":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # torch's products are else no deterministic ones
        import torch

        # Tensors that files make while they are imported, too. Without the switch no mode is between a test and
        # torch.
        torch.set_default_device(config.getoption("device"))


def pytest_collection_modifyitems(config, items):
    leave_out_long(config, items)
    deal(config, items)
    leave_out_done(config, items)  # after the dealing, which thus stays the same
    if hasattr(config, "workerinput"):
        put_long_files_first(items)


def leave_out_long(config, items):
    """Tests marked `long` repeat at length what others show: they run under --long alone."""
    if config.getoption("long"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


def put_long_files_first(items):
    """So that no process works alone at the end. By count alone, files of few long tests would come last."""
    costs = collections.Counter()
    for item in items:
        costs[item.path] += 30 if item.get_closest_marker("slow") else 1
    items.sort(key=lambda item: -costs[item.path])


def deal(config, items):
    """Deals the tests out like cards, so that neighbours, which cost about the same, go to different shards."""
    index, count = config.shard
    if count == 1:
        return
    # A C++ file is one run of its program, so its tests stay together.
    units = {}
    for item in items:
        name = item.parent.nodeid if hasattr(item.parent, "program") else item.nodeid
        units.setdefault(name, len(units))
        item.shard = units[name] % count
    config.hook.pytest_deselected(items=[item for item in items if item.shard != index])
    items[:] = [item for item in items if item.shard == index]


def leave_out_done(config, items):
    path = config.getoption("done")
    done = set(pathlib.Path(path).read_text().splitlines()) if path and os.path.exists(path) else set()
    if done:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
        items[:] = [item for item in items if item.nodeid not in done]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.failed = getattr(item, "failed", False) or report.failed
    path = item.config.getoption("done")
    if path and report.when == "teardown" and not item.failed:
        with open(path, "a") as done:  # at once: the run may be ended at any time
            done.write(item.nodeid + "\n")
    return report


@pytest.fixture
def device(pytestconfig):
    """The device of the run. Tensors made without one are there."""
    import torch

    return torch.device(pytestconfig.getoption("device"))


@contextlib.contextmanager
def at_home(config, path, marked=False):
    """Makes tensors on the CPU in some folders and in marked tests, whatever the device of the run is."""
    import torch

    away = config.getoption("device")
    if torch.get_default_device().type == "cpu" or not (marked or path.parent.name in AT_HOME):
        yield
        return
    torch.set_default_device(None)  # no mode is between a test and torch, as in a run on the CPU
    try:
        yield
    finally:
        torch.set_default_device(away)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    with at_home(collector.config, collector.path):  # also those that a file makes while it is imported
        return (yield)


@pytest.fixture(autouse=True, scope="module")
def _tensors_at_home(request):
    with at_home(request.config, request.path):
        yield


@pytest.fixture(autouse=True)
def _tensors_of_marked_tests_at_home(request):
    with at_home(request.config, request.path, request.node.get_closest_marker("at_home") is not None):
        yield


@pytest.fixture
def long(pytestconfig):
    """True under --long: tests with random cases then run their full number."""
    return pytestconfig.getoption("long")


@pytest.fixture
def seed(request):
    """The seed of this test: the same in every run and in every shard."""
    given = request.config.getoption("seed")
    return zlib.crc32(request.node.nodeid.encode()) if given is None else given


@pytest.fixture(autouse=True, scope="session")
def _first_calls_of_torch():
    import first_calls

    first_calls.make_first_calls()


@pytest.fixture(autouse=True)
def _seeded(request, seed):
    import torch

    random.seed(seed)
    torch.manual_seed(seed)
    try:
        import numpy

        numpy.random.seed(seed)
    except ImportError:
        pass
    request.node.add_report_section("call", "seed", f"--seed {seed}")


@pytest.fixture
def deterministic():
    """Results repeat, and torch fills fresh tensors with NaN, so that what a kernel leaves out shows."""
    import torch

    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


_seconds = collections.Counter()
_counts = collections.Counter()


def pytest_runtest_logreport(report):
    path = pathlib.PurePosixPath(report.nodeid.split("::")[0])
    parts = path.parts[path.parts.index("tests") + 1 :] if "tests" in path.parts else path.parts
    folder = parts[0] if len(parts) > 1 else "(tests)"
    _seconds[folder] += report.duration
    _counts[folder] += report.when == "call"


def pytest_terminal_summary(terminalreporter):
    if _seconds:
        terminalreporter.section("seconds per folder")
    for folder, seconds in _seconds.most_common():
        terminalreporter.write_line(f"{seconds:8.1f} s {_counts[folder]:6d} tests  {folder}")
