"""Atomic operations in kernels made for a GPU, run by the emulator, which knows what releasing and acquiring order."""

import atomic_cases
import emulate
import pytest
import torch
from combinations import long
from random_meaning import FLOATS, INTEGERS
from tile_ops import _C

DTYPES = {"bool": torch.bool, **INTEGERS, **FLOATS}
FLOATING = ["f16", "bf16", "f32", "f64"]
TAKEN = {
    "atomic_add": [*INTEGERS, *FLOATING],
    "atomic_max": [*INTEGERS, *FLOATING],
    "atomic_min": [*INTEGERS, *FLOATING],
    "atomic_and": ["bool", *INTEGERS],
    "atomic_or": ["bool", *INTEGERS],
    "atomic_xor": ["bool", *INTEGERS],
    **dict.fromkeys(["atomic_load", "atomic_store", "atomic_xchg", "atomic_cas"], list(DTYPES)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_each_operation(name):
    orders = {"atomic_load": ["", 'order="acquire"'], "atomic_store": ["", 'order="release"']}
    cases = [
        atomic_cases.case(name, dtype, DTYPES[dtype], order, scalar, flat)
        for number, dtype in enumerate(TAKEN[name])
        for order in [orders.get(name, ["", 'order="acq_rel"'])[number % 2]]
        for scalar, flat in ((False, False), (True, False), (bool(number % 2), True))
    ]
    launches = [emulate.Case(case.text, (1, 1, 1), case.arguments) for case in cases]
    for case, launch, report in zip(cases, launches, emulate.run(launches)):
        assert report is None, f"{report}\n{case.text}\n{launch.program['text']}"
        atomic_cases.check(case, launch.arguments)


def test_blocks_that_hand_on_a_sum():
    grid, arguments, expected = atomic_cases.chain(9)
    assert emulate.run([emulate.Case(atomic_cases.CHAIN, grid, arguments)]) == [None]
    assert torch.equal(arguments[2], expected)


def test_what_was_not_released_is_a_race():
    """The same without an order: the sums of another block are not there yet."""
    grid, arguments, _ = atomic_cases.chain(3)
    text = atomic_cases.CHAIN.replace('{order="acquire"}', "").replace('{order="release"}', "")
    assert emulate.run([emulate.Case(text, grid, arguments)]) == [
        "kernel kernel_chain, line 16: thread 0 of block (1, 0, 0) reads byte 32 of parameter 2; thread 0 of another block "
        "wrote it at line 19, and nothing orders blocks"
    ]


def test_an_order_that_no_one_sees_costs_nothing():
    """A kernel that accesses no other memory that changes has no barrier and no fence."""
    text = """kernel k(%m: array<i32,1>, %x: array<i32,1>) {
%b: i32 = bid {axis=0}
%t: i32[64] = load %x, %b {pad=0, shape=[64], steps=[64]}
%o: i32 = constant {dtype=i32, value=1}
%ones: i32[64] = broadcast %o {shape=[64]}
%q: i32[64] = atomic_add %m, %ones, %t {order="acq_rel"}
}
"""
    counts, x = torch.zeros(7, dtype=torch.int32), torch.randint(0, 9, (320,), dtype=torch.int32)
    launch = emulate.Case(text, (5, 1, 1), [counts, x])
    assert emulate.run([launch]) == [None]
    assert torch.equal(counts, torch.bincount(x, minlength=9)[:7].int())
    assert "add_elements<" in launch.program["text"] and "synchronize" not in launch.program["text"]


def test_an_order_within_one_array_is_kept():
    """A value and the flag that says it is there may be elements of one array."""
    text = """kernel k(%m: array<i32,1>, %b: array<i32,1>) {
%z: i32 = constant {dtype=i32, value=0}
%o: i32 = constant {dtype=i32, value=1}
atomic_store %m, %o, %z
atomic_store %m, %o, %o {order="release"}
%flag: i32 = atomic_load %m, %o {order="acquire"}
%value: i32 = atomic_load %m, %z
%t: i32 = add %flag, %value
%w: i32[1] = broadcast %t {shape=[1]}
store %b, %w, %z {steps=[1]}
}
"""
    memory, seen = torch.zeros(2, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    launch = emulate.Case(text, (1, 1, 1), [memory, seen])
    assert emulate.run([launch]) == [None]
    assert seen.item() == 2
    assert "Order::release" in launch.program["text"] and "Order::acquire" in launch.program["text"]


@pytest.mark.parametrize("arch", [long(80), 90])
@pytest.mark.parametrize(
    "name, dtype, scope",
    [
        ("atomic_load", "u8", "device"),
        ("atomic_store", "i64", "system"),
        ("atomic_add", "bf16", "device"),
        ("atomic_add", "u64", "block"),
        ("atomic_max", "f32", "system"),
        ("atomic_min", "i32", "block"),
        ("atomic_and", "bool", "device"),
        ("atomic_or", "u64", "device"),
        ("atomic_xor", "u16", "system"),
        ("atomic_xchg", "f64", "device"),
        ("atomic_cas", "f16", "system"),
        ("atomic_cas", "i64", "block"),
    ],
)
def test_nvrtc_takes_it(name, dtype, scope, arch):
    order = {"atomic_load": "acquire", "atomic_store": "release"}.get(name, "acq_rel")
    case = atomic_cases.case(name, dtype, DTYPES[dtype], f'order="{order}", scope="{scope}"', flat=scope == "block")
    arguments = [argument.to("meta") for argument in case.arguments]
    (row,) = _C.inspect("code", arch, 0, lambda: _C.run_ir(case.text, (1, 1, 1), arguments))
    assert row["spill_stores"] == 0
