"""NVRTC compiles every instruction of kernels whose warpgroups run different code, without spills and without the warnings of
ptxas that products run one after another."""

import async_programs
import pytest
import wgmma_programs
from tile_ops import _C

pytestmark = pytest.mark.slow  # NVRTC


def check(text, name):
    code = _C.compile_text(text, name, name, 90, "wgmma")
    assert (code["spill_stores"], code["spill_loads"], code["warning"]) == (0, 0, "")


@pytest.mark.parametrize("left_transposed", [False, True])
@pytest.mark.parametrize("right_transposed", [False, True])
def test_matmul(left_transposed, right_transposed):
    check(async_programs.matmul(256, 4, 2, left_transposed, right_transposed), "matmul")


def test_matmul_of_two_blocks_of_rows():
    check(async_programs.matmul(128, 3, 2, blocks=2), "matmul")


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_matmul_that_stores_boxes(groups):
    check(async_programs.matmul(128, 2, groups, boxes_out=True), "matmul")


@pytest.mark.parametrize("kind", wgmma_programs.TYPES)
def test_products(kind):
    """The left operand in shared memory and in registers."""
    left, right, dtype, _ = wgmma_programs.TYPES[kind]
    sums = "f32" if dtype.is_floating_point else "i32"
    words = wgmma_programs.STEPS * 16 // dtype.itemsize
    lies = (True, 16, 1024, 1, 32)
    product = async_programs.product(96, wgmma_programs.STEPS, left, right, left_lies=(*lies, 0), right_lies=lies)
    extra = f"""{product}
struct L0 {{ static constexpr int registers = 48; }};
struct L1 {{ static constexpr int registers = {words}; }};
"""
    body = f"""  Tile<{left}, L1> left;
  memcpy(left.x, p0.data + thread() * {words}, sizeof left.x);
  Tile<{sums}, L0> sums;
  sums = mma_issued<Product0>(sums, memory, memory + 8192, false, 1);
  sums = mma_issued_from_registers<Product0>(sums, left, memory + 8192, true, 2);
  sums = mma_awaited<0>(sums, 3);
  for (int r = 0; r < 48; ++r) p1.data[thread() * 48 + r] = sums.x[r];"""
    parameters = f"ArrayParameter<{left}, 1> p0, ArrayParameter<{sums}, 1> p1"
    check(async_programs.text(body, 128, "k", extra, parameters), "k")


def test_copies_of_every_rank():
    lines = []
    for rank in range(1, 6):
        lines += [
            f"    const i32 at{rank}[{rank}] = {{{', '.join(map(str, range(rank)))}}};",
            f"    copy_tensor(memory, m0, memory + 8192, at{rank}, 1);",
            f"    copy_tensor_to_cluster(memory, m0, memory + 8192, at{rank}, 3, 2);",
            f"    store_tensor(m0, memory, at{rank}, 3);",
        ]
    body = "\n".join(
        [
            "  if (elected_thread(1)) {",
            "    prefetch_map(m0);",
            *lines,
            "    commit_tensor_stores(4);",
            "    wait_for_tensor_reads<1>(5);",
            "    wait_for_tensor_stores<0>(5);",
            "    arrive_remote(memory + 8192, 1, 6);",
            "  }",
            "  store_matrices<true>(memory, 1, 2, 3, 4, 7);",
            "  fence_async(7);",
            "  if (synchronize_or(thread() > group, 8)) synchronize(9);",
        ]
    )
    check(async_programs.text(body, 256, "k", parameters="const TILE_CONSTANT TensorMap m0"), "k")
