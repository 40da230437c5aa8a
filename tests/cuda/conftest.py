"""Chooses which tests with programs of their own for the emulator `make quick` and `make test` run."""

import pathlib
import zlib

import pytest

HERE = pathlib.Path(__file__).parent
PRIMITIVES = HERE / "test_primitives.py"
SAMPLE = 3  # `make quick` runs one in three of the tests of primitives that `make test` runs
REPEATED = (PRIMITIVES, HERE / "test_float_modes_emulated.py")
KINDS = ({"f16", "bf16"}, {"f32", "f64"}, {"i8", "i16", "i32", "i64"}, {"u8", "u16", "u32", "u64"})


def kind(value):
    """Returns the kind of a dtype's name, and any other parameter as it is."""
    return next((i for i, names in enumerate(KINDS) if value in names), value)


def one_of_each_kind(items):
    """Returns one test of each function for each kind of its dtypes; across functions the choice falls on every dtype."""

    def values(item):
        return list(item.callspec.params.values()) if hasattr(item, "callspec") else []

    def order(item):
        """Orders tests at random; casts of a dtype to itself, which test nothing, come last."""
        return len(set(values(item))) < len(values(item)), zlib.crc32(item.nodeid.encode())

    chosen = {}
    for item in sorted(items, key=order):
        chosen.setdefault((item.originalname, *map(kind, values(item))), item)
    return set(chosen.values())


@pytest.hookimpl(tryfirst=True)  # before anything looks at the marks
def pytest_collection_modifyitems(config, items):
    """Each of these tests compiles programs of its own. The other dtypes of a kind run under --long."""
    for path in REPEATED:
        repeated = [item for item in items if item.path == path]
        kept = one_of_each_kind(repeated)
        quick = set([item for item in repeated if item in kept][::SAMPLE])
        for item in repeated:
            if path == PRIMITIVES and item not in quick:
                item.add_marker(pytest.mark.slow)
            if item not in kept and config.getoption("device") == "cpu":
                item.add_marker(pytest.mark.long)
