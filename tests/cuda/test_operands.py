"""Operands of products that a kernel computes: written to shared memory once for all of a block's products."""

import pytest
import torch
from emulate import Case, same_on_both
from test_shapes import kernel
from tile_ops import _C


def loop(m, n, k, rounded, products):
    """Three iterations, each the scores [m, n] of m rows and n columns of depth k, `rounded` of them to 16 bits, times 1, 2,
    3; `products` of (left, right, sum) add up in sums that the loop carries, the last one is stored by each iteration."""
    lines = [
        "%zero: f32 = constant {dtype=f32, value=0.0}",
        "%n: i32 = constant {dtype=i32, value=3}",
        "%one: i32 = constant {dtype=i32, value=1}",
        f"%none: f32[{m}, {n}] = broadcast %zero {{shape=[{m}, {n}]}}",
    ]
    *carried, (left, right) = products
    shape = f"f32[{n}, {k}]"
    for i in range(len(carried)):
        lines.append(f"%s{i}: {shape} = broadcast %zero {{shape=[{n}, {k}]}}")
    results = ", ".join(f"%r{i}: {shape}" for i in range(len(carried)))
    arguments = "".join(f", %o{i}: {shape}" for i in range(len(carried)))
    lines += [
        f"{results} = for %z, %n, %one{''.join(f', %s{i}' for i in range(len(carried)))} (%j: i32{arguments}) {{",
        f"%x: bf16[{m}, {k}] = load %a, %j, %z {{pad=0.0, shape=[{m}, {k}], steps=[{m}, {k}]}}",
        f"%y: bf16[{n}, {k}] = load %b, %z, %z {{pad=0.0, shape=[{n}, {k}], steps=[{n}, {k}]}}",
        f"%yt: bf16[{k}, {n}] = permute %y {{axes=[1, 0]}}",
        f"%t0: f32[{m}, {n}] = mma %x, %yt, %none",
    ]
    for i in range(rounded):
        lines += [
            f"%t{i + 1}: f32[{m}, {n}] = add %t{i}, %t0",
            f"%h{i}: bf16[{m}, {n}] = astype %t{i} {{dtype=bf16}}",
            f"%h{i}t: bf16[{n}, {m}] = permute %h{i} {{axes=[1, 0]}}",
        ]
    lines += [f"%p{i}: {shape} = mma {left}, {right}, %o{i}" for i, (left, right) in enumerate(carried)]
    lines += [
        f"%last0: f32[{m}, {k}] = broadcast %zero {{shape=[{m}, {k}]}}",
        f"%last: f32[{m}, {k}] = mma {left}, {right}, %last0",
        f"store %c, %last, %j, %z {{steps=[{m}, {k}]}}",
        "yield " + ", ".join(f"%p{i}" for i in range(len(carried))),
        "}",
    ]
    lines += [f"store %{chr(100 + i)}, %r{i}, %z, %z {{steps=[{n}, {k}]}}" for i in range(len(carried))]
    text = kernel([("bf16", 2)] * 2 + [("f32", 2)] * (1 + len(carried)), "\n".join(lines))
    arrays = [
        (torch.rand(3 * m, k) < 0.2).bfloat16(),
        (torch.rand(n, k) < 0.2).bfloat16(),
        torch.zeros(3 * m, k),
        *(torch.zeros(n, k) for _ in carried),
    ]
    return text, (1, 1, 1), arrays


def body_lines(text):
    """The lines of the loop's body that multiply, write or wait."""
    lines = Case(*text).program["text"].split("TILE_LOOP")[1].split("\n  }\n")[0].split("\n")
    return [line for line in lines if "mma_sync<" in line or "write_tile<" in line or "synchronize(" in line]


def kinds(body):
    return ["mma" if "mma_sync" in line else "write" if "write" in line else "wait" for line in body]


# Products of attention's gradients: 64 queries and 128 keys of width 128, and fewer.
GRADIENTS = [("%h0t", "%x"), ("%h1t", "%x"), ("%h1", "%y")]
BY_GRID = [
    ("wait", "mma", "write", "write", "wait", "mma", "mma", "mma"),
    ("2, 4, 2, 4", "2, 4, 2, 4", "4, 4, 2, 4", "4, 4, 2, 4"),
]
BY_ROWS = [
    ("wait", "mma", "mma", "write", "write", "wait", "mma", "mma"),
    ("1, 4, 4, 1", "1, 8, 4, 1", "2, 2, 1, 4", "2, 2, 1, 4"),
]


@pytest.mark.parametrize("m, n, k, expected", [(64, 128, 128, BY_GRID), (64, 32, 64, BY_ROWS)], ids=["grid", "rows"])
def test_an_operand_is_written_once_and_one_barrier_serves_all(m, n, k, expected):
    """A grid of warps multiplies large tiles: it reads less from shared memory than warps with whole rows."""
    launch = loop(m, n, k, 2, GRADIENTS)
    body = body_lines(launch)
    operand_layouts = [line.split("Part<bf16, ")[1].split(", ", 1)[1].split(">")[0] for line in body if "Part" in line]
    assert (tuple(kinds(body)), tuple(operand_layouts)) == tuple(expected), "\n".join(body)
    same_on_both([launch])


def test_operands_without_room_reuse_the_memory_of_others():
    """Two of 16 KB fit: the third waits for their readers, and the first is written again where it is read again."""
    launch = loop(64, 128, 128, 3, [("%h0t", "%x"), ("%h1t", "%x"), ("%h2t", "%x"), ("%h0t", "%x"), ("%h0", "%y")])
    body = body_lines(launch)
    assert kinds(body) == [
        "wait",
        "mma",
        "write",
        "write",
        "wait",
        "mma",
        "mma",
        "mma",
        "wait",
        "write",
        "write",
        "wait",
        "mma",
        "mma",
    ], "\n".join(body)
    same_on_both([launch])


