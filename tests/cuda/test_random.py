"""Random numbers of kernels made for a GPU, run by the emulator: the bits of the CPU, in every layout."""

import emulate
import philox
import pytest
import torch
from emulate_operators import Emulation
from prims.test_random import EVERY, NORMAL, SEED

# Matrix, tile: one element, rows of vectors, tiles that end outside, neighbours in other threads.
SHAPES = [((1, 1), (1, 1)), ((4, 256), (2, 128)), ((5, 130), (4, 64)), ((5, 129), (5, 129))]
SHAPES += [((70, 3), (64, 4)), ((9, 1024), (8, 1024))]
OFFSETS = [0, 3, 2**34 - 9]


def arguments():
    for kind, dtype in EVERY:
        for size, tile in SHAPES:
            for own_numbers in (True, False) if size[1] == tile[1] else (True,):
                for offset in OFFSETS:
                    yield torch.tensor([SEED]), size, kind, dtype, tile, offset, 7, own_numbers


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """All programs at once."""
    emulation = Emulation(runs=False)
    for call in arguments():
        emulation.operator(torch.ops.tt.random)(*call)
    emulate.functions(emulation.programs)


def compare(kind, got, expected):
    if kind == NORMAL:
        assert philox.ulps(got, expected).max().item() <= 4
    else:
        assert torch.equal(got, expected)


@pytest.mark.parametrize("kind, dtype", EVERY, ids=str)
def test_equals_the_cpu(kind, dtype):
    operator = Emulation().operator(torch.ops.tt.random)
    for call in arguments():
        if call[2:4] == (kind, dtype):
            compare(kind, operator(*call), torch.ops.tt.random(*call))


def test_tiles_across_a_cluster():
    """Numbers that a load gives, so that they are in registers."""
    text = """kernel k(%a: array<u64,1>, %b: array<u32,1>, %c: array<u64,1>) {
%z: i32 = constant {dtype=i32, value=0}
%k: u64 = constant {dtype=u64, value=7}
%s: u64[512] = broadcast %k {shape=[512]}
%n: u64[512] = load %a, %z {pad=0, shape=[512], steps=[512]}
%r: u32[512] = random_u32 %s, %s, %n
%w: u64[512] = random_u64 %s, %s, %n
store %b, %r, %z {steps=[512]}
store %c, %w, %z {steps=[512]}
}
"""
    numbers = torch.arange(500) // 9 * 5 + torch.arange(500) % 9
    words, wide = torch.zeros(500, dtype=torch.uint32), torch.zeros(500, dtype=torch.uint64)
    case = emulate.Case(text, (1, 1, 1), [numbers.view(torch.uint64), words, wide], block_bytes=1024)
    assert case.program["cluster"] == 4
    assert emulate.run([case]) == [None]
    assert (words.numpy() == philox.words32(7, numbers.numpy(), 7)).all()
    assert (wide.numpy() == philox.words64(7, numbers.numpy(), 7)).all()


def whole_blocks_apart(extent):
    """Both pairs of words of blocks, the second shifted, so that an op of elements follows."""
    tile = f"[{extent}]"
    return f"""kernel k(%b: array<u64,1>, %c: array<u64,1>) {{
%z: i32 = constant {{dtype=i32, value=0}}
%k: u64 = constant {{dtype=u64, value=7}}
%s: u64{tile} = broadcast %k {{shape={tile}}}
%i: u64{tile} = arange {{dtype=u64, size={extent}}}
%1: u64 = constant {{dtype=u64, value=1}}
%o: u64{tile} = broadcast %1 {{shape={tile}}}
%n: u64{tile} = shift_left %i, %o
%m: u64{tile} = add %n, %o
%r: u64{tile} = random_u64 %s, %s, %n
%w: u64{tile} = random_u64 %s, %s, %m
%x: u64{tile} = shift_right %w, %o
%y: u64{tile} = bitwise_xor %r, %x
store %b, %r, %z {{steps={tile}}}
store %c, %y, %z {{steps={tile}}}
}}
"""


@pytest.mark.parametrize("extent, written", [(64, "random_words_apart<u64>("), (4096, "= random_word<u64>(")])
def test_words_of_blocks_of_their_own(extent, written):
    """They are computed element by element, beside other ops of elements where there are many."""
    first, mixed = (torch.zeros(extent, dtype=torch.uint64) for _ in range(2))
    case = emulate.Case(whole_blocks_apart(extent), (1, 1, 1), [first, mixed], block_bytes=1 << 20)
    assert written in case.program["text"]
    assert emulate.run([case]) == [None]
    even, odd = (philox.words64(7, 2 * torch.arange(extent).numpy() + i, 7) for i in range(2))
    assert (first.numpy() == even).all() and (mixed.numpy() == even ^ odd >> 1).all()


KNOWN = """#include "cuda/device/random.cuh"
#include "cuda/device/memory.cuh"

namespace tile {

TILE_KERNEL(32) k(ArrayParameter<u64, 1> p0, ArrayParameter<u32, 1> p1) {
  const u64 *x = p0.data + thread() * 3;
  const PhiloxBlock block = philox(x[0], x[1], x[2]);
  for (int i = 0; i < 4; ++i) store_global(p1.data + 4 * thread() + i, Words<4>{{block.x[i]}}, true, 1);
}

}  // namespace tile
"""


def test_gives_the_published_blocks():
    inputs, words = torch.zeros(32, 3, dtype=torch.int64), torch.zeros(128, dtype=torch.int32)
    for row, (counter, key, _) in zip(inputs, philox.KNOWN):
        c, k = ([int(word, 16) for word in text.split()] for text in (counter, key))
        for i, (low, high) in enumerate((k, c[2:], c[:2])):
            row[i] = torch.tensor(high << 32 | low, dtype=torch.uint64).view(torch.int64)
    assert emulate.run_text(KNOWN, 32, 0, [inputs.flatten(), words]) is None
    for got, (_, _, expected) in zip(words.view(32, 4), philox.KNOWN):
        assert [word & 0xFFFFFFFF for word in got.tolist()] == [int(word, 16) for word in expected.split()]
