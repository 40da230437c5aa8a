"""Atomic operations: many blocks at the same elements, blocks that wait for others, exact errors."""

import atomic_cases
import pytest
import torch
from random_meaning import FLOATS, INTEGERS
from tile_ops import _C

DTYPES = {"bool": torch.bool, **INTEGERS, **FLOATS}


def changed(name, dtype, x, old, order=""):
    """500 blocks change the first 3 elements by 6 values, some indices twice."""
    body = f"""kernel k(%m: array<{dtype},1>, %x: array<{dtype},1>, %i: array<i32,1>) {{
%z: i32 = constant {{dtype=i32, value=0}}
%t: {dtype}[6] = load %x, %z {{pad={"0.0" if dtype in FLOATS else "0"}, shape=[6], steps=[6]}}
%n: i32[6] = load %i, %z {{pad=0, shape=[6], steps=[6]}}
%q: {dtype}[6] = {name} %m, %t, %n{f" {{{order}}}" if order else ""}
}}
"""
    memory = old.clone()
    _C.run_ir(body, (500, 1, 1), [memory, x, torch.tensor([0, 1, 1, 2, 0, 7], dtype=torch.int32)])
    return memory


@pytest.mark.parametrize("order", ["", 'order="acq_rel", scope="system"', 'scope="block"'])
@pytest.mark.parametrize("dtype", ["i32", "u64", "i16", "u8", "f16", "bf16", "f32", "f64"])
def test_many_blocks_at_one_element(dtype, order):
    if "block" in order:  # of one block's threads
        return test_of_one_block(dtype)
    x, old = atomic_cases.integers(DTYPES[dtype], 6), atomic_cases.integers(DTYPES[dtype], 3)
    values, index = x.double(), [0, 1, 1, 2, 0]
    wide = torch.zeros(3, dtype=torch.float64)
    extremes = {"atomic_max": "amax", "atomic_min": "amin"}
    for name, reduce in extremes.items():
        expected = old.double().scatter_reduce(0, torch.tensor(index), values[:5], reduce)
        assert torch.equal(changed(name, dtype, x, old, order).double(), expected)
    if dtype in ("f16", "bf16", "i16", "u8"):  # what holds a sum of 500
        x = torch.tensor([1, 0, 0, 0, 0, 1]).to(DTYPES[dtype])
        sums = changed("atomic_add", dtype, x, wide.to(DTYPES[dtype]), order).double()
        most = {"bf16": 256, "u8": 500 % 256}.get(dtype, 500)
        assert sums.tolist() == [most, 0, 0]
    else:
        expected = old.double().index_add(0, torch.tensor(index), 500 * values[:5])
        assert torch.equal(changed("atomic_add", dtype, x, old, order).double(), expected)


def test_of_one_block(dtype="i32"):
    case = atomic_cases.case("atomic_add", dtype, DTYPES[dtype], 'scope="block"')
    _C.run_ir(case.text, (1, 1, 1), case.arguments)
    atomic_cases.check(case, case.arguments)


@pytest.mark.parametrize("name", ["atomic_and", "atomic_or", "atomic_xor"])
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_bits_of_many_blocks(name, dtype):
    x, old = atomic_cases.integers(DTYPES[dtype], 6), atomic_cases.integers(DTYPES[dtype], 3)
    expected = atomic_cases.plain(old)
    for i, at in enumerate([0, 1, 1, 2, 0]):
        if name != "atomic_xor":  # an even number of times: nothing
            expected[at] = atomic_cases.COMBINED[name](expected[at], atomic_cases.plain(x)[i])
    assert atomic_cases.plain(changed(name, dtype, x, old)) == expected


def test_a_nan_is_ignored_by_extremes():
    nan, old = float("nan"), torch.tensor([float("nan"), 2.0, -1.0])
    x = torch.tensor([3.0, nan, nan, nan, 4.0, 9.0])
    assert changed("atomic_max", "f32", x, old).tolist() == [4.0, 2.0, -1.0]
    assert changed("atomic_min", "f32", x, old).tolist() == [3.0, 2.0, -1.0]


