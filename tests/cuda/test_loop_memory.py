"""Tests what a loop keeps in shared memory for lack of registers: tiles that it carries, and loads of its next iteration."""

import re

import emulate
import pytest
import tile_ops
import torch
from emulate import same_on_both
from prims.test_structured import DTYPES
from prims.test_products import TORCH
from test_shapes import kernel

COLUMNS, ROWS = 8192, 3
WIDE = {"f64", "i64"}  # of which as many registers hold half as many sums


def sums_of_rows(dtype, count):
    """out[i] = the sum over rows of x times i + 1 and the row's sum, in a loop that carries all of them."""
    shape, zero = f"[{COLUMNS}]", "0.0" if dtype[0] == "f" else "0"
    carried = ", ".join(f"%a{i}: {dtype}{shape}" for i in range(count))
    steps = "\n".join(
        f"""  %f{i}: {dtype} = constant {{dtype={dtype}, value={i + 1}{zero[1:]}}}
  %h{i}: {dtype}{shape} = broadcast %f{i} {{shape={shape}}}
  %g{i}: {dtype}{shape} = mul %y, %h{i}
  %n{i}: {dtype}{shape} = add %a{i}, %g{i}"""
        for i in range(count)
    )
    row = f"[1, {COLUMNS}]"
    stores = "\n".join(
        f"""%c{i}: i32 = constant {{dtype=i32, value={i}}}
%t{i}: {dtype}{row} = reshape %s{i} {{shape={row}}}
store %b, %t{i}, %c{i}, %z {{steps={row}}}"""
        for i in range(count)
    )
    results = ", ".join(f"%s{i}: {dtype}{shape}" for i in range(count))
    initial = ", ".join(["%none"] * count)
    return kernel(
        [(dtype, 2), (dtype, 2)],
        f"""%high: i32 = dim %a {{axis=0}}
%one: i32 = constant {{dtype=i32, value=1}}
%zero: {dtype} = constant {{dtype={dtype}, value={zero}}}
%none: {dtype}{shape} = broadcast %zero {{shape={shape}}}
{results} = for %z, %high, %one, {initial} (%j: i32, {carried}) {{
  %x: {dtype}{row} = load %a, %j, %z {{pad={zero}, shape={row}, steps={row}}}
  %w: {dtype}{shape} = reshape %x {{shape={shape}}}
  %total: {dtype} = reduce_sum %w {{axes=[0]}}
  %all: {dtype}{shape} = broadcast %total {{shape={shape}}}
  %y: {dtype}{shape} = mul %w, %all
{steps}
  yield {", ".join(f"%n{i}" for i in range(count))}
}}
{stores}""",
    )


@pytest.mark.parametrize("dtype", ["f32", "i32", "f64", "i64"])
def test_sums_without_room_in_registers(dtype):
    count = 4 if dtype in WIDE else 8
    x = torch.randint(-3, 4, (ROWS, COLUMNS)).to(DTYPES[dtype])
    out = torch.full((count, COLUMNS), 7).to(DTYPES[dtype])
    case = emulate.Case(sums_of_rows(dtype, count), (1, 1, 1), [x, out], True)
    text = case.program["text"]
    assert 0 < text.count("  Spilled<") < count, text
    (report,) = emulate.run([case])
    assert report is None, f"{report}\n{text}"
    expected = (x * x.sum(1, keepdim=True)).sum(0) * torch.arange(1, count + 1).unsqueeze(1).to(x.dtype)
    assert torch.equal(case.arguments[1], expected)


def test_layer_norm_keeps_the_sum_for_the_bias_in_shared_memory():
    x, w = (torch.empty(*size, device="meta", dtype=torch.bfloat16) for size in ((4096, 16384), (16384,)))
    statistic = torch.empty(4096, 1, device="meta")

    def text_of(operator, *args):
        return tile_ops.inspect(operator, x, x, [16384], *args, what="cuda", arch=90)

    text = text_of(torch.ops.tile.layer_norm_backward, w, w, statistic, statistic, [True] * 3)
    assert text.count("  Spilled<") == 1 and "norm_backward_columns" not in text
    assert "Spilled<" not in text_of(torch.ops.tile.rms_norm_backward, w, statistic, [True] * 2)


def test_add_rms_norm_prefetches_three_rows_and_spills_one_sum():
    x, w = (torch.empty(*size, device="meta", dtype=torch.bfloat16) for size in ((4096, 16384), (16384,)))
    statistic, mask = torch.empty(4096, 1, device="meta"), [True] * 2
    text = tile_ops.inspect(torch.ops.tile.add_rms_norm_backward, x, x, x, [16384], w, statistic, mask, what="cuda", arch=90)
    # inspect shows the configuration that runs: loads stay ahead.
    assert text.count("  Spilled<") == 1 and text.count("  const PrefetchedTile<") == 3
    assert "norm_backward_columns" not in text


SHAPE = "[1, 4096]"


