"""Tiles that span a cluster: what is distributed over blocks and what is not, sums across them, and the emulator's reports of
clusters."""

import emulate
import pytest
import torch
import torch.nn.functional as F
from combinations import by_turns
from emulate import Case
from emulate_operators import Emulation
from test_shapes import kernel

ops = torch.ops.tile


def case(text, grid, arrays, **limits):
    """With blocks that hold so little that tiles of tests need a cluster."""
    return Case(text, grid, arrays, **{"block_bytes": 2048, **limits})


SUMS = """%n: i32 = num_blocks {axis=0}
%s: i32 = bid {axis=1}
%t: f32[4,512] = load %a, %i, %s {pad=0.0, shape=[4,512], steps=[4,512]}
%u: f32[4] = reduce_sum %t {axes=[1]}
%w: f32[4,1] = reshape %u {shape=[4,1]}
%x: f32[4,512] = broadcast %w {shape=[4,512]}
%d: f32[4,512] = sub %t, %x
%m: f32 = reduce_max %d {axes=[0, 1]}
%p: f32[4,512] = broadcast %m {shape=[4,512]}
%e: f32[4,512] = mul %d, %p
store %b, %e, %i, %s {steps=[4,512]}
%q: i32 = mul %n, %s
%k: i32 = add %i, %q
%v: f32[4,1] = add %w, %w
store %c, %v, %k, %z {steps=[4,1]}"""


@pytest.mark.parametrize("block_bytes, blocks", [(4096, 2), (2048, 4), (1024, 8), (512, 16)])
def test_sums_over_rows_and_over_all_cross_the_cluster(block_bytes, blocks):
    a = torch.randint(-8, 9, (8, 1500)).float()  # whose sums are exact
    b, c = torch.zeros(8, 1500), torch.zeros(24, 1)
    text = kernel([("f32", 2)] * 3, SUMS)
    run = case(text, (2, 3, 1), [a, b, c], block_bytes=block_bytes)
    assert run.program["cluster"] == blocks
    assert emulate.run([run]) == [None]
    tiles = F.pad(a.double(), (0, 36)).reshape(2, 4, 3, 512)
    sums = tiles.sum(3, True)
    d = tiles - sums
    expected = d * d.amax((1, 3), True)
    torch.testing.assert_close(b, expected.reshape(8, 1536)[:, :1500].float())
    torch.testing.assert_close(c, 2 * sums.permute(2, 0, 1, 3).reshape(24, 1).float())


@pytest.mark.parametrize(
    "kind, dtype", [("sum", "f64"), ("prod", "f32"), ("max", "i32"), ("min", "i64"), ("max", "bf16"), ("sum", "u8")]
)
def test_reductions_of_every_width(kind, dtype):
    types = {
        "f64": torch.float64,
        "f32": torch.float32,
        "i32": torch.int32,
        "i64": torch.int64,
        "bf16": torch.bfloat16,
        "u8": torch.uint8,
    }
    a = torch.randn(3, 2048).exp() * 40 if kind != "prod" else 1 + torch.randn(3, 2048) / 64
    a = a.to(types[dtype])
    b = torch.zeros(3, dtype=types[dtype])
    text = kernel(
        [(dtype, 2), (dtype, 1)],
        f"""%t: {dtype}[1,2048] = load %a, %i, %z {{pad=0{".0" if "f" in dtype else ""}, shape=[1,2048], steps=[1,2048]}}
%u: {dtype}[1] = reduce_{kind} %t {{axes=[1]}}
store %b, %u, %i {{steps=[1]}}""",
    )
    run = case(text, (3, 1, 1), [a, b], block_bytes=512)
    assert run.program["cluster"] > 1
    assert emulate.run([run]) == [None]
    expected = {
        "sum": lambda: a.sum(1),
        "prod": lambda: a.double().prod(1),
        "max": lambda: a.amax(1),
        "min": lambda: a.amin(1),
    }[kind]()
    torch.testing.assert_close(b, expected.to(b.dtype))


