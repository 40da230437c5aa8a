"""The parameters of compiled kernels: their order, and tensor maps as the emulator encodes them."""

import struct

import emulate
import pytest
import torch
from tile_ops import _C

COPY = """kernel copy(%x: array<f32,1>, %i: i32, %y: array<f32,1>) {
  %t: f32[8] = load %x, %i {pad=0.0, shape=[8], steps=[8]}
  CHECK
  store %y, %t, %i {steps=[8]}
}"""
CHECK = """%zero: f32 = constant {dtype=f32, value=0.0}
  %zeros: f32[8] = broadcast %zero {shape=[8]}
  %good: bool[8] = gt %t, %zeros
  assert %good {message="x is positive"}"""
ARGUMENTS = [("argument", 0), ("argument", 1), ("argument", 2)]


@pytest.mark.parametrize(
    "check, arch, others",
    [
        ("", 80, []),
        ("", 90, [("starts_early", 0)]),
        (CHECK, 80, [("failures", 0)]),
        (CHECK, 90, [("failures", 0), ("starts_early", 0)]),
    ],
)
def test_a_program_lists_them_in_the_order_of_its_text(check, arch, others):
    x, y = torch.ones(8), torch.zeros(8)
    program = _C.cuda_program(COPY.replace("CHECK", check), [x, 0, y], arch)
    assert program["parameters"] == ARGUMENTS + others
    assert program["tensor_maps"] == []
    (line,) = (line for line in program["text"].split("\n") if line.startswith("TILE_KERNEL("))
    declared = {"failures": "FailureLocation failures", "starts_early": "u32 starts_early"}
    given = ["ArrayParameter<f32, 1> p0", "i32 v1", "ArrayParameter<f32, 1> p2", *(declared[kind] for kind, _ in others)]
    assert line.endswith(f"({', '.join(given)}) {{")


def test_the_emulator_passes_them_in_that_order():
    for check in ("", CHECK):
        x, y = torch.ones(16), torch.zeros(16)
        emulate.run_ir(COPY.replace("CHECK", check), (1, 1, 1), [x, 1, y])
        assert torch.equal(y, torch.tensor([0.0] * 8 + [1.0] * 8))
    x[9] = -1
    with pytest.raises(RuntimeError, match=r"x is positive; element \[1\]"):
        emulate.run_ir(COPY.replace("CHECK", CHECK), (1, 1, 1), [x, 1, y])


# Writes the words of its map.
MAPPED = """#include "cuda/device/tile.cuh"

namespace tile {

struct alignas(64) MapWords { u64 words[16]; };

TILE_KERNEL(32) mapped(ArrayParameter<f32, 1> p0, ArrayParameter<i64, 1> p1, const MapWords m0) {
  if (thread() == 0) for (int i = 0; i < 16; ++i) p1.data[i] = m0.words[i];
}

}  // namespace tile
"""


def map_of(x, **fields):
    words = torch.zeros(16, dtype=torch.int64)
    assert emulate.run_text(MAPPED, 32, 0, [x, words], tensor_maps=[{"parameter": 0, **fields}]) is None
    return struct.unpack("<QIIII10I5q24x", words.numpy().tobytes())


def test_the_emulator_encodes_tensor_maps():
    x = torch.zeros(3, 5, 64, dtype=torch.bfloat16)
    assert map_of(x, unit=2, box=[1, 4, 32], swizzle=64) == (
        *(x.data_ptr(), 3, 2, 64, 0x54494C45),
        *(64, 32, 5, 4, 3, 1, 0, 0, 0, 0),
        *(2, 128, 640, 0, 0),
    )
    permuted = x.permute(2, 0, 1)
    assert map_of(permuted, unit=0, box=[32, 2, 4], swizzle=0) == (
        *(x.data_ptr(), 3, 2, 0, 0x54494C45),
        *(64, 32, 5, 4, 3, 2, 0, 0, 0, 0),
        *(2, 128, 640, 0, 0),
    )


def test_the_emulator_refuses_the_maps_that_a_launch_refuses():
    with pytest.raises(ValueError, match=r"emulated: tensor map of array 0, .*its stride is 0; pass a contiguous copy"):
        map_of(torch.zeros(64).expand(8, 64), unit=1, box=[8, 32], swizzle=128)
    with pytest.raises(ValueError, match=r"a stride is 20 bytes, which is not a multiple of 16; pass a copy with padded"):
        map_of(torch.zeros(8, 5), unit=1, box=[8, 32], swizzle=128)
    with pytest.raises(ValueError, match="tensor_map: 1 sizes, 1 strides, 2 boxes and unit axis 0"):
        map_of(torch.zeros(8), unit=0, box=[8, 32], swizzle=0)
