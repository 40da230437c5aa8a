"""random_bits, uniform and normal against NumPy's Philox: what they depend on, their distributions."""

import math

import numpy
import philox
import pytest
import torch
from built import load_operators
from tile_ops import _C

load_operators()
BITS, UNIFORM, NORMAL = range(3)
FLOATS = list(philox.DIGITS)
SEED = -12345678901234
EVERY = [(BITS, torch.int32), (BITS, torch.int64)]
EVERY += [(kind, dtype) for kind in (UNIFORM, NORMAL) for dtype in FLOATS]
SHAPES = [((1, 1), (1, 1)), ((3, 1), (4, 1)), ((1, 7), (1, 8)), ((5, 130), (2, 64)), ((33, 257), (16, 256))]
each = pytest.mark.parametrize("kind, dtype", EVERY, ids=str)


@pytest.fixture
def draw(device):
    """tt::random on the device of the run: numbers of a matrix, tile by tile; the result on the CPU."""

    def draw(kind, dtype, size, tile, *, seed=SEED, offset=0, stream=0, own_numbers=True):
        seed = torch.tensor([seed], device=device)
        return torch.ops.tt.random(seed, size, kind, dtype, tile, offset, stream, own_numbers).cpu()

    return draw


def reference(kind, dtype, size, *, seed=SEED, offset=0, stream=0):
    numbers = numpy.arange(math.prod(size), dtype=numpy.uint64).reshape(size) + numpy.uint64(offset % 2**64)
    if kind == BITS:
        words = (philox.words32 if dtype == torch.int32 else philox.words64)(seed, numbers, stream)
        return torch.from_numpy(words.view(numpy.int32 if dtype == torch.int32 else numpy.int64))
    return (philox.uniform if kind == UNIFORM else philox.normal)(seed, numbers, dtype, stream)


def check(kind, got, expected):
    if kind != NORMAL:
        assert torch.equal(got, expected)
    else:
        assert philox.ulps(got, expected).max().item() <= 4


def test_the_reference_gives_the_published_vectors():
    for counter, key, words in philox.KNOWN:
        numbers = [[int(word, 16) for word in text.split()] for text in (counter, key, words)]
        assert philox.philox([numbers[0]], numbers[1])[0].tolist() == numbers[2]


@each
@pytest.mark.parametrize("size, tile", SHAPES, ids=str)
def test_values(draw, kind, dtype, size, tile):
    check(kind, draw(kind, dtype, size, tile), reference(kind, dtype, size))


@each
def test_of_no_elements(draw, kind, dtype):
    for size in ((0, 5), (5, 0)):
        assert draw(kind, dtype, size, (4, 8)).shape == size


@each
@pytest.mark.parametrize("offset", [1, 2, 3, 2**32 - 7, 2**34 - 7, 2**63 - 1, -7])  # -7: past 2^64
def test_offsets(draw, kind, dtype, offset):
    size = (3, 37)
    expected = reference(kind, dtype, size, offset=offset)
    check(kind, draw(kind, dtype, size, (2, 16), offset=offset), expected)
    check(kind, draw(kind, dtype, size, (2, 37), offset=offset, own_numbers=False), expected)


@each
@pytest.mark.parametrize("key, stream", [(0, 0), (1, 2**40 + 3), (-1, -1), (2**63 - 1, -(2**63))])
def test_seeds_and_streams(draw, kind, dtype, key, stream):
    size = (5, 70)
    given = {"seed": key, "stream": stream}
    check(kind, draw(kind, dtype, size, (4, 32), **given), reference(kind, dtype, size, **given))


@each
def test_numbers_do_not_depend_on_the_tiles(draw, kind, dtype):
    size = (37, 130)
    first = draw(kind, dtype, size, (64, 256), offset=5)
    for tile in ((1, 1), (1, 130), (5, 33), (7, 64), (16, 16), (64, 8)):
        assert torch.equal(draw(kind, dtype, size, tile, offset=5), first), tile
    for rows in (1, 3, 8, 37):
        assert torch.equal(draw(kind, dtype, size, (rows, 130), offset=5, own_numbers=False), first), rows


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform_is_below_one(draw, dtype):
    digits = philox.DIGITS[dtype]
    x = draw(UNIFORM, dtype, (512, 512), (16, 512))
    assert x.min() >= 0 and x.max() < 1
    whole = x.double() * 2**digits
    assert torch.equal(whole, whole.round())
    if digits < 12:  # all of them come up, the largest too
        assert len(x.unique()) == 2**digits


