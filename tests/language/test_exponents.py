"""float8_e8m0fnu in kernels in Python: arrays of it, its casts, scales of products; the cast that rounds halves away."""

import math
import re

import pytest
import tile_ops
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch

E8M0 = torch.float8_e8m0fnu
EVERY = torch.arange(256, dtype=torch.uint8).view(E8M0)


def bits(x):
    return x.view(torch.uint8)


def of_bits(*values):
    return torch.tensor(values, dtype=torch.uint8).view(E8M0)


def test_every_value_is_loaded_stored_and_widened():
    @tl.kernel
    def copy(x, out, wide, narrow, integers):
        t = tl.load(x, 0, 256)
        tl.store(out, 0, tl.permute(t.reshape((16, 16)), (0, 1)).reshape((256,)))
        tl.store(wide, 0, t.astype(tl.float32))
        tl.store(narrow, 0, t.astype(tl.float16, rounding_mode=tl.RoundingMode.RA))
        tl.store(integers, 0, t.astype(tl.int64))

    out, wide, narrow = torch.zeros(256, dtype=torch.uint8).view(E8M0), torch.zeros(256), torch.zeros(256).half()
    integers = torch.zeros(256, dtype=torch.int64)
    copy[1](EVERY, out, wide, narrow, integers)
    assert torch.equal(bits(out), bits(EVERY))
    exact = EVERY.float()
    torch.testing.assert_close(wide, exact, rtol=0, atol=0, equal_nan=True)
    expected = exact.half()
    expected[127 - 25] = 2.0**-24  # a half of the least number
    torch.testing.assert_close(narrow, expected, rtol=0, atol=0, equal_nan=True)
    assert integers[:190].tolist() == [math.trunc(x) for x in exact[:190].tolist()]


def exponent(x, up):
    """The bits of a number's size."""
    if math.isnan(x):
        return 255
    if math.isinf(x):
        return 254
    if abs(x) <= 2.0**-127:
        return 0
    mantissa, e = math.frexp(abs(x))
    return max(0, min(254, e + 126 + (up and mantissa != 0.5)))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e5m2])
def test_casts_name_their_mode(dtype):
    @tl.kernel
    def narrowed(x, down, up):
        t = tl.load(x, 0, 1024)
        tl.store(down, 0, t.astype(tl.float8_e8m0fnu, rounding_mode=tl.RoundingMode.RZ))
        tl.store(up, 0, t.astype(tl.float8_e8m0fnu, rounding_mode=tl.RoundingMode.RP))

    edges = [0.0, -0.0, math.inf, -math.inf, math.nan, 1, 2, 0.5, 3, -3, 2.0**127, 1.5 * 2.0**127, 1 + 2.0**-40, 1 - 2.0**-40]
    edges += [f * 2.0**-127 for f in (0.5, 1, 1 + 2.0**-22, 1.5, 2, 2.0**-22)]
    x = torch.randn(1024, dtype=torch.float64) * torch.exp2(torch.randint(-160, 140, (1024,)).double())
    x[: len(edges)] = torch.tensor(edges, dtype=torch.float64)
    x, (down, up) = x.to(dtype), torch.zeros(2, 1024, dtype=torch.uint8).view(E8M0)
    narrowed[1](x, down, up)
    for out, way in ((down, False), (up, True)):
        assert bits(out).tolist() == [exponent(each, way) for each in x.double().tolist()]


def test_memory_and_ways():
    """Views, elements at indices and offsets, sub-tiles; with its own bits in a loop and an if."""

    @ct.kernel
    def moved(x, out, seen, n):
        at = ct.arange(4, dtype=ct.int32)
        tile, count = x.tiled_view((4,)).load(0), ct.full((4,), 1, ct.uint8)
        for i in range(n):
            if i == 1:
                tile = ct.gather(x, at + 4, mask=at != 2, padding_value=0.5)
            else:
                tile = ct.cat((ct.extract(tile, 1, 2), ct.extract(tile, 0, 2)), 0)
            count = count + ct.bitcast(tile, ct.uint8)
        ct.scatter(out, 7 - at, tile)
        memory = out.get_raw_memory()
        memory.store_offset(at, ct.full((4,), 2.0, ct.float8_e8m0fnu))
        memory.store_offset(0, x.get_raw_memory().load_offset(7))
        ct.store(seen, 0, count)
        ct.store(out.slice(0, 8, 10), 0, ct.unpack_from_bytes(ct.pack_to_bytes(tile), ct.float8_e8m0fnu))

    x, out, seen = of_bits(*range(10, 18)), of_bits(*[0] * 10), torch.zeros(4, dtype=torch.uint8)
    ct.launch(0, (1,), moved, (x, out, seen, 2))
    assert bits(out).tolist() == [17, 128, 128, 128, 17, 126, 15, 14, 14, 15]
    assert seen.tolist() == [1 + 12 + 14, 1 + 13 + 15, 1 + 10 + 126, 1 + 11 + 17]


