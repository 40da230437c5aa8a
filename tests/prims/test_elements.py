"""Elements at index tiles: more than are addressed at once, every integer as an index, masks, strides, atomic sums."""

import subprocess
import sys
import threading

import pytest
import torch
from prims.ir_programs import DTYPES, run, same, values
from random_meaning import FLOATS, INTEGERS
from tile_ops import _C

COUNTS = [1, 3, 255, 256, 257, 1000]


def zero(dtype):
    return "0.0" if dtype in FLOATS else "0"


def tile(name, array, dtype, n):
    return f"%{name}: {dtype}[{n}] = load %{array}, %z {{pad={zero(dtype)}, shape=[{n}], steps=[{n}]}}\n"


def indices(index, n, size):
    low = 0 if index[0] == "u" else -3
    return torch.randint(low, size + 5, (n,)).to(DTYPES[index])


def there(i, size):
    return (i.long() >= 0) & (i.long() < size)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("index", INTEGERS)
@pytest.mark.parametrize("dtype", ["bool", "i16", "f32", "i64", "bf16"])
def test_gather_and_scatter(dtype, index, masked):
    for n in COUNTS:
        x, i, mask = values(dtype, 90), indices(index, n, 90), torch.rand(n) < 0.8
        new = torch.randperm(200)[:n] if n < 200 else torch.arange(n)
        old = values(dtype, 1100)
        more = ", %m" if masked else ""
        body = (
            tile("i", "b", index, n)
            + tile("m", "c", "bool", n)
            + tile("j", "e", "i64", n)
            + f"""%t: {dtype}[{n}] = gather %a, %i{more} {{pad={"1.0" if dtype in FLOATS else "1"}}}
store %d, %t, %z {{steps=[{n}]}}
scatter %f, %t, %j{more}"""
        )
        *_, got, _, scattered = run(body, [x, i, mask, values(dtype, n), new, old])
        takes = there(i, 90) & (mask if masked else True)
        want = torch.where(takes, x[i.long().clamp(0, 89)].double(), 1.0)
        same(got, want)
        left = old.double()
        written = mask if masked else torch.ones(n, dtype=torch.bool)
        left[new[written]] = want[written]
        same(scattered, left)


@pytest.mark.at_home  # a GPU has no order
def test_the_last_of_equal_indices_stays():
    n = 700
    i, x = torch.randint(0, 9, (n,)), torch.randn(n)
    body = tile("i", "b", "i64", n) + tile("x", "c", "f32", n) + "scatter %a, %x, %i"
    got = run(body, [torch.zeros(9), i, x])[0]
    want = torch.zeros(9)
    for at, value in zip(i.tolist(), x):
        want[at] = value
    same(got, want)


@pytest.mark.parametrize("dtype", ["f32", "f16", "i8"])
def test_three_axes_of_any_strides(dtype):
    x = values(dtype, 8, 10, 12)[::2, 1:9].permute(2, 0, 1)
    at = [torch.randint(-2, 14, (300,), dtype=torch.int32) for _ in range(3)]
    text = "".join(tile(f"i{k}", name, "i32", 300) for k, name in enumerate("bcd"))
    text += f"%t: {dtype}[300] = gather %a, %i0, %i1, %i2 {{pad={zero(dtype)}}}\nstore %e, %t, %z {{steps=[300]}}"
    arguments = [x, *at, torch.ones(300, dtype=x.dtype)]
    head = f"kernel k(%a: array<{dtype},3>, %b: array<i32,1>, %c: array<i32,1>, %d: array<i32,1>, %e: array<{dtype},1>) {{\n"
    _C.run_ir(head + "%z: i32 = constant {dtype=i32, value=0}\n" + text + "\n}", (1, 1, 1), arguments)
    inside = there(at[0], 12) & there(at[1], 4) & there(at[2], 8)
    found = x[tuple(i.long().clamp(0, s - 1) for i, s in zip(at, x.shape))].double()
    same(arguments[-1], torch.where(inside, found, 0.0))