def six_sums(dtype):
    """r = the sum over rows of the squares of six arrays: six tiles an iteration, which registers have no room for."""
    names, pad = "abcdef", "0.0" if dtype[0] in "fb" else "0"
    loads = "\n".join(
        f"""  %x{n}: {dtype}{SHAPE} = load %{n}, %j, %z {{pad={pad}, shape={SHAPE}, steps={SHAPE}}}
  %y{n}: {dtype}{SHAPE} = mul %x{n}, %x{n}"""
        for n in names
    )
    sums = "\n".join(f"  %s{i + 1}: {dtype}{SHAPE} = add %s{i}, %y{n}" for i, n in enumerate(names))
    return f"""%high: i32 = dim %a {{axis=0}}
%one: i32 = constant {{dtype=i32, value=1}}
%zero: {dtype} = constant {{dtype={dtype}, value={pad}}}
%none: {dtype}{SHAPE} = broadcast %zero {{shape={SHAPE}}}
%r: {dtype}{SHAPE} = for %z, %high, %one, %none (%j: i32, %s0: {dtype}{SHAPE}) {{
{loads}
{sums}
  yield %s6
}}
store %g, %r, %z, %z {{steps={SHAPE}}}"""


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "i8"])
@pytest.mark.parametrize(
    "rows, columns, prefetch", [(0, 4096, True), (1, 4096, True), (5, 4096, True), (3, 4000, True), (3, 4001, False)]
)
def test_loads_of_the_next_iteration(dtype, rows, columns, prefetch):
    """Vectors that an edge cuts in two are loaded where they are wanted."""
    arrays = [torch.randint(0, 3, (rows, columns)).to(TORCH[dtype]) for _ in range(6)]
    launch = (kernel([(dtype, 2)] * 7, six_sums(dtype)), (1, 1, 1), [*arrays, torch.full((1, columns), 7).to(TORCH[dtype])])
    assert ("PrefetchedTile<" in emulate.Case(*launch).program["text"]) == prefetch
    same_on_both([launch])


@pytest.mark.parametrize("dtype, shared", [("f32", False), ("bf16", True), ("f16", True)])
@pytest.mark.parametrize("rows, columns", [(0, 2048), (1, 2048), (5, 2000)])
def test_rows_of_16_bits_of_a_loop_that_reduces_wait_in_shared_memory(dtype, shared, rows, columns):
    """Each row weighted by its own sum: in registers NVRTC would pack the next row at once, and so wait for it."""
    body = f"""%high: i32 = dim %a {{axis=0}}
%one: i32 = constant {{dtype=i32, value=1}}
%zero: f32 = constant {{dtype=f32, value=0.0}}
%none: f32[1, 2048] = broadcast %zero {{shape=[1, 2048]}}
%r: f32[1, 2048] = for %z, %high, %one, %none (%j: i32, %s: f32[1, 2048]) {{
  %x: {dtype}[1, 2048] = load %a, %j, %z {{pad=0.0, shape=[1, 2048], steps=[1, 2048]}}
  %y: f32[1, 2048] = astype %x {{dtype=f32}}
  %t: f32[1] = reduce_sum %y {{axes=[1]}}
  %u: f32[1, 1] = reshape %t {{shape=[1, 1]}}
  %v: f32[1, 2048] = broadcast %u {{shape=[1, 2048]}}
  %w: f32[1, 2048] = mul %y, %v
  %n: f32[1, 2048] = add %s, %w
  yield %n
}}
store %b, %r, %z, %z {{steps=[1, 2048]}}"""
    x = torch.randint(-2, 3, (rows, columns)).to(TORCH[dtype])
    launch = (kernel([(dtype, 2), ("f32", 2)], body), (1, 1, 1), [x, torch.full((1, columns), 7.0)])
    assert ("PrefetchedTile<" in emulate.Case(*launch).program["text"]) == shared
    same_on_both([launch])


def test_a_product_after_the_loop_has_other_memory():
    """A thread may still read its elements when the next one copies what all multiply."""
    tile = "[64, 64]"
    load = f"{{pad=0.0, shape={tile}, steps={tile}}}"
    text = kernel(
        [("bf16", 2)] * 7 + [("f32", 2)],
        f"""{six_sums("bf16")}
%left: bf16{tile} = load %a, %z, %z {load}
%right: bf16{tile} = load %b, %z, %z {load}
%start: f32 = constant {{dtype=f32, value=0.0}}
%null: f32{tile} = broadcast %start {{shape={tile}}}
%p: f32{tile} = mma %left, %right, %null
store %h, %p, %z, %z {{steps={tile}}}""",
    )
    arrays = [torch.randint(0, 3, (64, 4096)).bfloat16() for _ in range(6)]
    launch = (text, (1, 1, 1), [*arrays, torch.zeros(1, 4096).bfloat16(), torch.zeros(64, 64)])
    offsets = re.findall(r"> [tv]\d+ = \{staged_memory\(\) \+ (\d+)\}", emulate.Case(*launch).program["text"])
    assert len(offsets) == 8 and len(set(offsets)) == 8, offsets
    same_on_both([launch])