HEADS = """
kernel heads(%q: array<bf16,4>, %k: array<bf16,4>, %out: array<f32,4>, %more: array<f32,4>, %g: i32, %h: i32) {
  %z: i32 = constant {dtype=i32, value=0}
  %i: i32 = bid {axis=0}
  %n: i32 = constant {dtype=i32, value=4}
  %one: i32 = constant {dtype=i32, value=1}
  %zero: f32 = constant {dtype=f32, value=0.0}
  %few: f32[16,16] = broadcast %zero {shape=[16,16]}
  %none: f32[16,32] = broadcast %zero {shape=[16,32]}
  %x4: bf16[1,16,1,32] = load %q, %h, %i, %g, %z {pad=PAD, shape=[1,16,1,32], steps=[1,16,1,32]}
  %x: bf16[16,32] = reshape %x4 {shape=[16,32]}
  %sum: f32[16,32] = for %z, %n, %one, %none (%j: i32, %acc: f32[16,32]) {
    %y4: bf16[1,1,16,32] = load %k, %g, %h, %j, %z {pad=PAD, shape=[1,1,16,32], steps=[1,1,16,32]}
    %t4: bf16[1,1,32,16] = permute %y4 {axes=[0,1,3,2]}
    %t: bf16[32,16] = reshape %t4 {shape=[32,16]}
    %scores: f32[16,16] = mma %x, %t, %few
    %y: bf16[16,32] = permute %t {axes=[1,0]}
    %s: bf16[16,16] = astype %scores {dtype=bf16}
    %r: f32[16,32] = mma %s, %y, %acc
    yield %r
  }
  %o: f32[1,1,16,32] = reshape %sum {shape=[1,1,16,32]}
  store %out, %o, %g, %h, %i, %z {steps=[1,1,16,32]}
  add_tile %more, %o, %h, %g, %i, %z {steps=[1,1,16,32]}
}
"""


@pytest.mark.parametrize("pad", [0.0, 1.0])
def test_heads_of_arrays_of_four_axes(pad):
    """Loads, stores and additions at indices of which some are outside, below and above; with 0 outside, loads are
    copied past the registers."""
    text = HEADS.replace("PAD", str(pad))
    launches = []
    for g, h in [(0, 0), (1, 0), (0, 1), (-1, 0), (2, 1), (1, 3), (-7, 9)]:
        q, k = torch.randint(-1, 2, (2, 40, 2, 32)).bfloat16(), torch.randint(-1, 2, (2, 2, 50, 32)).bfloat16()
        launches.append((text, (3, 1, 1), [q, k, torch.ones(2, 2, 40, 32), torch.ones(2, 2, 40, 32), g, h]))
    assert Case(*launches[0]).program["text"].count("copy_tile_async<") == (2 if pad == 0 else 0)
    same_on_both(launches)
    for g, h in [(0, 0), (1, 0)]:  # the text's meaning: inside, and what nothing is stored to
        q, k = torch.randint(-1, 2, (2, 48, 2, 32)).bfloat16(), torch.randint(-1, 2, (2, 2, 64, 32)).bfloat16()
        out, more = torch.ones(2, 2, 48, 32), torch.ones(2, 2, 48, 32)
        _C.run_ir(text, (3, 1, 1), [q, k, out, more, g, h])
        wanted = (q[h, :, g].float() @ k[g, h].float().mT).bfloat16().float() @ k[g, h].float()
        rest = torch.ones(2, 2, dtype=torch.bool)
        rest[g, h] = False
        assert torch.equal(out[g, h], wanted) and (out[rest] == 1).all() and torch.equal(more[h, g], 1 + wanted)


SINGLE = """
kernel single(%a: array<bf16,3>, %b: array<bf16,3>, %out: array<f32,3>) {
  %z: i32 = constant {dtype=i32, value=0}
  %g: i32 = bid {axis=0}
  %n: i32 = constant {dtype=i32, value=3}
  %one: i32 = constant {dtype=i32, value=1}
  %first: f32[1,32,16] = load %out, %g, %z, %z {pad=0.0, shape=[1,32,16], steps=[1,32,16]}
  %sum: f32[1,32,16] = for %z, %n, %one, %first (%j: i32, %acc: f32[1,32,16]) {
    %x: bf16[1,32,16] = load %a, %g, %z, %j {pad=0.0, shape=[1,32,16], steps=[1,32,16]}
    %y: bf16[1,16,16] = load %b, %g, %z, %j {pad=0.0, shape=[1,16,16], steps=[1,16,16]}
    %t: bf16[1,16,16] = permute %y {axes=[0,2,1]}
    %r: f32[1,32,16] = mma %x, %t, %acc
    yield %r
  }
  store %out, %sum, %g, %z, %z {steps=[1,32,16]}
}
"""


def test_products_of_batches_of_one_matrix_are_products_of_matrices():
    x, y = torch.randint(-2, 3, (3, 25, 48)).bfloat16(), torch.randint(-2, 3, (3, 11, 48)).bfloat16()
    out = torch.randint(-2, 3, (3, 25, 11)).float()
    wanted = out + x.float() @ y.float().mT
    text = Case(SINGLE, (3, 1, 1), [x, y, out]).program["text"]
    assert text.count("copy_tile_async<") == 2 and "Part<bf16, " in text and "mma_fma" not in text
    same_on_both([(SINGLE, (3, 1, 1), [x, y, out.clone()])])
    _C.run_ir(SINGLE, (3, 1, 1), [x, y, out])
    assert torch.equal(out, wanted)
