"""Kernels whose warpgroups run different code, written by hand and run in the emulator: products by wgmma of every form, a
matmul with a producer group, and programs that are wrong, each of which is reported."""

import async_programs
import emulate
import pytest
import torch
import wgmma_programs

MATMULS = {
    # columns, stages, groups, left transposed, right transposed, boxes out, blocks of rows
    "one_tile_wide": (64, 2, 2, False, False, False),
    "five_stages": (64, 5, 2, False, False, False),
    "three_stages": (64, 3, 2, False, True, False),
    "left_transposed": (64, 2, 2, True, False, False),
    "both_transposed": (64, 4, 2, True, True, False),
    "one_group": (64, 2, 1, False, False, False),
    "three_groups": (64, 2, 3, False, True, False),
    "boxes_out": (128, 2, 2, False, False, True),
    "two_blocks_of_rows": (64, 2, 2, False, True, False, 2),
    "two_transposed_blocks_of_rows": (64, 3, 1, True, False, False, 2),
}
# Extents (m, n, k) of each of these: trips 0, 1, 2, 3, more than the stages, and odd ends.
SHAPES = [(128, 64, 64), (128, 64, 128), (128, 64, 192), (128, 64, 448), (136, 72, 200), (8, 8, 8)]

WAIT = "wait_for(memory + 49152 + 8 * ring.stage, ring.phase, 55);"
FREE = "if (k && thread() == 0) arrive(memory + 49168 + 8 * last, 58);"
DEADLOCK = "block (0, 0, 0) is deadlocked: threads 0-30, 32-127 ended; "
PRODUCER = (
    "threads 31 wait at the barrier of line 53 (matmul.cu:{line}) for parity 0 at 49168 of shared memory, where phase 0 lacks "
)
# Changes of the matmul, and what is reported. A program ends with its first fault.
WRONG = {
    "missing_wait": (
        [(WAIT, "")],
        "line 56: thread 128 of block (0, 0, 0) multiplies 16 bytes at 16384 of shared memory; "
        "the copy that thread 31 began at line 54 writes it, and is not waited for",
    ),
    "wrong_parity": (
        [(WAIT, WAIT.replace("phase", "phase ^ 1"))],
        "line 56: thread 128 of block (0, 0, 0) multiplies 16 bytes at 16384 of shared memory; "
        "the copy that thread 31 began at line 54 writes it, and is not waited for",
    ),
    "missing_free": ([(FREE, "")], DEADLOCK + PRODUCER + "2 of 2 arrivals; threads 128-383 wait at the barrier of line 55 "),
    "freed_before_it_is_retired": (
        [("mma_retire<1>(57);", "")],
        "line 54: thread 31 of block (0, 0, 0) copies to 16384 bytes at 0 of shared memory; "
        "the product that the group of thread 128 began at line 56 reads it, and is not retired",
    ),
    "read_before_it_is_awaited": (
        [("v25 = mma_awaited<0>(v25, 59);", "mma_retire<0>(59);")],
        "thread 128 of block (0, 0, 0) uses a sum of the product of line 56 before mma_awaited()",
    ),
    "awaited_too_early": (
        [("v25 = mma_awaited<0>", "v25 = mma_awaited<1>")],
        "line 59: thread 128 of block (0, 0, 0) awaits the sums of the product of line 56, "
        "one of the last 1, which may be in flight",
    ),
    "too_few_bytes": (
        [("24576, 54);", "16384, 54);")],
        "line 54: phase 0 of the barrier at 49152 ends 8192 bytes too early: expect_bytes of line 54 announced fewer than "
        "are copied at line 54",
    ),
    "too_many_bytes": (
        [("24576, 54);", "24640, 54);")],
        "for parity 0 at 49152 of shared memory, where phase 0 lacks 64 bytes",
    ),
    "too_few_arrivals": (
        [(FREE, FREE.replace("thread() == 0", "thread() == 0 && group == 1"))],
        DEADLOCK + PRODUCER + "1 of 2 arrivals; ",
    ),
    "unpublished": (
        [("publish_barriers();", "")],
        "line 54: thread 31 of block (0, 0, 0) begins a copy that arrives at the barrier at 49152, which thread 0 initialized "
        "at line 7 and did not publish: no publish_barriers() follows",
    ),
    "barriers_without_a_barrier": (
        [("synchronize_all(7);", "")],
        "line 53: thread 31 of block (0, 0, 0) waits for the barrier at 49168, which thread 0 initialized at line 7, "
        "and no barrier of the block is in between",
    ),
    "too_many_registers": ([("take_registers<232>", "take_registers<240>")], "wait at take_registers of line 7 (matmul.cu:"),
    "stage_in_use": (
        [
            ("init_barrier(memory + 49168 + 8 * i, 2, 7)", "init_barrier(memory + 49168 + 8 * i, 1, 7)"),
            (FREE, FREE.replace("thread() == 0", "thread() == 0 && group == 1")),
        ],
        "line 54: thread 31 of block (0, 0, 0) copies to 16384 bytes at 0 of shared memory; "
        "the product that the group of thread 256 began at line 56 reads it, and is not retired",
    ),
    "never_waited_for": (
        [("k < turns; ++k) {\n        wait_for(memory + 49168", "k < turns + 1; ++k) {\n        wait_for(memory + 49168")],
        "line 54: the copy that thread 31 began to the shared memory of block 0 of its cluster is never waited for; "
        "the kernel ends while it is in flight",
    ),
}
# The same of the matmul that stores boxes.
WRONG_STORES = {
    "missing_fence": (
        [("fence_async(82);", "")],
        "line 83: thread 128 of block (0, 0, 0) stores 8192 bytes at 66560 of shared memory; thread 128 wrote it at line 81, "
        "and did not call fence_async() before it passed a barrier",
    ),
    "staging_reused": (
        [("wait_for_tensor_reads<0>(80)", "wait_for_tensor_reads<1>(80)")],
        "line 81: thread 128 of block (0, 0, 0) writes 16 bytes at 66560 of shared memory; "
        "the tensor store that thread 128 began at line 83 reads it, and is not waited for",
    ),
    "no_barrier_before_the_store": (
        [("      synchronize(82);\n", "")],
        "line 83: thread 128 of block (0, 0, 0) stores 8192 bytes at 66560 of shared memory; thread 144 wrote it at line 81, "
        "and no barrier is in between",
    ),
    "ended_before_it_was_read": (
        [("wait_for_tensor_reads<0>(84)", "wait_for_tensor_reads<1>(84)")],
        "line 83: the tensor store that thread 128 of block 0 of the cluster began may not have read shared memory when the "
        "kernel ends: wait_for_tensor_reads() is missing",
    ),
    "uncommitted": (
        [("commit_tensor_stores(83);", "")],
        "line 81: thread 128 of block (0, 0, 0) writes 16 bytes at 66560 of shared memory; "
        "the tensor store that thread 128 began at line 83 reads it, and is not waited for",
    ),
}
STORES = (128, 2, 2, False, False, True)


