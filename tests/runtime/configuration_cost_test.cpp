// Tests the estimates by which a configuration is chosen.
#include "runtime/configuration_cost.h"

#include <gtest/gtest.h>

#include "ir/print.h"
#include "runtime/inspection.h"

namespace tile {
namespace {

cuda::Program program_of(int threads, int shared_bytes = 0, int held = 1) {
  static const cuda::Program made(parse(R"(kernel copy(%x: array<f32,1>, %y: array<f32,1>, %i: i32) {
  %t: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}
  store %y, %t, %i {steps=[4]}
})"),
                                  target_of_arch(90));
  cuda::Program program = made;
  program.threads = threads, program.shared_bytes = shared_bytes, program.held = held;
  return program;
}
KernelResources resources_of(int registers, int spilled = 0) {
  KernelResources resources;
  resources.registers = registers;
  resources.spill_stores = spilled / 2, resources.spill_loads = spilled - spilled / 2;
  return resources;
}

TEST(ConfigurationCost, WarpsAtOnce) {
  const auto warps = [](int threads, int registers, int shared_bytes = 0, int arch = 90) {
    return resident_warps(program_of(threads, shared_bytes), resources_of(registers), target_of_arch(arch));
  };
  EXPECT_EQ(warps(128, 128), 16);
  EXPECT_EQ(warps(128, 121), 16);  // registers are given in steps of 8
  EXPECT_EQ(warps(128, 168), 12);
  EXPECT_EQ(warps(256, 20), 64);
  EXPECT_EQ(warps(256, 20, 0, 89), 48);
  EXPECT_EQ(warps(32, 20), 32);              // 32 blocks
  EXPECT_EQ(warps(128, 20, 64 * 1024), 12);  // of 228 KiB
  EXPECT_EQ(warps(1024, 64), 32);
  EXPECT_EQ(warps(128, 0), 0);
}

TEST(ConfigurationCost, MoreWarpsMoreBlocksAndFewerSpillsAreFaster) {
  const cuda::Target target = target_of_arch(90);
  const auto cost = [&](int threads, int registers, int spilled = 0,
                        const cuda::Configuration& configuration = {}) {
    return estimated_cost(program_of(threads), configuration, resources_of(registers, spilled), target);
  };
  EXPECT_LT(cost(128, 128), cost(128, 168));
  EXPECT_LT(cost(128, 128), cost(512, 128));
  EXPECT_LT(cost(128, 128), cost(128, 128, 64));
  EXPECT_LT(cost(128, 128), cost(128, 128, 0, {.prefetch = false}));
  EXPECT_LT(cost(128, 128), cost(128, 128, 0, {.rematerialize = true}));
  EXPECT_LT(cost(256, 118), cost(128, 226));  // a derived rms norm before its rows waited in shared memory
  EXPECT_EQ(cost(128, 0), 1);
  cuda::Program product = program_of(128);
  product.path = "mma.sync";
  EXPECT_EQ(estimated_cost(product, {}, resources_of(255), target), 1);
}

TEST(ConfigurationCost, ThreadsShareWhatOthersNeeded) {
  // 104 registers of tiles and 100 spilled ones: with twice the threads 102 each.
  const KernelResources known = resources_of(128, 800);
  const KernelResources half = expected_resources(program_of(256), {}, program_of(128, 0, 4), known);
  EXPECT_EQ(half.registers, 24 + 102);
  EXPECT_EQ(half.spill_stores, 0);
  const KernelResources same = expected_resources(program_of(128, 0, 4), {}, program_of(128, 0, 4), known);
  EXPECT_EQ(same.registers, 128);
  EXPECT_EQ(same.spill_stores, 800);
  EXPECT_EQ(expected_resources(program_of(256), {}, program_of(128), {}).registers, 0);
}

}  // namespace
}  // namespace tile
