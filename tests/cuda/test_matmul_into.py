"""Products that write several results of a text, as kernels for a GPU compute them: values in the emulator, and their code."""

import emulate_operators
import epilogues
import pytest
import tile_ops
import torch
from combinations import by_turns
from divisions import OTHERS, THIN, divided
from numerics import check

into = torch.ops.tile._matmul_into
bf16, f16, f32, f64, i32 = torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int32
TILES, SUMS, FEW = "matmul", "matmul_add_parts", "matmul_thin"


def made(shape, dtype, turned=False):
    if turned:
        return made((*shape[:-2], shape[-1], shape[-2]), dtype).mT
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    return torch.randint(-9, 9, shape).to(dtype) if dtype == i32 else (torch.randn(shape) / 4).to(dtype)


def given(case):
    """The tensors of a case: x, y, a second right operand, operands and results."""
    shapes, dtype, second, operands, outs = case["product"], case["dtype"], case.get("second"), case["operands"], case["outs"]
    tensors = [made(shape, dtype) for shape in shapes]
    if case.get("order") == "nt":
        tensors[1] = tensors[1].mT.contiguous().mT
    shape = (tensors[0] @ tensors[1]).shape
    factor = made(shapes[1], dtype) if second else None
    operands = [made(sides(shape, each[0]), each[1]) for each in operands]
    return *tensors, factor, operands, [made(shape, *each) if isinstance(each, tuple) else made(shape, each) for each in outs]


def sides(shape, side):
    """The shape of an operand: of a row, a column or all of the result, or of one number."""
    return {"row": shape[-1:], "column": (*shape[-2:-1], 1), "all": shape, "one": ()}[side]


def wanted(case, x, y, second, operands, outs, compute):
    named = {f"x{k}": each if each.dtype == torch.bool else each.to(compute) for k, each in enumerate(operands)}
    named |= {f"x{k}": outs[place].to(compute, copy=True) for k, place in case.get("places", {}).items()}
    if second is not None:
        named["acc2"] = x.to(compute) @ second.to(compute)
    return epilogues.results(case["text"], x.to(compute) @ y.to(compute), named)


SWIGLU = {"text": "g = silu(acc); g * acc2; acc; acc2", "second": True, "operands": []}
MANY = {
    "text": "h = acc + x0; where(x1, silu(h), 0) + x2 * x3; h; (h > 0.25) & x1",
    "operands": [("row", f32), ("all", torch.bool), ("all", bf16), ("column", f32)],
}
PLACED = {"text": "h = acc + x1; h * x0; x2 - h", "operands": [("row", f32)], "places": {1: 0, 2: 1}}
# parts, thin: how the product is divided.
CASES = {
    "wgmma": {"product": [(72, 328), (328, 136)], "dtype": bf16, **MANY, "outs": [bf16, f32, torch.bool]},
    "wgmma, float16, turned": {"product": [(136, 72), (72, 200)], "dtype": f16, **MANY, "outs": [(f16, True), (f32, True), torch.bool]},
    "wgmma, one turned": {"product": [(136, 72), (72, 200)], "dtype": bf16, **MANY, "outs": [f32, (bf16, True), (torch.bool, True)]},
    "wgmma, parts": {"product": [(72, 328), (328, 136)], "dtype": bf16, **MANY, "outs": [bf16, bf16, torch.bool], "parts": 3},
    "wgmma, batches": {"product": [(2, 72, 200), (2, 200, 40)], "dtype": bf16, **MANY, "outs": [bf16, f32, torch.bool]},
    "wgmma, two products": {"product": [(72, 200), (200, 136)], "dtype": bf16, **SWIGLU, "outs": [bf16, f32, bf16]},
    "wgmma, two products, batches": {"product": [(2, 72, 200), (2, 200, 136)], "dtype": bf16, **SWIGLU, "outs": [bf16, f32, f16]},
    "wgmma, in place": {"product": [(136, 328), (328, 264)], "dtype": bf16, **PLACED, "outs": [bf16, f32]},
    "wgmma, in place, parts": {"product": [(72, 328), (328, 136)], "dtype": bf16, **PLACED, "outs": [bf16, f32], "parts": 2},
    "mma.sync": {"product": [(17, 331), (331, 19)], "dtype": bf16, **MANY, "outs": [bf16, f32, torch.bool]},
    "mma.sync, parts": {"product": [(17, 331), (331, 19)], "dtype": bf16, **MANY, "outs": [(bf16, True), f32, torch.bool], "parts": 3},
    "mma.sync, in place": {"product": [(17, 331), (331, 19)], "dtype": f16, **PLACED, "outs": [f16, f32]},
    "mma.sync, two products": {"product": [(37, 51), (51, 43)], "dtype": bf16, **SWIGLU, "outs": [bf16, f32, bf16]},
    "FMA": {"product": [(40, 33), (33, 50)], "dtype": f32, **MANY, "outs": [f64, f32, torch.bool]},
    "FMA, whole numbers": {
        "product": [(40, 3), (3, 50)],
        "dtype": f32,
        "text": "acc * 40; acc + x0; x0 * 2",
        "operands": [("all", i32)],
        "outs": [torch.int64, f32, torch.int16],
    },
    "FMA, two products": {"product": [(5, 40, 33), (5, 33, 50)], "dtype": f32, **SWIGLU, "outs": [f32, f32, bf16]},
    "float64": {"product": [(6, 97), (97, 5)], "dtype": f64, **MANY, "outs": [f64, f32, torch.bool], "parts": 3},
    "one row": {"product": [(1, 1300), (1300, 40)], "dtype": bf16, **MANY, "outs": [bf16, f32, torch.bool], "thin": THIN},
    "three rows, parts": {"product": [(3, 2500), (2500, 40)], "dtype": bf16, **PLACED, "outs": [f32, bf16], "thin": THIN, "parts": 2},
    "one row, two products": {"product": [(1, 1300), (1300, 40)], "dtype": bf16, **SWIGLU, "outs": [bf16, f32, bf16], "thin": THIN},
    "few columns": {"product": [(37, 1300), (1300, 2)], "dtype": f32, **MANY, "outs": [bf16, f32, torch.bool], "thin": THIN},
    "a vector": {"product": [(37, 700), (700,)], "dtype": f16, "text": "h = acc * 2; h; h - acc", "operands": [], "outs": [f16, f32], "thin": THIN},
}  # fmt: skip
ORDERS = [(name, order) for name, case in CASES.items() for order in ("nn", "nt") if order == "nn" or name in ("wgmma", "FMA")]


