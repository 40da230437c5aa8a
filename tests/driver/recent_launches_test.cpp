// Tests the record of the last kernels launched on a device.
#include "driver/recent_launches.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tile {
namespace {

using Names = std::vector<const char*>;
constexpr const char* letters[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};

TEST(RecentLaunches, AreNamedNewestFirstAndOnce) {
  RecentLaunches recent;
  EXPECT_EQ(recent.names(), Names());
  for (const int i : {0, 1, 1, 0, 2}) recent.note(letters[i]);
  EXPECT_EQ(recent.names(), (Names{letters[2], letters[0], letters[1]}));
}

TEST(RecentLaunches, AreTheLastEight) {
  RecentLaunches recent;
  for (int round = 0; round < 100; ++round)
    for (const char* letter : letters) recent.note(letter);
  EXPECT_EQ(recent.names(), (Names{letters[9], letters[8], letters[7], letters[6], letters[5], letters[4],
                                   letters[3], letters[2]}));
}

TEST(RecentLaunches, ComeFromAnyThread) {
  RecentLaunches recent;
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&] {
      for (int i = 0; i < 10000; ++i) recent.note(letters[i % 10]);
    });
  for (int i = 0; i < 100; ++i) EXPECT_LE(recent.names().size(), 8u);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(recent.names().empty());
}

}  // namespace
}  // namespace tile