def test_an_array_without_elements():
    text = (
        tile("i", "b", "i32", 300)
        + "%t: f32[300] = gather %a, %i {pad=4.0}\nstore %c, %t, %z {steps=[300]}\nscatter %a, %t, %i"
    )
    _, _, got = run(text, [torch.empty(0), torch.zeros(300, dtype=torch.int32), torch.zeros(300)])
    same(got, torch.full((300,), 4.0))


SUMMED = ["f32", "f64", "i32", "i64", "i16"]


def summed(dtype, scope, blocks, rest=""):
    """The operands of sums of whole numbers, exact in any order, and what is left."""
    n = 600
    i, x = torch.randint(-2, 70, (n,), dtype=torch.int32), torch.randint(-50, 50, (n,)).to(DTYPES[dtype])
    add = f'%q: {dtype}[{n}] = atomic_add %a, %x, %i {{scope="{scope}"}}'
    body = tile("i", "b", "i32", n) + tile("x", "c", dtype, n) + add + rest.format(dtype=dtype, n=n)
    memory = torch.zeros(64, dtype=x.dtype)
    return i, x, run(body, [memory, i, x, torch.ones(n, dtype=x.dtype)], (blocks, 1, 1))


@pytest.mark.parametrize("dtype", SUMMED)
@pytest.mark.parametrize("blocks, scope", [(1, "block"), (1, "device"), (1, "system"), (40, "device"), (40, "system")])
def test_atomic_sums(dtype, blocks, scope):
    i, x, (got, *_) = summed(dtype, scope, blocks)
    inside = there(i, 64)
    want = torch.zeros(64, dtype=torch.float64).index_add(0, i.long()[inside], blocks * x.double()[inside])
    same(got, want.to(got.dtype))


@pytest.mark.parametrize("dtype", SUMMED)
@pytest.mark.parametrize("scope", ["block", "device", "system"])
@pytest.mark.at_home
def test_old_values_of_atomic_sums(dtype, scope):
    i, x, (got, _, _, old) = summed(dtype, scope, 1, "\nstore %d, %q, %z {{steps=[{n}]}}")
    left = torch.zeros(64, dtype=torch.float64)
    for at, value, before in zip(i.tolist(), x.tolist(), old.tolist()):
        assert before == (left[at] if 0 <= at < 64 else 0)
        if 0 <= at < 64:
            left[at] += value
    same(got, left)


ADD_ONES = """kernel k(%a: array<i64,1>, %b: array<i64,1>) {
%z: i32 = constant {dtype=i32, value=0}
%i: i64[300] = load %b, %z {pad=0, shape=[300], steps=[300]}
%one: i64 = constant {dtype=i64, value=1}
%x: i64[300] = broadcast %one {shape=[300]}
%q: i64[300] = atomic_add %a, %x, %i
}"""


@pytest.mark.at_home
def test_launches_of_threads_add_to_one_array():
    """No sum is lost."""
    memory, index = torch.zeros(50, dtype=torch.int64), torch.arange(300) % 50

    def launch():
        for _ in range(300):
            _C.run_ir(ADD_ONES, (1, 1, 1), [memory, index])

    threads = [threading.Thread(target=launch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(memory, torch.full((50,), 3 * 300 * 6))


@pytest.mark.slow
def test_launches_of_processes_add_to_one_array():
    """No sum is lost in memory that processes share, each of which runs on one thread."""
    code = f"""import os, torch
from tile_ops import _C
torch.set_num_threads(1)
memory, index = torch.zeros(50, dtype=torch.int64).share_memory_(), torch.arange(300) % 50
child = os.fork()
for _ in range(2000):
    _C.run_ir({ADD_ONES!r}, (1, 1, 1), [memory, index])
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert (memory == 2 * 2000 * 6).all(), memory
"""
    # Python 3.12 warns of a fork of a process that has threads.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
