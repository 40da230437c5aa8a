// Tests the statements of a product: its operands' numbers, its steps and the batch that it forms.
#include "cuda/async/wgmma_text.h"

#include <gtest/gtest.h>

namespace tile::cuda {
namespace {

TEST(WgmmaText, BlocksOfRowsTakeTurns) {
  EXPECT_EQ(wgmma_text({.columns = 8,
                        .left = DType::bf16,
                        .right = DType::bf16,
                        .left_k_major = false,
                        .right_steps = {0, 32},
                        .left_steps = {0, 2048},
                        .left_blocks = {0, 8192}}),
            R"(  TILE_WGMMA(TILE static void multiply(f32* sums, u64 left, u64 right, u32 add) {
    pin<8>(sums);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %6, 0; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 1, 0; "
        "}"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "l"(left + 0), "l"(right + 0), "r"(add));
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %6, 0; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 1, 0; "
        "}"
        : "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7])
        : "l"(left + 512), "l"(right + 0), "r"(add));
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %6, 0; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 1, 0; "
        "}"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "l"(left + 128), "l"(right + 2), "r"(1));
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %6, 0; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 1, 0; "
        "}"
        : "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7])
        : "l"(left + 640), "l"(right + 2), "r"(1));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  })
)");
}

TEST(WgmmaText, RegistersHoldTheFirstSteps) {
  EXPECT_EQ(
      wgmma_text({.columns = 8,
                  .left = DType::bf16,
                  .right = DType::bf16,
                  .right_k_major = false,
                  .right_steps = {0, 32},
                  .left_steps = {0, 32},
                  .held_steps = 1}),
      R"(  TILE_WGMMA(TILE static void multiply(f32* sums, const u32* held, u64 left, u64 right, u32 add) {
    asm volatile(
        "{ .reg .pred p, q; .reg .b64 a, b; "
        "setp.ne.b32 p, %10, 0; "
        "setp.eq.b32 q, 0, 0; "
        "wgmma.fence.sync.aligned; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %9, p, 1, 1, 1; "
        "add.s64 b, %9, 2; "
        "add.s64 a, %8, 2; "
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, a, b, q, 1, 1, 0, 1; "
        "wgmma.commit_group.sync.aligned; "
        "}"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(held[0]), "r"(held[1]), "r"(held[2]), "r"(held[3]), "l"(left), "l"(right), "r"(add)
        : "memory");
  })
)");
  const std::string two = wgmma_text({.columns = 8,
                                      .left = DType::bf16,
                                      .right = DType::bf16,
                                      .right_steps = {0, 32},
                                      .left_steps = {0, 32},
                                      .left_blocks = {0, 8192},
                                      .held_steps = 1});
  EXPECT_NE(two.find("u32 own[8];"), std::string::npos);
  EXPECT_NE(two.find("\"r\"(own[4]), \"r\"(own[5]), \"r\"(own[6]), \"r\"(own[7]), \"l\"(right + 0)"),
            std::string::npos);
  EXPECT_NE(two.find("\"l\"(left + 514), \"l\"(right + 2), \"r\"(1)"), std::string::npos);
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

TEST(WgmmaText, ManyStepsInSharedMemoryAreOneStatement) {
  WgmmaProduct product{.columns = 8, .left = DType::f16, .right = DType::f16};
  for (int64_t at = 0; at < 8 * 32; at += 32)
    product.left_steps.push_back(at), product.right_steps.push_back(2 * at);
  const std::string text = wgmma_text(product);
  EXPECT_EQ(text.find("asm volatile"), text.rfind("asm volatile"));
  EXPECT_NE(text.find("add.s64 b, %5, 28; \"\n        \"add.s64 a, %4, 14; "), std::string::npos) << text;
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