def wrong_text(name):
    if name in WRONG:
        return async_programs.matmul(changes=WRONG[name][0])
    return async_programs.matmul(*STORES, changes=WRONG_STORES[name][0])


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """All of them together."""
    texts = [async_programs.matmul(*options) for options in MATMULS.values()]
    texts += [wrong_text(name) for name in (*WRONG, *WRONG_STORES)]
    texts += [wgmma_programs.text(kind, columns) for kind, columns in PRODUCTS]
    texts += [CLUSTER, *(text for text, _ in WRONG_CLUSTERS.values())]
    texts += [operand_text({}), *(operand_text(changes) for changes, _ in WRONG_OPERANDS.values())]
    emulate.compile_texts(texts)


def run_matmul(
    text, m, n, k, columns=64, stages=2, groups=2, left_transposed=False, right_transposed=False, boxes_out=False, blocks=1
):
    """(the report, the result, the float64 product)."""
    generator = torch.Generator().manual_seed(m * 7 + n * 3 + k)
    left, right = (torch.randn(shape, generator=generator).bfloat16() for shape in ((m, k), (k, n)))
    out = torch.full((m, n), float("nan"), dtype=torch.bfloat16)
    arguments = [
        left.t().contiguous() if left_transposed else left,
        right.t().contiguous() if right_transposed else right,
        out,
        k,
    ]
    report = emulate.run_text(
        text,
        128 * (groups + 1),
        async_programs.matmul_memory(columns, stages, groups, boxes_out, blocks),
        arguments,
        (-(-n // columns), -(-m // (64 * blocks * groups)), 1),
        tensor_maps=async_programs.matmul_maps(columns, groups, left_transposed, right_transposed, boxes_out, blocks),
    )
    return report, out, left.double() @ right.double()


@pytest.mark.parametrize("name", MATMULS)
def test_matmul(name):
    text = async_programs.matmul(*MATMULS[name])
    for m, n, k in SHAPES:
        report, out, expected = run_matmul(text, m, n, k, *MATMULS[name])
        assert report is None, (m, n, k)
        torch.testing.assert_close(out.double(), expected, rtol=2**-8, atol=1e-5 * max(k, 1) ** 0.5)


@pytest.mark.parametrize("name", [*WRONG, *WRONG_STORES])
def test_wrong(name):
    _, expected = {**WRONG, **WRONG_STORES}[name]
    if name in WRONG:
        report, *_ = run_matmul(wrong_text(name), 128, 64, 320)
    else:
        report, *_ = run_matmul(wrong_text(name), 128, 128, 64, *STORES)
    text = wrong_text(name).split("\n")
    places = {"line": ", 53);", "take": "take_registers<"}
    for place, piece in places.items():
        number = 1 + next((i for i, line in enumerate(text) if piece in line), 0)
        expected = expected.replace(f"{{{place}}}", str(number))
    assert report is not None
    assert expected in report


PRODUCTS = [(kind, columns) for kind in wgmma_programs.TYPES for columns in (8, 64, 96, 256)]


@pytest.mark.parametrize("kind, columns", PRODUCTS)
def test_products(kind, columns):
    """Each swizzle and each major of both operands, which copies bring; sums of two batches."""
    (left, a), (right, b) = wgmma_programs.operands(kind, columns, torch.Generator().manual_seed(columns))
    count = len(wgmma_programs.cases(kind, columns)) + 1
    integers = not left.dtype.is_floating_point
    out = torch.zeros(count * wgmma_programs.ROWS, columns, dtype=torch.int32 if integers else torch.float32)
    arrays = [left, left.t().contiguous(), right, right.t().contiguous(), out]
    text, maps = wgmma_programs.text(kind, columns), wgmma_programs.tensor_maps(kind, columns)
    assert emulate.run_text(text, 128, wgmma_programs.BARRIER + 8, arrays, tensor_maps=maps) is None
    for result in out.view(count, wgmma_programs.ROWS, columns):
        torch.testing.assert_close(result.double(), 2 * a @ b.t(), rtol=0, atol=0 if integers else 1e-4)


# Two blocks of a cluster: each copies half of a tile to both, and reads the whole after its own barrier.
CLUSTER = async_programs.text(
    """  const u32 other = 1 - block_of_cluster();
  if (first_thread()) {
    init_barrier(memory + 8192, 1, 1);
    init_barrier(memory + 8200, 2, 1);
    publish_barriers();
  }
  arrive_in_cluster(2);
  wait_in_cluster(2);
  for (int trip = 0; trip < 3; ++trip) {
    if (first_thread()) {
      wait_for(memory + 8200, trip % 2 ^ 1, 3);
      expect_bytes(memory + 8192, 8192, 4);
      copy_tensor_to_cluster<2>(memory + block_of_cluster() * 4096, m0, memory + 8192, {trip * 64, (i32)block_of_cluster() * 32}, 3, 5);
    }
    wait_for(memory + 8192, trip % 2, 6);
    for (int i = 0; i < 32; ++i) {
      const int at = thread() + 128 * i;
      const u16 x = load_shared<u16>(shared_memory() + at * 2, 7);
      store_global(p1.data + (block_of_cluster() * 3 + trip) * 4096 + at, Words<2>{{x}}, true, 8);
    }
    synchronize(9);
    if (first_thread()) {
      arrive(memory + 8200, 10);
      arrive_remote(memory + 8200, other, 10);
    }
  }
  arrive_in_cluster(11);
  wait_in_cluster(11);""",
    128,
    "multicast",
    parameters="ArrayParameter<bf16, 2> p0, ArrayParameter<bf16, 1> p1, const TILE_CONSTANT TensorMap m0",
)


# Block 1 ends when it has arrived at block 0, which then arrives at a block that has ended.
ENDED = async_programs.text(
    """  if (first_thread()) {
    init_barrier(memory, 1, 1);
    publish_barriers();
  }
  arrive_in_cluster(2);
  wait_in_cluster(2);
  if (first_thread()) {
    if (block_of_cluster()) {
      arrive_remote(memory, 0, 3);
    } else {
      wait_for(memory, 0, 4);
      arrive_remote(memory, 1, 5);
    }
  }""",
    128,
    "multicast",
    parameters="ArrayParameter<bf16, 2> p0, ArrayParameter<bf16, 1> p1, const TILE_CONSTANT TensorMap m0",
)
CLUSTER_START = "  arrive_in_cluster(2);\n  wait_in_cluster(2);\n"
WRONG_CLUSTERS = {
    "ended": (ENDED, "line 5: thread 0 of block (0, 0, 0) arrives at a barrier of block 1 of its cluster, which has ended"),
    "ended_before_its_copies": (
        CLUSTER.replace(
            "    wait_for(memory + 8192, trip % 2, 6);", "    if (trip == 2) break;\n    wait_for(memory + 8192, trip % 2, 6);"
        ),
        "line 5: the copy that thread 0 began to the shared memory of block 0 of its cluster is never waited for; "
        "the kernel ends while it is in flight",
    ),
    "not_received": (
        CLUSTER.replace("      arrive_remote(memory + 8200, other, 10);\n", "").replace(
            "init_barrier(memory + 8200, 2, 1)", "init_barrier(memory + 8200, 1, 1)"
        ),
        "line 5: thread 0 of block (0, 0, 0) copies to 4096 bytes at 0 of block 1's shared memory; "
        "the copy that thread 0 began at line 5 writes it, and is not waited for",
    ),
    "too_few_arrivals": (
        CLUSTER.replace("arrive_remote(memory + 8200, other, 10);", "if (other) arrive_remote(memory + 8200, other, 10);"),
        "block 0: threads 0 wait at the barrier of line 3 (multicast.cu:",
    ),
    "not_begun": (
        CLUSTER.replace(CLUSTER_START, "  synchronize_all(2);\n"),
        "line 5: thread 0 of block (0, 0, 0) copies to the barrier at 8192 of block 1, which thread 0 initialized at line 1, "
        "and no barrier of the block is in between",
    ),
}


def run_cluster(text):
    x, out = torch.randn(64, 192).bfloat16(), torch.zeros(2 * 3 * 4096).bfloat16()
    report = emulate.run_text(text, 128, 8208, [x, out], cluster=2, tensor_maps=[async_programs.tensor_map(0, [32, 64], 0)])
    return report, x, out


def test_a_cluster_shares_its_copies():
    report, x, out = run_cluster(CLUSTER)
    assert report is None
    for block in out.view(2, 3, 64, 64):
        assert torch.equal(block, x.view(64, 3, 64).transpose(0, 1))


@pytest.mark.parametrize("name", WRONG_CLUSTERS)
def test_wrong_clusters(name):
    text, expected = WRONG_CLUSTERS[name]
    report, *_ = run_cluster(text)
    assert report is not None
    assert expected in report


# A product of operands that threads have written: no swizzle, so that both are blocks of 8 rows of 16 bytes.
OPERAND_STEPS = {
    "write": "for (int i = 0; i < 16; ++i) store_shared(shared_memory() + (thread() + 128 * i) * 2, load_element<false>(p0.data + thread() + 128 * i, true, bf16{}, 1), 2);",
    "fence": "fence_async(3);",
    "barrier": "synchronize(4);",
    "issue": "sums = mma_issued<P>(sums, memory, memory + 2048, false, 5);",
    "await": "sums = mma_awaited<0>(sums, 6);",
    "use": "for (int r = 0; r < 32; ++r) sums.x[r] += 1;",
    "end": "synchronize(7);",
    "reuse": "store_shared(shared_memory() + thread() * 16, 1.0f, 8);",
}
RACE = "line 8: thread 0 of block (0, 0, 0) writes 4 bytes at 0 of shared memory; the product that the group of thread 0 began at line 5 reads it, and is not retired"
UNFENCED = "line 5: thread 0 of block (0, 0, 0) multiplies 16 bytes at 2048 of shared memory; thread 0 wrote it at line 2, and did not call fence_async() before it passed a barrier"
WRONG_OPERANDS = {
    "no_fence": ({"fence": ""}, UNFENCED),
    "fence_behind_the_barrier": ({"fence": "", "barrier": "synchronize(4); fence_async(4);"}, UNFENCED),
    "no_barrier": (
        {"barrier": ""},
        "multiplies 16 bytes at 2048 of shared memory; thread 0 wrote it at line 2, and no barrier is in between",
    ),
    "operand_overwritten": ({"await": "", "use": ""}, RACE),
    "sums_changed_in_flight": (
        {"await": "for (int r = 0; r < 32; ++r) sums.x[r] *= 2; sums = mma_awaited<0>(sums, 6);"},
        "line 6: thread 0 of block (0, 0, 0) uses a sum of the product of line 5 before mma_awaited()",
    ),
    "sums_stored_in_flight": (
        {"await": "", "use": "", "reuse": ""},
        "line 9: thread 0 of block (0, 0, 0) uses a sum of the product of line 5 before mma_awaited()",
    ),
    "sums_added_to_since": (
        {
            "await": "const Tile<f32, L0> more = mma_issued<P>(sums, memory, memory + 2048, true, 10); sums = mma_awaited<0>(sums, 6);"
        },
        "line 6: thread 0 of block (0, 0, 0) has the sums of the product of line 5 in its registers, "
        "to which that of line 10 has added since",
    ),
    "half_a_group": (
        {"issue": "if (warp() < 2) sums = mma_issued<P>(sums, memory, memory + 2048, false, 5);"},
        "threads 0-63 wait at the product of line 5",
    ),
    "different_operands": (
        {"issue": "sums = mma_issued<P>(sums, memory + thread() % 2 * 1024, memory + 2048, false, 5);"},
        "line 5: thread 0 of block (0, 0, 0) and thread 1 of its group multiply different operands",
    ),
}


def operand_text(changes):
    steps = "\n  ".join({**OPERAND_STEPS, **changes}.values())
    product = async_programs.product(
        64, 1, name="P", left_lies=(True, 1024, 128, 0, 2048), right_lies=(True, 1024, 128, 0, 2048)
    )
    body = f"""  Tile<f32, L0> sums;
  {steps}
  for (int r = 0; r < 32; ++r) {{
    const int row = warp() * 16 + lane() / 4 + r / 2 % 2 * 8, column = r / 4 * 8 + lane() % 4 * 2 + r % 2;
    store_element(p1.data + row * 64 + column, sums.x[r], true, 9);
  }}"""
    extra = f"{product}\nstruct L0 {{ static constexpr int registers = 32; }};"
    return async_programs.text(body, 128, "operands", extra, "ArrayParameter<bf16, 1> p0, ArrayParameter<f32, 1> p1")


def run_operands(changes):
    x, out = torch.randn(2, 64, 16).bfloat16(), torch.zeros(64 * 64)
    # Two columns of 8 x 8 elements along k, each of 64 rows.
    lying = x.view(2, 64, 2, 8).transpose(1, 2).reshape(-1)
    return emulate.run_text(operand_text(changes), 128, 4096, [lying, out]), x, out.view(64, 64)


def test_operands_written_by_threads():
    report, x, out = run_operands({})
    assert report is None
    torch.testing.assert_close(out.double(), x[0].double() @ x[1].double().t() + 1, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", WRONG_OPERANDS)
def test_wrong_operands(name):
    changes, expected = WRONG_OPERANDS[name]
    report, *_ = run_operands(changes)
    assert report is not None
    assert expected in report