@pytest.mark.parametrize("passes", [False, True])
def test_tickets_are_all_different(passes):
    text = """kernel k(%a: array<i64,1>, %b: array<i64,1>) {
%z: i32 = constant {dtype=i32, value=0}
%one: i64 = constant {dtype=i64, value=1}
%t: i64 = atomic_add %a, %one, %z
%w: i64[1] = broadcast %t {shape=[1]}
store %b, %w, %t {steps=[1]}
}
"""
    counter, seen = torch.tensor([5]), torch.full((3005,), -1)
    _C.run_ir(text, (3000, 1, 1), [counter, seen], passes)
    assert counter.item() == 3005 and torch.equal(seen[5:], torch.arange(5, 3005))


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("blocks", [1, 2, 700])
def test_a_block_waits_for_the_one_before(blocks, passes):
    for _ in range(5):
        grid, arguments, expected = atomic_cases.chain(blocks)
        _C.run_ir(atomic_cases.CHAIN, grid, arguments, passes)
        assert torch.equal(arguments[2], expected)


# A lock: it is taken by a comparison and given back by a store that releases.
LOCK = """kernel lock(%lock: array<i32,1>, %sums: array<f32,2>) {
%z: i32 = constant {dtype=i32, value=0}
%one: i32 = constant {dtype=i32, value=1}
loop () {
  %before: i32 = atomic_cas %lock, %z, %one, %z {order="acquire"}
  %taken: bool = eq %before, %z
  if %taken () {
    break
  } () {
    yield
  }
  continue
}
%t: f32[4, 32] = load %sums, %z, %z {pad=0.0, shape=[4, 32], steps=[4, 32]}
%n: f32 = constant {dtype=f32, value=1.0}
%more: f32[4, 32] = broadcast %n {shape=[4, 32]}
%u: f32[4, 32] = add %t, %more
store %sums, %u, %z, %z {steps=[4, 32]}
atomic_store %lock, %z, %z {order="release"}
}
"""


def test_a_lock():
    sums = torch.zeros(4, 32)
    _C.run_ir(LOCK, (300, 1, 1), [torch.zeros(1, dtype=torch.int32), sums])
    assert torch.equal(sums, torch.full((4, 32), 300.0))


ERRORS = {
    '%q: i32[4] = atomic_add %m, %t, %n {order="sometimes"}': "atomic_add: order is 'sometimes'; it is one of relaxed, acquire, release, acq_rel",
    '%q: i32[4] = atomic_add %m, %t, %n {scope="world"}': "atomic_add: scope is 'world'; it is one of block, device, system",
    '%q: i32[4] = atomic_load %m, %n {order="release"}': "atomic_load: its order is release; an operation that only reads takes relaxed or acquire",
    'atomic_store %m, %t, %n {order="acq_rel"}': "atomic_store: its order is acq_rel; an operation that only writes takes relaxed or release",
    "%q: i32[4] = atomic_max %m, %f, %n": "atomic_max: cannot write f32[4] to elements [4] of array<i32,1>",
    "%q: f32[4] = atomic_and %g, %f, %n": "atomic_and: does not take f32; cast with astype() first",
    "%q: i32[4] = atomic_cas %m, %t, %n": "atomic_cas: 0 index tiles for array<i32,1>; give one per axis",
    "%q: i32[4] = atomic_add %m, %t, %n, %n, %n {flat=1}": "atomic_add: 3 index tiles for array<i32,1>; give one of offsets",
    "%q: i32[4] = atomic_add %m, %t, %f {flat=1}": "atomic_add: an index tile is f32[4]; it must be an integer tile of shape [4]",
    "%q: i32[4] = atomic_xchg %m, %t, %f": "atomic_xchg: an index tile is f32[4]; it must be an integer tile of shape [4]",
}


@pytest.mark.parametrize("line", ERRORS)
def test_exact_errors(line):
    text = f"""kernel k(%m: array<i32,1>, %g: array<f32,1>) {{
%n: i32[4] = arange {{dtype=i32, size=4}}
%t: i32[4] = arange {{dtype=i32, size=4}}
%f: f32[4] = arange {{dtype=f32, size=4}}
{line}
}}
"""
    with pytest.raises(Exception) as error:
        _C.run_ir(text, (1, 1, 1), [torch.zeros(4, dtype=torch.int32), torch.zeros(4)])
    assert ERRORS[line] in str(error.value)