def call(case):
    def function(x, y, second, operands, outs):
        operands = list(operands)
        for k, place in sorted(case.get("places", {}).items()):
            operands.insert(k, outs[place])
        into(x, y, operands, outs, epilogue=case["text"], second=second)
        return tuple(outs)

    return function


@pytest.mark.parametrize("name, order", ORDERS, ids=lambda each: each)
def test_values(name, order):
    case = {**CASES[name], "order": order}
    parts, thin = case.get("parts", 0), case.get("thin", OTHERS)
    tensors = given(case)
    compute = f64 if case["dtype"] == f64 else f32
    theirs, exact = wanted(case, *tensors, compute), wanted(case, *tensors, f64)
    emulation = emulate_operators.Emulation()
    with divided(max(parts, 1), thin):
        found = emulation.operator(call(case))(*tensors)
    for k, (out, one, right) in enumerate(zip(found, theirs, exact)):
        if not out.is_floating_point():
            # Comparisons and roundings of sums in another order may differ where these are nearly equal.
            distance = exact[1] - 0.25 if out.dtype == torch.bool else right - right.round()
            near = distance.abs() < 1e-4
            assert torch.equal(out[~near], one.to(out.dtype)[~near]), (name, k)
            continue
        if out.dtype == f64 and compute == f32:
            out, one = out.float(), one.float()
        check(out, one.to(out.dtype), right, what=f"{name}, result {k}")
    kernels = [program["entry"].removeprefix("kernel_") for program in emulation.programs]
    assert kernels == [FEW if thin == THIN else TILES] + [SUMS] * bool(parts)
    assert (emulation.programs[0]["path"] == "wgmma") == name.startswith("wgmma")


def test_pairs_are_not_used_where_results_are_loaded():
    """The second of two blocks may have no rows of its own, and would load values that the first one stores."""
    for case, pairs in ((MANY, 2), ({**PLACED, "outs": [bf16, f32]}, 1)):
        case = {"product": [(200, 72), (72, 136)], "dtype": bf16, "outs": [bf16, f32, torch.bool], **case}
        emulation = emulate_operators.Emulation(runs=False)
        with divided(1, OTHERS, (64, 128, 64), pairs=1):
            emulation.operator(call(case))(*given(case))
        assert [program["cluster"] for program in emulation.programs] == [pairs]


def test_the_most_operands_and_results():
    """The parameters of the kernel fit where each tensor has strides of its own."""
    kinds = [f32, bf16, f16, torch.bool, i32, f64, torch.int8]
    numbers = [k for k in range(16) if k % 7 != 3]
    text = (
        "h = acc + "
        + " + ".join(f"x{k}" for k in numbers)
        + "; h; where(x3 | x10, h, 0); "
        + "; ".join(f"h * {k}" for k in range(6))
    )
    case = {
        "product": [(40, 72), (72, 24)],
        "dtype": bf16,
        "text": text,
        "operands": [(("row", "all", "column", "one")[k % 4], kinds[k % 7]) for k in range(16)],
        "outs": [(f32, k % 2 == 1) for k in range(8)],
    }
    tensors = given(case)
    exact = wanted(case, *tensors, f64)
    found = emulate_operators.Emulation().operator(call(case))(*tensors)
    for out, one, right in zip(found, wanted(case, *tensors, f32), exact):
        check(out, one, right)


CODE = {
    "a mask, and what enters the activation": (
        [("row", f32), ("all", torch.bool)],
        "h = acc + x0; where(x1, silu(h), 0); h",
        [bf16, f32],
    ),
    # The second result is of operands alone, and both use what is computed of them.
    "the gradient of gelu, and gelu": (
        [("all", bf16), ("all", bf16)],
        "c = 0.5 * (1 + erf(x0 * 0.7071)); acc * (c + x0 * exp(-0.5 * x0 * x0) * 0.3989); x0 * c * x1",
        [bf16, bf16],
    ),
}


@pytest.mark.parametrize("name, arch", by_turns(CODE.keys(), [90, 80, 100], kept=2))
def test_registers(name, arch):
    """NVRTC compiles the text, registers hold all values, and products run on warpgroup instructions where there are any."""
    kinds, text, dtypes = CODE[name]
    shape = (512, 512)
    tensors = [torch.empty(shape, dtype=bf16, device="meta") for _ in range(2)]
    operands = [torch.empty(sides(shape, side), dtype=dtype, device="meta") for side, dtype in kinds]
    outs = [torch.empty(shape, dtype=dtype, device="meta") for dtype in dtypes]

    def call(x, y, *others):
        into(x, y, list(others[: len(kinds)]), list(others[len(kinds) :]), epilogue=text)

    with divided(1, OTHERS, (128, 128, 64)):
        (kernel,) = tile_ops.inspect(call, *tensors, *operands, *outs, what="resources", arch=arch)
    assert kernel["path"] == ("wgmma" if arch == 90 else "mma.sync")
    assert (kernel["spill_stores"], kernel["stack_bytes"]) == (0, 0)
