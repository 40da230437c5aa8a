// Tests the statement of a product: its operands' numbers, its steps and the batch that it forms.
#include "cuda/async/wgmma_text.h"

#include <gtest/gtest.h>

namespace tile::cuda {
namespace {

TEST(WgmmaText, BothOperandsInSharedMemory) {
  EXPECT_EQ(wgmma_text({.columns = 8,
                        .left = DType::bf16,
                        .right = DType::bf16,
                        .left_k_major = false,
                        .right_steps = {0, 32},
                        .left_steps = {0, 2048},
                        .left_blocks = {0, 8192}}),
            R"(  TILE_WGMMA(TILE static void multiply(f32* sums, u64 left, u64 right, u32 add) {
    asm volatile(
        "{ .reg .pred p, q; .reg .b64 a, b; "
        "setp.ne.b32 p, %10, 0; "
        "setp.eq.b32 q, 0, 0; "
        "wgmma.fence.sync.aligned; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %8, %9, p, 1, 1, 1, 0; "
        "add.s64 a, %8, 512; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%4, %5, %6, %7}, a, %9, p, 1, 1, 1, 0; "
        "add.s64 b, %9, 2; "
        "add.s64 a, %8, 128; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, a, b, q, 1, 1, 1, 0; "
        "add.s64 a, %8, 640; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%4, %5, %6, %7}, a, b, q, 1, 1, 1, 0; "
        "wgmma.commit_group.sync.aligned; "
        "}"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7])
        : "l"(left), "l"(right), "r"(add)
        : "memory");
  })
)");
}

TEST(WgmmaText, LeftOperandInRegisters) {
  EXPECT_EQ(wgmma_text({.columns = 8, .left = DType::i8, .right = DType::u8, .right_steps = {0, 32}}),
            R"(  TILE_WGMMA(TILE static void multiply(i32* sums, const u32* left, u64 right, u32 add) {
    asm volatile(
        "{ .reg .pred p, q; .reg .b64 a, b; "
        "setp.ne.b32 p, %13, 0; "
        "setp.eq.b32 q, 0, 0; "
        "wgmma.fence.sync.aligned; "
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %12, p; "
        "add.s64 b, %12, 2; "
        "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%0, %1, %2, %3}, {%8, %9, %10, %11}, b, q; "
        "wgmma.commit_group.sync.aligned; "
        "}"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(left[4]), "r"(left[5]), "r"(left[6]), "r"(left[7]), "l"(right), "r"(add)
        : "memory");
  })
)");
}

TEST(WgmmaText, NamesOfTypes) {
  const auto has = [](DType left, DType right, const char* text) {
    return wgmma_text({.columns = 16, .left = left, .right = right, .right_steps = {0}}).find(text) !=
           std::string::npos;
  };
  EXPECT_TRUE(has(DType::tf32, DType::tf32, "m64n16k8.f32.tf32.tf32 "));
  EXPECT_TRUE(has(DType::f16, DType::f16, "m64n16k16.f32.f16.f16 "));
  EXPECT_TRUE(has(DType::f8e4m3, DType::f8e5m2, "m64n16k32.f32.e4m3.e5m2 "));
  EXPECT_TRUE(has(DType::u8, DType::i8, "m64n16k32.s32.u8.s8 "));
}

}  // namespace
}  // namespace tile::cuda
