"""examples/python: sums, transposes, histograms, running sums and top k, against torch; on the emulator, too."""

import math

import pytest
import torch
from programs_reference import close, compare
from python_examples import load, on_the_emulator

FLOATS = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
SHAPES = [(5, 64), (3, 2, 100), (20000,), (1,), (0,), (), (4, 0)]
ADDS = ["vector_add", "vector_add_gather"]


def integers(shape, dtype=torch.int64, low=-100, high=100):
    return torch.randint(0 if dtype == torch.uint8 else low, high, shape).to(dtype)


def fails(program, arguments, text):
    with pytest.raises(ValueError) as error:
        program(*arguments)
    assert text in str(error.value)


def same(got, want):
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


def adder(name):
    return getattr(load("vector_add"), name)


@pytest.mark.parametrize("name", ADDS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_sums(name, dtype):
    for shape in SHAPES:
        x, y = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
        same(adder(name)(x, y), x + y)
        compare(adder(name), torch.add, (x, y))


@pytest.mark.parametrize("name", ADDS)
def test_sums_of_integers_and_strided_ones(name):
    for dtype in INTEGERS:
        x, y = integers((300,), dtype), integers((300,), dtype)
        same(adder(name)(x, y), x + y)
    x, y = torch.randn(2, 30, 50)
    same(adder(name)(x.mT, y.mT), (x + y).mT)
    same(adder(name)(x[::2, 1], y[1::2, 1]), x[::2, 1] + y[1::2, 1])
    same(adder(name)(x[:1].expand(4, 50), y[:4]), x[:1] + y[:4])


@pytest.mark.parametrize("name", ADDS)
def test_sums_are_operators(name):
    x, y = (torch.randn(3, 5, requires_grad=True) for _ in range(2))
    torch.library.opcheck(adder(name).overload, (x, y))
    rest = "pass two tensors of one shape and dtype, float or integer"
    fails(adder(name), (x, y[0]), f"{name}: x is torch.float32 [3, 5], y torch.float32 [5]; {rest}")
    fails(adder(name), (x, y.int()), f"{name}: x is torch.float32 [3, 5], y torch.int32 [3, 5]; {rest}")
    fails(adder(name), (x > 0, y > 0), f"{name}: x is torch.bool [3, 5], y torch.bool [3, 5]; {rest}")


@pytest.mark.at_home
def test_sums_on_the_emulator():
    x, y = torch.randn(2, 10000)
    with on_the_emulator() as ran:
        for name in ADDS:
            same(adder(name)(x, y), x + y)
    assert ran == ["add_kernel", "gather_kernel"]


@pytest.mark.parametrize("shape", [(50, 30), (2, 3, 129, 257), (1, 7), (7, 1), (3, 0, 5), (0, 4, 5), (128, 64)])
def test_transpose(shape):
    program = load("transpose").transpose
    for dtype in [*FLOATS, *INTEGERS]:
        x = integers(shape, dtype)
        got = program(x)
        assert got.is_contiguous()
        same(got, x.mT)
    compare(program, lambda x: x.mT, (torch.randn(shape),))


def test_transpose_of_strides_and_bool():
    program, x = load("transpose").transpose, torch.randn(6, 70, 90)
    for each in (x.mT, x[::2, 1:, ::3], x.permute(1, 0, 2), x[:1].expand(4, 70, 90), x > 0):
        same(program(each), each.mT)


def test_transpose_is_an_operator():
    program, x = load("transpose").transpose, torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(program.overload, (x,))
    assert torch.autograd.gradgradcheck(program, (x,))
    fails(program, (x[0, 0],), "transpose: x is torch.float64 [5]; pass [..., rows, columns], not complex")


@pytest.mark.at_home
def test_transpose_on_the_emulator():
    x = torch.randn(2, 70, 200)
    with on_the_emulator() as ran:
        same(load("transpose").transpose(x), x.mT)
    assert ran == ["transpose_kernel"]


def counted(x, bins, low, high):
    """Counts by the formula that the operator's text has, on the CPU: a GPU's torch divides otherwise."""
    x = x.float().cpu().flatten()
    x = x[(x >= low) & (x <= high)]
    index = ((x - low) / (high - low) * bins).long().clamp(max=bins - 1)
    return torch.bincount(index, minlength=bins)


@pytest.mark.parametrize("bins, low, high", [(10, 0.0, 1.0), (1, -1.0, 1.0), (300, -3.0, 3.0), (128, -0.5, 7.5)])
def test_histogram(bins, low, high):
    program = load("histogram").histogram
    for shape in [(70_001,), (30, 5, 7), (1,), (), (0,)]:
        for dtype in FLOATS[:3]:
            x = torch.randn(shape).to(dtype)
            got = program(x, bins, low, high)
            assert got.dtype == torch.int64
            same(got.cpu(), counted(x, bins, low, high))


def test_histogram_of_edges_and_what_is_no_number():
    program = load("histogram").histogram
    x = torch.tensor([0.0, -0.0, 0.25, 0.5, 1.0, 1.0001, -0.0001, math.nan, math.inf, -math.inf])
    assert program(x, 4, 0.0, 1.0).tolist() == [2, 1, 1, 1]
    x = torch.randn(40, 50)
    for each in (x.mT, x[::3, ::2], x[:1].expand(7, 50)):
        same(program(each, 33, -2.0, 2.0).cpu(), counted(each, 33, -2.0, 2.0))
    halves = torch.arange(-64, 65) / 32  # exact in each dtype, and by torch.histc
    same(program(halves, 16, -1.0, 1.0), torch.histc(halves, 16, -1, 1).long())


def test_histogram_is_an_operator():
    program, x = load("histogram").histogram, torch.randn(100)
    torch.library.opcheck(program.overload, (x, 5, -1.0, 1.0))
    fails(program, (x.double(), 5, 0.0, 1.0), "histogram: x is torch.float64; pass float32, float16 or bfloat16")
    rest = "pass 1 to 2^20 bins, and low < high"
    fails(program, (x, 0, 0.0, 1.0), f"histogram: bins is 0, low 0.0 and high 1.0; {rest}")
    fails(program, (x, 5, 1.0, 1.0), f"histogram: bins is 5, low 1.0 and high 1.0; {rest}")


@pytest.mark.at_home
def test_histogram_on_the_emulator():
    x = torch.randn(20_000)
    with on_the_emulator() as ran:
        same(load("histogram").histogram(x, 20, -1.0, 1.0), counted(x, 20, -1.0, 1.0))
    assert ran == ["count_kernel", "sum_kernel"]


def sums(x, reverse):
    return x.flip(-1).cumsum(-1).flip(-1) if reverse else x.cumsum(-1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", [(300,), (40_001,), (5, 4, 77), (700, 3), (2, 20_000), (1,), (4, 0), (0, 3)])
def test_prefix_sum(shape, reverse):
    program = load("prefix_sum").prefix_sum
    for dtype in [*INTEGERS, torch.bool]:
        x = integers(shape, dtype)
        same(program(x, reverse), sums(x, reverse))
    for dtype in FLOATS[:3]:
        compare(program, sums, (torch.randn(shape).to(dtype),), reverse)
    x = torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(program(x, reverse), sums(x, reverse), rtol=0, atol=1e-10)


def test_prefix_sums_of_chunk_sums():
    """So many chunks that their sums are summed in chunks, too: a small tile makes them."""
    module = load("prefix_sum")
    x, out = integers((3, 1000)), torch.empty(3, 1000, dtype=torch.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST", (16, 16))
        for reverse in (False, True):
            module.running_sums(x, out, reverse)
            same(out, sums(x, reverse))


def test_prefix_sum_of_strides():
    program, x = load("prefix_sum").prefix_sum, integers((6, 70, 90))
    for each in (x.mT, x[::2, 1:, ::3], x.permute(1, 2, 0), x[:1].expand(4, 70, 90), x[0, :, 3]):
        same(program(each), each.cumsum(-1))


def test_prefix_sum_is_an_operator():
    program, x = load("prefix_sum").prefix_sum, torch.randn(2, 5, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(program.overload, (x, True))
    assert torch.autograd.gradcheck(program, (x,)) and torch.autograd.gradgradcheck(program, (x,))
    fails(program, (x[0, 0],), "prefix_sum: x is torch.float64 []; pass [..., n], not complex")


@pytest.mark.at_home
def test_prefix_sum_on_the_emulator():
    module, x = load("prefix_sum"), integers((3, 300))
    with pytest.MonkeyPatch.context() as patch, on_the_emulator() as ran:
        patch.setattr(module, "MOST", (64, 64))
        same(module.prefix_sum(x), x.cumsum(-1))
        close(module.prefix_sum(x.float(), True), sums(x.double(), True))
    assert ran == ["sums_kernel", "scan_kernel", "scan_kernel"] * 2


def largest(x, k):
    # torch on a GPU takes a NaN with a sign for the least number, on a CPU for the greatest.
    values, indices = x.cpu().sort(dim=-1, descending=True, stable=True)
    return values[..., :k].to(x.device), indices[..., :k].to(x.device)


def check_top_k(x, k):
    got, want = load("top_k").top_k(x, k), largest(x, k)
    same(got[0], want[0])
    same(got[1], want[1])


@pytest.mark.parametrize("columns, k", [(1, 1), (2, 1), (5, 3), (64, 64), (100, 7), (1000, 100), (4096, 33), (777, 777)])
def test_top_k(columns, k):
    for dtype in [*FLOATS[:3], *INTEGERS[:4]]:
        few = dtype.itemsize < 4  # many equal ones
        check_top_k(integers((7, columns), dtype, -20, 20) if few else torch.randn(7, columns).mul(100).to(dtype), k)


def test_top_k_of_what_is_hard_to_order():
    x = torch.randn(9, 50)
    x[0], x[1, ::2], x[2, 3::9], x[3, ::3], x[4, ::2], x[4, 1::2] = 1.5, -0.0, math.nan, math.inf, 0.0, -0.0
    x[5], x[6], x[7, ::7], x[7, 1::7] = -math.inf, math.nan, -math.nan, math.inf
    for k in (1, 20, 50):
        check_top_k(x, k)
    ends = torch.tensor([[-(2**31), 2**31 - 1, 0, -1, -(2**31)]], dtype=torch.int32)
    check_top_k(ends, 5)


def test_top_k_of_shapes_and_strides():
    x = torch.randn(6, 70, 90)
    for each in (x.mT, x[::2, 1:, ::3], x.permute(1, 2, 0), x[:1].expand(4, 70, 90), x[0, :, 3]):
        check_top_k(each, min(5, each.shape[-1]))
    for shape, k in (((4, 5), 0), ((0, 5), 3), ((4, 0), 0), ((3000, 4), 2)):
        check_top_k(torch.randn(shape), k)


@pytest.mark.parametrize("dtype", FLOATS[:3])
def test_gradient_of_top_k(dtype):
    program, x = load("top_k").top_k, torch.randperm(200).reshape(2, 100).to(dtype)
    compare(lambda x: program(x, 30)[0], lambda x: x.topk(30)[0], (x,))


def test_top_k_is_an_operator():
    program, x = load("top_k").top_k, torch.randn(2, 10, requires_grad=True)
    torch.library.opcheck(program.overload, (x, 3))
    fails(program, (x.double(), 3), "top_k: x is torch.float64; pass floats or integers of up to 32 bits")
    rest = "pass [..., columns] of up to 4096 columns and no larger k"
    fails(program, (x, 11), f"top_k: x is [2, 10] and k 11; {rest}")
    fails(program, (torch.randn(4097), 1), f"top_k: x is [4097] and k 1; {rest}")


@pytest.mark.at_home
def test_top_k_on_the_emulator():
    with on_the_emulator() as ran:
        check_top_k(torch.randn(5, 200).half(), 12)
    assert ran == ["top_k_kernel"]
