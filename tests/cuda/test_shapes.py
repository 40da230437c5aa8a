"""Kernels for a GPU in shapes that fill many warps or hardly one, from memory of any order, against the same kernels on
the CPU."""

import math

import pytest
import torch
from emulate import same_on_both
from tile_ops import _C

SHAPES = [(1, 1), (1, 70), (70, 1), (7, 33), (33, 7), (64, 130), (130, 5), (128, 96), (8, 600), (600, 8)]
DTYPES = {"i32": torch.int32, "bf16": torch.bfloat16, "f64": torch.float64, "i8": torch.int8, "bool": torch.bool}


def values(dtype, *sizes):
    return torch.randint(0, 2 if dtype == "bool" else 4, sizes).to(DTYPES[dtype])


def pad(dtype):
    return "1.0" if dtype in ("bf16", "f64") else "1"


def kernel(arrays, body):
    """A kernel of arrays %a, %b, … of (dtype, rank), with the block's number %i and zero %z."""
    parameters = ", ".join(f"%{chr(97 + n)}: array<{dtype},{rank}>" for n, (dtype, rank) in enumerate(arrays))
    return f"kernel k({parameters}) {{\n%z: i32 = constant {{dtype=i32, value=0}}\n%i: i32 = bid {{axis=0}}\n{body}\n}}\n"


def transposed(x):
    return x.mT.contiguous().mT