def over_rows(width, start, body):
    """A loop over the rows of %a: body makes %x, the next %c, of the row, %t, and of %c, at first rows of `start`. Stores the
    last %c."""
    row = f"f32[1,{width}]"
    return kernel(
        [("f32", 2), ("f32", 1)],
        f"""%o: i32 = constant {{dtype=i32, value=1}}
%n: i32 = dim %a {{axis=0}}
%f: f32 = constant {{dtype=f32, value={start}}}
%s: {row} = broadcast %f {{shape=[1,{width}]}}
%r: {row} = for %z, %n, %o, %s (%k: i32, %c: {row}) {{
{body}
  yield %x
}}
%y: f32[{width}] = reshape %r {{shape=[{width}]}}
store %b, %y, %z {{steps=[{width}]}}""",
    )


def test_sums_in_a_loop_take_turns():
    """Blocks that run ahead write into the other buffer."""
    a, b = torch.randn(7, 1024), torch.zeros(1024)
    text = over_rows(
        1024,
        0.0,
        """  %t: f32[1,1024] = load %a, %k, %z {pad=0.0, shape=[1,1024], steps=[1,1024]}
  %u: f32 = reduce_max %t {axes=[0, 1]}
  %v: f32[1,1024] = broadcast %u {shape=[1,1024]}
  %w: f32[1,1024] = mul %t, %v
  %x: f32[1,1024] = add %c, %w""",
    )
    run = case(text, (1, 1, 1), [a, b])
    assert run.program["cluster"] == 4
    assert emulate.run([run]) == [None]
    torch.testing.assert_close(b, (a * a.amax(1, True)).sum(0))


def test_sums_of_a_block_between_those_of_a_cluster():
    """They take turns of their own: other blocks may be ahead by one of a cluster's."""
    # whose sums are exact
    a, b, c = torch.randint(-8, 9, (3, 8192)).float(), torch.randint(-1, 2, (3 * 512,)).float(), torch.zeros(3)
    text = kernel(
        [("f32", 2), ("f32", 1), ("f32", 1)],
        """%t: f32[1,8192] = load %a, %i, %z {pad=0.0, shape=[1,8192], steps=[1,8192]}
%m: f32[1] = reduce_max %t {axes=[1]}
%y: f32[512] = load %b, %i {pad=0.0, shape=[512], steps=[512]}
%l: f32 = reduce_sum %y {axes=[0]}
%w: f32[1,1] = reshape %m {shape=[1,1]}
%k: f32[1,1] = broadcast %l {shape=[1,1]}
%v: f32[1,1] = mul %w, %k
%x: f32[1,8192] = broadcast %v {shape=[1,8192]}
%d: f32[1,8192] = sub %t, %x
%s: f32[1] = reduce_sum %d {axes=[1]}
store %c, %s, %i {steps=[1]}""",
    )
    run = case(text, (3, 1, 1), [a, b, c], block_bytes=16384)
    assert run.program["cluster"] == 4 and "(buffer)" in run.program["text"] and "(cluster_buffer)" in run.program["text"]
    assert emulate.run([run]) == [None]
    assert torch.equal(c.double(), (a - a.amax(1, True) * b.reshape(3, 512).sum(1, True)).double().sum(1))


def test_a_region_that_begins_with_a_sum():
    a, b = torch.randn(5, 4096), torch.zeros(4096)
    text = over_rows(
        4096,
        1.0,
        """  %u: f32[1] = reduce_max %c {axes=[1]}
  %t: f32[1,4096] = load %a, %k, %z {pad=0.0, shape=[1,4096], steps=[1,4096]}
  %q: f32[1] = reduce_min %t {axes=[1]}
  %v: f32[1] = add %u, %q
  %w: f32[1,1] = reshape %v {shape=[1,1]}
  %y: f32[1,4096] = broadcast %w {shape=[1,4096]}
  %x: f32[1,4096] = add %t, %y""",
    )
    run = case(text, (1, 1, 1), [a, b], passes=False)
    assert run.program["cluster"] > 1
    assert emulate.run([run]) == [None]
    expected = torch.ones(4096)
    for row in a:
        expected = row + (expected.amax() + row.amin())
    torch.testing.assert_close(b, expected)