N = 1 << 20
SHAPE, TILE = (N // 1024, 1024), (16, 1024)


def assert_chi_square(counts, expected):
    """Within five standard deviations of what it is for the right distribution."""
    freedom = len(counts) - 1
    statistic = ((counts - expected) ** 2 / expected).sum().item()
    assert abs(statistic - freedom) < 5 * math.sqrt(2 * freedom), statistic


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_distribution_of_uniforms(draw, dtype):
    x = draw(UNIFORM, dtype, SHAPE, TILE).double().flatten()
    assert abs(x.mean().item() - 1 / 2) < 5 / math.sqrt(12 * N)
    assert abs(x.var().item() - 1 / 12) < 5 / math.sqrt(180 * N)
    assert_chi_square(torch.histc(x, 1000, 0, 1), N / 1000)
    for step in (1, 2, 3, 4, 1024):  # neighbours of a block and of other ones
        assert abs(torch.corrcoef(torch.stack([x[:-step], x[step:]]))[0, 1].item()) < 5 / math.sqrt(N)
    pairs = (x[::2] * 32).floor() * 32 + (x[1::2] * 32).floor()
    assert_chi_square(torch.bincount(pairs.long(), minlength=1024).double(), N / 2 / 1024)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_distribution_of_normals(draw, dtype):
    x = draw(NORMAL, dtype, SHAPE, TILE).double().flatten()
    moments = [(x**k).mean().item() for k in range(1, 5)]
    for k, (expected, variance) in enumerate([(0, 1), (1, 2), (0, 15), (3, 96)]):
        assert abs(moments[k] - expected) < 5 * math.sqrt(variance / N), k
    edges = torch.special.ndtri(torch.linspace(0, 1, 257, dtype=torch.float64)[1:-1])
    assert_chi_square(torch.bincount(torch.bucketize(x, edges), minlength=256).double(), N / 256)
    assert 4.2 < x.abs().max().item() < 7
    for step in (1, 2, 3, 4, 1024):
        assert abs(torch.corrcoef(torch.stack([x[:-step], x[step:]]))[0, 1].item()) < 5 / math.sqrt(N)


def test_bits_are_fair(draw):
    words = draw(BITS, torch.int32, SHAPE, TILE).flatten()
    for bit in range(32):
        ones = (words >> bit & 1).sum().item()
        assert abs(ones - N / 2) < 5 * math.sqrt(N) / 2, bit


def test_seeds_and_streams_are_independent(draw):
    first = draw(UNIFORM, torch.float64, SHAPE, TILE).flatten()
    for other in ({"seed": SEED + 1}, {"stream": 1}, {"seed": SEED ^ 1 << 40}, {"offset": N}):
        x = draw(UNIFORM, torch.float64, SHAPE, TILE, **other).flatten()
        assert abs(torch.corrcoef(torch.stack([first, x]))[0, 1].item()) < 5 / math.sqrt(N), other


def test_compiles(draw, device):
    seed = torch.tensor([SEED], device=device)

    def function(seed):
        return torch.ops.tt.random(seed, [5, 70], UNIFORM, torch.float32, [4, 32]) * 2

    assert torch.equal(torch.compile(function, fullgraph=True)(seed), function(seed))


def test_errors_of_the_primitives():
    text = """kernel k(%a: array<u64,1>, %b: array<u32,1>) {
%z: i32 = constant {dtype=i32, value=0}
%x: u64[4] = load %a, %z {pad=0, shape=[4], steps=[4]}
%y: u64[2] = load %a, %z {pad=0, shape=[2], steps=[2]}
%r: u32[4] = random_u32 %x, %x, OPERAND
store %b, %r, %z {steps=[4]}
}"""
    arguments = [torch.zeros(4, dtype=torch.uint64), torch.zeros(4, dtype=torch.uint32)]
    takes = "random_u32: takes seed, stream and number of one shape in u64, got u64[4], u64[4] and "
    with pytest.raises(ValueError) as error:
        _C.run_ir(text.replace("OPERAND", "%y"), (1, 1, 1), arguments)
    assert takes + "u64[2]" in str(error.value)
    with pytest.raises(TypeError) as error:
        _C.run_ir(text.replace("OPERAND", "%z"), (1, 1, 1), arguments)
    assert takes + "i32" in str(error.value)
