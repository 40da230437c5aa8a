"""examples/python: sums, transposes, histograms and running sums, beside torch; on the emulator, too."""

import pytest
import torch
from programs_reference import close, compare
from python_examples import load, on_the_emulator

FLOATS = [torch.float32, torch.float16, torch.bfloat16]
needs_cpu = pytest.mark.skipif(torch.get_default_device().type == "cuda", reason="the GPU itself runs them there")


def says(text, program, *arguments):
    with pytest.raises(ValueError) as error:
        program(*arguments)
    assert text in str(error.value)


@pytest.mark.parametrize("count", [0, 1, 7, 2048, 5001])
@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64])
def test_vector_add(count, dtype):
    x, y = torch.randn(2, count).to(dtype)
    compare(load("vector_add").vector_add, torch.add, [x, y])


def test_vector_add_of_integers_and_strides():
    program = load("vector_add").vector_add
    x, y = torch.randint(-100, 100, (2, 3000))
    assert torch.equal(program(x[::3], y[::3]), x[::3] + y[::3])
    torch.library.opcheck(program.overload, tuple(torch.randn(9, requires_grad=True) for _ in range(2)))
    says("vector_add: x is [3000] of torch.int64, y [2] of torch.int64; pass two [n] of one dtype", program, x, y[:2])


@pytest.mark.parametrize("shape", [(5, 7), (3, 130, 65), (2, 2, 1, 64), (0, 4), (3, 0, 5), (1, 1)])
def test_transpose(shape):
    program = load("transpose").transpose
    compare(program, lambda x: x.mT.contiguous(), [torch.randn(shape)])
    for dtype in (torch.float64, torch.bfloat16, torch.int8, torch.int64, torch.bool):
        x = torch.randint(0, 2, shape).to(dtype)
        assert torch.equal(program(x), x.mT) and program(x).is_contiguous()
    x = torch.randn(*shape, 2)[..., 1]
    assert torch.equal(program(x), x.mT)


def test_transpose_is_an_operator():
    program = load("transpose").transpose
    torch.library.opcheck(program.overload, (torch.randn(3, 5, requires_grad=True),))
    says("transpose: x is [3]; pass [..., rows, columns]", program, torch.randn(3))


@pytest.mark.parametrize("shape", [(0,), (1,), (100, 99), (50_000,)])
@pytest.mark.parametrize("bins", [1, 7, 300])
def test_histogram(shape, bins):
    program = load("histogram").histogram
    x = torch.randint(-8, 16, shape) + 0.5  # between the edges: no rounding decides
    wanted = torch.histc(x.double().cpu(), bins, -bins / 2, bins / 2).to(x.device)
    for dtype in FLOATS:
        assert torch.equal(program(x.to(dtype), bins, -bins / 2, bins / 2).double(), wanted)


def test_histogram_of_edges_and_of_what_is_no_number():
    program = load("histogram").histogram
    inf = float("inf")
    x = torch.tensor([0.0, 1.0, 2.0, 4.0, -0.5, 4.5, inf, -inf, float("nan")])
    assert program(x, 4, 0.0, 4.0).tolist() == [1, 1, 1, 1]
    torch.library.opcheck(program.overload, (torch.rand(100), 10, 0.0, 1.0))
    says("histogram: bins is 0, low 0.0, high 1.0; pass at least 1 bin, and low below high", program, x, 0, 0.0, 1.0)
    says("histogram: bins is 3, low 1.0, high 1.0; pass at least 1 bin, and low below high", program, x, 3, 1.0, 1.0)


@pytest.mark.parametrize("shape", [(5,), (3, 4096), (2, 3, 10_001), (1, 1), (2, 0), (0, 5)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_prefix_sum(shape, dtype):
    compare(load("prefix_sum").prefix_sum, lambda x: x.cumsum(-1), [torch.randn(shape).to(dtype)])


def test_prefix_sum_of_integers():
    program = load("prefix_sum").prefix_sum
    for dtype in (torch.int32, torch.int64):
        most = torch.iinfo(dtype).max
        x = torch.randint(-most, most, (2, 9000), dtype=dtype)
        assert torch.equal(program(x), x.cumsum(1).to(dtype))  # they wrap
    long = torch.ones(1, 4096 * 1030, dtype=torch.int32)  # more stretches than a tile of the second kernel has
    assert torch.equal(program(long)[0], torch.arange(1, long.shape[1] + 1, dtype=torch.int32))


def test_prefix_sum_is_an_operator():
    program = load("prefix_sum").prefix_sum
    torch.library.opcheck(program.overload, (torch.randn(3, 50, requires_grad=True),))
    says("prefix_sum: x is [3] of torch.float64; pass [..., n] of float32, float16, bfloat16, int32 or int64", program,
         torch.randn(3).double())  # fmt: skip


@needs_cpu
def test_arrays_on_the_emulator():
    x, y = torch.randn(2, 5000)
    with on_the_emulator() as ran:
        compare(load("vector_add").vector_add, torch.add, [x, y])
        compare(load("transpose").transpose, lambda x: x.mT.contiguous(), [torch.randn(2, 70, 33)])
        counts = load("histogram").histogram(x, 20, -2.0, 2.0)
        sums = load("prefix_sum").prefix_sum(x)
    assert ran == ["add_kernel", "transpose_kernel", "transpose_kernel", "count_kernel", "sum_kernel", "total_kernel",
                   "before_kernel", "scan_kernel"]  # fmt: skip
    assert torch.equal(counts, load("histogram").histogram(x, 20, -2.0, 2.0))
    close(sums, x.double().cumsum(0))
