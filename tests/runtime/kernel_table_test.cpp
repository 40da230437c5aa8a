// Tests the table of compiled kernels: growth, threads, failures, and its keys.
#include "runtime/kernel_table.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "error_text.h"

namespace tile {
namespace {

struct Numbered final : Executable {
  explicit Numbered(uint64_t n) : number(n) {}
  void run(const Blocks&, ArgumentRefs) const override {}
  uint64_t number;
};
LaunchKey key_of(uint64_t number) {
  LaunchKey key;
  key.add(number);
  return key;
}
uint64_t number_of(const Executable& kernel) { return static_cast<const Numbered&>(kernel).number; }

TEST(KernelTable, FindsWhatWasCompiled) {
  KernelTable table;
  EXPECT_EQ(table.find(key_of(0)), nullptr);
  for (uint64_t n = 0; n < 1000; ++n) {
    const Executable& made = table.compile(key_of(n), [&] { return std::make_unique<Numbered>(n); });
    EXPECT_EQ(table.find(key_of(n)), &made);
    EXPECT_EQ(table.find(key_of(n + 1)), nullptr);
  }
  for (uint64_t n = 0; n < 1000; ++n) EXPECT_EQ(number_of(*table.find(key_of(n))), n);
}

TEST(KernelTable, ThreadsCompileOnceAndReadWhileItGrows) {
  KernelTable table;
  std::atomic<uint64_t> compiled = 0, wrong = 0;
  std::barrier start(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (uint64_t n = 0; n < 500; ++n) {
        const Executable* kernel = table.find(key_of(n));
        if (!kernel)
          kernel = &table.compile(key_of(n), [&] {
            ++compiled;
            return std::make_unique<Numbered>(n);
          });
        wrong += number_of(*kernel) != n;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 500u);
  EXPECT_EQ(wrong, 0u);
}

TEST(KernelTable, AFailureIsNotKept) {
  KernelTable table;
  EXPECT_EQ(error_of([&] {
              table.compile(key_of(1),
                            [&]() -> std::unique_ptr<Executable> { fail(ErrorKind::value, "no kernel"); });
            }),
            "no kernel");
  EXPECT_EQ(table.find(key_of(1)), nullptr);
  EXPECT_EQ(number_of(table.compile(key_of(1), [] { return std::make_unique<Numbered>(7); })), 7u);
}

TEST(LaunchKey, ComparesEveryWord) {
  for (size_t words : {0, 1, 23, 24, 25, 100}) {
    LaunchKey key, same, longer, other;
    for (size_t i = 0; i < words; ++i) {
      key.add(i);
      same.add(i);
      longer.add(i);
      other.add(i + 1 == words ? 1000 : i);
    }
    longer.add(0);
    EXPECT_EQ(key, same);
    EXPECT_EQ(LaunchKey(key), same);
    EXPECT_EQ(key.hash(), same.hash());
    EXPECT_FALSE(key == longer);
    EXPECT_EQ(key == other, words == 0);
  }
}

}  // namespace
}  // namespace tile