def test_what_moves_between_threads_stays_in_a_block():
    a, b = torch.randn(32, 64), torch.zeros(64, 32)
    text = kernel(
        [("f32", 2), ("f32", 2)],
        """%t: f32[32,64] = load %a, %z, %z {pad=0.0, shape=[32,64], steps=[32,64]}
%u: f32[64,32] = permute %t {axes=[1, 0]}
%v: f32[2048] = reshape %u {shape=[2048]}
%w: f32[64,32] = reshape %v {shape=[64,32]}
store %b, %w, %z, %z {steps=[64,32]}""",
    )
    run = case(text, (1, 1, 1), [a, b], block_bytes=512)
    assert emulate.run([run]) == [None]
    assert torch.equal(b, a.t())
    text = kernel(
        [("f32", 2), ("f32", 2)],
        """%t: f32[32,64] = load %a, %z, %z {pad=0.0, shape=[32,64], steps=[32,64]}
%u: f32[32,128] = cat %t, %t {axis=1}
store %b, %u, %z, %z {steps=[32,128]}""",
    )
    run = case(text, (1, 1, 1), [a, torch.zeros(32, 128)])
    assert run.program["cluster"] == 1
    assert emulate.run([run]) == [None]
    assert torch.equal(run.arguments[1], torch.cat([a, a], 1))


@pytest.mark.parametrize("arch, blocks", [(80, 1), (89, 1), (90, 16), (100, 16), (120, 8)])
def test_clusters_are_of_archs_that_have_them(arch, blocks):
    text = kernel([("f32", 2)] * 3, SUMS)
    arrays = [torch.zeros(4, 512), torch.zeros(4, 512), torch.zeros(4, 1)]
    assert case(text, (1, 1, 1), arrays, arch=arch, block_bytes=256).program["cluster"] == blocks


def group_norm(input, groups, weight, bias):
    return F.silu(F.group_norm(input, groups, weight, bias))


IMAGES = [((2, 20, 16, 16), 2), ((1, 64, 16, 16), 8), ((2, 12, 8, 64), 3)]


@pytest.mark.parametrize(
    "images, dtype, channels_last", by_turns(IMAGES, [torch.bfloat16, torch.float32], [False, True], kept=2)
)
def test_groups_in_a_cluster(images, dtype, channels_last):
    """Forward and backward are one kernel each, and the sums of the images; against float64."""
    shape, groups = images
    x = (2 * torch.randn(shape) + 3).to(dtype)
    x = (x.contiguous(memory_format=torch.channels_last) if channels_last else x).requires_grad_()
    weight, bias = (torch.randn(shape[1]).to(dtype).requires_grad_() for _ in range(2))
    emulation = Emulation(block_bytes=2048)
    out = emulation.operator(ops.group_norm)(x, groups, weight, bias, activation="silu")
    grad = torch.randn_like(out)
    ours = [out, *torch.autograd.grad(out, [x, weight, bias], grad)]
    wide = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
    expected = group_norm(wide[0], groups, *wide[1:])
    expected = [expected, *torch.autograd.grad(expected, wide, grad.double())]
    for a, b in zip(ours, expected):
        assert (a.double() - b).abs().max() <= (8e-3 if dtype == torch.bfloat16 else 2e-6) * b.abs().max()
    if "tile" in emulation.programs[0]["entry"]:
        names = [f"kernel_{name}" for name in ("group_norm_tile", "group_norm_tile_backward", "sum_partials")]
        assert [program["entry"] for program in emulation.programs] == names
        assert all(p["cluster"] > 1 for p in emulation.programs[:2])


