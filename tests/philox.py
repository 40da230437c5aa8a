"""Philox4x32-10 in NumPy, and what the kernel language makes of its words. Salmon et al., SC 2011."""

import numpy
import torch

# Counter, key, words: the published vectors of the authors' library, Random123.
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]
DIGITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24, torch.float64: 53}


def philox(counter, key):
    """Blocks of four words, uint32[n, 4], of counters [n, 4] and a key [2]."""
    a, b, c, d = (numpy.asarray(counter, dtype=numpy.uint64).T & 0xFFFFFFFF).copy()
    low, high = (numpy.uint64(k) for k in key)
    shift, word = numpy.uint64(32), numpy.uint64(0xFFFFFFFF)
    for _ in range(10):
        p, q = a * numpy.uint64(0xD2511F53), c * numpy.uint64(0xCD9E8D57)
        a, b, c, d = (q >> shift) ^ b ^ low, q & word, (p >> shift) ^ d ^ high, p & word
        low, high = (low + numpy.uint64(0x9E3779B9)) & word, (high + numpy.uint64(0xBB67AE85)) & word
    return numpy.stack([a, b, c, d], 1).astype(numpy.uint32)


def _words(seed, numbers, stream, bits):
    """The blocks of the numbers, [n, 4], of 2^bits elements each, and the elements' positions in them."""
    numbers = numpy.asarray(numbers, dtype=numpy.uint64).reshape(-1)
    halves = lambda x: [x & 0xFFFFFFFF, x >> 32 & 0xFFFFFFFF]  # noqa: E731
    block = numbers >> numpy.uint64(bits)
    counter = [block & numpy.uint64(0xFFFFFFFF), block >> numpy.uint64(32)]
    counter += [numpy.full_like(block, half) for half in halves(stream)]
    position = (numbers & numpy.uint64((1 << bits) - 1)).astype(numpy.int64)
    return philox(numpy.stack(counter, 1), halves(seed)), numpy.arange(len(numbers)), position


def words32(seed, numbers, stream=0):
    """random_u32 of integers seed and stream, each modulo 2^64, and of uint64 numbers."""
    words, row, position = _words(seed, numbers, stream, 2)
    return words[row, position].reshape(numpy.shape(numbers))


def words64(seed, numbers, stream=0):
    words, row, position = _words(seed, numbers, stream, 1)
    wide = words.astype(numpy.uint64)
    return (wide[row, 2 * position] | wide[row, 2 * position + 1] << numpy.uint64(32)).reshape(numpy.shape(numbers))


def uniform(seed, numbers, dtype, stream=0):
    """Every value is exact in the dtype."""
    digits = DIGITS[dtype]
    width = 64 if dtype == torch.float64 else 32
    words = (words64 if width == 64 else words32)(seed, numbers, stream).astype(numpy.uint64)
    integer = (words >> numpy.uint64(width - digits)).astype(numpy.float64)
    return torch.from_numpy(integer * 2.0**-digits).to(dtype)


def normal(seed, numbers, dtype, stream=0):
    """In extended precision from the same a and b, which float32 rounds to its 24 digits."""
    numbers = numpy.asarray(numbers, dtype=numpy.uint64)
    if dtype == torch.float64:
        twice = numbers * numpy.uint64(2)
        first, second = (words64(seed, twice + numpy.uint64(i), stream) for i in range(2))
        a = (first >> numpy.uint64(11)).astype(numpy.float64) * 2.0**-53 + 2.0**-54
        b = second.astype(numpy.int64).astype(numpy.float64) * 2.0**-64
    else:
        words = words64(seed, numbers, stream)
        low, high = words.astype(numpy.uint32), (words >> numpy.uint64(32)).astype(numpy.uint32)
        a = low.astype(numpy.float32) * numpy.float32(2.0**-32) + numpy.float32(2.0**-33)
        b = high.view(numpy.int32).astype(numpy.float32) * numpy.float64(2.0**-32)
        a = a.astype(numpy.float64)
    a, b = a.astype(numpy.longdouble), b.astype(numpy.longdouble)
    x = numpy.sqrt(-2 * numpy.log(a)) * numpy.sin(numpy.arccos(numpy.longdouble(-1)) * b)
    return torch.from_numpy(x.astype(numpy.float64))


def ulps(got, expected):
    """Distance in units in the last place of got's dtype."""
    info = torch.finfo(got.dtype)
    size = expected.double().abs().clamp_min(info.smallest_normal)
    return (got.double() - expected.double()).abs() / (torch.exp2(torch.floor(torch.log2(size))) * info.eps)