def test_reductions_over_each_axis_and_both():
    launches = []
    for number, shape in enumerate(SHAPES):
        dtype = list(DTYPES)[number % len(DTYPES)]
        name = {"bool": "reduce_any", "i8": "reduce_max"}.get(dtype, "reduce_sum")
        for layout in (lambda x: x, transposed):
            m, n = shape
            body = f"""%t: {dtype}[{m}, {n}] = load %a, %i, %z {{pad={pad(dtype)}, shape=[{m}, {n}], steps=[{m}, {n}]}}
%r: {dtype}[{n}] = {name} %t {{axes=[0]}}
%s: {dtype}[{m}] = {name} %t {{axes=[1]}}
%u: {dtype} = {name} %t {{axes=[0, 1]}}
%v: {dtype}[1, {n}] = reshape %r {{shape=[1, {n}]}}
%w: {dtype}[1] = reshape %u {{shape=[1]}}
store %b, %v, %i, %z {{steps=[1, {n}]}}
store %c, %s, %i {{steps=[{m}]}}
store %d, %w, %i {{steps=[1]}}"""
            arrays = [(dtype, 2), (dtype, 2), (dtype, 1), (dtype, 1)]
            x = layout(values(dtype, 2 * m - m // 3, n + 2))
            outputs = [torch.zeros(2, n), torch.zeros(2 * m), torch.zeros(2)]
            launches.append((kernel(arrays, body), (2, 1, 1), [x, *(out.to(DTYPES[dtype]) for out in outputs)]))
    same_on_both(launches)


def test_elements_change_threads():
    """A tile read along one axis and written along the other; joined with itself; turned in registers."""
    launches = []
    for number, (m, n) in enumerate(SHAPES):
        dtype = list(DTYPES)[number % len(DTYPES)]
        body = f"""%t: {dtype}[{m}, {n}] = load %a, %z, %z {{pad={pad(dtype)}, shape=[{m}, {n}], steps=[{m}, {n}]}}
%u: {dtype}[{n}, {m}] = permute %t {{axes=[1, 0]}}
%v: {dtype}[{m * n}] = reshape %u {{shape=[{m * n}]}}
%w: {dtype}[{2 * m}, {n}] = cat %t, %t {{axis=0}}
%s: {dtype}[{m}, {2 * n}] = cat %t, %t {{axis=1}}
store %b, %t, %z, %z {{steps=[{m}, {n}]}}
store %c, %v, %z {{steps=[{m * n}]}}
store %d, %w, %z, %z {{steps=[{2 * m}, {n}]}}
store %e, %s, %z, %z {{steps=[{m}, {2 * n}]}}"""
        arrays = [(dtype, 2), (dtype, 2), (dtype, 1), (dtype, 2), (dtype, 2)]
        outputs = [transposed(torch.zeros(m, n)), torch.zeros(m * n), torch.zeros(2 * m, n), torch.zeros(m, 2 * n)]
        launches.append((kernel(arrays, body), (1, 1, 1), [values(dtype, m, n), *(out.to(DTYPES[dtype]) for out in outputs)]))
    same_on_both(launches)


def test_indices_before_and_after_an_array():
    """Windows and slices that begin at negative indices, and reach beyond the end, in whole vectors and not."""
    launches = []
    for dtype in DTYPES:
        for columns in (32, 37):
            for at in (-3, -1, 0, 1, 40):
                body = f"""%k: i32 = constant {{dtype=i32, value={at}}}
%l: i32 = constant {{dtype=i32, value={at + 50}}}
%t: {dtype}[4, 16] = load %a, %k, %k {{pad={pad(dtype)}, shape=[4, 16], steps=[2, 8]}}
%s: array<{dtype},2> = slice %a, %k, %l {{axis=1}}
%u: {dtype}[4, 16] = load %s, %z, %i {{pad={pad(dtype)}, shape=[4, 16], steps=[4, 16]}}
store %b, %t, %i, %z {{steps=[4, 16]}}
store %c, %u, %i, %z {{steps=[4, 16]}}
store %d, %t, %k, %k {{steps=[4, 16]}}"""
                arrays = [values(dtype, 5, columns), values(dtype, 12, 16), values(dtype, 12, 15), values(dtype, 7, 20)]
                launches.append((kernel([(dtype, 2)] * 4, body), (1, 1, 1), arrays))
    same_on_both(launches)


def test_arrays_without_elements():
    body = """%t: i32[3, 8] = load %a, %i, %z {pad=1, shape=[3, 8], steps=[3, 8]}
%u: i32[3, 8] = broadcast %z {shape=[3, 8]}
%g: i32[3, 8] = gather %a, %u, %u {pad=1}
%r: i32[3, 8] = add %t, %g
store %b, %r, %i, %z {steps=[3, 8]}
store %a, %r, %i, %z {steps=[3, 8]}
%q: i32[3, 8] = atomic_add %a, %r, %u, %u"""
    text = kernel([("i32", 2), ("i32", 2)], body)
    same_on_both(
        [
            (text, (1, 1, 1), [torch.zeros(sizes, dtype=torch.int32), torch.zeros(3, 8, dtype=torch.int32)])
            for sizes in ((0, 8), (3, 0), (0, 0))
        ]
    )
    same_on_both([(text, (0, 1, 1), [torch.zeros(3, 8, dtype=torch.int32), torch.zeros(3, 8, dtype=torch.int32)])])


def test_scalars_of_a_launch():
    text = """kernel k(%a: array<f64,1>, %x: f64, %n: i32, %c: bool) {
%i: i32 = bid {axis=0}
%y: f64 = astype %n {dtype=f64}
%w: f64 = where %c, %x, %y
%t: f64[5] = broadcast %w {shape=[5]}
store %a, %t, %i {steps=[5]}
}"""
    same_on_both([(text, (2, 1, 1), [torch.zeros(8, dtype=torch.float64), 0.1, -7, c]) for c in (False, True)])


@pytest.mark.slow
def test_products_in_stages_of_every_width():
    launches = []
    for (m, n, k), edges in (
        ((16, 16, 16), (0, 0, 0)),
        ((64, 80, 48), (3, 5, 7)),
        ((48, 64, 80), (0, 8, 8)),
        ((128, 128, 32), (1, 0, 8)),
        ((32, 16, 96), (8, 8, 8)),
        ((24, 40, 20), (1, 1, 1)),
        ((32, 80, 16), (0, 8, 0)),
        ((16, 96, 80), (1, 0, 8)),
        ((32, 176, 16), (3, 8, 16)),
        ((80, 16, 192), (8, 0, 8)),
        ((16, 16, 176), (0, 8, 24)),
        ((96, 192, 32), (8, 1, 8)),
    ):
        for left_transposed, right_transposed in ((False, False), (True, False), (False, True), (True, True)):
            rows, columns, depth = 2 * m - edges[0], n - edges[1], 4 * k - edges[2]
            x, y = values("bf16", rows, depth), values("bf16", depth, columns)
            body = f"""%one: i32 = constant {{dtype=i32, value=1}}
%k: i32 = constant {{dtype=i32, value={k}}}
%d: i32 = dim %a {{axis=1}}
%high: i32 = cdiv %d, %k
%zero: f32 = constant {{dtype=f32, value=0.0}}
%none: f32[{m}, {n}] = broadcast %zero {{shape=[{m}, {n}]}}
%sums: f32[{m}, {n}] = for %z, %high, %one, %none (%j: i32, %acc: f32[{m}, {n}]) {{
  %x: bf16[{m}, {k}] = load %a, %i, %j {{pad=0.0, shape=[{m}, {k}], steps=[{m}, {k}]}}
  %y: bf16[{k}, {n}] = load %b, %j, %z {{pad=0.0, shape=[{k}, {n}], steps=[{k}, {n}]}}
  %p: f32[{m}, {n}] = mma %x, %y, %acc
  yield %p
}}
store %c, %sums, %i, %z {{steps=[{m}, {n}]}}"""
            text = kernel([("bf16", 2), ("bf16", 2), ("f32", 2)], body)
            operands = transposed(x) if left_transposed else x, transposed(y) if right_transposed else y
            launches.append((text, (2, 1, 1), [*operands, torch.full((rows, columns), -1.0)]))
    same_on_both(launches)


@pytest.mark.parametrize("read", ["load %v {pad=7, shape=[], steps=[]}", "gather %v {pad=7}"])
@pytest.mark.parametrize(
    "write", ["store %v, %o {steps=[]}", "add_tile %v, %o {steps=[]}", "scatter %v, %o", "%q: i32 = atomic_add %v, %o"]
)
def test_an_element_that_is_not_there(read, write):
    """An element outside of a view of rank 0 reads as padding, and a write to it does nothing."""
    text = kernel(
        [("i32", 1), ("i32", 1)],
        f"""%v: array<i32,0> = index %a, %i
%o: i32 = constant {{dtype=i32, value=9}}
{write}
%x: i32 = {read}
%t: i32[1] = broadcast %x {{shape=[1]}}
store %b, %t, %i {{steps=[1]}}""",
    )
    for run in (lambda *launch: same_on_both([launch]), _C.run_ir):
        memory, seen = torch.arange(1, 9, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
        run(text, (4, 1, 1), [memory[:2], seen])
        there = [9, 9] if write.startswith(("store", "scatter")) else [10, 11]
        assert seen.tolist() == [*there, 7, 7]
        assert memory.tolist() == there + [3, 4, 5, 6, 7, 8]


def test_padding_of_an_element_that_is_not_there():
    """Reading gives the padding in every dtype, also in front of a slice."""
    launches = []
    more = {**DTYPES, "f32": torch.float32, "i64": torch.int64}
    pads = {"f32": -math.inf, "bf16": 1.5, "f64": 1e300, "i8": -3, "i64": -(2**40), "bool": 1}
    for dtype, padding in pads.items():
        torch_dtype = more[dtype]
        body = f"""%one: i32 = constant {{dtype=i32, value=1}}
%s: array<{dtype},1> = slice %a, %one, %i {{axis=0}}
%v: array<{dtype},0> = index %s, %i
%x: {dtype} = load %v {{pad={padding}, shape=[], steps=[]}}
%t: {dtype}[1] = broadcast %x {{shape=[1]}}
store %b, %t, %i {{steps=[1]}}"""
        text, x = kernel([(dtype, 1), (dtype, 1)], body), torch.ones(8).to(torch_dtype)
        got = torch.zeros(4).to(torch_dtype)
        _C.run_ir(text, (4, 1, 1), [x[:2], got])
        assert torch.equal(got, torch.full((4,), padding, dtype=torch_dtype)), dtype
        launches.append((text, (4, 1, 1), [x[:2], torch.zeros(4).to(torch_dtype)]))
    same_on_both(launches)