KERNEL = """#include "cuda/device/memory.cuh"

namespace tile {

TILE_KERNEL(64) k(ArrayParameter<i32, 1> p0) {
  u32* shared = (u32*)shared_memory();
  BODY
}

}  // namespace tile
"""
MET = 'arrive_in_cluster(1);\n  wait_in_cluster(1, "kernel.cu", 1);\n  '

REPORTS = {
    "outside": (
        MET + "if (thread() == 3) store_shared_of(block_of_cluster() ^ 1, shared + 64, 1u, 5);",
        "line 5: thread 3 of block (0, 0, 0) writes 4 bytes at 256 of block 1's shared memory, of which the kernel has 256",
    ),
    "no_such_block": (
        MET + "store_shared_of(2, shared + thread(), 1u, 5);",
        "line 5: thread 0 of block (0, 0, 0) writes to the shared memory of block 2 of its cluster, which has 2",
    ),
    "too_early": (
        "arrive_in_cluster(1);\n  store_shared_of(1, shared + thread(), 1u, 5);",
        "line 5: thread 0 of block (0, 0, 0) writes to the shared memory of block 1 of its cluster, "
        "which may not have begun: no barrier of the cluster precedes it",
    ),
    "ended": (
        MET + "if (block_of_cluster() == 0) synchronize(3);\n"
        "  if (block_of_cluster() == 0) store_shared_of(1, shared + thread(), 1u, 5);",
        "line 5: thread 0 of block (0, 0, 0) writes to the shared memory of block 1 of its cluster, which has ended",
    ),
    "race": (
        MET + "store_shared(shared + thread(), 1u, 4);\n"
        "  store_shared_of(block_of_cluster() ^ 1, shared + thread(), 1u, 5);\n  " + MET,
        "line 4: thread 0 of block (1, 0, 0) writes 4 bytes at 0 of shared memory; thread 0 of another block wrote it at line 5, "
        "and no barrier of the cluster is in between",
    ),
    "read_without_a_barrier": (
        MET + "store_shared_of(block_of_cluster() ^ 1, shared + thread(), 1u, 5);\n"
        "  synchronize(6);\n  load_shared<u32>(shared + thread(), 7);",
        "line 7: thread 0 of block (0, 0, 0) reads 4 bytes at 0 of shared memory; thread 0 of another block wrote it at line 5, "
        "and no barrier of the cluster is in between",
    ),
    "twice": (
        "arrive_in_cluster(1);\n  arrive_in_cluster(2);",
        "thread 0 of block (0, 0, 0) arrives twice at a barrier of the cluster",
    ),
    "deadlock": (
        MET + 'if (block_of_cluster() == 1 && warp() == 0) synchronize(8, "kernel.cu", 8);\n  '
        'arrive_in_cluster(9);\n  wait_in_cluster(9, "kernel.cu", 9);\n'
        '  if (warp() == 1) synchronize(10, "kernel.cu", 10);',
        "the cluster of block (0, 0, 0) is deadlocked: block 0: threads 0-63 wait at the barrier of the "
        "cluster of line 9 (kernel.cu:9); "
        "block 1: threads 0-31 wait at the barrier of line 8 (kernel.cu:8); threads 32-63 wait at the barrier "
        "of the cluster of line 9 (kernel.cu:9)",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def compiled():
    emulate.functions([{"text": KERNEL.replace("BODY", body), "entry": "k"} for body, _ in REPORTS.values()])


@pytest.mark.parametrize("name", REPORTS)
def test_report(name):
    body, expected = REPORTS[name]
    report = emulate.run_text(KERNEL.replace("BODY", body), 64, 256, [torch.zeros(80, dtype=torch.int32)], cluster=2)
    assert report == f"kernel k, {expected}"
