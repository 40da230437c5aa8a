// Tests Once: concurrent threads, and a step that throws.
#include "support/once.h"

#include <gtest/gtest.h>

#include <barrier>
#include <stdexcept>
#include <thread>
#include <vector>

namespace tile {
namespace {

TEST(Once, ThreadsWaitForTheOneThatDoesIt) {
  Once once;
  int done = 0;  // not atomic, because Once orders the accesses
  std::atomic<int> wrong = 0;
  std::barrier start(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      start.arrive_and_wait();
      once([&] { ++done; });
      wrong += done != 1;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 1);
  EXPECT_EQ(wrong, 0);
}

TEST(Once, TheNextOneTriesWhereAStepThrows) {
  Once once;
  int tried = 0;
  EXPECT_THROW(once([&] {
                 ++tried;
                 throw std::runtime_error("no");
               }),
               std::runtime_error);
  for (int i = 0; i < 3; ++i) once([&] { ++tried; });
  EXPECT_EQ(tried, 2);
}

}  // namespace
}  // namespace tile
