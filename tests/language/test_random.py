"""Random numbers of kernels in Python: Philox's words, their moments, and dropout."""

import philox
import pytest
import tile_ops.language as tl
import torch


@tl.kernel
def bits_kernel(out, seed: tl.ScalarInt64, stream: int, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.random_bits((N,), seed, i * N, dtype=out.dtype, stream=stream))


@pytest.mark.parametrize("dtype", [torch.uint32, torch.uint64])
def test_words_are_philox_s(dtype):
    one_block, more_blocks = torch.zeros(64).to(dtype), torch.zeros(64).to(dtype)
    bits_kernel[1](one_block, 1 << 40, 3, 64)
    bits_kernel[8](more_blocks, 1 << 40, 3, 8)
    assert one_block.tolist() == more_blocks.tolist() and len(set(one_block.tolist())) == 64
    bits_kernel[1](more_blocks, 1 << 40, 4, 64)
    assert not set(one_block.tolist()) & set(more_blocks.tolist())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["uniform", "normal"])
def test_moments(name, dtype):
    function = getattr(tl, name)

    @tl.kernel
    def drawn(out, seed: int):
        i = tl.bid(0)
        tl.store(out, (i, 0), function((4, 256), seed, i * 1024, dtype=dtype))

    out = torch.zeros(256, 256, dtype=dtype)
    drawn[64](out, 11)
    x = out.double()
    mean, variance = (0.5, 1 / 12) if name == "uniform" else (0.0, 1.0)
    assert abs(x.mean() - mean) < 0.02 and abs(x.var() - variance) < 0.02
    if name == "uniform":
        assert x.min() >= 0 and x.max() < 1
    else:
        assert x.abs().max() > 3 and abs((x**4).mean() - 3) < 0.2


@tl.kernel
def dropout_kernel(x, out, p: float, seed: int, N: tl.Constant[int]):
    i = tl.bid(0)
    keep = tl.uniform((N,), seed, i * N) >= p
    tl.store(out, i, tl.where(keep, tl.load(x, i, N) / (1 - p), 0))


def test_dropout_does_not_depend_on_the_tile_size():
    x, a, b = torch.ones(4096), torch.zeros(4096), torch.zeros(4096)
    dropout_kernel[16](x, a, 0.25, 5, 256)
    dropout_kernel[4](x, b, 0.25, 5, 1024)
    assert torch.equal(a, b)
    assert set(a.tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs((a > 0).double().mean() - 0.75) < 0.03


def test_numbers_of_ones_own():
    @tl.kernel
    def drawn(out, N: tl.Constant[int]):
        n = tl.arange(N, dtype=tl.int64)
        tl.store(out, (0, 0), tl.random_bits((N,), 7, n * 3)[None, :])
        tl.store(out, (1, 0), tl.random_bits((N,), 7)[None, :])

    out = torch.zeros(2, 32).to(torch.uint32)
    drawn[1](out, 32)
    first, second = out[0].tolist(), out[1].tolist()
    assert first[:10] == second[:30:3]


def test_the_words_of_the_reference():
    out = torch.zeros(16).to(torch.uint32)
    bits_kernel[1](out, 123456789, 2, 16)
    assert out.tolist() == [int(word) for word in philox.words32(123456789, range(16), 2)]