@pytest.mark.parametrize("scale", [E8M0, torch.uint8])
def test_scales_of_products_and_a_batch_of_one(scale):
    @tl.kernel
    def scaled(x, xs, y, ys, out):
        a, b = tl.load(x, (0, 0, 0), (2, 16, 64)), tl.load(xs, (0, 0, 0), (1, 16, 2))
        c, d = tl.load(y, (0, 0), (64, 8)), tl.load(ys, (0, 0), (2, 8))
        tl.store(out, (0, 0, 0), tl.mma_scaled(a, b, c, d, tl.zeros((2, 16, 8), tl.float32)))

    x, y = (torch.randint(-2, 3, size).float().to(torch.float8_e4m3fn) for size in ((2, 16, 64), (64, 8)))
    xs, ys = (torch.randint(124, 131, size, dtype=torch.uint8) for size in ((1, 16, 2), (2, 8)))
    out = torch.zeros(2, 16, 8)
    scaled[1](x, xs.view(scale), y, ys.view(scale), out)
    wide = (x.double() * xs.view(E8M0).double().repeat_interleave(32, -1)) @ (
        y.double() * ys.view(E8M0).double().repeat_interleave(32, -2))  # fmt: skip
    assert torch.equal(out, wide.float())


@tl.kernel
def padded(x, out):
    tl.store(out, 0, tl.load(x, 0, 4, padding_mode=tl.PaddingMode.NAN))


@tl.kernel
def of_integers(x, out):
    tl.store(out, 0, tl.arange(4, dtype=tl.int8).astype(tl.float8_e8m0fnu))


@tl.kernel
def to_nearest(x, out):
    tl.store(out, 0, tl.zeros(4, tl.float16).astype(tl.float8_e8m0fnu, rounding_mode="nearest_even"))


@tl.kernel
def added(x, out):
    tl.store(out, 0, tl.load(x, 0, 4) + tl.load(x, 1, 4))


@tl.kernel
def counted(x, out):
    tl.store(out, 0, tl.arange(4, dtype=tl.float8_e8m0fnu))


@tl.kernel
def as_float(x, out):
    tl.store(out, 0, tl.load(x, 0, 4).astype(tl.float32))


@tl.kernel
def of_another_shape(x, out):
    a, scale = tl.zeros((16, 32), tl.float8_e5m2), tl.ones((16, 1), tl.float8_e8m0fnu)
    tl.mma_scaled(a, scale, a.transpose(), scale.transpose(), tl.zeros((16, 32), tl.float32))


ERRORS = {
    padded: "float8_e8m0fnu is not padded with nan; load its bits as uint8, and use where()",
    of_integers: "a conversion from int8 to float8_e8m0fnu is not supported; convert to float32 first",
    to_nearest: "rounding_mode=RoundingMode.RN is not supported for conversion from float16 to float8_e8m0fnu",
    added: "float8_e8m0fnu is a non-arithmetic dtype; convert with astype() first",
    counted: "arange: float8_e8m0fnu is a non-arithmetic dtype; convert with astype()",
    as_float: "cannot implicitly cast float32 to float8_e8m0fnu; convert with astype()",
    of_another_shape: "Expect acc shape to be (16,16), got (16,32)",
}


@pytest.mark.parametrize("kernel", ERRORS, ids=lambda kernel: kernel.__name__)
def test_exact_errors(kernel):
    with pytest.raises(tl.TileError, match=re.escape(ERRORS[kernel])):
        kernel[1](EVERY, EVERY.clone())


def test_print_and_debug(capfd):
    @tl.kernel
    def shown(x, out):
        t = tl.load(x, 0, 2)
        tl.print(t)
        tl.store(out, 0, t)

    x, out, debugged = of_bits(126, 129), of_bits(0, 0), of_bits(0, 0)
    shown[1](x, out)
    tile_ops.synchronize()
    assert capfd.readouterr().out == "[0.500000, 4.000000]\n" and bits(out).tolist() == [126, 129]
    shown.debug((1,), x, debugged)
    assert capfd.readouterr().out == f"{x.cpu()}\n" and bits(debugged).tolist() == [126, 129]


def test_halves_are_rounded_away():
    @ct.kernel
    def away(x, wide, narrow, out):
        ct.store(out, 0, ct.load(wide, 0, 4).astype(ct.float32, rounding_mode=ct.RoundingMode.RA))
        ct.store(out, 1, ct.load(x, 0, 4).astype(ct.tfloat32, rounding_mode=ct.RoundingMode.RA).astype(ct.float32))
        halves = ct.load(narrow, 0, 4).astype(ct.float16, rounding_mode=ct.RoundingMode.RA)
        ct.store(out, 2, halves.astype(ct.float32))

    x = torch.tensor([1 + 2.0**-11, -1 - 2.0**-11, 1 + 2.0**-11 - 2.0**-23, 3.0])
    wide = torch.tensor([1 + 2.0**-24, -1 - 2.0**-24, 1 + 2.0**-24 - 2.0**-50, 2.0**-150], dtype=torch.float64)
    narrow, out = torch.tensor([2.0**-25, -(2.0**-25), 3 * 2.0**-25, 65536.0]).bfloat16(), torch.zeros(12)
    ct.launch(0, (1,), away, (x, wide, narrow, out))
    assert out.tolist() == [1 + 2.0**-23, -1 - 2.0**-23, 1.0, 2.0**-149, 1 + 2.0**-10, -1 - 2.0**-10, 1.0, 3.0,
                            2.0**-24, -(2.0**-24), 2.0**-23, math.inf]  # fmt: skip
