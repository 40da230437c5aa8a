"""How much shared memory a kernel for a GPU asks for."""

import pytest
import torch
from emulate import Case, run
from test_shapes import kernel

NONE = """%zero: f32 = constant {dtype=f32, value=0.0}
%none: f32[64, 64] = broadcast %zero {shape=[64, 64]}"""
STAGED = """%x: bf16[64, 64] = load %a, %i, %z {pad=0.0, shape=[64, 64], steps=[64, 64]}
%y: bf16[64, 64] = load %b, %z, %i {pad=0.0, shape=[64, 64], steps=[64, 64]}
%p: f32[64, 64] = mma %x, %y, %none"""
JOINED = """%w: f32[128, 64] = cat %none, %none {axis=0}
%v: f32[192, 64] = cat %w, %none {axis=0}"""


@pytest.mark.parametrize(
    "body, at, needed, staged",
    [
        ((STAGED, JOINED), "ir:10: cat: of f32[192,64]", 65536, 16384),
        ((JOINED, STAGED), "ir:8: load: of bf16[64,64]", 57344, 8192),
    ],
)
def test_steps_and_staged_tiles_share_what_the_gpu_has(body, at, needed, staged):
    text = kernel([("bf16", 2), ("bf16", 2)], "\n".join((NONE, *body)))
    arguments = [torch.zeros(64, 64, dtype=torch.bfloat16), torch.zeros(64, 64, dtype=torch.bfloat16)]
    with pytest.raises(NotImplementedError) as error:
        Case(text, (1, 1, 1), arguments, False, shared_bytes=48 * 1024).program
    assert str(error.value) == (
        f"{at} needs {needed} bytes of shared memory per block, {staged} of them for the tiles that are "
        "multiplied, but the GPU has 49152; use smaller tiles"
    )


def test_steps_alone():
    text = kernel([("bf16", 2)], f"{NONE}\n{JOINED}")
    with pytest.raises(NotImplementedError) as error:
        Case(text, (1, 1, 1), [torch.zeros(64, 64, dtype=torch.bfloat16)], False, shared_bytes=40000).program
    assert str(error.value) == (
        "ir:7: cat: of f32[192,64] needs 49152 bytes of shared memory per block, but the GPU has 40000; use smaller tiles"
    )


def test_a_reduction_asks_for_one_sum_a_warp():
    text = kernel(
        [("f32", 2), ("f32", 1)],
        """%t: f32[1, 4096] = load %a, %i, %z {pad=0.0, shape=[1, 4096], steps=[1, 4096]}
%s: f32[1] = reduce_sum %t {axes=[1]}
store %b, %s, %i {steps=[1]}""",
    )
    program = Case(text, (1, 1, 1), [torch.zeros(1, 4096), torch.zeros(1)]).program
    assert (program["threads"], program["shared_bytes"]) == (256, 2 * 128)  # the next takes another buffer


def test_staged_tiles_that_do_not_fit_at_once_are_loaded_to_registers():
    lines = ["%f: f64 = constant {dtype=f64, value=0.0}", "%p0: f64[32, 32] = broadcast %f {shape=[32, 32]}"]
    for i in range(3):
        lines += [
            f"%j{i}: i32 = constant {{dtype=i32, value={i}}}",
            f"%x{i}: f64[32, 64] = load %a, %z, %j{i} {{pad=0.0, shape=[32, 64], steps=[32, 64]}}",
            f"%y{i}: f64[64, 32] = load %b, %j{i}, %z {{pad=0.0, shape=[64, 32], steps=[64, 32]}}",
            f"%p{i + 1}: f64[32, 32] = mma %x{i}, %y{i}, %p{i}",
        ]
    text = kernel([("f64", 2)] * 3, "\n".join([*lines, "store %c, %p3, %z, %z {steps=[32, 32]}"]))
    for shared_bytes, staged in ((227 * 1024, 6), (48 * 1024, 1)):
        x, y, out = (
            torch.randint(-4, 5, (32, 192)).double(),
            torch.randint(-4, 5, (192, 32)).double(),
            torch.zeros(32, 32).double(),
        )
        case = Case(text, (1, 1, 1), [x, y, out], False, shared_bytes=shared_bytes)
        assert case.program["text"].count("copy_tile_async<") == staged and case.program["shared_bytes"] <= shared_bytes
        assert run([case]) == [None]
        assert torch.equal(out, x @ y)


@pytest.mark.parametrize("before, stages, bytes", [("", 3, 3 * 32768), (JOINED, 2, 2 * 32768 + 192 * 64 * 4)])
def test_staging_leaves_room_for_two_blocks(before, stages, bytes):
    """With three stages and the steps' memory a multiprocessor of 228 KB would hold one block."""
    joined = "store %d, %v, %z, %z {steps=[192, 64]}" if before else ""
    text = kernel(
        [("bf16", 2), ("bf16", 2), ("f32", 2), ("f32", 2)],
        f"""{NONE}
{before}
{joined}
%sum: f32[128, 128] = broadcast %zero {{shape=[128, 128]}}
%one: i32 = constant {{dtype=i32, value=1}}
%n: i32 = constant {{dtype=i32, value=4}}
%r: f32[128, 128] = for %z, %n, %one, %sum (%k: i32, %s: f32[128, 128]) {{
  %x: bf16[128, 64] = load %a, %z, %k {{pad=0.0, shape=[128, 64], steps=[128, 64]}}
  %y: bf16[64, 128] = load %b, %k, %z {{pad=0.0, shape=[64, 128], steps=[64, 128]}}
  %p: f32[128, 128] = mma %x, %y, %s
  yield %p
}}
store %c, %r, %z, %z {{steps=[128, 128]}}""",
    )
    x, y = torch.zeros(128, 256, dtype=torch.bfloat16), torch.zeros(256, 128, dtype=torch.bfloat16)
    arguments = [x, y, torch.zeros(128, 128), torch.zeros(192, 64)]
    program = Case(text, (1, 1, 1), arguments, False, shared_bytes=227 * 1024).program
    assert f"< {stages - 1}; ++" in program["text"]
    assert program["shared_bytes"] == bytes and 2 * (bytes + 1024) <= 228 * 1024
