// Tests packed operands that threads share: each is packed once, by several threads, and stays while a thread
// reads it.
#include "cpu/gemm/packed_operand_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "cpu/gemm/gemm_table.h"
#include "cpu/machine_isas.h"

namespace tile::cpu {
namespace {

PackedOperandCache::Key key(const int& of) {
  PackedOperandCache::Key key;
  key.data = &of;
  key.rows = 1;
  return key;
}

TEST(PackedOperandCache, PartsArePackedOnceByAnyThread) {
  constexpr int threads = 6, operands = 5, parts = 16, iterations = 40;
  const int sources[operands] = {};
  PackedOperandCache panels;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    panels.clear();
    std::atomic<int> packed{0}, wrong{0};
    const auto work = [&](int first) {
      for (int i = 0; i < operands; ++i) {
        const int which = (first + i) % operands;
        const auto held = panels.hold(key(sources[which]), parts * sizeof(int), operands);
        held.fill(parts, [&](int64_t part) {
          ++packed;
          reinterpret_cast<int*>(held.data())[part] = iteration * 100 + which;
        });
        for (int part = 0; part < parts; ++part)
          wrong += reinterpret_cast<const int*>(held.data())[part] != iteration * 100 + which;
      }
    };
    std::vector<std::thread> all;
    for (int i = 0; i < threads; ++i) all.emplace_back(work, i);
    for (std::thread& thread : all) thread.join();
    EXPECT_EQ(packed, operands * parts);
    EXPECT_EQ(wrong, 0);
  }
}

TEST(PackedOperandCache, MakesRoomOfTheOneIdleLongest) {
  const int sources[3] = {};
  PackedOperandCache panels;
  int packed = 0;
  const auto use = [&](int which) {
    const auto held = panels.hold(key(sources[which]), 64, 2);
    held.fill(1, [&](int64_t) { ++packed; });
    return held.data();
  };
  char* const first = use(0);
  use(1);
  use(0);
  EXPECT_EQ(packed, 2);
  use(2);  // replaces 1
  EXPECT_EQ(use(0), first);
  EXPECT_EQ(packed, 3);
  use(1);
  EXPECT_EQ(packed, 4);
}

TEST(PackedOperandCache, WhatIsHeldStaysBeyondTheLimit) {
  const int sources[3] = {};
  PackedOperandCache panels;
  const auto a = panels.hold(key(sources[0]), 64, 1);
  std::memset(a.data(), 7, 64);
  const auto b = panels.hold(key(sources[1]), 64, 1), c = panels.hold(key(sources[2]), 64, 1);
  std::memset(b.data(), 8, 64);
  std::memset(c.data(), 9, 64);
  EXPECT_EQ(a.data()[63], 7);
  EXPECT_EQ(b.data()[63], 8);
}

TEST(PackedOperandCache, ClearForgetsWhatWasPacked) {
  const int source = 0;
  PackedOperandCache panels;
  int packed = 0;
  for (int launch = 0; launch < 3; ++launch) {
    panels.clear();
    panels.hold(key(source), 64, 1).fill(4, [&](int64_t) { ++packed; });
  }
  EXPECT_EQ(packed, 12);
}

TEST(PackedOperandCache, LaunchesAtOnceHaveTheirOwn) {
  const LaunchPackedOperands a(2), b(3);
  EXPECT_NE(a.get(), b.get());
  EXPECT_EQ(a.get()->threads, 2);
  EXPECT_EQ(b.get()->threads, 3);
}

// Parts of the left operand are adjacent: packing one must not write into the next.
TEST(PackedOperandCache, PartsOfBlocksDoNotOverlap) {
  const long m = 61, k = 1000;
  const std::vector<float> a(m * k, 1.f);
  for (Isa isa : machine_isas()) {
    const GemmKernels& g = gemm_table(isa).f32;
    std::vector<float> once(static_cast<size_t>(g.blocks_size(m, k)), 5.f), again = once;
    const auto pack = [&](std::vector<float>& to, long part) {
      g.pack_blocks(m, k, {a.data(), k, 1}, DType::f32, to.data(), part);
    };
    for (long part = 0; part < g.block_parts(k); ++part) pack(once, part);
    for (long part = g.block_parts(k); part-- > 0;) pack(again, part);
    EXPECT_EQ(once, again) << name(isa);
  }
}

}  // namespace
}  // namespace tile::cpu
