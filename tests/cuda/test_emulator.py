"""The emulator's own reports: hand-written kernels that do what a GPU must not be asked for."""

import emulate
import pytest
import torch

KERNEL = """#include "cuda/device/memory.cuh"
#include "cuda/device/move.cuh"

namespace tile {

TILE_KERNEL(64) k(ArrayParameter<i32, 1> p0, ArrayParameter<i32, 1> p1) {
  u32* shared = (u32*)shared_memory();
  BODY
}

}  // namespace tile
"""


def report(body, grid=(1, 1, 1), shared_bytes=256):
    arrays = [torch.arange(80, dtype=torch.int32), torch.zeros(100, dtype=torch.int32)[:80]]
    # Behind the second array there is more memory, but none of the launch.
    return emulate.run_text(KERNEL.replace("BODY", body), 64, shared_bytes, arrays, grid)


REPORTS = {
    # Global memory.
    "outside": (
        "load_global<4, false>(p0.data - 2, true, {}, 7);",
        "line 7: thread 0 of block (0, 0, 0) reads 4 bytes 8 before parameter 0",
    ),
    "beyond": (
        "if (thread() == 5) store_global(p1.data + 79, Words<8>(), true, 8);",
        "line 8: thread 5 of block (0, 0, 0) writes 8 bytes 4 beyond parameter 1",
    ),
    "misaligned": (
        "load_global<8, false>(p0.data + 1, true, {}, 9);",
        "line 9: thread 0 of block (0, 0, 0) reads 8 bytes of parameter 0 at a multiple of 4 only",
    ),
    "no_constant": (
        "store_global(p0.data + thread(), Words<4>(), true, 3);\n  synchronize(0);\n"
        "  load_global<4, true>(p0.data, true, {}, 4);",
        "line 4: thread 0 of block (0, 0, 0) reads byte 0 of parameter 0 as constant; line 3: thread 0 wrote it",
    ),
    "written_constant": (
        "load_global<4, true>(p0.data + thread(), true, {}, 3);\n  synchronize(0);\n"
        "  if (thread() == 9) store_global(p0.data + 9, Words<4>(), true, 4);",
        "line 4: thread 9 of block (0, 0, 0) writes byte 36 of parameter 0; line 3: thread 9 read it as constant",
    ),
    "global_race": (
        "store_global(p1.data + thread(), Words<4>(), true, 3);\n"
        "  load_global<4, false>(p1.data + (thread() ^ 1), true, {}, 4);",
        "line 3: thread 1 of block (0, 0, 0) writes byte 4 of parameter 1; thread 0 read it at line 4, and no barrier is in between",
    ),
    "race_of_blocks": (
        "store_global(p1.data + thread(), Words<4>(), true, 3);",
        "line 3: thread 0 of block (1, 0, 0) writes byte 0 of parameter 1; thread 0 of another block wrote it at line 3, and nothing orders blocks",
    ),
    "race_with_an_atomic": (
        "atomic_add_global(p1.data, 1, 3);\n  if (thread() == 63) store_global(p1.data, Words<4>(), true, 4);",
        "line 4: thread 63 of block (0, 0, 0) writes byte 0 of parameter 1; thread 62 wrote it at line 3, and no barrier is in between",
    ),
    "race_with_an_atomic_load": (
        "if (thread() == 0) load_word<Scope::device>(p1.data, 3);\n"
        "  if (thread() == 40) store_global(p1.data, Words<4>(), true, 4);",
        "line 4: thread 40 of block (0, 0, 0) writes byte 0 of parameter 1; thread 0 read it at line 3, and no barrier is in between",
    ),
    # Shared memory.
    "shared_bounds": (
        "store_shared(shared + thread() + 1, 1u, 5);",
        "line 5: thread 63 of block (0, 0, 0) writes 4 bytes at 256 of shared memory, of which the kernel has 256",
    ),
    "shared_misaligned": (
        "if (thread() == 3) store_shared((char*)shared + 2, 1u, 5);",
        "line 5: thread 3 of block (0, 0, 0) writes 4 bytes at 2 of shared memory, which is no multiple of 4",
    ),
    "race_of_writers": (
        "store_shared(shared + thread() / 2 * 2, (u16)1, 5);\n  synchronize(0);",
        "line 5: thread 1 of block (0, 0, 0) writes 2 bytes at 0 of shared memory; thread 0 wrote it at line 5, and no barrier is in between",
    ),
    "never_written": (
        "if (thread() != 8) store_shared(shared + thread(), 1u, 5);\n  synchronize(0);\n"
        "  load_shared<u32>(shared + (thread() ^ 1), 6);",
        "line 6: thread 9 of block (0, 0, 0) reads 4 bytes at 32 of shared memory, and nobody wrote byte 32",
    ),
    "shared_race": (
        "store_shared(shared + thread(), 1u, 5);\n  load_shared<u32>(shared + (thread() & ~1), 6);",
        "line 6: thread 1 of block (0, 0, 0) reads 4 bytes at 0 of shared memory; thread 0 wrote it at line 5, and no barrier is in between",
    ),
    "shared_race_with_a_reader": (
        "store_shared(shared + thread(), 1u, 5);\n  synchronize(0);\n  load_shared<u32>(shared + (thread() | 1), 6);\n"
        "  store_shared(shared + thread(), 2u, 7);",
        "line 7: thread 1 of block (0, 0, 0) writes 4 bytes at 4 of shared memory; thread 0 read it at line 6, and no barrier is in between",
    ),
    # Copies that are not waited for.
    "early": (
        "copy_async(shared + thread() % 16 * 4, p0.data + thread() % 16 * 4, 16 * (thread() < 16), 5);",
        "line 5: thread 16 of block (0, 0, 0) writes 16 bytes at 0 of shared memory, and the copy that thread 0 began at line 5 is not waited for",
    ),
    "read_early": (
        "if (thread() < 16) copy_async(shared + thread() * 4, p0.data + thread() * 4, 16, 5);\n"
        "  copy_async_commit();\n"
        "  copy_async_commit();\n  copy_async_wait<2>();\n  synchronize(0);\n  load_shared<u32>(shared, 6);",
        "line 6: thread 0 of block (0, 0, 0) reads 4 bytes at 0 of shared memory, and the copy that thread 0 began at line 5 is not waited for",
    ),
    "copy_misaligned": (
        "copy_async(shared, p0.data + 1, 12, 5);",
        "line 5: thread 0 of block (0, 0, 0) reads 12 bytes of parameter 0 at a multiple of 4 only",
    ),
    # Waiting.
    "deadlock": (
        'if (warp() == 0) synchronize(11, "kernel.cu", 1);',
        "block (0, 0, 0) is deadlocked: threads 0-31 wait at the barrier of line 11 (kernel.cu:1); threads 32-63 ended",
    ),
    "two_barriers": (
        'if (warp() == 0) synchronize(11, "kernel.cu", 1); else synchronize(12, "kernel.cu", 2);',
        "block (0, 0, 0) is deadlocked: threads 0-31 wait at the barrier of line 11 (kernel.cu:1); "
        "threads 32-63 wait at the barrier of line 12 (kernel.cu:2)",
    ),
    "half_a_warp": (
        'if (lane() % 16 < 8) shuffle_xor(1, 1, 13, "kernel.cu", 3);\n  synchronize(14, "kernel.cu", 4);',
        "block (0, 0, 0) is deadlocked: threads 0-7, 16-23, 32-39, 48-55 wait at the shuffle_xor of line "
        "13 (kernel.cu:3); "
        "threads 8-15, 24-31, 40-47, 56-63 wait at the barrier of line 14 (kernel.cu:4)",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """All of them in one file."""
    texts = [KERNEL.replace("BODY", body) for body, _ in REPORTS.values()]
    emulate.functions([{"text": text, "entry": "k"} for text in texts])


@pytest.mark.parametrize("name", REPORTS)
def test_report(name):
    body, expected = REPORTS[name]
    assert report(body, (2, 1, 1)) == f"kernel k, {expected}"


def test_too_much_shared_memory():
    assert (
        report("", shared_bytes=300000)
        == "kernel k, the launch asks for 300000 bytes of shared memory, and no GPU has more than 262144"
    )


def test_a_launch_after_a_report_has_fresh_state():
    assert report("if (thread() % 2) synchronize(0);") is not None
    assert (
        report("store_shared(shared + thread(), 1u, 5);\n  synchronize(0);\n  load_shared<u32>(shared + (thread() ^ 32), 6);")
        is None
    )


WAITING = """#include "cuda/device/reduce.cuh"

namespace tile {

TILE_KERNEL(1024) k(ArrayParameter<i32, 1> p0, i32 iterations) {
  u32* shared = (u32*)shared_memory();
  u32 x = thread();
  for (i32 i = 0; i < iterations; ++i) {
    store_shared(shared + thread(), x + 1, 1);
    synchronize(0);
    x = load_shared<u32>(shared + (thread() + 33) % 1024, 2);
    synchronize(0);
    x = shuffle_xor(x, 5, 4) + shuffle_xor(x, 16, 5);
  }
  atomic_add_global(p0.data + thread() % 2, (i32)x, 3);
}

}  // namespace tile
"""


def test_the_largest_block():
    """Shuffles and barriers of 1024 threads, and atomics of all blocks at the same elements."""
    sums, iterations = torch.zeros(2, dtype=torch.int32), 3
    assert emulate.run_text(WAITING, 1024, 4096, [sums, iterations], (2, 1, 1)) is None
    at, x = torch.arange(1024), torch.arange(1024)
    for _ in range(iterations):
        x = (x + 1)[(at + 33) % 1024]
        x = x[at ^ 5] + x[at ^ 16]
    assert sums.tolist() == [2 * int(x[0::2].sum()), 2 * int(x[1::2].sum())]


COPYING = """#include "cuda/device/reduce.cuh"

namespace tile {

TILE_KERNEL(64) k(ArrayParameter<i32, 1> p0, ArrayParameter<i32, 1> p1) {
  u32* shared = (u32*)shared_memory();
  for (int stage = 0; stage < 2; ++stage) {
    if (thread() < 16) copy_async(shared + (stage * 16 + thread()) * 4, p0.data + (stage * 16 + thread()) * 4, 4 * (thread() % 5), 1);
    copy_async_commit();
  }
  copy_async_wait<1>();
  synchronize(0);
  const u32 first = load_shared<u32>(shared + 63 - thread(), 2);
  copy_async_wait<0>();
  synchronize(0);
  store_global(p1.data + thread(), Words<4>{{first + load_shared<u32>(shared + 127 - thread(), 3)}}, true, 4);
}

}  // namespace tile
"""


def test_copies_in_groups():
    """Parts of 16 bytes, the rest zero, one group waited for after the other."""
    x, out = torch.arange(1, 129, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
    assert emulate.run_text(COPYING, 64, 512, [x, out]) is None
    at = torch.arange(128)
    copied = torch.where(at % 4 < at // 4 % 16 % 5, x, 0)
    assert torch.equal(out, (copied[:64] + copied[64:]).flip(0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_conversions_of_16_bit_floats(dtype):
    """Every value of the dtype, and those of float32 around the middle between two of them."""
    name = {torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]
    text = f"""kernel convert(%x: array<{name},1>, %wide: array<f32,1>, %y: array<f32,1>, %narrow: array<{name},1>) {{
  %b: i32 = bid {{axis=0}}
  %t: {name}[256] = load %x, %b {{pad=0.0, shape=[256], steps=[256]}}
  %u: f32[256] = astype %t {{dtype=f32}}
  store %wide, %u, %b {{steps=[256]}}
  %v: f32[256] = load %y, %b {{pad=0.0, shape=[256], steps=[256]}}
  %w: {name}[256] = astype %v {{dtype={name}}}
  store %narrow, %w, %b {{steps=[256]}}
}}"""
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    middles = (x.float() + x.roll(1).float()) / 2
    y = torch.cat(
        [middles, (middles.view(torch.int32) + 1).view(torch.float32), (middles.view(torch.int32) - 1).view(torch.float32)]
    )
    wide, narrow = torch.zeros(len(x)), torch.zeros(len(y), dtype=dtype)
    assert emulate.run([emulate.Case(text, (len(y) // 256, 1, 1), [x, wide, y, narrow])]) == [None]
    assert torch.equal(wide.nan_to_num(7), x.float().nan_to_num(7))
    assert torch.equal(narrow.nan_to_num(7), y.to(dtype).nan_to_num(7))
