// Tests when changes of elements may be plain.
#include "cpu/interpreter/atomic_launch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace tile::cpu {
namespace {

TEST(AtomicLaunch, IsPlainOnlyAlone) {
  AtomicLaunch one(true);
  ASSERT_TRUE(one.enter());
  one.leave();
  {
    AtomicLaunch other(true), threads(false);
    EXPECT_FALSE(one.enter());
    EXPECT_FALSE(other.enter());
    EXPECT_FALSE(threads.enter());
  }
  EXPECT_TRUE(one.enter());
  one.leave();
  AtomicLaunch threads(false);
  EXPECT_FALSE(threads.enter());
}

TEST(AtomicLaunch, WaitsForAPlainSection) {
  AtomicLaunch one(true);
  ASSERT_TRUE(one.enter());
  std::atomic<bool> began = false;
  std::thread other([&] {
    AtomicLaunch launch(false);
    began = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(began);
  one.leave();
  other.join();
  EXPECT_TRUE(began);
}

// Short launches of several threads at one counter: no change is lost.
TEST(AtomicLaunch, ChangesOfManyLaunchesAddUp) {
  constexpr int threads = 4, rounds = 2000, steps = 20;
  int64_t counter = 0;
  std::atomic<int64_t> plain = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        const AtomicLaunch launch(t % 2 == 0);
        if (launch.enter()) {
          for (int k = 0; k < steps; ++k) *static_cast<volatile int64_t*>(&counter) = counter + 1;
          launch.leave();
          ++plain;
        } else {
          for (int k = 0; k < steps; ++k) std::atomic_ref(counter).fetch_add(1);
        }
      }
    });
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(counter, threads * rounds * steps) << plain << " launches were plain";
}

}  // namespace
}  // namespace tile::cpu
